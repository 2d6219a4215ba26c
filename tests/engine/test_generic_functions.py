"""Functions that take any type are named by their types and constants, and are known to DuckDB when an expression names them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.expressions.evaluate import ExpressionError, evaluate
from engine.expressions.generic import Signature, function_name, functions_named
from engine.model.node import Expression

TEXT = pa.string()
MOMENT = pa.timestamp("us", "UTC")
NESTED = pa.map_(
    TEXT, pa.list_(pa.field("element", pa.struct([pa.field('A "b"^', pa.decimal128(5, 2)), pa.field("t", MOMENT)])))
)


@pytest.mark.parametrize(
    "type_", [TEXT, pa.int8(), pa.duration("us"), pa.date32(), pa.decimal128(38, 38), MOMENT, NESTED], ids=str
)
def test_a_name_says_the_types_and_the_constants(type_: pa.DataType) -> None:
    constants = {"Fail": True, "names": ["a", "A", "^", 'x"y', "é😀"], "none": None}
    name = function_name("from_json", [TEXT, type_], type_, constants)
    ((_, signature),) = functions_named(f"SELECT {name}(c0, {name}(c1, c2)), 'spark:other'")
    assert signature == Signature("from_json", (TEXT, type_), type_, constants)


def test_names_that_differ_in_case_alone_are_other_functions() -> None:
    """To DuckDB, `a` and `A` are one name."""
    small, large = (pa.struct([pa.field(name, pa.int32())]) for name in ("a", "A"))
    constants = {"fail": False, "corrupt": None}
    outputs = tuple(
        Expression(f"{function_name('from_json', [TEXT], kind, constants)}(c0)", kind) for kind in (small, large)
    )
    rows = pa.table({"c0": ['{"a":1,"A":2}', "x", None]})
    found = evaluate(None, outputs, rows)
    assert found.column(0).to_pylist() == [{"a": 1}, {"a": None}, None]
    assert found.column(1).to_pylist() == [{"A": 2}, {"A": None}, None]


def test_a_value_of_any_type_passes_a_generic_function_unchanged() -> None:
    lists = pa.list_(pa.field("element", MOMENT))
    rows = pa.table({"c0": pa.array([[5, None, 5], None, []], pa.list_(pa.int64())).cast(lists)})
    call = f"{function_name('array_distinct', [lists], lists)}(c0)"
    found = evaluate(None, (Expression(call, lists),), rows).column(0)
    assert found.type == lists
    assert found.cast(pa.list_(pa.int64())).to_pylist() == [[5, None], None, []]


def test_a_generic_function_is_guarded_by_a_case_around_it() -> None:
    kind = pa.struct([pa.field("a", pa.int32())])
    call = f"{function_name('from_json', [TEXT], kind, {'fail': True, 'corrupt': None})}(c0)"
    rows = pa.table({"c0": ['{"a":1}', "x"], "c1": [True, False]})
    guarded = evaluate(None, (Expression(f"CASE WHEN c1 THEN {call} END", kind),), rows)
    assert guarded.column(0).to_pylist() == [{"a": 1}, None]
    with pytest.raises(ExpressionError, match="malformed JSON: 'x'") as raised:
        evaluate(None, (Expression(call, kind),), rows)
    assert raised.value.error_class.startswith("MALFORMED_RECORD_IN_PARSING")


def test_an_error_names_the_function_as_users_do() -> None:
    name = function_name("sequence_of_times", [MOMENT, MOMENT, pa.duration("us")], pa.list_(MOMENT))
    rows = pa.table({"c0": pa.array([5], MOMENT), "c1": pa.array([9], MOMENT), "c2": pa.array([-1], pa.duration("us"))})
    with pytest.raises(ExpressionError, match=r"\(expression sequence\(c0, c1, c2\) with c0 = ") as raised:
        evaluate(None, (Expression(f"{name}(c0, c1, c2)", pa.list_(MOMENT)),), rows)
    assert raised.value.error_class == "INVALID_SEQUENCE"


def test_maps_keep_the_order_of_their_entries() -> None:
    kind = pa.map_(TEXT, MOMENT)
    rows = pa.table({"c0": pa.array([[("b", 1), ("a", None)], None, []], pa.map_(TEXT, pa.int64())).cast(kind)})
    found = evaluate(
        None,
        (
            Expression("CASE WHEN TRUE THEN c0 END", kind),
            Expression("map_keys(c0)", pa.list_(pa.field("element", TEXT))),
        ),
        rows,
    )
    assert found.column(0).to_pylist() == rows.column(0).to_pylist()
    assert found.column(1).to_pylist() == [["b", "a"], None, []]
