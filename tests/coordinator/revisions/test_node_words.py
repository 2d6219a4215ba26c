"""Nodes of every kind in words."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from coordinator.revisions.document import PlanDocument
from coordinator.revisions.node_words import TEXT_MAX, NodeWords, conjuncts, difference, shorten
from engine.model.circuit import Circuit, Node
from engine.model.joins import Join
from engine.model.node import Expression
from engine.model.rows import Map, PythonMap, Source
from tests.engine.every_kind import every_kind

TYPES = (pa.int64(), pa.string())


def words(*nodes: Node) -> NodeWords:
    circuit = Circuit(nodes)
    return NodeWords(PlanDocument(circuit=circuit, numbers=tuple(range(len(nodes))), inputs=(), outputs=()))


EVERY = words(*every_kind().nodes)


def test_every_kind_of_node_has_a_title_and_does_not_differ_from_itself() -> None:
    for index, node in enumerate(EVERY.document.circuit.nodes):
        assert EVERY.title(index) and "\n" not in EVERY.title(index), node
        assert EVERY.kind(index) != node.kind, f"{node.kind} is not in words"
        assert difference(EVERY, index, EVERY, index) == "", node


def test_the_keys_of_a_join_are_columns_of_its_sides() -> None:
    left, right = Source((), TYPES, "left"), Source((), TYPES, "right")
    columns = tuple(Expression(f"c{place}", kind, place) for place, kind in enumerate(TYPES))
    doubled = Map((1,), TYPES, None, (Expression("(c0 * 2)", pa.int64()), columns[1]))
    joined = Join((0, 2), TYPES + TYPES, (1,), (0,), (False,), Expression("(c1 < c3)", pa.bool_()))
    assert words(left, right, doubled, joined).title(3) == "join on c1 = (c0 * 2) if (c1 < c3)"


def test_a_filter_a_column_and_a_function_that_differ_are_told() -> None:
    source = Source((), TYPES, "in")
    columns = tuple(Expression(f"c{place}", kind, place) for place, kind in enumerate(TYPES))
    filtered = Map((0,), TYPES, Expression("(c0 > CAST(60 AS INTEGER))", pa.bool_()), columns)
    higher = replace(filtered, predicate=Expression("(c0 > CAST(90 AS INTEGER))", pa.bool_()))
    was, now = words(source, filtered), words(source, higher)
    assert difference(was, 1, now, 1) == "the filter was c0 > 60, and is c0 > 90 now"
    bare = words(source, replace(filtered, predicate=None))
    assert difference(was, 1, bare, 1) == "the filter c0 > 60: left out now"
    wider = words(source, replace(filtered, projections=(*columns, Expression("c0 + 1", pa.int64()))))
    assert difference(was, 1, wider, 1) == "the column c0 + 1: new here"
    assert difference(wider, 1, was, 1) == "the column c0 + 1: left out now"
    twice = words(
        source,
        replace(
            filtered, predicate=None, projections=(*columns, *(Expression(f"c0 + {i}", pa.int64()) for i in (1, 2)))
        ),
    )
    assert difference(bare, 1, twice, 1) == "the columns c0 + 1, c0 + 2: new here"


def test_another_function_is_told_with_its_place() -> None:
    index, node = next((i, n) for i, n in enumerate(EVERY.document.circuit.nodes) if isinstance(n, PythonMap))
    (first, *others) = node.calls
    function = replace(first.functions[0], digest="another", name="f", place="views.py:7")
    nodes = list(EVERY.document.circuit.nodes)
    nodes[index] = replace(node, calls=(replace(first, functions=(function,)), *others))
    told = difference(EVERY, index, words(*nodes), index)
    assert told == "the function f (views.py:7) is another one now"


def test_of_a_long_filter_the_conditions_that_differ_are_told() -> None:
    source = Source((), TYPES, "in")
    columns = tuple(Expression(f"c{place}", kind, place) for place, kind in enumerate(TYPES))

    def filtering(sql: str) -> NodeWords:
        return words(source, Map((0,), TYPES, Expression(sql, pa.bool_()), columns))

    was = filtering("(((c0 IS NOT NULL) AND (c1 = 'a AND b')) AND (c0 < (DATE '1970-01-01' + 9204)))")
    now = filtering("(((c0 IS NOT NULL) AND (c1 = 'a AND b')) AND (c0 < (DATE '1970-01-01' + 9205)))")
    more = filtering(
        "((c0 IS NOT NULL) AND (c1 = 'a AND b')) AND (c0 < (DATE '1970-01-01' + 9204)) AND ((c0 > 1) OR (c0 < 0))"
    )
    fewer = filtering("((c1 = 'a AND b') AND (c0 < (DATE '1970-01-01' + 9204)))")
    assert difference(was, 1, now, 1) == "the filter was c0 < DATE '1995-03-15', and is c0 < DATE '1995-03-16' now"
    assert difference(was, 1, more, 1) == "the filter (c0 > 1) OR (c0 < 0): new here"
    assert difference(was, 1, fewer, 1) == "the filter c0 IS NOT NULL: left out now"
    assert conjuncts("a AND (b") == ["a", "(b"] and conjuncts("'a AND b") == ["'a AND b"]


def test_long_texts_are_shortened_and_constants_have_no_types() -> None:
    assert (
        shorten("spark_upper(CAST('a''b' AS VARCHAR)) = c1 AND c0 > CAST(-1.50 AS DECIMAL(3,2))")
        == "upper('a''b') = c1 AND c0 > -1.50"
    )
    assert len(shorten("x" * 1_000)) == TEXT_MAX
