"""Faults of what is read again for the new nodes of a transition. They name a new node, so the revision in force goes on without those nodes."""

from __future__ import annotations

from engine.errors import DataError
from engine.model.circuit import Circuit
from engine.model.filling import is_read_again
from io_kafka.errors import KafkaFault


def first_reread_source(circuit: Circuit) -> int:
    """The first node that is a source which is read again. A fault of such reading names it, because only new nodes depend on it."""
    return next(index for handle, index in circuit.sources.items() if is_read_again(handle))


def cannot_reread(circuit: Circuit, step: int, fault: KafkaFault) -> DataError:
    """The error for a topic that cannot be read again."""
    what_to_do = "Restore the messages or the rights, then `stepwell revision resume`; or `stepwell revision abort`."
    error = DataError(f"what is to be read again is gone, or may not be read: {fault.message}", what_to_do)
    return error.locate(owner="new nodes", step=step, node=first_reread_source(circuit))
