"""From which sources a watermark follows: which are read together by the time of their messages, and which inputs are idle with them. And which
watermarks follow from feeds, whose rows come in the order of their hashes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.model.circuit import Circuit
from engine.model.event_time import Watermark
from engine.model.filling import ContentFeed
from engine.model.rows import Source


@dataclass(frozen=True)
class ReadTogether:
    """The sources that one watermark follows, which are read together by the time of their messages. `watermark`: a node that is a
    Watermark. `handles`: of the sources from whose rows it follows. `delay_ms`: its least delay."""

    watermark: int
    handles: frozenset[str]
    delay_ms: int


def sources_by_watermark(circuit: Circuit) -> list[ReadTogether]:
    """One for each Watermark that follows from the rows of sources."""
    below = _sources_below(circuit)
    return [
        ReadTogether(number, below[number], min(node.delays_ms))
        for number, node in circuit.nodes_of(Watermark).items()
        if below[number]
    ]


Sides = tuple[frozenset[str], ...]
"""The sources of each input of a Watermark."""


def sides_by_watermark(circuit: Circuit) -> dict[int, Sides]:
    """By node, of those that can leave out inputs."""
    below = _sources_below(circuit)
    return {
        number: tuple(below[index] for index in node.inputs[: len(node.delays_ms)])
        for number, node in circuit.nodes_of(Watermark).items()
        if node.leaves_out
    }


def idle_inputs(sides: Sides, idle: Collection[str]) -> frozenset[int]:
    """Which inputs of a Watermark are left out of it while these sources are idle: those all of whose sources are. If that is every one, none
    is: nothing tells then which of them is behind for no reason."""
    found = frozenset(number for number, handles in enumerate(sides) if handles and handles.issubset(idle))
    return frozenset() if len(found) == len(sides) else found


def watermarks_over_feeds(circuit: Circuit) -> frozenset[int]:
    """The Watermarks that follow from the rows of a feed, beside others or alone."""
    fed: set[int] = set()
    for number, node in enumerate(circuit.nodes):
        if isinstance(node, ContentFeed) or not fed.isdisjoint(node.inputs):
            fed.add(number)
    return frozenset(fed & circuit.nodes_of(Watermark).keys())


def _sources_below(circuit: Circuit) -> list[frozenset[str]]:
    """The handles of the sources from whose rows each node follows."""
    found: list[frozenset[str]] = []
    for node in circuit.nodes:
        below = frozenset[str]().union(*(found[index] for index in node.inputs))
        found.append(frozenset({node.handle}) if isinstance(node, Source) else below)
    return found
