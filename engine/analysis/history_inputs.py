"""Puts into a circuit what the inputs of young nodes take (history.py): feeds, sources that are read again, copies of nodes without state, and
twins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NoReturn, assert_never

from engine.analysis.history import Carry, Feed, NoHistory, Recomputed, Reread, Take, Twin, Young
from engine.model.circuit import Circuit, Node
from engine.model.event_time import Watermark
from engine.model.filling import ContentFeed
from engine.model.rows import ScalarMap
from engine.operators.arrangement import Key


class CannotFill(ValueError):
    """The histories need messages that cannot be read again."""


@dataclass
class Growing:
    """A circuit to which nodes are added. Equal helpers are made once. `numbers`: None of a helper that keeps no state. `copies`: the node of a
    project of which a node is a copy, by the copy's index."""

    nodes: list[Node] = field(default_factory=list)
    numbers: list[int | None] = field(default_factory=list)
    copies: dict[int, int] = field(default_factory=dict)
    helpers: dict[object, int] = field(default_factory=dict)

    def add(self, node: Node, number: int | None = None) -> int:
        self.nodes.append(node)
        self.numbers.append(number)
        return len(self.nodes) - 1

    def once(self, node: Node, *, of: int | None = None) -> int:
        """A helper without state. `of`: the node of a project of which it is a copy."""
        return self._once((node, of), node, None, of)

    def twin(self, node: Node, number: int, *, of: int) -> int:
        """A helper with state of its own."""
        return self._once((node, of, number), node, number, of)

    def feed(self, holder: int, node: Node, *, at: Key | None, level: int) -> int:
        """The feed of what `node` holds, which is `holder` in this circuit. `at`: the columns by which its rows lie. The circuit may have more
        or other inputs of the node than its own project, so the feed says what it reads there."""
        values = self.nodes[holder].inputs[1:] if isinstance(node, ScalarMap) else ()
        read = tuple(self.nodes[below].types for below in self.nodes[holder].inputs)
        bare = replace(node, inputs=())
        return self.once(ContentFeed((holder, *values), node.types, holder=bare, read=read, colocation=at, level=level))

    def _once(self, key: object, node: Node, number: int | None, of: int | None) -> int:
        if key not in self.helpers:
            self.helpers[key] = self.add(node, number)
            if of is not None:
                self.copies[self.helpers[key]] = of
        return self.helpers[key]


@dataclass(frozen=True, kw_only=True)
class Taking:
    """How a circuit that is made gets what histories are taken from. `circuit`: the one to which the indices of the takes belong. `young`:
    what stands for a node that is filled itself. `feed`: makes the feed of what a Feed names. `source`: what gives the messages of a source.
    `twin`: the number of the twin of a node. `carried`: what stands for the source of a table that is made of the previous one. `instead`: a
    node that stands for a copy over these inputs, if there is one. `original`: the node of which a twin is one, if the circuit has it beside
    the twin."""

    into: Growing
    circuit: Circuit
    young: Callable[[int], int]
    feed: Callable[[Feed], int]
    source: Callable[[Reread], int]
    twin: Callable[[int], int]
    carried: Callable[[int], int]
    instead: Callable[[int, tuple[int, ...]], int | None] = lambda node, inputs: None
    original: Callable[[int], int | None] = lambda node: None

    def put(self, take: Take) -> int:
        """The index of what gives the rows."""
        match take:
            case Young(node):
                return self.young(node)
            case Feed():
                return self.feed(take)
            case Recomputed(node, below) | Twin(node, below):
                inputs = tuple(map(self.put, below))
                known = self.instead(node, inputs)
                if known is not None:
                    return known
                copy = replace(self.circuit.nodes[node], inputs=inputs)
                if isinstance(take, Twin):
                    return self.into.twin(self._beside_original(copy, node), self.twin(node), of=node)
                return self.into.once(copy, of=node)
            case Reread():
                return self.source(take)
            case Carry(node):
                return self.carried(node)
            case NoHistory(reasons=reasons):
                raise CannotFill("; ".join(f"{handle}: {reason}" if handle else reason for handle, reason in reasons))
            case _:
                assert_never(take)

    def _beside_original(self, twin: Node, of: int) -> Node:
        original = self.original(of)
        if original is not None and isinstance(twin, Watermark) and twin.leaves_out:
            return replace(twin, inputs=(*twin.inputs, original))
        return twin


def over_state(into: Growing, circuit: Circuit, feed: Callable[[Feed], int]) -> Taking:
    """Returns how takes of what the state has are put into a circuit: nothing of it is filled, read again or computed a second time."""
    return Taking(
        into=into,
        circuit=circuit,
        young=is_no_part,
        feed=feed,
        source=_is_not_read,
        twin=is_no_part,
        carried=is_no_part,
    )


def is_no_part(node: int) -> NoReturn:
    raise AssertionError(f"node {node} is in a content that the state has")


def _is_not_read(take: Reread) -> NoReturn:
    raise AssertionError(f"source {take.handle} is in a content that the state has")
