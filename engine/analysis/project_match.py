"""From one project to the next: which nodes keep their state, and which are rebuilt.

A node of the new project is **kept** if the previous one has a node of its identity (identity.py), and otherwise **young**.
A view is *changed* if it is young and the previous project has it, and *new* if the previous project lacks it. Readers of a
changed view are kept: they get the difference between its new and its old content. One kind of node cannot get it. If a
node relies on an input that only grows, it cannot take rows back, and a difference may do that. So it is young, and with
it all that is above it in its view, and all that is between it and the changed view: it then reads what the changed view has
from the beginning. So are the readers of a changed view of which nothing tells what it was (unrecoverable_views.py), and a node of which a new
reader would have other rows than all others have (contradictions.py). What reads the table of a keyed source is young too if that table is made
anew and may get other rows, because no difference between the two tables is made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from engine.analysis.definitions import is_end
from engine.analysis.identity import Identities, Named, identify, pair_nodes
from engine.analysis.retraction import append_only_inputs
from engine.analysis.unrecoverable_views import unrecoverable_views
from engine.model.circuit import Circuit, Node, Output, View
from engine.model.rows import LastByKey, Map
from engine.operators.table import operator_of


@dataclass(frozen=True)
class ProjectMatch:
    """What the previous circuit and the one of now have in common. `was`, `ids`: the identities of the previous nodes and of those now.
    `kept`: the previous index of each kept node, by its index now. `disturbed`: the nodes whose rows change with the switch itself, because
    they are a changed view or depend on one."""

    previous: Named
    now: Named
    was: Identities
    ids: Identities
    kept: Mapping[int, int]
    disturbed: frozenset[int]

    def is_young(self, index: int) -> bool:
        return index not in self.kept

    def view(self, name: str) -> int:
        return self.now.circuit.views[name]

    @property
    def changed(self) -> tuple[str, ...]:
        """The views that are in both projects and whose content is rebuilt."""
        return tuple(
            name
            for name in self.now.circuit.views
            if self.ids.leaves[name] in self.was.views and self.is_young(self.view(name))
        )

    @property
    def new(self) -> tuple[str, ...]:
        return tuple(name for name in self.now.circuit.views if self.ids.leaves[name] not in self.was.views)

    @property
    def dropped(self) -> tuple[str, ...]:
        known = set(self.ids.leaves.values())
        return tuple(name for name in sorted(self.was.views) if name not in known)

    @cached_property
    def unrecoverable(self) -> frozenset[str]:
        """The previous views of which neither state nor messages tell the content."""
        return unrecoverable_views(self.previous.circuit)

    def check(self) -> None:
        """Asserts what makes kept state right: within a definition kept nodes read kept nodes alone, and nothing that is kept
        relies on growth behind a change."""
        nodes, grows = self.now.circuit.nodes, append_only_inputs(self.now.circuit)
        for index in self.kept:
            node = nodes[index]
            assert all(_is_solid(nodes, i, self.kept) for i in node.inputs), f"node {index} is kept over a young one"
            assert not relies_on_growth(node, grows[index], self.disturbed), f"node {index} relies on growth"
        for index in _that_must_only_grow(self):
            assert index not in self.kept, f"node {index} must only grow, and gets a difference"
        assert len(set(self.kept.values())) == len(self.kept), "two nodes have the state of one"


def match_projects(
    previous: Named, now: Named, read_otherwise: Collection[str] = (), rebuilt: Collection[int] = ()
) -> ProjectMatch:
    """Which nodes of `now` are nodes of `previous`, and which are young. `read_otherwise`: the handles of the keyed sources whose table may get
    other rows than the previous one has. `rebuilt`: nodes of `now` that are young, whatever the previous project has (contradictions.py)."""
    was = identify(previous)
    ids = identify(now, was)
    young = _readers_of_tables(now.circuit, read_otherwise) | frozenset(rebuilt)
    while True:
        made = _with_young(previous, now, was=was, ids=ids, young=young)
        more = _that_must_only_grow(made) | _kept_readers(made)
        if more <= young:
            made.check()
            return made
        young |= more


def _with_young(
    previous: Named, now: Named, *, was: Identities, ids: Identities, young: frozenset[int]
) -> ProjectMatch:
    """`young`: nodes that are not kept, whatever their identity is."""
    pairs = pair_nodes(was, ids)
    disturbed: set[int] = set()
    found: dict[int, int] = {}
    nodes, grows = now.circuit.nodes, append_only_inputs(now.circuit)
    for index, node in enumerate(nodes):
        behind = not disturbed.isdisjoint(node.inputs)
        below_kept = all(_is_solid(nodes, i, found) for i in node.inputs)
        can_be_kept = index not in young and not relies_on_growth(node, grows[index], disturbed)
        if index in pairs and below_kept and can_be_kept:
            found[index] = pairs[index]
        is_changed = isinstance(node, View) and index not in found and ids.leaves[node.name] in was.views
        if behind or is_changed:
            disturbed.add(index)
    return ProjectMatch(previous, now, was=was, ids=ids, kept=found, disturbed=frozenset(disturbed))


def _readers(circuit: Circuit, read: Collection[int]) -> frozenset[int]:
    """The nodes that read one of these. A Map that only selects columns is seen through."""
    seen, readers = set(read), set[int]()
    for index, node in enumerate(circuit.nodes):
        if not seen.isdisjoint(node.inputs):
            readers.add(index)
            if isinstance(node, Map) and node.selected is not None:
                seen.add(index)
    return frozenset(readers)


def _readers_of_tables(circuit: Circuit, handles: Collection[str]) -> frozenset[int]:
    """The nodes that read the table of one of these sources."""
    tables = circuit.nodes_of(LastByKey).items()
    return _readers(circuit, [index for index, table in tables if table.handle in handles])


def _that_must_only_grow(found: ProjectMatch) -> frozenset[int]:
    """The nodes behind a change on whose growth a node relies, directly or through others. An output refuses what it cannot write, and needs no
    other input for that."""
    nodes, grows = found.now.circuit.nodes, append_only_inputs(found.now.circuit)
    must: set[int] = set()
    for index in reversed(range(len(nodes))):
        node = nodes[index]
        disturbed = {below for below in node.inputs if below in found.disturbed}
        if index in must:
            must |= disturbed
        elif not isinstance(node, Output) and relies_on_growth(node, grows[index], found.disturbed):
            must |= {below for below, only in zip(node.inputs, grows[index], strict=True) if only} & disturbed
    return frozenset(must)


def _kept_readers(found: ProjectMatch) -> frozenset[int]:
    """The kept nodes that read a changed view of which nothing tells the former content. An output is not among them: it receives the difference
    itself, or is refused."""
    views = [found.view(name) for name in found.changed if found.ids.leaves[name] in found.unrecoverable]
    nodes = found.now.circuit.nodes
    readers = _readers(found.now.circuit, views)
    return frozenset(index for index in readers if index in found.kept and not isinstance(nodes[index], Output))


def _is_solid(nodes: Sequence[Node], index: int, found: Collection[int]) -> bool:
    """Whether a kept node may read this one: it is an end of definitions, or kept, or it only selects columns of such a node."""
    node = nodes[index]
    if isinstance(node, Map) and node.selected is not None and index not in found:
        return _is_solid(nodes, node.inputs[0], found)
    return is_end(node) or index in found


def relies_on_growth(node: Node, grows: Sequence[bool], disturbed: Collection[int]) -> bool:
    """Whether a disturbed input of the node only grows, and the node relies on that. `grows`: which inputs only grow."""
    is_reached = any(only and below in disturbed for only, below in zip(grows, node.inputs, strict=True))
    return is_reached and operator_of(node).growth.is_relied_on(node)


def nodes_with_state(circuit: Circuit) -> tuple[int, ...]:
    grows = append_only_inputs(circuit)
    keeps = (
        (index, operator_of(node).state.keeps(node, all(grows[index]))) for index, node in enumerate(circuit.nodes)
    )
    return tuple(index for index, text in keeps if text)
