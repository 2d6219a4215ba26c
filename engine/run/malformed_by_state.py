"""Messages that only the state shows to be malformed: the policy of their source decides about them as about all malformed messages.

They are found by the worker that owns their key, which has their columns and not their bytes. So for a dead letter it reads them again. That is
the same on every worker and in every replay, because Kafka never changes a message. It may remove one from a compacted topic. If it does so
between the two reads, the letter has neither key nor value. A replay then stops, because its input is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, assert_never

from engine.analysis.stages import StagePlan
from engine.errors import DataError
from engine.model.filling import is_read_again
from engine.operators.findings import Lacks, MalformedByState, RowElsewhere
from engine.operators.scattered_keys import ScatteredKey, text_of_scattered_key
from engine.run.dead_letters import DeadLetter, letters
from engine.run.rereading import first_reread_source
from engine.run.source_table import SourceTable, name_of_source
from engine.run.sources import SourceReport, messages_of, reject
from engine.run.step_input import StepInput
from io_kafka.clients.raw import RawBatch
from io_kafka.formats.moved_keys import row_elsewhere
from io_kafka.formats.spec import Rejected, SourceFormat
from io_kafka.formats.unavailable import placeholder_of
from io_kafka.formats.unavailable_cells import no_value
from io_kafka.offsets import OffsetRange

Read = Callable[[Sequence[OffsetRange]], Sequence[RawBatch]]
"""Reads ranges of offsets."""


class Setup(Protocol):
    """What is known of the run: see TaskSetup."""

    @property
    def plan(self) -> StagePlan: ...

    @property
    def tables(self) -> Mapping[str, SourceTable]: ...


def report_malformed(
    malformed: Sequence[MalformedByState], setup: Setup, *, given: StepInput, report: SourceReport, read: Read
) -> None:
    """Counts and reports messages that the operators have left out. Raises DataError for the first one of a source whose policy is `fail`."""
    for handle in sorted({message.handle for message in malformed}):
        table = setup.tables[handle]
        rejected = sorted(_rejection(table, message) for message in malformed if message.handle == handle)
        make_letters = partial(_letters, table, rejected, read)
        try:
            reject(table, rejected, given, report, make_letters)
        except DataError as fault:
            if is_read_again(handle):
                fault.locate(
                    owner=name_of_source(handle), step=given.step, node=first_reread_source(setup.plan.circuit)
                )
            raise


def _rejection(table: SourceTable, message: MalformedByState) -> Rejected:
    assert isinstance(table.format, SourceFormat), "only such a table has a key"
    match message.why:
        case Lacks(column):
            placeholder = placeholder_of(table.format.unavailable)
            assert placeholder is not None, "a value cannot be missing without a placeholder"
            name = table.format.schema.names[column]
            reason = no_value(name, placeholder.text, "its key has no former row that has it")
        case RowElsewhere(key, partition):
            reason = row_elsewhere(shown_key(table.format.key, key), partition)
        case _:
            assert_never(message.why)
    return Rejected(message.partition, message.offset, reason)


def name_key(fault: ScatteredKey, tables: Mapping[str, SourceTable]) -> None:
    """Gives the error the names of the key's columns, and the topic. The operator that raised it has only their positions."""
    table = tables[fault.handle]
    assert isinstance(table.format, SourceFormat), "only such a table has a key"
    fault.message = text_of_scattered_key(shown_key(table.format.key, fault.key), fault.partitions)
    fault.place = f"topic {table.topics[0]}, partition {fault.partition}, offset {fault.offset}"


def shown_key(names: Sequence[str], values: Sequence[str]) -> str:
    """The values of a key with the names of their columns."""
    return f"{{{', '.join(f'{name}: {value}' for name, value in zip(names, values, strict=True))}}}"


def _letters(table: SourceTable, rejected: Sequence[Rejected], read: Read) -> list[DeadLetter]:
    """One partition after the other, so that no more is in memory than what the step has of it."""
    (topic,) = table.topics
    found: list[DeadLetter] = []
    for partition in sorted({message.partition for message in rejected}):
        mine = [message for message in rejected if message.partition == partition]
        span = OffsetRange(topic, partition, mine[0].offset, mine[-1].offset + 1)
        found += letters(messages_of(read([span])), mine, is_binary=table.is_binary)
    return found
