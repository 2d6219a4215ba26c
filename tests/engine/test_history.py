"""Where young nodes get their history from: a new view is put over every kind of node, and over what cannot be read again."""

from __future__ import annotations

from functools import cache

import pytest

from engine.analysis.history import (
    Feed,
    NoHistory,
    Recomputed,
    Reread,
    Take,
    Twin,
    Young,
    content_now,
    histories,
    leaves_of,
    twins_of,
)
from engine.analysis.identity import Named, SourceIdentity
from engine.analysis.project_match import ProjectMatch, match_projects
from engine.model.circuit import Circuit, Node, Output, View
from engine.model.clock import ClockValue
from engine.model.event_time import LatestTime, Watermark
from engine.model.rows import ScalarValue, Source
from tests.engine.every_kind import every_kind

CIRCUIT = every_kind()
TELLS = (ScalarValue, ClockValue, LatestTime, Watermark, Output)
READ = [
    index
    for index, node in enumerate(CIRCUIT.nodes)
    if not isinstance(node, TELLS) and not (isinstance(node, Source) and node.keyed)
]
STORED = {node.inputs[0] for node in CIRCUIT.nodes if isinstance(node, View) and node.stored}

EXPECTED: dict[str, type[Take]] = {
    **dict.fromkeys(
        ("LastByKey", "Distinct", "Deduplicate", "Aggregate", "FinalAggregate", "Window", "Sessions"), Feed
    ),
    **dict.fromkeys(("Join", "ScalarMap", "TemporalFilter"), Feed),
    **dict.fromkeys(("Map", "PythonMap", "Union", "Generate", "Replicate", "PartialAggregate", "Constant"), Recomputed),
    **dict.fromkeys(("OuterJoin", "JoinPartials", "Recursion"), Twin),
    **dict.fromkeys(("ClosingAggregate", "ClosingSessions", "TimedDeduplicate", "TimedJoin"), Twin),
    "Source": Reread,
}
"""What is taken over a node of each kind, unless a view over it stores its content. SemiJoin, TopK and View depend on more."""


def named(circuit: Circuit) -> Named:
    leaves = {
        node.handle: SourceIdentity(f"topic {node.handle}", tuple(f"c{i} {kind}" for i, kind in enumerate(node.types)))
        for node in circuit.nodes
        if isinstance(node, Source)
    }
    return Named(circuit, leaves, {node.handle: node.handle for node in circuit.nodes if isinstance(node, Output)}, {})


def view_over(below: int, name: str, nodes: tuple[Node, ...] = CIRCUIT.nodes) -> View:
    types = nodes[below].types
    return View((below,), types, name, tuple(f"n{i}" for i in range(len(types))), kept=True)


@cache
def with_views() -> ProjectMatch:
    views = (view_over(index, f"over {index}") for index in READ)
    return match_projects(named(CIRCUIT), named(Circuit((*CIRCUIT.nodes, *views))))


@cache
def taken(*unreadable: tuple[str, str]) -> dict[int, Take]:
    """What each of the new views takes, by what it reads."""
    made = histories(with_views(), dict(unreadable), ())
    return {index: made.of[len(CIRCUIT.nodes) + place][0] for place, index in enumerate(READ)}


def expected(index: int, node: Node) -> type[Take]:
    if index in STORED:
        return Feed
    match node:
        case View():
            return Feed if node.stored else Recomputed
        case _ if node.kind == "SemiJoin":
            return Twin if node.anti else Feed
        case _ if node.kind == "TopK":
            return Twin if node.count is None else Feed
        case _:
            return EXPECTED[node.kind]


def test_a_new_view_over_a_node_of_every_kind_has_a_history() -> None:
    for index in READ:
        take = taken()[index]
        assert isinstance(take, expected(index, CIRCUIT.nodes[index])), (index, CIRCUIT.nodes[index].kind, take)
        if isinstance(take, Feed):
            holder = CIRCUIT.nodes[take.holder]
            assert take.holder == index or (isinstance(holder, View) and holder.inputs == (index,) and holder.stored)


def test_without_its_messages_a_node_has_a_history_only_if_state_has_it() -> None:
    """The reason is that of every source which would have to be read again."""
    unreadable = {node.handle: f"{node.handle} expired" for node in CIRCUIT.nodes if isinstance(node, Source)}
    for index in READ:
        needs = {leaf.handle for leaf in leaves_of([taken()[index]]) if isinstance(leaf, Reread)}
        take = taken(*unreadable.items())[index]
        assert isinstance(take, NoHistory) == bool(needs), (index, take)
        if isinstance(take, NoHistory):
            assert set(take.reasons) == {(handle, f"{handle} expired") for handle in needs}


def test_a_node_that_is_filled_once_more_stands_over_what_it_reads() -> None:
    twins = {CIRCUIT.nodes[twin.node].kind for index in READ for twin in twins_of([taken()[index]])}
    assert twins >= {"OuterJoin", "SemiJoin", "TimedJoin", "Watermark"}


def test_a_view_over_a_new_one_is_filled_from_it() -> None:
    first = (*CIRCUIT.nodes, view_over(READ[0], "first"))
    second = view_over(len(first) - 1, "second", first)
    found = match_projects(named(CIRCUIT), named(Circuit((*first, second))))
    assert histories(found, {}, ()).of[len(first)] == (Young(len(first) - 1),)


def test_nothing_is_filled_where_nothing_is_young() -> None:
    found = match_projects(named(CIRCUIT), named(CIRCUIT))
    assert not histories(found, {}, ()).of


def test_an_output_with_a_new_topic_needs_the_content_of_its_view() -> None:
    """The view is kept, and a consumer of the new topic begins with nothing."""
    index = next(i for i, node in enumerate(CIRCUIT.nodes) if isinstance(node, Output))
    found = match_projects(named(CIRCUIT), named(CIRCUIT))
    assert histories(found, {}, (index,)).of.keys() == {index}


def test_the_old_content_of_a_view_is_in_its_state_if_it_is_kept() -> None:
    found = match_projects(named(CIRCUIT), named(CIRCUIT))
    for index, node in enumerate(CIRCUIT.nodes):
        if isinstance(node, View) and node.stored:
            assert content_now(found.previous.circuit, index, {}) == Feed(index, index)


def test_a_history_that_is_missing_is_noticed() -> None:
    found = with_views()
    made = histories(found, {}, ())
    broken = {index: (Young(takes[0].node),) for index, takes in made.of.items()}
    with pytest.raises(AssertionError):
        type(made)(broken).check(found)
