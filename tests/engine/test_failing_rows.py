"""Which rows of a batch fail is said by one query as each row alone says it."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from engine.expressions import functions
from engine.expressions.evaluate import failing_rows, try_evaluate
from engine.model.node import Expression
from engine.operators.error_rows import attempt_all

ROWS = 300
LONG, TEXT = pa.int64(), pa.string()

TABLE = pa.table(
    {
        "c0": pa.array([None if i % 11 == 0 else i % 7 for i in range(ROWS)], LONG),
        "c1": pa.array([str(i) if i % 5 else "x" if i % 2 else None for i in range(ROWS)], TEXT),
        "weight": pa.array([1 if i % 3 else -1 for i in range(ROWS)], LONG),
    }
)

BY_ZERO = "CASE WHEN (c0 - 3) = 0 THEN error('[DIVIDE_BY_ZERO] Division by zero: error(it''s) \"c0\"') ELSE 100 // (c0 - 3) END"
OF_TEXT = "CASE WHEN c0 = 3 THEN error('[A] ' || c1) ELSE c1 || 'error(' END"
CAST = "CAST(c1 AS BIGINT)"
OVERFLOW = "c0 * 4611686018427387904"

CASES: dict[str, tuple[Expression | None, tuple[Expression, ...]]] = {
    "a division": (None, (Expression("c1", TEXT, 1), Expression(BY_ZERO, LONG))),
    "a cast": (None, (Expression(CAST, LONG), Expression("c0", LONG, 0))),
    "an overflow": (None, (Expression(OVERFLOW, LONG),)),
    "two that fail": (None, (Expression(BY_ZERO, LONG), Expression(CAST, LONG))),
    "a text that may be NULL": (None, (Expression(OF_TEXT, TEXT),)),
    "a condition": (Expression(f"({CAST} > 100)", pa.bool_()), (Expression("c0", LONG, 0), Expression("c1", TEXT, 1))),
    "a row that is left out": (Expression("(c0 <> 3)", pa.bool_()), (Expression(BY_ZERO, LONG),)),
    "a condition and a value": (Expression(f"({BY_ZERO} > 20)", pa.bool_()), (Expression(CAST, LONG),)),
    "a text that looks like a call": (Expression("(c1 <> 'error(')", pa.bool_()), (Expression(CAST, LONG),)),
    "nothing": (None, (Expression("c0 + 1", LONG),)),
}


@pytest.mark.parametrize("name", CASES)
def test_one_query_says_of_each_row_what_it_says_alone(name: str) -> None:
    predicate, projections = CASES[name]
    said = failing_rows(predicate, projections, TABLE)
    assert said is not None
    alone = [try_evaluate(predicate, projections, TABLE.slice(i, 1)) is None for i in range(ROWS)]
    assert said.to_pylist() == alone
    assert any(alone) == (name not in ("nothing", "a row that is left out"))


def test_rows_are_found_with_two_attempts() -> None:
    predicate, projections = CASES["two that fail"]
    tries: list[int] = []

    def attempt(part: pa.Table) -> pa.Table | None:
        tries.append(part.num_rows)
        return try_evaluate(predicate, projections, part)

    done, failing = attempt_all(attempt, TABLE, lambda part: failing_rows(predicate, projections, part))
    halved, failing_alone = attempt_all(lambda part: try_evaluate(predicate, projections, part), TABLE)
    assert tries == [ROWS, ROWS - len(failing)]
    assert failing == sorted(failing_alone)
    assert pa.concat_tables(done).sort_by("c1") == pa.concat_tables(halved).sort_by("c1")


def test_a_function_without_memory_is_no_error_of_a_row() -> None:
    """TRY would take it for one."""

    def body(_texts: pa.Array) -> pa.Array:
        raise MemoryError("none is left")

    connection = duckdb.connect()
    functions._create(connection, "hungry", body, ["VARCHAR"], "VARCHAR")
    with pytest.raises(MemoryError, match="none is left"), functions.no_lack_of_memory():
        connection.execute("SELECT TRY(hungry('a')) AS r").fetchall()
