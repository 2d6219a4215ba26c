"""Where the history of young nodes comes from: what their inputs have held up to now.

A young node begins with empty state, so it has to get the whole content of its inputs. For an input n that is not young
itself, `take(n)` is the first of these that is possible:

    Feed        the content of n is in the state, that of n itself or of a stored view directly over it
    Recomputed  n has no state, and is computed again over what its inputs take
    Reread      n is a source, whose messages are read again from where the pipeline began
    Carry       n is the source of a table that has all it needs in the previous one, or nulls in new columns if the user wants that
    Twin        n has state that does not tell its content, so a young copy of it is filled from what its inputs take
    NoHistory   one of the sources that would have to be read again cannot be, or a node is frozen (release.py) and its content not stored

State goes first, because it is exactly what was counted: no retention, compaction or skipped message matters. An input that
is young is filled itself (`Young`), so its readers need nothing else.

A node needs a history if it is young and keeps state, if it is a young view, if its output goes to a topic that has nothing of it yet, or
if one that needs a history reads it. Other young nodes only pass on what comes. Of these are the source that got a column and
the Map over it, between which and the kept nodes nothing is to be filled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from engine.analysis.project_match import ProjectMatch, nodes_with_state
from engine.model.circuit import Circuit, Output, View
from engine.model.rows import LastByKey, Source
from engine.operators.table import operator_of

NOTHING_FROZEN: Mapping[int, str] = {}
NOTHING_CARRIED: Mapping[int, int] = {}

OF_NO_SOURCE = ""
"""In place of a handle."""


@dataclass(frozen=True)
class Young:
    """The node is young, and is filled itself."""

    node: int


@dataclass(frozen=True)
class Feed:
    """The content of `node` is given by ranges of hashes. `holder`: the previous index of the node that has it in its state."""

    node: int
    holder: int


@dataclass(frozen=True)
class Recomputed:
    """The node without state is computed again over `below`, of which a constant has none."""

    node: int
    below: tuple[Take, ...]


@dataclass(frozen=True)
class Reread:
    """The messages of the source are read again."""

    node: int
    handle: str


@dataclass(frozen=True)
class Carry:
    """The table over the source `node` is made of the previous one. `holder`: its previous index."""

    node: int
    holder: int


@dataclass(frozen=True)
class Twin:
    """A young copy of the node is filled from `below`."""

    node: int
    below: tuple[Take, ...]


@dataclass(frozen=True)
class NoHistory:
    """The history of `node` cannot be had. `reasons`: why each source that would have to be read again cannot be, by its handle; and why a
    node is frozen, without a handle."""

    node: int
    reasons: tuple[tuple[str, str], ...]


Take = Young | Feed | Recomputed | Reread | Carry | Twin | NoHistory
"""A `match` over it ends in `assert_never`."""


@dataclass(frozen=True)
class Histories:
    """Where the nodes of a changed project take their histories from. `of`: for each node that needs a history, where each of its inputs
    takes it from."""

    of: Mapping[int, tuple[Take, ...]]

    def check(self, found: ProjectMatch) -> None:
        """Asserts that each input of a node that needs a history has exactly one, and that the history is there."""
        nodes = found.now.circuit.nodes
        for index, takes in self.of.items():
            assert found.is_young(index) or isinstance(nodes[index], Output), f"node {index} has its history"
            assert tuple(each.node for each in takes) == nodes[index].inputs
            for take in takes:
                self._check_take(found, take)

    def _check_take(self, found: ProjectMatch, take: Take) -> None:
        match take:
            case Young(node):
                assert found.is_young(node) and node in self.of, f"node {node} is read by a needy one, and gets nothing"
            case Feed(node, holder):
                previous = found.previous.circuit.nodes
                assert holder == found.kept[node] or found.kept[node] in previous[holder].inputs
            case Recomputed(node, below) | Twin(node, below):
                assert not found.is_young(node)
                assert tuple(each.node for each in below) == found.now.circuit.nodes[node].inputs
                for each in below:
                    self._check_take(found, each)
            case Reread(node, handle):
                source = found.now.circuit.nodes[node]
                assert isinstance(source, Source) and source.handle == handle
            case Carry(node, holder):
                assert isinstance(found.now.circuit.nodes[node], Source)
                assert isinstance(found.previous.circuit.nodes[holder], LastByKey)
            case NoHistory(_, reasons):
                assert reasons
            case _:
                assert_never(take)


def histories(
    found: ProjectMatch,
    unreadable: Mapping[str, str],
    new_outputs: Collection[int],
    passing: Collection[int] = (),
    *,
    carried: Mapping[int, int] = NOTHING_CARRIED,
) -> Histories:
    """`unreadable`: by handle, why the messages of a source cannot be read again. `new_outputs`: the Outputs that get all content of their view,
    because the previous project did not write their topic. `passing`: young views that nobody needs the content of. `carried`: by table, the
    previous index of the table of which it is made."""
    nodes = found.now.circuit.nodes
    finder = _HistoryFinder(found.now.circuit, found.previous.circuit, found.kept, unreadable)
    of: dict[int, tuple[Take, ...]] = {}
    waiting = [index for index in _beginning(found, new_outputs) if index not in passing]
    while waiting:
        index = waiting.pop()
        if index not in of:
            below = nodes[index].inputs
            of[index] = (Carry(below[0], carried[index]),) if index in carried else tuple(map(finder.take, below))
            waiting += (each.node for each in takes_within(of[index]) if isinstance(each, Young))
    made = Histories(dict(sorted(of.items())))
    made.check(found)
    return made


def content_now(
    circuit: Circuit, index: int, unreadable: Mapping[str, str], frozen: Mapping[int, str] = NOTHING_FROZEN
) -> Take:
    """Where the content of a node of the project in force is. `unreadable`: by handle, why the messages of a source cannot be read again.
    `frozen`: why nodes of the circuit are."""
    every = {each: each for each in range(len(circuit.nodes))}
    return _HistoryFinder(circuit, circuit, every, unreadable, frozen).take(index)


def content_next(found: ProjectMatch, index: int) -> Take:
    """Where the content of a node of the next project is, of which all young nodes are filled. `index`: of a young node, or a view that is kept.
    A kept view over a young node has what that node had in the previous project, until the switch gives it what differs."""
    circuit = found.now.circuit
    every = {each: each for each in range(len(circuit.nodes))}
    behind = frozenset(i for i in found.kept if any(map(found.is_young, circuit.nodes[i].inputs)))
    return _HistoryFinder(circuit, circuit, every, {}, behind=behind, otherwise=_filled_otherwise(found, behind)).take(
        index
    )


def _filled_otherwise(found: ProjectMatch, behind: frozenset[int]) -> frozenset[int]:
    """The kept nodes behind a changed view whose former content a view of the previous project has stored, and no view of the next one. What
    reads them is filled with that content, and until the switch the new content below them gives other rows."""
    were = _stored_in(found.previous.circuit)
    are = {below for below, view in _stored_in(found.now.circuit).items() if view not in behind}
    return frozenset(i for i, before in found.kept.items() if i in found.disturbed and before in were and i not in are)


def _stored_in(circuit: Circuit) -> dict[int, int]:
    """By the index of a node, the view over it that stores its content."""
    return {node.inputs[0]: index for index, node in circuit.nodes_of(View).items() if node.stored}


def _beginning(found: ProjectMatch, new_outputs: Collection[int]) -> Iterator[int]:
    """The young nodes that need a history whoever reads them."""
    with_state = frozenset(nodes_with_state(found.now.circuit))
    for index, node in enumerate(found.now.circuit.nodes):
        if index in new_outputs or (found.is_young(index) and (index in with_state or isinstance(node, View))):
            yield index


@dataclass
class _HistoryFinder:
    """The search for the histories of the nodes of one circuit. `held`: the index in `previous` of each node of `circuit` whose state there is.
    `behind`: the nodes of `previous` whose state is not that of their inputs yet. `otherwise`: the nodes that give other rows than those with
    which their readers were filled."""

    circuit: Circuit
    previous: Circuit
    held: Mapping[int, int]
    unreadable: Mapping[str, str]
    frozen: Mapping[int, str] = field(default_factory=dict)
    behind: frozenset[int] = frozenset()
    otherwise: frozenset[int] = frozenset()
    known: dict[int, Take] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stored = {below: view for below, view in _stored_in(self.previous).items() if view not in self.behind}

    def take(self, index: int) -> Take:
        if index not in self.known:
            self.known[index] = self._take(index)
        return self.known[index]

    def _take(self, index: int) -> Take:
        node = self.circuit.nodes[index]
        if isinstance(node, Source):
            return self._reread(index, node)
        if index not in self.held:
            return Young(index)
        before = self.held[index]
        if operator_of(node).is_fed_from_state(node) and before not in self.frozen:
            return Feed(index, before)
        if before in self._stored:
            return Feed(index, self._stored[before])
        if index in self.otherwise:
            return NoHistory(index, ((OF_NO_SOURCE, "filled otherwise"),))
        if before in self.frozen:
            return NoHistory(index, ((OF_NO_SOURCE, self.frozen[before]),))
        below = tuple(map(self.take, node.inputs))
        lacking = [each for each in below if isinstance(each, NoHistory)]
        if lacking:
            return NoHistory(index, tuple(dict.fromkeys(reason for each in lacking for reason in each.reasons)))
        has_state = bool(operator_of(node).state.keeps(node, False))
        return Twin(index, below) if has_state else Recomputed(index, below)

    def _reread(self, index: int, source: Source) -> Take:
        """Whether the source is young does not matter: no state has its messages, unless a view over it has stored all of them."""
        before = self.held.get(index)
        if before in self._stored:
            return Feed(index, self._stored[before])
        if source.handle in self.unreadable:
            return NoHistory(index, ((source.handle, self.unreadable[source.handle]),))
        return Reread(index, source.handle)


def takes_within(takes: Iterable[Take]) -> Iterator[Take]:
    """These and what they are made of. Each node comes once, because it takes the same for all that read it."""
    seen: set[int] = set()
    waiting = list(reversed(list(takes)))
    while waiting:
        take = waiting.pop()
        if take.node not in seen:
            seen.add(take.node)
            yield take
            if isinstance(take, Recomputed | Twin):
                waiting += reversed(take.below)


def leaves_of(takes: Iterable[Take]) -> tuple[Feed | Reread | Carry | NoHistory, ...]:
    """Where the rows begin that these inputs take, each once and in order."""
    return tuple(each for each in takes_within(takes) if isinstance(each, Feed | Reread | Carry | NoHistory))


def twins_of(takes: Iterable[Take]) -> tuple[Twin, ...]:
    """The nodes that are computed a second time, each once."""
    return tuple(each for each in takes_within(takes) if isinstance(each, Twin))
