"""What this release computes in another way than the one that has made a state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.analysis import release
from engine.analysis.release import (
    PYTHON,
    can_be_frozen,
    computed_otherwise,
    freeze,
    implementation_versions_of,
    python_of,
)
from engine.analysis.stages import plan_stages
from engine.expressions import functions
from engine.model.circuit import Circuit, Node, Recursion, View
from engine.model.filling import Frozen
from engine.model.python_call import OF_SERIES, PythonForm
from engine.model.rows import Distinct, LastByKey, Map, PythonMap
from engine.operators import table
from tests.engine.every_kind import every_kind
from tests.engine.test_identity import project, upper

CIRCUIT = every_kind()


def indices(kind: type[Node]) -> list[int]:
    return [index for index, node in enumerate(CIRCUIT.nodes) if isinstance(node, kind)]


def test_what_the_same_release_has_made_is_computed_as_before() -> None:
    assert not computed_otherwise(CIRCUIT, implementation_versions_of(CIRCUIT))
    assert not computed_otherwise(CIRCUIT, {}), "a document of a release in which nothing had changed yet"


@pytest.mark.parametrize("before", [{}, {"operator Distinct": 3}], ids=["risen", "fallen"])
def test_an_operator_of_another_version(monkeypatch: pytest.MonkeyPatch, before: dict[str, int]) -> None:
    """Also an older release that opens a newer state."""
    revised = replace(table._BY_NODE_TYPE[Distinct], implementation_version=2)
    monkeypatch.setattr(table, "_BY_NODE_TYPE", {**table._BY_NODE_TYPE, Distinct: revised})
    bodies = [i for i in indices(Recursion) if any(isinstance(node, Distinct) for node in _body(i))]
    found = computed_otherwise(CIRCUIT, before)
    assert sorted(found) == sorted({*indices(Distinct), *bodies})
    assert implementation_versions_of(CIRCUIT)["operator Distinct"] == 2
    assert not computed_otherwise(CIRCUIT, implementation_versions_of(CIRCUIT))


def _body(index: int) -> tuple[Node, ...]:
    node = CIRCUIT.nodes[index]
    assert isinstance(node, Recursion)
    return node.body


def test_what_a_recursion_computes_with_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    index, kind = next(
        (index, type(node)) for index in indices(Recursion) for node in _body(index) if isinstance(node, Map | Distinct)
    )
    revised = replace(table._BY_NODE_TYPE[kind], implementation_version=2)
    monkeypatch.setattr(table, "_BY_NODE_TYPE", {**table._BY_NODE_TYPE, kind: revised})
    assert index in computed_otherwise(CIRCUIT, {})


def test_a_function_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = project(upper()).circuit
    monkeypatch.setattr(functions, "IMPLEMENTATION_VERSIONS", {"spark_upper": 1, "spark_lower": 1})
    assert computed_otherwise(circuit, {}) == {
        1: "this version of Stepwell computes function spark_upper in another way"
    }
    assert not computed_otherwise(circuit, {"function spark_upper": 1})
    assert implementation_versions_of(circuit) == {"function spark_upper": 1}


def test_functions_of_another_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "_python_now", lambda: python_of(3, 12))
    found = computed_otherwise(CIRCUIT, {PYTHON: python_of(3, 9)})
    assert sorted(found) == indices(PythonMap)
    assert set(found.values()) == {"functions in Python were planned by Python 3.9, and this is 3.12"}


@pytest.mark.parametrize("form", sorted(OF_SERIES))
def test_functions_over_series_are_computed_otherwise_than_before(form: PythonForm) -> None:
    index = indices(PythonMap)[0]
    node = CIRCUIT.nodes[index]
    assert isinstance(node, PythonMap)
    nodes = list(CIRCUIT.nodes)
    nodes[index] = replace(node, calls=tuple(replace(call, form=form) for call in node.calls))
    circuit = Circuit(tuple(nodes))
    assert computed_otherwise(circuit, {}) == {
        index: "this version of Stepwell computes functions over pandas objects in another way"
    }
    assert not computed_otherwise(circuit, implementation_versions_of(circuit))


def test_a_frozen_node_says_of_itself_what_the_node_said() -> None:
    """Others are placed, and keep state, by that."""
    kept = {index: "why" for index, node in enumerate(CIRCUIT.nodes) if can_be_frozen(CIRCUIT, {index: ""})}
    frozen = freeze(CIRCUIT, kept)
    frozen.check()
    assert not implementation_versions_of(frozen) and not computed_otherwise(frozen, {PYTHON: 1})
    for index, node in enumerate(CIRCUIT.nodes):
        now = frozen.nodes[index]
        assert isinstance(now, Frozen) == (index in kept)
        was, operator = table.operator_of(node), table.operator_of(now)
        assert (operator.growth.retraction(now) is None) == (was.growth.retraction(node) is None)
        for append_only in (False, True):
            assert bool(operator.state.keeps(now, append_only)) == bool(was.state.keeps(node, append_only))


def test_ends_cannot_be_frozen() -> None:
    for kind in (LastByKey, View):
        assert not can_be_frozen(CIRCUIT, {indices(kind)[0]: ""})
    assert can_be_frozen(CIRCUIT, {indices(Distinct)[0]: ""})
    assert freeze(CIRCUIT, {}) is CIRCUIT


def test_a_circuit_of_frozen_nodes_has_the_places_of_the_other_one() -> None:
    kept = {index: "why" for index in range(len(CIRCUIT.nodes)) if can_be_frozen(CIRCUIT, {index: ""})}
    assert plan_stages(freeze(CIRCUIT, kept)).colocation == plan_stages(CIRCUIT).colocation
