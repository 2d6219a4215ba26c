"""What `evaluate` keeps, guards and raises. tests/stepwell/expressions compares its results with Spark's."""

from __future__ import annotations

import multiprocessing
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.expressions import evaluate as expressions
from engine.expressions.evaluate import ExpressionError, evaluate
from engine.expressions.functions import fdlibm, floats, text_measures
from engine.expressions.types import buffer_type, relabel
from engine.model.node import Expression
from engine.resident.faults import from_wire, to_wire

INT = pa.int32()


def table(**columns: pa.Array) -> pa.Table:
    return pa.table(columns)


ROWS = table(
    c0=pa.array([1, 0, None, 4], INT), c1=pa.array([10, 20, 30, None], INT), weight=pa.array([1, -1, 2, 3], pa.int64())
)


def test_the_predicate_drops_rows_and_the_weight_stays_with_its_row() -> None:
    result = evaluate(
        Expression("(c0 > 0)", pa.bool_()), (Expression("(c0 + c1)", INT), Expression("c1", INT, 1)), ROWS
    )
    assert result.to_pydict() == {"c0": [11, None], "c1": [10, None], "weight": [1, 3]}
    assert result.schema == pa.schema([("c0", INT), ("c1", INT), pa.field("weight", pa.int64(), nullable=False)])


def test_without_computed_columns_duckdb_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "_connection", lambda: pytest.fail("a query was run"))
    result = evaluate(None, (Expression("c1", INT, 1), Expression("c0", INT, 0)), ROWS)
    assert result.to_pydict() == {"c0": [10, 20, 30, None], "c1": [1, 0, None, 4], "weight": [1, -1, 2, 3]}


def test_duckdb_gets_only_the_projections_that_are_computed() -> None:
    result = evaluate(None, (Expression("c1", INT, 1), Expression("(c0 * 2)", INT)), ROWS)
    assert result.column("c0").chunk(0).buffers()[1].address == ROWS.column("c1").chunk(0).buffers()[1].address
    assert result.column("c1").to_pylist() == [2, 0, None, 8]


def test_tables_without_weight_columns_or_rows() -> None:
    bare = ROWS.select(["c0", "c1"])
    assert evaluate(None, (), bare).num_columns == 0
    assert evaluate(Expression("(c0 = 1)", pa.bool_()), (), ROWS).to_pydict() == {"weight": [1]}
    empty = evaluate(Expression("(c0 = 1)", pa.bool_()), (Expression("(c0 + 1)", INT),), ROWS.slice(0, 0))
    assert empty.num_rows == 0 and empty.schema.field(0).type == INT


def test_order_is_kept_over_many_vectors_and_chunks() -> None:
    count = 20_000  # ten of DuckDB's vectors
    numbers = pa.chunked_array([pa.array(range(7_001), INT), pa.array(range(7_001, count), INT)])
    result = evaluate(Expression("(c0 % 3 = 0)", pa.bool_()), (Expression("(c0 + 1)", INT),), pa.table({"c0": numbers}))
    assert result.column(0).to_pylist() == list(range(1, count + 1, 3))


NESTED = pa.struct(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("for", pa.list_(pa.field("element", pa.duration("us")))),
        ("n", pa.decimal128(38, 10)),
    ]
)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.timestamp("us", "UTC"), [0, -1, None, 253402300799999999, -62135596800000000]),
        (pa.timestamp("us"), [0, -1, None]),
        (pa.duration("us"), [0, -(1 << 63), None, (1 << 63) - 1]),
        (pa.date32(), [0, -719162, None, 2932896]),
        (pa.binary(), [b"", b"\x00\xff", None]),
        (pa.string(), ["", "a\0b", "😀", None]),
        (pa.decimal128(38, 10), [Decimal("-9999999999999999999999999999.9999999999"), None]),
        (pa.float64(), [-0.0, 5e-324, float("inf"), None]),
        (pa.int8(), [-128, 127, None]),
        (pa.list_(pa.field("element", pa.int32())), [[1, None], [], None]),
        (NESTED, [{"at": -1, "for": [1, None], "n": Decimal("0.5")}, {"at": None, "for": None, "n": None}, None]),
    ],
    ids=str,
)
def test_every_type_passes_through_duckdb_unchanged(type_: pa.DataType, values: list[object]) -> None:
    column = pa.array(values, type_)
    result = evaluate(Expression("TRUE", pa.bool_()), (Expression("c0", type_, 0),), pa.table({"c0": column}))
    assert result.column(0).type == type_
    assert result.column(0).combine_chunks().equals(column)
    sliced = pa.chunked_array([column.slice(1)])
    assert relabel(relabel(sliced, buffer_type(type_)), type_).equals(sliced)


