"""The identity of nodes: which nodes of a changed project are those of the previous one, so that their state is kept.

    identity = hash(kind; implementation versions of its operator and of the functions that its SQL names;
                    its fields, but those of `_LEFT_OUT`; for each input its identity and columns;
                    with state also: whether each input only grows, and by which columns it lies)

Two nodes with one identity compute the same rows from the same sources, and their traces hold the same records. Equal
texts of queries are neither needed nor enough: the identity is that of the circuit.

A **leaf** is where identities begin again for those that read it: a source, the table of a keyed source, and a view.
Two sources of one topic are two leaves, because they may read the same messages otherwise.
What is below a leaf does not count, so that a changed view leaves its readers as they are. Readers name the columns
of a leaf by name and type and not by position. So a column that is added to a source, or to a view, changes nothing
of those that do not read it.

A Map that only selects columns is seen through, because Spark puts one over a leaf as soon as nobody reads one of the
leaf's columns.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import xxhash

from engine.analysis.release import ImplementationVersions, functions_of, operators_of, python_in
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan_stages
from engine.model.circuit import Circuit, Node, Output, View, plain_fields
from engine.model.node import Expression, NodeBase
from engine.model.rows import LastByKey, Map, ScalarMap, Source
from engine.operators.table import operator_of

_IN_SQL = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\bc([0-9]+)\b")
"""A text, a quoted name, or a column."""

_LEFT_OUT: Mapping[type[NodeBase], Mapping[str, str]] = {
    Source: {
        "handle": "a source can be renamed",
        "padded": "the leaf's columns have it",
        "unavailable": "so has its encoding",
    },
    LastByKey: {"handle": "as of its source", "unavailable": "as of its source"},
    View: {"name": "a view can be renamed", "names": "its columns too: whoever reads them names them"},
    Output: {"handle": "an output is known by its topic"},
    ScalarMap: {"rows": "columns are named, so it does not matter how many of them nobody reads"},
}
"""Fields that say nothing of the rows, with the reason. `inputs` are indices, which differ from project to project."""


@dataclass(frozen=True)
class SourceIdentity:
    """A source, as those that read it know it. `text`: all that decides which rows it has and how their values are
    read, without the columns that may be NULL. `columns`: the name of each with its declared type, in order. `policies`: what
    is done with messages that cannot be read. It tells a source that was renamed from others of its text."""

    text: str
    columns: tuple[str, ...]
    policies: str = ""


@dataclass(frozen=True)
class Named:
    """A circuit, and what it does not say of its ends. `sources`: by handle. `topics`: of the outputs, by handle. `made_with`: the
    implementation versions of the release that has made its state (release.py)."""

    circuit: Circuit
    sources: Mapping[str, SourceIdentity]
    topics: Mapping[str, str]
    made_with: ImplementationVersions


@dataclass(frozen=True)
class Identities:
    """The identities of all that a circuit has: two nodes with one identity compute the same. `nodes`: the identity of each node. `sources`:
    those of the project, by handle. `views`: the identity of each view's definition, by the name by which readers know the view. `leaves`:
    that name by the view's own, from which it differs if the view was renamed. `columns`: how readers name the columns of each view, by the
    name by which they know it. `topics`: those that each view writes, by the same name."""

    nodes: tuple[str, ...]
    sources: Mapping[str, SourceIdentity]
    views: Mapping[str, str]
    leaves: Mapping[str, str]
    columns: Mapping[str, tuple[str, ...]]
    topics: Mapping[str, frozenset[str]]


def identify(project: Named, previous: Identities | None = None) -> Identities:
    """The identities of a project's nodes. `previous`: those of the project that it changes. A view is paired with the
    previous one of its name, otherwise with a previous one of equal definition that is gone: it was renamed. Of several such views, the topic
    tells which one it was: a view whose topic is still written is the one that writes it now."""
    return _Identifying(project, previous).all()


def known_sources(now: Mapping[str, SourceIdentity], previous: Mapping[str, SourceIdentity]) -> dict[str, str]:
    """The previous handle of each source, by its own. A source is the previous one of its handle if the text is equal. Otherwise it is one of
    its text that is gone: the source was renamed. Where several of one text were renamed, columns and policies tell which is which. A source
    about which they leave a doubt is left out, as new ones are."""
    known = {handle: handle for handle in now.keys() & previous.keys() if now[handle].text == previous[handle].text}
    for alike in (attrgetter("text", "columns", "policies"), attrgetter("text")):
        gone = _handles_by(previous, alike, known.values())
        came = _handles_by(now, alike, known)
        for what, handles in came.items():
            were = gone.get(what, [])
            if len(were) == len(handles) == 1:
                known[handles[0]] = were[0]
    return known


def _handles_by(
    sources: Mapping[str, SourceIdentity], alike: Callable[[SourceIdentity], Any], known: Collection[str]
) -> dict[Any, list[str]]:
    """The handles of those that are not known yet, by what is alike."""
    found: defaultdict[Any, list[str]] = defaultdict(list)
    for handle, source in sources.items():
        if handle not in known:
            found[alike(source)].append(handle)
    return found


def pair_nodes(previous: Identities, now: Identities) -> dict[int, int]:
    """The nodes that both projects have: from the index now to the previous one. Of nodes with one identity, each is
    paired once, in order."""
    waiting: defaultdict[str, list[int]] = defaultdict(list)
    for index, identity in enumerate(previous.nodes):
        waiting[identity].append(index)
    return {index: waiting[identity].pop(0) for index, identity in enumerate(now.nodes) if waiting.get(identity)}


@dataclass(frozen=True)
class _NodeRows:
    """What a node gives to its readers. `columns`: how they name its columns."""

    identity: str
    columns: tuple[str, ...]


class _Identifying:
    def __init__(self, project: Named, previous: Identities | None) -> None:
        self._project, self._nodes = project, project.circuit.nodes
        known = known_sources(project.sources, {} if previous is None else previous.sources)
        self._sources = {handle: known.get(handle, handle) for handle in project.sources}
        self._previous: Mapping[str, str] = {} if previous is None else previous.views
        self._previous_columns: Mapping[str, tuple[str, ...]] = {} if previous is None else previous.columns
        self._previous_topics: Mapping[str, frozenset[str]] = {} if previous is None else previous.topics
        self._written = _topics_of_views(project)
        self._names = frozenset(project.circuit.views)
        self._append_only = append_only_inputs(project.circuit)
        self._colocation = plan_stages(project.circuit).input_colocation
        self._rows: list[_NodeRows] = []
        self._found: list[str] = []
        self._leaves: dict[str, str] = {}
        self._views: dict[str, str] = {}
        self._columns: dict[str, tuple[str, ...]] = {}

    def all(self) -> Identities:
        for index, node in enumerate(self._nodes):
            inputs = [self._rows[i] for i in node.inputs]
            identity = self._identity(index, node, inputs)
            if isinstance(node, View):  # two views of one definition are two nodes, each with its own content
                name = self._known_name(node, identity)
                self._leaves[node.name], self._views[name] = name, identity
                identity = _hash([identity, name])
            self._found.append(identity)
            self._rows.append(self._as_read(index, node, inputs))
        topics = {name: self._written.get(own, frozenset()) for own, name in self._leaves.items()}
        return Identities(
            tuple(self._found), self._project.sources, self._views, self._leaves, columns=self._columns, topics=topics
        )

    def _identity(self, index: int, node: Node, inputs: Sequence[_NodeRows]) -> str:
        named: Node = node
        if isinstance(node, Map | ScalarMap):
            named = _with_columns(node, _read_by_expressions(node, inputs))
            read: list[Any] = [rows.identity for rows in inputs]
        else:
            read = [[rows.identity, rows.columns] for rows in inputs]
        return _hash(
            {
                "fields": {
                    name: value
                    for name, value in plain_fields(named).items()
                    if name not in ("inputs", *_LEFT_OUT.get(type(node), ()))
                },
                "operator": operators_of(node, self._project.made_with),
                "functions": functions_of(node, self._project.made_with),
                "python": python_in(node, self._project.made_with),
                "leaf": self._leaf_text(node),
                "inputs": read,
                "state": self._on_what_state_depends(index, node),
            }
        )

    def _leaf_text(self, node: Node) -> Any:
        """What a node at an end of the circuit is, beside its fields."""
        if isinstance(node, Source | LastByKey):
            leaf = self._project.sources[node.handle]
            return [self._sources[node.handle], leaf.text, leaf.columns]
        return self._project.topics[node.handle] if isinstance(node, Output) else None

    def _on_what_state_depends(self, index: int, node: Node) -> Any:
        grows = self._append_only[index]
        return [grows, self._colocation[index]] if operator_of(node).state.keeps(node, all(grows)) else None

    def _as_read(self, index: int, node: Node, inputs: Sequence[_NodeRows]) -> _NodeRows:
        own = self._found[index]
        if isinstance(node, Source | LastByKey):
            leaf = self._project.sources[node.handle]
            more = tuple(f"{node.kind} {place}" for place in range(len(leaf.columns), len(node.types)))
            return _NodeRows(_hash([node.kind, self._sources[node.handle], leaf.text]), (*leaf.columns, *more))
        if isinstance(node, View):
            name = self._leaves[node.name]
            columns = self._columns[name] = self._columns_of(name, node)
            return _NodeRows(_hash(["View", name]), columns)
        if isinstance(node, Map) and (selected := node.selected) is not None:
            (rows,) = inputs
            return _NodeRows(rows.identity, tuple(rows.columns[column] for column in selected))
        return _NodeRows(own, tuple(f"c{place}" for place in range(len(node.types))))

    def _columns_of(self, name: str, view: View) -> tuple[str, ...]:
        """How readers name the columns of a view. A view of equal definition keeps the names that it had, by position: if two
        columns change names, a reader of one of them reads other rows, although it names the same column."""
        if name in self._previous_columns and self._previous[name] == self._views[name]:
            return self._previous_columns[name]
        return tuple(f"{column} {kind}" for column, kind in zip(view.names, view.types, strict=True))

    def _known_name(self, view: View, definition: str) -> str:
        """The name by which readers know the view."""
        if view.name in self._previous:
            return view.name
        gone = [name for name in sorted(self._previous) if name not in self._names and name not in self._views]
        alike = [name for name in gone if self._previous[name] == definition]
        mine, every = self._written.get(view.name, frozenset()), frozenset[str]().union(*self._written.values())
        by_topic = [name for name in alike if self._previous_topics[name] & mine]
        free = [name for name in alike if not self._previous_topics[name] & every]
        return next(iter((*by_topic, *free)), view.name)


def _topics_of_views(project: Named) -> dict[str, frozenset[str]]:
    """The topics that each view writes, by its name. A view without an output is left out."""
    found: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    for node in project.circuit.nodes_of(Output).values():
        if isinstance(view := project.circuit.nodes[node.inputs[0]], View):
            found[view.name] |= {project.topics[node.handle]}
    return dict(found)


def _read_by_expressions(node: Map | ScalarMap, inputs: Sequence[_NodeRows]) -> tuple[str, ...]:
    """The columns of the rows, and then those of each value, of which the last says whether it is the value of after the step."""
    rows, *values = inputs
    return (*rows.columns, *(f"{value.identity} {column}" for value in values for column in value.columns[:-1]))


def _with_columns(node: Map | ScalarMap, columns: tuple[str, ...]) -> Map | ScalarMap:
    """The node with the names of columns in its expressions, in place of where they are."""

    def with_names(expression: Expression) -> Expression:
        def name_of(found: re.Match[str]) -> str:
            return found[0] if found[1] is None else f"<{columns[int(found[1])]}>"

        return Expression(_IN_SQL.sub(name_of, expression.sql), expression.type)

    predicate = None if node.predicate is None else with_names(node.predicate)
    return replace(node, predicate=predicate, projections=tuple(map(with_names, node.projections)))


def _hash(value: Any) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())
