"""Identities of nodes: what they depend on beside the query, which tests/stepwell/test_transition.py edits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from engine.analysis.identity import Named, SourceIdentity, identify, known_sources, pair_nodes
from engine.analysis.release import implementation_versions_of
from engine.model.circuit import Circuit, Node, Output, View
from engine.model.node import Expression
from engine.model.python_call import PythonCall, PythonFunction
from engine.model.rows import Distinct, Map, PythonMap, Source

TEXTS = (pa.string(),)
LEAF = SourceIdentity("topic a", ("name STRING",))


def upper(sql: str = "spark_upper(c0)") -> Map:
    return Map((0,), TEXTS, None, (Expression(sql, pa.string()),))


def project(below: Node, *views: str) -> Named:
    """A source, a node, its distinct rows, and views of these."""
    nodes: list[Node] = [Source((), TEXTS, "in"), below, Distinct((1,), below.types)]
    nodes += [
        View((2,), below.types, name, ("name", "more")[: len(below.types)], kept=True) for name in views or ("v",)
    ]
    circuit = Circuit(tuple(nodes))
    return Named(circuit, {"in": LEAF}, {}, implementation_versions_of(circuit))


def kept_nodes(before: Named, after: Named) -> list[int]:
    was = identify(before)
    return sorted(pair_nodes(was, identify(after, was)))


def test_a_function_with_other_results_is_another_function() -> None:
    """The implementation versions are those of the release that has made the state."""
    corrected = {"function spark_upper": 1}
    assert kept_nodes(project(upper()), replace(project(upper()), made_with=corrected)) == [0]
    assert kept_nodes(*[replace(project(upper()), made_with=corrected)] * 2) == [0, 1, 2, 3]
    lower = project(upper("spark_lower(c0)"))
    assert kept_nodes(lower, replace(lower, made_with=corrected)) == [0, 1, 2, 3]


def test_a_name_in_a_text_is_no_function_and_no_column(monkeypatch: pytest.MonkeyPatch) -> None:
    quoted = project(upper("concat('c0 ''c7', c0)"))
    assert kept_nodes(quoted, project(upper("concat('c0 ''c8', c0)"))) == [0]
    assert kept_nodes(quoted, quoted) == [0, 1, 2, 3]


def test_an_operator_with_other_results_is_another_operator() -> None:
    assert kept_nodes(project(upper()), replace(project(upper()), made_with={"operator Distinct": 2})) == [0, 1]


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        (lambda f: replace(f, name="g", place="other.py:9", pickled=b"2"), [0, 1, 2, 3]),
        (lambda f: replace(f, digest="other"), [0]),
    ],
)
def test_a_function_in_python_is_known_by_its_digest(
    changed: Callable[[PythonFunction], PythonFunction], same: list[int]
) -> None:
    function = PythonFunction("digest", "f", "views.py:3", b"1")

    def calling(called: PythonFunction) -> Named:
        call = PythonCall((called,), "row", (0,), (), pa.string(), ())
        return project(PythonMap((0,), (*TEXTS, *TEXTS), (call,)))

    assert kept_nodes(calling(function), calling(changed(function))) == same


@pytest.mark.parametrize(
    ("before", "after", "views"),
    [
        (("a",), ("b",), {"b": "a"}),
        (("a",), ("a", "b"), {"a": "a", "b": "b"}),
        (("a", "b"), ("b", "c"), {"b": "b", "c": "a"}),
        (("a", "b"), ("c", "d"), {"c": "a", "d": "b"}),
    ],
)
def test_views_are_paired_by_name_and_then_by_definition(
    before: tuple[str, ...], after: tuple[str, ...], views: dict[str, str]
) -> None:
    """All have one definition, and each has content of its own: no two views now are paired with one."""
    was = identify(project(upper(), *before))
    now = identify(project(upper(), *after), was)
    assert now.leaves == views
    pairs = pair_nodes(was, now)
    assert len(set(pairs.values())) == len(pairs) == 3 + len(set(views.values()) & set(before))


@pytest.mark.parametrize(
    ("before", "after", "views"),
    [
        ({"a": "ta", "b": "tb"}, {"c": "tb"}, {"c": "b"}),
        ({"a": "ta", "b": "tb"}, {"c": "tb", "d": "ta"}, {"c": "b", "d": "a"}),
        ({"a": "ta", "b": "tb"}, {"c": "other", "d": "ta"}, {"c": "b", "d": "a"}),  # c goes on with a topic that nobody writes any more
        ({"a": "ta"}, {"c": "other", "d": "ta"}, {"c": "c", "d": "a"}),
        ({"a": "ta"}, {"c": "other"}, {"c": "a"}),
        ({"a": "", "b": "tb"}, {"c": "", "d": "tb"}, {"c": "a", "d": "b"}),
        ({"a": "ta", "b": "tb"}, {"a": "tb"}, {"a": "a"}),
    ],
)  # fmt: skip
def test_of_views_of_one_definition_the_topic_tells_which_was_renamed(
    before: dict[str, str], after: dict[str, str], views: dict[str, str]
) -> None:
    """`before`, `after`: the topic of each view; empty if it has no output."""
    was = identify(with_topics(before))
    assert identify(with_topics(after), was).leaves == views


def with_topics(topics: dict[str, str]) -> Named:
    named = project(upper(), *topics)
    nodes = named.circuit.nodes
    views = {node.name: index for index, node in enumerate(nodes) if isinstance(node, View)}
    outputs = [Output((views[name],), (), name, "changelog", ("name",)) for name, topic in topics.items() if topic]
    return replace(named, circuit=Circuit((*nodes, *outputs)), topics=topics)


def test_a_view_of_another_definition_is_not_taken_for_a_renamed_one() -> None:
    was = identify(project(upper(), "a"))
    assert identify(project(upper("spark_lower(c0)"), "b"), was).leaves == {"b": "b"}


def test_two_sources_of_one_topic_have_one_state_each() -> None:
    nodes: list[Node] = []
    for handle in ("x", "y"):
        at = len(nodes)
        nodes += [Source((), TEXTS, handle), Distinct((at,), TEXTS), View((at + 1,), TEXTS, handle, ("n",), kept=True)]
    twice = Named(Circuit(tuple(nodes)), {"x": LEAF, "y": LEAF}, {}, {})
    was = identify(twice)
    assert pair_nodes(was, identify(twice, was)) == {index: index for index in range(6)}
    y_alone = Named(
        Circuit((nodes[3], replace(nodes[4], inputs=(0,)), replace(nodes[5], inputs=(1,)))), {"y": LEAF}, {}, {}
    )
    assert pair_nodes(was, identify(y_alone, was)) == {0: 3, 1: 4, 2: 5}


def test_two_equal_nodes_have_one_state_each() -> None:
    nodes: list[Node] = [Source((), TEXTS, "in"), Distinct((0,), TEXTS), Distinct((0,), TEXTS)]
    nodes += [View((at,), TEXTS, f"v{at}", ("n",), kept=True) for at in (1, 2)]
    twice = Named(Circuit(tuple(nodes)), {"in": LEAF}, {}, {})
    was = identify(twice)
    assert was.nodes[1] == was.nodes[2]
    assert pair_nodes(was, identify(twice, was)) == {index: index for index in range(5)}


ONE, OTHER = SourceIdentity("topic a", ("n INT",), "skip"), SourceIdentity("topic a", ("n STRING",), "skip")
WIDER, OF_B = replace(OTHER, columns=("n STRING", "m STRING")), replace(ONE, text="topic b")


@pytest.mark.parametrize(
    ("before", "after", "known"),
    [
        ({"x": ONE, "y": OTHER}, {"x": ONE, "y": OTHER}, {"x": "x", "y": "y"}),
        ({"x": ONE, "y": OTHER}, {"x": OTHER, "y": ONE}, {"x": "x", "y": "y"}),  # both have other columns now
        ({"x": ONE}, {"x": OF_B}, {}),
        ({"x": ONE}, {"z": WIDER}, {"z": "x"}),
        ({"x": ONE, "y": OTHER}, {"z": ONE, "a": OTHER}, {"z": "x", "a": "y"}),
        ({"x": ONE, "y": OTHER}, {"z": WIDER, "a": ONE}, {"z": "y", "a": "x"}),
        ({"x": ONE, "y": OTHER}, {"z": WIDER}, {}),  # it may be each of the two
        ({"x": ONE, "y": replace(ONE, policies="fail")}, {"a": replace(ONE, policies="fail")}, {"a": "y"}),
        ({"x": ONE, "y": ONE}, {"a": ONE, "b": ONE}, {}),
        ({"x": ONE}, {"x": ONE, "a": ONE}, {"x": "x"}),
    ],
)
def test_a_renamed_source_is_known_if_there_is_no_doubt(
    before: dict[str, SourceIdentity], after: dict[str, SourceIdentity], known: dict[str, str]
) -> None:
    assert known_sources(after, before) == known