def test_an_expression_is_not_evaluated_for_rows_that_a_case_excludes() -> None:
    """DuckDB's optimiser would fold, hoist or reorder these expressions."""
    guarded = Expression("CASE WHEN c0 <> 0 THEN c1 // c0 END", INT)
    assert evaluate(None, (guarded,), ROWS).column(0).to_pylist() == [10, None, None, None]
    folded = Expression("CASE WHEN c0 > 100 THEN CAST(CAST('x' AS INTEGER) + c0 AS INTEGER) ELSE 1 END", INT)
    assert evaluate(None, (folded, folded), ROWS).column(1).to_pylist() == [1, 1, 1, 1]
    python = Expression("CASE WHEN c0 > 100 THEN spark_read_integer('x', 32) ELSE 1 END", pa.int64())
    assert evaluate(None, (python,), ROWS).column(0).to_pylist() == [1, 1, 1, 1]
    shared = [Expression(f"COALESCE(c1 + {n}, 100 // c0)", INT) for n in (0, 1)]
    assert evaluate(None, tuple(shared), ROWS).column(0).to_pylist() == [10, 20, 30, 25]
    projection = Expression("(c1 // c0)", INT)
    assert evaluate(Expression("(c0 <> 0)", pa.bool_()), (projection,), ROWS).column(0).to_pylist() == [10, None]


@pytest.mark.parametrize(
    ("sql", "error_class"),
    [
        ("(c0 + 2147483647)::INTEGER + CAST(2147483647 AS INTEGER)", "ARITHMETIC_OVERFLOW"),
        ("error('[DIVIDE_BY_ZERO] Division by zero.')", "DIVIDE_BY_ZERO"),
        ("spark_read_integer('x', 32)", "CAST_INVALID_INPUT"),
        ("CAST(CAST(1000 AS DECIMAL(10,2)) AS DECIMAL(3,2))::INTEGER", "NUMERIC_VALUE_OUT_OF_RANGE"),
    ],
)
def test_an_error_has_sparks_error_class_and_travels_with_it(sql: str, error_class: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(None, (Expression(sql, INT),), ROWS)
    assert caught.value.error_class == error_class
    copy = from_wire(to_wire(caught.value), 0)
    assert isinstance(copy, ExpressionError)
    assert (copy.error_class, copy.text, str(copy)) == (error_class, caught.value.text, str(caught.value))


def test_a_statement_is_prepared_once_and_keeps_no_rows_of_the_step_before() -> None:
    expression = Expression("(c0 * 3)", INT)
    connection = expressions._connection()
    for rows in (ROWS, ROWS.slice(0, 2), ROWS.slice(0, 0), ROWS.slice(3)):
        before = connection._prepared
        expected = [None if value is None else 3 * value for value in rows.column("c0").to_pylist()]
        assert evaluate(None, (expression,), rows).column(0).to_pylist() == expected
        assert connection._prepared - before == (rows is ROWS)
    assert all(rows.table is None for _, rows in connection._statements.values())


def test_one_expression_over_columns_of_two_types_is_two_statements() -> None:
    expression = Expression("CAST(c0 AS VARCHAR)", pa.string())
    for type_, text in ((pa.decimal128(5, 1), "1.0"), (pa.decimal128(5, 2), "1.00"), (pa.decimal128(5, 1), "1.0")):
        column = pa.array([Decimal(1)], type_)
        assert evaluate(None, (expression,), table(c0=column)).column(0).to_pylist() == [text]


def test_only_so_many_statements_are_kept_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "STATEMENTS_MAX", 3)
    connection = expressions._Connection()
    rows = table(c0=pa.array([1, 2], INT))
    for number in (0, 1, 2, 0, 3, 0, 1):
        result = connection.run((f"c0 + {number} AS r0", ""), rows)
        assert result.column(0).to_pylist() == [1 + number, 2 + number]
        assert len(connection._statements) <= 3
    assert connection._prepared == 5  # 0 was used meanwhile and stayed; 1 made room for 3
    connection.close()


