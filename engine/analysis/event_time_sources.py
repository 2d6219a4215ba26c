"""Which sources have to be read together by the time of their messages, because a query with event time reads them."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.circuit import Circuit
from engine.model.event_time import Watermark
from engine.model.rows import Source


@dataclass(frozen=True)
class ReadTogether:
    """`watermark`: a node that is a Watermark. `handles`: of the sources from whose rows it follows. `delay_ms`: its least delay."""

    watermark: int
    handles: frozenset[str]
    delay_ms: int


def sources_by_watermark(circuit: Circuit) -> list[ReadTogether]:
    """One for each Watermark that follows from the rows of sources."""
    handles: list[frozenset[str]] = []
    found: list[ReadTogether] = []
    for number, node in enumerate(circuit.nodes):
        below = frozenset[str]().union(*(handles[index] for index in node.inputs))
        if isinstance(node, Source):
            below = frozenset({node.handle})
        if isinstance(node, Watermark) and below:
            found.append(ReadTogether(number, below, min(node.delays_ms)))
        handles.append(below)
    return found
