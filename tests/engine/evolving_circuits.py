"""Two projects of one seed, made of the circuit that has every kind of node: views come and go, and others read them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pyarrow as pa

from engine.analysis.content import derive_contents
from engine.model.aggregates import Aggregate
from engine.model.circuit import Circuit, Node, Output, View
from engine.model.joins import OuterJoin, SemiJoin
from engine.model.node import Expression
from engine.model.ordered import SortKey, TopK
from engine.model.rows import Deduplicate, Distinct, LastByKey, Map, Source, Union
from tests.engine.every_kind import LONG, OF_EVENT_TIME, call, column, every_kind
from tests.engine.zsets import TYPES

VIEWS = 9
"""Of those of the whole circuit, in a pair."""
KEPT_SOURCES = ("left", "log")
"""Append sources, of which views hold all rows, so that young nodes need no messages again."""
READERS = ("sums", "highest", "firsts", "leading", "beside", "without", "copy")


@cache
def base() -> Circuit:
    """Every kind of node, and views that hold all rows of the sources without a key."""
    nodes = list(every_kind().nodes)
    for index, node in enumerate(nodes[:]):
        if isinstance(node, Source) and node.handle in KEPT_SOURCES:
            nodes.append(View((index,), node.types, f"all_{node.handle}", ("id", "word"), kept=True))
    return Circuit(tuple(nodes))


@dataclass(frozen=True)
class Project:
    """`views`: those of `base` that it has. `changes`: how the definition of a view is changed, by name. `readers`: what reads a view, as pairs
    of the view and the reader's kind. `moved`: outputs with another topic. `holds_sources`: whether views hold all rows of the append
    sources. `derives`: whether views store nothing if other state tells their content, as in the circuits of users."""

    views: tuple[str, ...]
    changes: tuple[tuple[str, str], ...] = ()
    readers: tuple[tuple[str, str], ...] = ()
    moved: tuple[str, ...] = ()
    reordered: bool = False
    holds_sources: bool = True
    derives: bool = False

    def circuit(self) -> Circuit:
        made = _Making(self).circuit()
        return derive_contents(made) if self.derives else made


def view_names(*, of_event_time: bool = True) -> tuple[str, ...]:
    """Without those that only hold the rows of sources."""
    nodes = base().nodes
    timed: set[int] = set()
    for index, node in enumerate(nodes):
        if isinstance(node, tuple(OF_EVENT_TIME)) or not timed.isdisjoint(node.inputs):
            timed.add(index)
    return tuple(
        node.name
        for index, node in enumerate(nodes)
        if isinstance(node, View) and not node.name.startswith("all_") and (of_event_time or index not in timed)
    )


@cache
def view_of(name: str) -> View:
    return next(node for node in base().nodes if isinstance(node, View) and node.name == name)


@cache
def mode_of(name: str) -> str:
    return next(node.mode for node in base().nodes if isinstance(node, Output) and node.handle == name)


# How a definition changes: from the making and the index of what the view reads to the index of what it reads instead


Change = Callable[["_Making", int], int]


def _filtered(make: _Making, below: int) -> int:
    types = make.nodes[below].types
    plain = tuple(column(place, kind) for place, kind in enumerate(types))
    return make.add(Map((below,), types, Expression("hash(c0) % 3 <> 0", pa.bool_()), plain))


def _other_literal(make: _Making, below: int) -> int:
    types = make.nodes[below].types
    plain = tuple(column(place, kind) for place, kind in enumerate(types))
    return make.add(Map((below,), types, Expression("hash(c0) % 2 <> 0", pa.bool_()), plain))


def _distinct(make: _Making, below: int) -> int:
    return make.add(Distinct((below,), make.nodes[below].types))


def _doubled(make: _Making, below: int) -> int:
    return make.add(Union((below, below), make.nodes[below].types))


def _limited(make: _Making, below: int) -> int:
    return make.add(TopK((below,), make.nodes[below].types, (), (SortKey(0, True, True),), 0, 3))


def _without_log(make: _Making, below: int) -> int:
    """A view whose new rows come from a join with a kept source."""
    types = make.nodes[below].types
    place = next((i for i, kind in enumerate(types) if kind == LONG), None)
    if place is None:
        return _filtered(make, below)
    return make.add(SemiJoin((below, make.source("right")), types, True, (place,), (0,), (False,)))


def _unchanged(make: _Making, below: int) -> int:
    return below


CHANGES: dict[str, Change] = {
    "filter": _filtered,
    "literal": _other_literal,
    "distinct": _distinct,
    "double": _doubled,
    "limit": _limited,
    "anti join": _without_log,
    "column": _unchanged,
}
"""`column`: a constant in front of the others, which the view itself gets."""
KEEPS_ONE_ROW_A_KEY = ("filter", "literal", "distinct", "limit", "anti join", "column")
ADDS_ROWS = ("double",)
"""The changes of a view that may only grow."""


class _Making:
    def __init__(self, project: Project) -> None:
        self.project = project
        self.nodes: list[Node] = []
        self.at: dict[int, int] = {}

    def circuit(self) -> Circuit:
        nodes, changes = base().nodes, dict(self.project.changes)
        wanted = self._wanted(nodes)
        order = [*wanted]
        if self.project.reordered:
            order = _reordered(nodes, wanted)
        for index in order:
            node = nodes[index]
            if isinstance(node, View) and node.name in changes:
                self.at[index] = self._changed(node, changes[node.name])
            elif isinstance(node, Output):
                self._output(node)
            else:
                self.at[index] = self.add(replace(node, inputs=tuple(self._read(i) for i in node.inputs)))
        for view, kind in self.project.readers:
            self._reader(view, kind)
        return Circuit(tuple(self.nodes))

    def _read(self, index: int) -> int:
        """What a node of `base` reads in place of the node at `index`: a view that has got a column is read without it."""
        at, old = self.at[index], base().nodes[index]
        if not isinstance(old, View) or self.nodes[at].types == old.types:
            return at
        return self.add(Map((at,), old.types, None, tuple(column(i + 1, kind) for i, kind in enumerate(old.types))))

    def add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def source(self, handle: str) -> int:
        """Its table, if it has a key."""
        kinds = LastByKey | Source
        return max(i for i, node in enumerate(self.nodes) if isinstance(node, kinds) and node.handle == handle)

    def _wanted(self, nodes: Sequence[Node]) -> list[int]:
        """All below the views of the project, and their outputs. Sources are always there."""
        found = {i for i, node in enumerate(nodes) if isinstance(node, Source | LastByKey)}
        for index in reversed(range(len(nodes))):
            node = nodes[index]
            of_source = isinstance(node, View) and node.name.startswith("all_") and self.project.holds_sources
            if isinstance(node, View) and (node.name in self.project.views or of_source):
                found.add(index)
            if isinstance(node, Output) and node.handle in self.project.views:
                found.add(index)
            if index in found:
                found.update(node.inputs)
        return sorted(found)

    def _changed(self, view: View, change: str) -> int:
        (old,) = next(node.inputs for node in base().nodes if node is view)
        below = CHANGES[change](self, self.at[old])
        types, names, key = view.types, view.names, view.key
        if change == "column":
            plain = (Expression("CAST(7 AS BIGINT)", LONG), *(column(i, kind) for i, kind in enumerate(types)))
            types, names, key = (LONG, *types), ("more", *names), tuple(i + 1 for i in key)
            below = self.add(Map((below,), types, None, plain))
        return self.add(replace(view, inputs=(below,), types=types, names=names, key=key, derived=False))

    def _output(self, output: Output) -> None:
        at = max(i for i, node in enumerate(self.nodes) if isinstance(node, View) and node.name == output.handle)
        view = self.nodes[at]
        assert isinstance(view, View)
        handle = f"{output.handle}_moved" if output.handle in self.project.moved else output.handle
        self.add(replace(output, inputs=(at,), handle=handle, names=view.names, key=view.key if output.key else ()))

    def _rows_of(self, view: str) -> int:
        """The first column of a view that has a number, and the first text, as (number, text), by the names of the columns."""
        at = max(i for i, node in enumerate(self.nodes) if isinstance(node, View) and node.name == view)
        node = self.nodes[at]
        assert isinstance(node, View)
        first = 1 if node.names[0] == "more" else 0
        number = next((i for i, kind in enumerate(node.types) if i >= first and kind == LONG), None)
        text = next((i for i, kind in enumerate(node.types) if i >= first and kind == pa.string()), None)
        columns = (
            Expression("CAST(0 AS BIGINT)", LONG) if number is None else column(number, LONG),
            Expression("'a'", pa.string()) if text is None else column(text, pa.string()),
        )
        return self.add(Map((at,), TYPES, None, columns))

    def _copy(self, view: str) -> tuple[int, tuple[str, ...]]:
        """The view itself, without the column that it may have got, and its names."""
        at = max(i for i, node in enumerate(self.nodes) if isinstance(node, View) and node.name == view)
        names = view_of(view).names
        types = self.nodes[at].types[-len(names) :]
        if types == self.nodes[at].types:
            return at, names
        return self.add(Map((at,), types, None, tuple(column(i + 1, kind) for i, kind in enumerate(types)))), names

    def _reader(self, view: str, kind: str) -> None:
        name, names = f"{kind}_of_{view}", ("id", "word")
        below = -1 if kind == "copy" else self._rows_of(view)
        match kind:
            case "copy":
                made, names = self._copy(view)
            case "sums":
                calls = (call("count"), call("sum", 0))
                made = self.add(Aggregate((below,), (pa.string(), LONG, LONG), (1,), calls))
                names = ("word", "n", "total")
            case "highest":
                calls = (call("max", 0), call("min", 0))
                made = self.add(Aggregate((below,), (pa.string(), LONG, LONG), (1,), calls))
                names = ("word", "most", "least")
            case "firsts":
                made = self.add(Deduplicate((self.add(Distinct((below,), TYPES)),), TYPES, (0, 1)))
            case "leading":
                made = self.add(TopK((below,), TYPES, (1,), (SortKey(0, False, False),), 0, 1))
            case "beside":
                both = (*TYPES, *TYPES)
                made = self.add(OuterJoin((below, self.source("right")), both, True, (0,), (0,), (False,)))
                names = ("id", "word", "key", "name")
            case _:
                made = self.add(SemiJoin((self.source("right"), below), TYPES, True, (0,), (0,), (False,)))
        types = self.nodes[made].types
        self.nodes.append(View((made,), types, name, names, kept=True))
        self.nodes.append(Output((len(self.nodes) - 1,), (), name, "changelog", names))


def _reordered(nodes: Sequence[Node], wanted: Sequence[int]) -> list[int]:
    """Another order of the nodes behind the sources."""
    made = [index for index in wanted if isinstance(nodes[index], Source | LastByKey)]
    left = [index for index in reversed(wanted) if index not in made]
    while left:
        missing = set(left)
        ready = next(index for index in left if not missing & set(nodes[index].inputs))
        left.remove(ready)
        made.append(ready)
    return made


def pair_of(seed: int, *, holds_sources: bool = True) -> tuple[Project, Project]:
    chance = random.Random(seed)
    names = view_names()
    timed = set(names) - set(view_names(of_event_time=False))
    drawn = set(chance.sample(names, VIEWS))
    names = tuple(name for name in names if name in drawn)
    known = tuple(name for name in names if chance.random() < 0.7)
    readers = _readers(chance, known, timed)
    derives = seed % 4 > 0
    before = Project(known, _changes(chance, known, timed), readers, holds_sources=holds_sources, derives=derives)
    now = tuple(n for n in names if (chance.random() < 0.9 if n in known else n not in timed and chance.random() < 0.7))
    read = {pair for pair in before.readers if pair[0] in now and chance.random() < 0.8}
    readers = tuple(sorted(read | set(_readers(chance, now, timed))))
    kept_changes = dict(pair for pair in before.changes if pair[0] in now)
    mine = dict(kept_changes)
    for name in now:
        if name not in timed and chance.random() < 0.35:
            other = _change(chance, name)
            if other is None and mode_of(name) != "append":
                mine.pop(name, None)
            elif other is not None:
                mine[name] = other
    moved = tuple(name for name in now if name not in timed and chance.random() < 0.1)
    is_reordered = chance.random() < 0.3
    return before, Project(now, tuple(sorted(mine.items())), readers, moved, is_reordered, holds_sources, derives)


def _changes(chance: random.Random, names: Sequence[str], timed: set[str]) -> tuple[tuple[str, str], ...]:
    found = ((name, _change(chance, name)) for name in names if name not in timed and chance.random() < 0.3)
    return tuple((name, change) for name, change in found if change is not None and mode_of(name) != "append")


def _change(chance: random.Random, name: str) -> str | None:
    if mode_of(name) == "append":
        return chance.choice(ADDS_ROWS)
    if view_of(name).key:
        return chance.choice((None, *KEEPS_ONE_ROW_A_KEY))
    return chance.choice((None, *CHANGES))


def _readers(chance: random.Random, names: Sequence[str], timed: set[str]) -> tuple[tuple[str, str], ...]:
    pairs = [(name, kind) for name in names if name not in timed for kind in READERS]
    return tuple(sorted(chance.sample(pairs, min(len(pairs), 3))))


def counted(projects: Sequence[Project]) -> Counter[str]:
    return Counter(change for project in projects for _, change in project.changes)


def dependents_of(circuit: Circuit, names: frozenset[str]) -> set[str]:
    """The names of these views and of those that read them."""
    found: set[int] = set()
    for index, node in enumerate(circuit.nodes):
        if (isinstance(node, View) and node.name in names) or not found.isdisjoint(node.inputs):
            found.add(index)
    return {node.name for i in found if isinstance(node := circuit.nodes[i], View)}
