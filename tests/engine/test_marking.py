"""Views that count a source from some offsets on read a source of their own, and nothing else of the circuit changes."""

from __future__ import annotations

import random

import pytest

from engine.analysis.identity import Named, SourceIdentity, identify
from engine.analysis.marking import marked_circuit, sources_below
from engine.model.circuit import Circuit, Node, Output, View
from engine.model.from_now import handle_from_now, handle_of_files, revision_of
from engine.model.rows import LastByKey, Source
from tests.engine.evolving_circuits import pair_of


def named(circuit: Circuit) -> Named:
    leaves = {
        node.handle: SourceIdentity(f"topic {node.handle}", tuple(f"c{i} {kind}" for i, kind in enumerate(node.types)))
        for node in circuit.nodes
        if isinstance(node, Source)
    }
    outputs = {node.handle: node.handle for node in circuit.nodes if isinstance(node, Output)}
    return Named(circuit, leaves, outputs, {})


def views(circuit: Circuit) -> dict[str, int]:
    return {node.name: index for index, node in enumerate(circuit.nodes) if isinstance(node, View)}


def is_marked_below(circuit: Circuit, view: int) -> bool:
    """Whether the view's own rows, or those of views that hold none, come from a marked source."""
    waiting, seen = [*circuit.nodes[view].inputs], set[int]()
    while waiting:
        index = waiting.pop()
        node = circuit.nodes[index]
        if index in seen or (isinstance(node, View) and node.kept):
            continue
        seen.add(index)
        if isinstance(node, Source) and revision_of(node.handle) is not None:
            return True
        waiting += node.inputs
    return False


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("holds_sources", [False, True])
def test_a_view_reads_its_marked_source_and_all_else_is_as_it_was(seed: int, holds_sources: bool) -> None:
    circuit, chance = pair_of(seed, holds_sources=holds_sources)[1].circuit(), random.Random(seed)
    could = {name: sources_below(circuit, name) for name in views(circuit)}
    chosen = {name: sorted(found) for name, found in could.items() if found and chance.random() < 0.4}
    marks = {name: {handle: handle_from_now(handle, 7) for handle in found} for name, found in chosen.items()}
    made = marked_circuit(circuit, marks)
    made.check()
    assert made == marked_circuit(circuit, marks), "equal circuits and marks give equal circuits"
    assert views(made).keys() == views(circuit).keys()
    before, now = identify(named(circuit)), identify(named(made), identify(named(circuit)))
    for name, index in views(made).items():
        is_same = before.nodes[views(circuit)[name]] == now.nodes[index]
        node = circuit.nodes[views(circuit)[name]]
        assert isinstance(node, View)
        if name in marks:
            assert is_marked_below(made, index) and not is_same, name
        elif not is_marked_below(made, index):
            assert is_same, name
    read = {index for node in made.nodes for index in node.inputs}
    ends = {index for index, node in enumerate(made.nodes) if isinstance(node, View | Output)}
    assert read | ends == set(range(len(made.nodes))), "nothing is left that nobody reads"


def test_without_marks_a_circuit_is_the_same() -> None:
    circuit = pair_of(3)[0].circuit()
    assert marked_circuit(circuit, {}) is circuit


def views_over_tables(circuit: Circuit) -> set[str]:
    """The views that read a keyed source."""
    tables = {node.handle for node in circuit.nodes if isinstance(node, LastByKey)}
    return {name for name in views(circuit) if sources_below(circuit, name) & tables}


def test_the_table_of_a_keyed_source_is_a_table_of_the_marked_one() -> None:
    """Two views that count it from one mark on share the table."""
    circuits = (pair_of(seed)[0].circuit() for seed in range(20))
    circuit = next(circuit for circuit in circuits if len(views_over_tables(circuit)) > 1)
    tables = {node.handle for node in circuit.nodes if isinstance(node, LastByKey)}
    over = views_over_tables(circuit)
    marks = {name: {handle: handle_from_now(handle, 2) for handle in tables} for name in over}
    made = [node for node in marked_circuit(circuit, marks).nodes if _is_marked(node)]
    assert {type(node) for node in made} == {Source, LastByKey}
    assert len(made) == len({(type(node), node.handle) for node in made if isinstance(node, Source | LastByKey)})


def _is_marked(node: Node) -> bool:
    return isinstance(node, Source | LastByKey) and handle_of_files(node.handle) != node.handle


def test_names_of_marked_sources_are_read_back() -> None:
    for handle in ("clicks", "a (b)", "x (from revision 3 on)"):
        marked = handle_from_now(handle, 12)
        assert (handle_of_files(marked), revision_of(marked)) == (handle, 12)
    assert handle_of_files("clicks") == "clicks" and revision_of("clicks") is None
