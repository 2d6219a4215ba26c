"""Errors name the user's columns where a column of the circuit is one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.analysis.column_names import input_names, output_names, with_names
from engine.model.aggregates import Aggregate, AggregateCall
from engine.model.circuit import Circuit, Node, View
from engine.model.joins import Join
from engine.model.node import Expression
from engine.model.rows import LastByKey, Map, Source
from engine.operators.names import EXPRESSION_MAX

INT, TEXT = pa.int64(), pa.string()
SOURCES = {"orders": ("id", "amount", "parts"), "people": ("id", "na me")}
NODES: tuple[Node, ...] = (
    Source((), (INT, INT, INT), "orders"),
    Source((), (INT, TEXT, pa.bool_(), pa.int32(), INT), "people", keyed=True),
    LastByKey((1,), (INT, TEXT), "people", (0,)),
    Map((0,), (INT, INT, INT), None, (Expression("c2", INT, 2), Expression("c0 + 1", INT), Expression("c1", INT, 1))),
    Join((3, 2), (INT, INT, INT, INT, TEXT), (1,), (0,), (False,)),
    Aggregate((4,), (TEXT, INT), (4,), (AggregateCall("sum", 0, False, INT),)),
    Map((5,), (INT,), None, (Expression("c1 // c0", INT),)),
    View((5,), (TEXT, INT), "totals", ("who", "total"), False),
    Map((7,), (INT,), None, (Expression("1 // c1", INT),)),
)


@pytest.mark.parametrize(
    ("node", "names"),
    [
        (3, ("id", "amount", "parts")),
        (2, ("id", "na me", None, None, None)),
        (4, ("parts", None, "amount", "id", "na me")),
        (5, ("parts", None, "amount", "id", "na me")),
        (6, ("na me", None)),
        (8, ("who", "total")),
    ],
)
def test_a_column_keeps_its_name_until_something_is_computed(node: int, names: tuple[str | None, ...]) -> None:
    assert input_names(Circuit(NODES), SOURCES, node) == names


@pytest.mark.parametrize(
    ("text", "names", "shown"),
    [
        (
            "[DIVIDE_BY_ZERO] Division by zero (expression c0 // c1 with c0 = 3, c1 = 0) Correct the row.",
            ("a", "b"),
            "[DIVIDE_BY_ZERO] Division by zero (expression a // b with a = 3, b = 0) Correct the row.",
        ),
        (
            "no c0 (expression f(c0, 'c1', c10) with c0 = 'c1', c10 = 'x, c1 = 5')",
            ("a", "b"),
            "no c0 (expression f(a, 'c1', c10) with a = 'c1', c10 = 'x, b = 5')",  # the rest of a text may look like a column
        ),
        ("[X] y (expression c0 + c1 with c0 = 1, c1 = 2)", ("a", None), "[X] y (expression a + c1 with a = 1, c1 = 2)"),
        ("[X] y (expression 1 // 0)", ("a",), "[X] y (expression 1 // 0)"),
        ("c0 is no column here", ("a",), "c0 is no column here"),
    ],
)
def test_names_stand_in_the_part_that_shows_the_expression(
    text: str, names: tuple[str | None, ...], shown: str
) -> None:
    assert with_names(text, names) == shown


def test_what_is_computed_has_a_name_where_people_ask_for_one() -> None:
    doubled, long = Expression("(c0 * 2)", INT), Expression(f"concat(c1, '{'x' * EXPRESSION_MAX}')", TEXT)
    calls = AggregateCall("count", None, False, INT), AggregateCall("sum", 0, True, INT)
    circuit = Circuit(
        (
            Source((), (INT, TEXT), "in"),
            Map((0,), (INT, TEXT), None, (doubled, long)),
            Aggregate((1,), (TEXT, INT, INT), (1,), calls),
        )
    )
    sources = {"in": ("n", "word")}
    called = [("n", "word"), ("(n * 2)", None), (None, "count(*)", "sum(DISTINCT (n * 2))")]
    assert output_names(circuit, sources, computed=True) == called
    assert output_names(circuit, sources, computed=False) == [("n", "word"), (None, None), (None, None, None)]
