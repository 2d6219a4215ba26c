"""Functions in Python over the columns of a table: results, and errors that name the row. What Spark gives is compared in tests/stepwell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import date, timedelta
from io import UnsupportedOperation
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.model.python_call import OF_SERIES, PythonForm
from engine.model.rows import PythonMap
from engine.operators.error_rows import ErrorRows
from engine.operators.python_map import _map, step_python_map
from engine.python import calls
from engine.python.calls import results
from engine.python.errors import FunctionError, FunctionUnusable
from engine.rows import zset
from engine.state.store import DictStore
from tests.engine.contexts import context_of
from tests.engine.python_calls import python_call

LONG, TEXT = pa.int64(), pa.string()
ROWS = pa.table({"c0": pa.array([1, 2, None, 4, 5], LONG), "c1": pa.array(["a", "b", None, "d", "e"], TEXT)})


def text_of_row(number: Any, word: Any) -> Any:
    if number == 4:
        raise ValueError(f"{word} is four")
    return f"{number} {word}"


def of_pandas(numbers: pd.Series, words: pd.Series) -> pd.Series:
    if 4 in set(numbers.dropna()):
        raise ValueError("d is four")
    return words


def of_pandas_batches(batches: Iterator[Any]) -> Iterator[Any]:
    return (of_pandas(*batch) for batch in batches)


def of_arrow(numbers: pa.Array, words: pa.Array) -> pa.Array:
    if pc.any(pc.equal(numbers, 4)).as_py():
        raise ValueError("d is four")
    return words


def of_arrow_batches(batches: Iterator[Any]) -> Iterator[Any]:
    return (of_arrow(*batch) for batch in batches)


FORMS: dict[PythonForm, Any] = {
    "pickled row": text_of_row,
    "row": text_of_row,
    "pandas": of_pandas,
    "pandas iterator": of_pandas_batches,
    "arrow": of_arrow,
    "arrow iterator": of_arrow_batches,
}


@pytest.mark.parametrize("form", FORMS)
def test_an_error_names_the_first_row_on_which_the_function_fails(form: PythonForm) -> None:
    call = python_call(form, FORMS[form], TEXT, 0, 1)
    assert results(call, ROWS.slice(0, 3)).type == TEXT
    with pytest.raises(FunctionError) as raised:
        results(call, ROWS)
    error = raised.value
    assert error.function == FORMS[form].__name__ and error.raised == "ValueError"
    assert "raised ValueError: d is four (at " in error.message and "for the arguments (4, 'd')" in error.message


def of_group(numbers: Any, words: Any) -> Any:
    if "d" in words.to_pylist():
        raise ValueError("d is here")
    return len(numbers)


def test_a_function_of_a_group_names_the_group_that_fails() -> None:
    rows = pa.struct([pa.field("_0", LONG), pa.field("_1", TEXT)])
    groups = [[{"_0": 1, "_1": "a"}, {"_0": None, "_1": "b"}], [{"_0": 4, "_1": "d"}], [{"_0": 5, "_1": "e"}]]
    table = pa.table({"c0": pa.array(groups, pa.list_(pa.field("element", rows)))})
    call = python_call("arrow group", of_group, LONG, 0)
    assert results(call, table.slice(0, 1)).to_pylist() == [2]
    with pytest.raises(
        FunctionError, match=r"raised ValueError: d is here \(at .*\) for the group \[\{'_0': 4, '_1': 'd'\}\]"
    ):
        results(call, table)


def test_a_result_stands_in_its_row_whatever_the_batches_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "BATCH_ROWS_MAX", 2)
    for form, function in FORMS.items():
        rows = pa.concat_tables([ROWS.slice(0, 2), ROWS.slice(4, 1)])
        found = results(python_call(form, function, TEXT, 0, 1), rows).to_pylist()
        assert found == (["1 a", "2 b", "5 e"] if function is text_of_row else ["a", "b", "e"]), form


def test_the_other_rows_of_a_batch_decide_nothing() -> None:
    call = python_call("row", lambda number: number == 1 or (None if number is None else 0), pa.bool_(), 0)
    assert results(call, ROWS).to_pylist() == [True, False, None, False, False]


def text_of_series(*columns: Any) -> pd.Series:
    """Shows of each row what pandas objects say of it."""
    rows = zip(
        *(column.to_dict("records") if isinstance(column, pd.DataFrame) else column for column in columns), strict=True
    )
    return pd.Series([repr(row) for row in rows], dtype=object)


def text_of_batches(batches: Iterator[Any]) -> Iterator[pd.Series]:
    return (text_of_series(*batch) if isinstance(batch, tuple) else text_of_series(batch) for batch in batches)


INNER = pa.struct([pa.field("n", pa.int32()), pa.field("b", pa.bool_())])
SERIES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integers": (LONG, [7, None, 2**53 + 1]),
    "booleans": (pa.bool_(), [True, None, False]),
    "doubles": (pa.float64(), [1.5, None, 0.0]),
    "texts": (TEXT, ["a", None, ""]),
    "structs": (INNER, [{"n": 1, "b": None}, {"n": None, "b": True}, {"n": 2, "b": False}, None]),
    "lists": (pa.list_(pa.int16()), [[1, 2], [3, None], None, [], [4]]),
    "lists of structs": (pa.list_(INNER), [[{"n": 1, "b": True}], [{"n": None, "b": True}], None, [None], []]),
    "maps": (pa.map_(TEXT, LONG), [[("a", 1)], [("a", None)], None, []]),
}


@pytest.mark.parametrize("form", sorted(OF_SERIES))
@pytest.mark.parametrize("kind", SERIES)
def test_a_function_over_series_sees_of_a_row_what_it_would_see_of_the_row_alone(kind: str, form: PythonForm) -> None:
    type_, values = SERIES[kind]
    cells = [(value, number) for value in values for number in (1, None)]
    table = pa.table(
        [pa.array([value for value, _ in cells], type_), pa.array([n for _, n in cells], LONG)], ["c0", "c1"]
    )
    call = python_call(form, text_of_series if form == "pandas" else text_of_batches, TEXT, 0, 1)
    alone = [results(call, table.slice(row, 1)).to_pylist()[0] for row in range(len(cells))]
    assert results(call, table).to_pylist() == alone
    assert results(call, table.slice(1, len(cells) - 2)).to_pylist() == alone[1:-1]


def test_rows_keep_their_columns_and_weights() -> None:
    call = python_call(
        "row", lambda more, number: None if number is None else number + more, LONG, 0, 0, keywords=("number",)
    )
    node = PythonMap((0,), (LONG, TEXT, LONG), (call,))
    found = _map(node, zset.build(ROWS.columns, pa.array([1, -1, 2, -3, 1]).to_numpy()))
    assert found.column("c2").to_pylist() == [2, 4, None, 8, 10]
    assert zset.weights_of(found).tolist() == [1, -1, 2, -3, 1]
    assert found.select(["c0", "c1"]).equals(ROWS)
    assert _map(node, zset.empty((LONG, TEXT))).equals(zset.empty(node.types))


BAD: list[tuple[PythonForm, Any, pa.DataType, str]] = [
    ("pickled row", lambda x: (1, 2), TEXT, "returned a tuple for STRING"),
    ("row", lambda x: "text", LONG, "gave a result that is not of its type.*for the arguments"),
    ("pandas", lambda s: s[:1], LONG, "RESULT_ROWS_MISMATCH"),
    ("pandas", lambda s: 1, LONG, "UDF_RETURN_TYPE"),
    ("pandas iterator", lambda batches: iter([next(batches) for _ in range(3)]), LONG, "StopIteration"),
    ("arrow", lambda a: a.slice(1), LONG, "RESULT_ROWS_MISMATCH"),
    ("row", lambda x: sys.exit("over"), LONG, "raised SystemExit: over"),
    ("pickled row", lambda x: next(iter(())), LONG, r"raised StopIteration \(at .*Correct the row"),
    ("row", lambda x: next(iter(())), LONG, r"raised StopIteration \(at .*Correct the row"),
]


@pytest.mark.parametrize(("form", "function", "type_", "says"), BAD)
def test_a_result_that_spark_refuses_is_an_error_of_the_function(
    form: PythonForm, function: Any, type_: pa.DataType, says: str
) -> None:
    with pytest.raises(FunctionError, match=says):
        results(python_call(form, function, type_, 0), ROWS)


def test_a_module_that_a_worker_lacks_is_named() -> None:
    def function(x: int) -> int:
        import module_of_nobody  # type: ignore[import-not-found]

        return int(module_of_nobody.value)

    with pytest.raises(FunctionError, match=r"needs the module module_of_nobody.*Install it on every host"):
        results(python_call("row", function, LONG, 0), ROWS)


@pytest.mark.parametrize("form", FORMS)
def test_rows_on_which_a_function_fails_are_left_out_and_counted(form: PythonForm) -> None:
    node = PythonMap((0,), (LONG, TEXT, TEXT), (python_call(form, FORMS[form], TEXT, 0, 1),))
    rows = zset.build(ROWS.columns, np.array([1, 1, 1, 3, 1]))
    context = context_of(node, DictStore(), errors=ErrorRows())
    found = step_python_map(node, [rows], context)
    assert found.column("c0").to_pylist() == [1, 2, None, 5]
    assert context.errors is not None and context.errors.rows == 3 and "d is four" in context.errors.example
    step_python_map(node, [zset.negate(rows)], context)
    assert context.errors.is_nothing


@pytest.mark.parametrize(
    ("type_", "result"),
    [
        (LONG, [1]),
        (LONG, {"a": 1}),
        (pa.float64(), [1.0]),
        (pa.float64(), date(2024, 1, 1)),
        (pa.float64(), timedelta(1)),
        (pa.bool_(), date(2024, 1, 1)),
    ],
)
def test_a_result_that_has_no_conversion_leaves_out_its_row_alone(type_: pa.DataType, result: Any) -> None:
    def function(number: Any) -> Any:
        return result if number == 2 else None

    node = PythonMap((0,), (LONG, TEXT, type_), (python_call("row", function, type_, 0),))
    context = context_of(node, DictStore(), errors=ErrorRows())
    found = step_python_map(node, [zset.build(ROWS.columns, np.ones(5, np.int64))], context)
    assert 2 not in found.column("c0").to_pylist() and found.num_rows == 4
    assert context.errors is not None and context.errors.rows == 1


@pytest.mark.parametrize(
    "error",
    [
        ImportError("no such name"),
        ConnectionRefusedError("nobody answers"),
        RuntimeError("the device is busy"),
        UnsupportedOperation("the file is closed"),
        type("OfALibrary", (Exception,), {})("no answer"),
    ],
)
def test_a_function_that_lacks_something_around_it_leaves_no_row_out(error: Exception) -> None:
    """It may be there when the row is retracted, which would then not be in error."""

    def function(number: Any) -> Any:
        raise error

    node = PythonMap((0,), (LONG, TEXT, LONG), (python_call("row", function, LONG, 0),))
    context = context_of(node, DictStore(), errors=ErrorRows())
    with pytest.raises(FunctionUnusable, match=str(error)) as raised:
        step_python_map(node, [zset.build(ROWS.columns, np.ones(5, np.int64))], context)
    assert not raised.value.is_of_rows and context.errors is not None and context.errors.is_nothing