def test_a_filter_leaves_columns_as_they_are_that_duckdb_cannot_hold() -> None:
    """The last timestamp, which is infinity to DuckDB, and a NaN with other bits than usual."""
    last = pa.array([2**63 - 1, 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    nan = pa.array(np.array([0x7FF8000000000123, 0], np.uint64).view(np.float64))
    rows = table(c0=last, c1=nan, c2=pa.array([1, 2], INT))
    result = evaluate(
        Expression("(c2 = 1)", pa.bool_()), (Expression("c0", last.type, 0), Expression("c1", nan.type, 1)), rows
    )
    assert result.column(0).cast(pa.int64()).to_pylist() == [2**63 - 1]
    assert result.column(1).to_numpy().view(np.uint64)[0] == 0x7FF8000000000123


def test_after_an_error_the_connection_still_works() -> None:
    for _ in range(2):
        with pytest.raises(ExpressionError):
            evaluate(None, (Expression("error('[SOME_ERROR] y')", INT),), ROWS)
        assert evaluate(None, (Expression("(c0 + 1)", INT),), ROWS).column(0).to_pylist() == [2, 1, None, 5]


def test_sql_that_cannot_run_is_an_assertion_error() -> None:
    with pytest.raises(AssertionError, match="no_such_function"):
        evaluate(None, (Expression("no_such_function(c0)", INT),), ROWS)


@pytest.mark.parametrize(
    ("sql", "type_", "error_class"),
    [
        ("CAST(spark_read_decimal(c0, 10, 2) AS DECIMAL(10,2))", pa.decimal128(10, 2), "CAST_INVALID_INPUT"),
        ("spark_read_date(c1)", pa.date32(), "CAST_INVALID_INPUT"),
        ("spark_round_decimal(c2, 2, c3, 10, 2)", pa.string(), "INTERNAL_ERROR"),  # KeyError: no such mode
    ],
)
def test_a_row_that_fails_is_an_error_of_the_data_with_expression_and_value(
    sql: str, type_: pa.DataType, error_class: str
) -> None:
    """Whatever the error is, it names the first failing row of many, and the failing expression of several."""
    count = 5000
    columns = {
        "c0": ["1"] * count,
        "c1": ["2020-01-01"] * count,
        "c2": ["1.5"] * count,
        "c3": ["ROUND_HALF_UP"] * count,
    }
    for row in (3210, 4000):
        columns["c0"][row] = "1e99999999999999999999" + str(row)
        columns["c1"][row] = "5881581-01-01" + " " * 100
        columns["c3"][row] = "no such mode"
    columns["c0"][4000] = "x"
    outputs = (Expression("c0 || c1", pa.string()), Expression(sql, type_), Expression("c2", pa.string(), 2))
    with pytest.raises(ExpressionError) as caught:
        evaluate(Expression("c0 <> 'never'", pa.bool_()), outputs, pa.table(columns))
    assert caught.value.error_class == error_class
    assert f"(expression {sql} with c" in caught.value.text
    values = {"c0": "'1e999999999999999999993210'", "c1": "'5881581-01-01  ", "c3": "'no such mode'"}
    named = [f"{name} = {value}" for name, value in values.items() if name in sql]
    assert named and all(part in caught.value.text for part in named), caught.value.text
    assert len(caught.value.text) < 1000


@pytest.mark.parametrize(
    ("sql", "text", "error_class"),
    [
        ("spark_parse_timestamp(c0, 'yyyy-MM-dd')", "+1234567-01-01", "CANNOT_PARSE_TIMESTAMP"),
        ("epoch_us(spark_read_timestamp(c0))", "1" * 5000, "CAST_INVALID_INPUT"),
        ("spark_read_integer(c0, 32)", "9" * 5000, "CAST_INVALID_INPUT"),
        ("length(spark_read_decimal(c0, 10, 2))", "1e" + "9" * 5000, "CAST_INVALID_INPUT"),
        ("length(spark_repeat(c0, 1073741824))", "日", "COLLECTION_SIZE_LIMIT_EXCEEDED"),
        ("length(spark_rpad(c0, 2147483647, '日'))", "", "COLLECTION_SIZE_LIMIT_EXCEEDED"),
    ],
    ids=["year", "long year", "long integer", "long exponent", "repeat", "pad"],
)
def test_values_beyond_a_limit_have_an_error_of_their_own(sql: str, text: str, error_class: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(None, (Expression(f"CAST(CAST({sql} AS VARCHAR) AS VARCHAR)", pa.string()),), pa.table({"c0": [text]}))
    assert caught.value.error_class == error_class


@pytest.mark.parametrize(
    ("sql", "text", "value"),
    [("spark_read_integer(c0, 32)", "0" * 5000 + "7", 7), ("spark_read_single(c0)", "0e99999999999999999999", 0)],
)
def test_long_texts_of_small_values_are_read(sql: str, text: str, value: int) -> None:
    result = evaluate(None, (Expression(sql, pa.float64()),), pa.table({"c0": [text]}))
    assert result.column(0).to_pylist() == [value]


def test_a_long_run_of_digits_before_a_wrong_character_is_refused_at_once() -> None:
    """With a pattern that tries all ways to cut the run in two, a million digits would take days."""
    rows = pa.table({"c0": ["1" * 1_000_000 + "x"]})
    for sql in ("spark_read_integer(c0, 32)", "spark_read_double(c0)", "length(spark_read_decimal(c0, 9, 2))"):
        with pytest.raises(ExpressionError, match="CAST_INVALID_INPUT"):
            evaluate(None, (Expression(sql, pa.float64()),), rows)


def test_a_predicate_that_fails_is_named_too() -> None:
    predicate = Expression("(spark_read_integer(c0, 32) > 0)", pa.bool_())
    with pytest.raises(ExpressionError, match=r"expression \(spark_read_integer\(c0, 32\) > 0\) with c0 = 'x'"):
        evaluate(predicate, (Expression("c0", pa.string(), 0),), pa.table({"c0": ["1", "x", "y"]}))


def test_a_value_beyond_pythons_calendar_is_shown() -> None:
    far = pa.array([2**31 - 2], pa.int32()).cast(pa.date32())
    fails = Expression("CASE WHEN c0 > DATE '9999-12-31' THEN error('[SOME_ERROR] y')::DATE END", pa.date32())
    with pytest.raises(ExpressionError, match=r"with c0 = .*out of range"):
        evaluate(None, (fails,), pa.table({"c0": far}))


def _in_child(results: multiprocessing.queues.Queue[list[int | None]]) -> None:
    results.put(evaluate(None, (Expression("(c0 + 1)", INT),), ROWS).column(0).to_pylist())


def test_a_forked_process_makes_its_own_connection() -> None:
    """As Spark's Python workers do."""
    evaluate(None, (Expression("(c0 + 1)", INT),), ROWS)
    fork = multiprocessing.get_context("fork")
    results: multiprocessing.queues.Queue[list[int | None]] = fork.Queue()
    child = fork.Process(target=_in_child, args=(results,))
    child.start()
    assert results.get(timeout=60) == [2, 1, None, 5]
    child.join()
    assert child.exitcode == 0


def test_a_time_without_a_date_is_no_timestamp() -> None:
    """Spark uses today's date, but a step's output must not depend on the clock."""
    rows = pa.table({"c0": ["12:34:56"]})
    with pytest.raises(ExpressionError, match=r"CAST_INVALID_INPUT.*depend on the clock"):
        evaluate(None, (Expression("spark_read_timestamp(c0)", pa.timestamp("us", "UTC")),), rows)


def test_reading_a_whole_column_is_equal_to_reading_its_texts_one_by_one() -> None:
    texts = ["2020-01-02", None, "2020-1-2", "2020-01-02 03:04:05.5Z", "2020-01-02T03:04:05 Europe/Paris", "2020"]
    for function, type_ in (
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
    ):
        read = Expression(f"spark_read_{function}(c0)", type_)
        together = evaluate(None, (read,), pa.table({"c0": texts})).column(0).to_pylist()
        alone = [
            evaluate(None, (read,), pa.table({"c0": [text]})).column(0)[0].as_py() for text in texts[:1] + texts[2:]
        ]
        assert together == [alone[0], None, *alone[1:]] and None not in alone


def test_transcendental_functions_are_javas_to_the_last_bit() -> None:
    """Results of Java's StrictMath. In some the C library's last bit is different, and together they cover every branch of the code."""
    with np.errstate(all="ignore"):
        assert fdlibm.exponential(np.array([0.0, 1.0, -745.2, 709.79, np.nan])).tolist()[:4] == [
            1.0,
            2.7182818284590455,
            0.0,
            np.inf,
        ]
        assert fdlibm.logarithm(np.array([1.0, 10.0, 5e-324])).tolist() == [0.0, 2.302585092994046, -744.4400719213812]
        assert fdlibm.power(np.array([2.0, -2.0, 0.0, 10.0]), np.array([0.5, 3.0, -1.0, -2.0])).tolist() == [
            2**0.5,
            -8.0,
            np.inf,
            0.01,
        ]


def test_rounding_whole_arrays_is_equal_to_rounding_one_by_one() -> None:
    generator = np.random.default_rng(3)
    ties = generator.integers(-(10**6), 10**6, 2000) / 200
    wide = generator.integers(-(1 << 63), (1 << 63) - 1, 500, dtype=np.int64).view(np.float64)
    values = np.concatenate([ties, generator.normal(0, 1e3, 2000), wide, np.array([-0.0, 1.005, 2.675, 0.5, np.inf])])
    for digits in (0, 1, 2, 5, -1, -3, 22, 30):
        for mode in ("half_up", "half_even"):
            sql = f"spark_round(c0, {digits}, '{mode}')"
            result = evaluate(None, (Expression(sql, pa.float64()),), pa.table({"c0": values})).column(0).to_numpy()
            expected = np.array([floats._round(float(value), digits, mode) for value in values])
            assert np.array_equal(result, expected, equal_nan=True), (digits, mode)
            assert np.array_equal(np.signbit(result), np.signbit(expected))


@given(st.text("ab", max_size=9), st.text("abc", max_size=9), st.integers(-2, 11))
def test_a_bounded_edit_distance_is_the_distance_or_minus_one(left: str, right: str, most: int) -> None:
    distance = text_measures._levenshtein(left, right)
    assert text_measures._levenshtein_within(left, right, most) == (distance if distance <= most else -1)
