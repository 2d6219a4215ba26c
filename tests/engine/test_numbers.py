"""The numbers of nodes: which tables are whose, whatever the project was before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.analysis.numbering import numbers_of
from engine.model.circuit import Output
from engine.model.numbers import (
    NUMBERS_WITH_STATE,
    TRACES_MAX,
    NumberedCircuit,
    TooManyNodes,
    assign_numbers,
    number_of,
    table_of,
)
from storage.keys import TABLE_FIRST, TABLE_MAX
from tests.engine.every_kind import every_kind


def test_the_tables_of_all_numbers_are_apart_and_within_the_bound() -> None:
    assert table_of(0) == TABLE_FIRST and table_of(NUMBERS_WITH_STATE - 1) + TRACES_MAX - 1 <= TABLE_MAX
    assert table_of(NUMBERS_WITH_STATE - 1) + 2 * TRACES_MAX - 1 > TABLE_MAX, "a number is given away"
    assert [number_of(table_of(3) + trace) for trace in (0, TRACES_MAX - 1, TRACES_MAX)] == [3, 3, 4]
    assert number_of(TABLE_FIRST - 1) is None
    with pytest.raises(AssertionError, match="names no table"):
        table_of(NUMBERS_WITH_STATE)


def test_nodes_get_the_lowest_numbers_of_their_kind_that_nobody_has() -> None:
    free = NUMBERS_WITH_STATE
    assert assign_numbers(4, {1, 3}, {}) == (free, 0, free + 1, 1)
    assert assign_numbers(4, {1, 3}, {1: 7, 0: free + 5}) == (free + 5, 7, free, 0)
    assert assign_numbers(3, {0, 1}, {1: 0}, taken={1, 2, free}) == (3, 0, free + 1)


def test_a_node_that_kept_a_number_of_the_other_kind_keeps_it() -> None:
    """In a state of a former release the index is the number, whether a node has state or not."""
    assert assign_numbers(3, {2}, {0: 0, 1: 1}) == (0, 1, 2)


def test_more_nodes_with_state_than_numbers_are_refused() -> None:
    count = NUMBERS_WITH_STATE
    assert max(assign_numbers(count, range(count), {})) == count - 1
    with pytest.raises(TooManyNodes, match="8190 nodes have state"):
        assign_numbers(count + 1, range(count + 1), {})
    with pytest.raises(TooManyNodes):
        assign_numbers(2, {0, 1}, {}, taken=range(count - 1))


@given(st.data())
def test_no_two_nodes_have_one_number(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, 30))
    with_state = data.draw(st.sets(st.integers(0, nodes - 1)))
    numbers = st.integers(0, 40) | st.integers(NUMBERS_WITH_STATE, NUMBERS_WITH_STATE + 40)
    used = data.draw(st.lists(numbers, unique=True, max_size=20))
    cut = data.draw(st.integers(0, min(len(used), nodes)))
    owners = [index for index in range(nodes) if index not in with_state or used[:cut]][:cut]
    kept = {
        index: number
        for index, number in zip(owners, used[:cut], strict=False)
        if index not in with_state or number < NUMBERS_WITH_STATE
    }
    taken = set(used[cut:])
    found = assign_numbers(nodes, with_state, kept, taken)
    assert len(set(found)) == nodes and kept.items() <= dict(enumerate(found)).items()
    assert not taken & {number for index, number in enumerate(found) if index not in kept}
    assert all(found[index] < NUMBERS_WITH_STATE for index in with_state)


def test_every_node_that_may_have_a_trace_has_a_number_that_names_tables() -> None:
    circuit = every_kind()
    numbers = numbers_of(circuit)
    outputs = [index for index, node in enumerate(circuit.nodes) if isinstance(node, Output)]
    assert outputs and all(numbers[index] < NUMBERS_WITH_STATE for index in outputs), "changes may be withheld"
    assert numbers != tuple(range(len(numbers))) and len(set(numbers)) == len(numbers)


def test_a_number_leads_to_the_node_and_an_unknown_one_to_none() -> None:
    plan = NumberedCircuit(every_kind(), numbers_of(every_kind()))
    for index, number in enumerate(plan.numbers):
        assert plan.index(number) == index
    assert plan.index(10**6) is None
    assert plan.indices([plan.numbers[2], 10**6]) == {2} and plan.numbers_of({2}) == {plan.numbers[2]}
