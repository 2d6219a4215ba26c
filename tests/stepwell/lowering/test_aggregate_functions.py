"""Every aggregate function, step by step over insertions and retractions, beside Spark's batch answer after every step.

A case has the text that Stepwell gets and, where Spark's own answer depends on the order of its rows, a text for Spark that states what is
promised instead: the least of several modes, a sorted list. What Spark computes by Welford's method is compared with a relative error.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.analysis.content import content_of
from engine.model.aggregates import Aggregate
from engine.model.circuit import Circuit, View
from engine.model.rows import Source
from engine.operators.aggregate_functions import FUNCTIONS
from engine.operators.context import StepContext
from engine.operators.table import operator_of
from engine.state.store import DictStore
from stepwell.lowering.driver import lower
from stepwell.lowering.rules.aggregate_functions import READERS
from tests.engine.contexts import contexts_of
from tests.engine.zsets import Rows, plus, to_table
from tests.stepwell.lowering.projects import Workbench

TABLE = "k bigint, g double, id bigint, b int, s string, d double, e double, m decimal(12,2), w decimal(30,4), t timestamp, f boolean, y binary"
STEPS = 4
COMPARED = (1, 3)
"""The steps after which Spark is asked: rows have come and gone before each of them, and the last one has them all."""
RELATIVE_ERROR_MAX = 1e-9
"""Of Welford's method in Spark over the values below, whose spread is at least a tenth of their mean. Ours is exact up to a few units in the
last place."""
ABSOLUTE_ERROR_MAX = 1e-9  # of a covariance near 0


def same(ours: Any, sparks: Any) -> bool:
    return repr(ours) == repr(sparks)


def close(ours: Any, sparks: Any) -> bool:
    if ours is None or sparks is None or math.isnan(ours) or math.isnan(sparks):
        return repr(ours) == repr(sparks)
    return math.isclose(ours, sparks, rel_tol=RELATIVE_ERROR_MAX, abs_tol=ABSOLUTE_ERROR_MAX)


def covariance(ours: Any, sparks: Any) -> bool:
    """With an infinity among the values, Spark's covariance is NaN or an infinity, depending on the order of rows. Ours is NaN."""
    return math.isnan(ours) if sparks is not None and math.isinf(sparks) else close(ours, sparks)


def bag(ours: Any, sparks: Any) -> bool:
    """Lists with the same elements, and ours in order. 0.0 and -0.0 are equal to Spark's sort."""
    return sorted(map(repr, ours)) == sorted(map(repr, sparks)) and list(ours) == sorted(ours, key=_rank)


def _rank(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1, value))
    return value


def same_but_for_zeros(ours: Any, sparks: Any) -> bool:
    """Of 0.0 and -0.0 Spark takes any."""
    if isinstance(ours, tuple):
        return all(map(same_but_for_zeros, ours, sparks))
    if not (isinstance(ours, float) and isinstance(sparks, float)):
        return repr(ours) == repr(sparks)
    return repr(ours + 0.0) == repr(sparks + 0.0)


@dataclass(frozen=True)
class Case:
    ours: str
    sparks: str | None = None
    compare: Callable[[Any, Any], bool] = same

    @property
    def expected(self) -> str:
        return self.sparks or self.ours


WELFORD = [
    Case(text, compare=close)
    for text in (
        "stddev(b)", "stddev_samp(d)", "stddev_pop(d)", "variance(m)", "var_samp(w)", "var_pop(e)", "stddev(DISTINCT b)",
        "stddev(e) FILTER (WHERE f)", "std(id)", "covar_samp(e, b)", "covar_samp(e, id)", "corr(e, id)", "corr(d, e)",
        "corr(e, b) FILTER (WHERE f)", "corr(DISTINCT b, id)", "regr_slope(e, id)", "regr_intercept(e, id)", "regr_r2(e, b)", "regr_r2(b, e)",
        "regr_sxx(e, b)", "regr_sxy(e, b)", "regr_syy(e, b)", "regr_count(e, b)", "regr_avgx(e, b)", "regr_avgy(e, b)",
        "skewness(e)", "kurtosis(e)", "skewness(d)", "kurtosis(DISTINCT b)", "stddev(b) / (avg(b) + 1000)",
    )
]  # fmt: skip
FIRST_ROW = "min(struct(s IS NULL AS x, s, m IS NULL AS y, m, id IS NULL AS z, id))"
WELFORD.append(Case("covar_pop(d, e)", compare=covariance))
ROWS = [
    # All of one row, the least by the values of all, in which a null is above all values.
    Case("first(s)", f"({FIRST_ROW}).s"),
    Case("any_value(m)", f"({FIRST_ROW}).m"),
    Case("first_value(id)", f"({FIRST_ROW}).id"),
    Case("first(s) IGNORE NULLS", "min(s)"),
    Case("last(s)", "max(struct(s, b)).s"),
    Case("last(b)", "max(struct(s, b)).b"),
    Case("last_value(s) IGNORE NULLS", "max(s)"),
    Case("first(s) FILTER (WHERE b > 1)", "(min(struct(s IS NULL AS n, s)) FILTER (WHERE b > 1)).s"),
    Case("max_by(s, id)"),
    Case("min_by(d, id)"),
    Case("max_by(s, b)", "(max(struct(b, s)) FILTER (WHERE b IS NOT NULL)).s"),
    Case("max_by(struct(id, d), id)"),
    Case("max_by(s, id) FILTER (WHERE f)"),
    Case("min_by(s, struct(id, b))"),
    Case("(max(struct(g, id)) FILTER (WHERE g = 0)).id"),  # zeros of both signs, so the id decides
    Case("(min(struct(g, id)) FILTER (WHERE g = 0)).id"),
    Case("(max(struct(CAST(g AS STRING) AS x, g)) FILTER (WHERE g = 0)).g"),  # and the sign stays
    Case("max(struct(t, e, d, id)) FILTER (WHERE f)", compare=same_but_for_zeros),
    Case("min(array(d, id)) FILTER (WHERE b > 1)", compare=same_but_for_zeros),
    Case("max(struct(struct(d, b) AS x, id AS y)).y"),
    Case("min_by(id, struct(d, id))"),
    Case("max_by(id, array(d, e, id))"),
    Case("min(struct(s, b))"),
    Case("max(array(b, id))"),
    Case("max(struct(w, m, t, f, y))"),
    Case("bool_and(f)"),
    Case("every(b > 0)"),
    Case("bool_or(f)"),
    Case("some(f) FILTER (WHERE b > 1)"),
    Case("count_if(b > 1)"),
    Case("approx_count_distinct(s)"),
    Case("approx_count_distinct(d)"),
    Case("sum(make_dt_interval(b))"),
    Case("avg(make_dt_interval(b))"),
    Case("count(DISTINCT b, s)"),
    Case("count(DISTINCT g, d)"),
]
VALUES = [
    Case("collect_list(b)", "sort_array(collect_list(b))"),
    Case("collect_list(d)", compare=bag),
    Case("collect_list(s) RESPECT NULLS", "sort_array(collect_list(s) RESPECT NULLS)"),
    Case("collect_list(struct(s, b, m))", "sort_array(collect_list(struct(s, b, m)))"),
    Case("collect_list(array(b, id))", "sort_array(collect_list(array(b, id)))"),
    Case("collect_list(w) FILTER (WHERE f)", "sort_array(collect_list(w) FILTER (WHERE f))"),
    Case("collect_set(s)", "sort_array(collect_set(s))"),
    Case("collect_set(d)", "sort_array(collect_set(d))"),
    Case("collect_set(struct(b, f))", "sort_array(collect_set(struct(b, f)))"),
    Case("array_agg(t)", "sort_array(array_agg(t))"),
    Case("listagg(s)", "if(count(s) = 0, NULL, array_join(sort_array(collect_list(s)), ''))"),
    Case("listagg(s, '|') WITHIN GROUP (ORDER BY s DESC)"),
    Case("listagg(s, '|') WITHIN GROUP (ORDER BY b NULLS LAST, s)"),
    Case("listagg(s, '|') WITHIN GROUP (ORDER BY b DESC NULLS FIRST, d, s DESC) FILTER (WHERE id > 0)"),
    Case("listagg(DISTINCT s, '|') WITHIN GROUP (ORDER BY s)"),
    Case("listagg(y, X'00') WITHIN GROUP (ORDER BY y)"),
    Case("max_by(s, id, 3)"),
    Case("min_by(d, id, 2) FILTER (WHERE b > 1)"),
    Case("mode(s)", "mode(s, true)"),
    Case("mode() WITHIN GROUP (ORDER BY b DESC)"),
    Case("mode(d)", "mode(d, true)"),
    Case("bit_and(b)"),
    Case("bit_or(id)"),
    Case("bit_xor(b)"),
    Case("median(b)"),
    Case("percentile(d, 0.3)"),
    Case("percentile(m, array(0, 0.25, 0.5, 1))"),
    Case("percentile(w, 0.75)"),
    Case("percentile_cont(0.25) WITHIN GROUP (ORDER BY e DESC)"),
    Case("percentile_disc(0.4) WITHIN GROUP (ORDER BY e)"),
    Case("percentile_disc(0.4) WITHIN GROUP (ORDER BY m DESC)"),
    Case("percentile_approx(b, 0.5)"),
    Case("percentile_approx(if(isnan(d), NULL, d), array(0.1, 0.9), 100)", compare=same_but_for_zeros),
    Case("approx_percentile(t, 0.5)"),
    Case("percentile_approx(m, 0.5) FILTER (WHERE f)"),
]
DISTINCTS = [  # Spark rewrites these: several groups of DISTINCT
    Case("count(DISTINCT b, s)"),
    Case("count(DISTINCT d)"),
    Case("sum(DISTINCT b) FILTER (WHERE f)"),
    Case("stddev(e)", compare=close),
    Case("max_by(s, id)"),
    Case("collect_list(b)", "sort_array(collect_list(b))"),
    Case("collect_list(DISTINCT m)", "sort_array(collect_list(DISTINCT m))"),
    Case("percentile(DISTINCT b, 0.5)"),
    Case("bit_xor(DISTINCT b)"),
    Case("collect_list(DISTINCT d)", "sort_array(collect_list(DISTINCT d))"),
    Case("max_by(DISTINCT d, d, 9) FILTER (WHERE f)"),
    Case("first(id)", "min(id)"),
    Case("percentile(d, 0)"),
    Case("max(d)", compare=same_but_for_zeros),  # test_against_spark.py compares the signs where Spark's are determined
]
BESIDE = [
    Case("count(DISTINCT b, s)"),
    Case("max(b)"),
    Case("collect_set(b)", "sort_array(collect_set(b))"),
    Case("avg(m)"),
    Case("try_sum(b)"),
    Case("try_sum(9223372036854775807L - id)"),  # a group of one row has it
    Case("try_sum(if(m IS NULL, NULL, 90000000000000000000000000000000000000BD))"),
    Case("try_sum(make_dt_interval(100000000, b))"),
    Case("try_sum(d)", compare=same_but_for_zeros),
    Case("try_avg(w) FILTER (WHERE f)"),
    Case("try_avg(make_dt_interval(100000000, b))"),
    Case("try_avg(DISTINCT b)"),
]
IN_ORDER = "array_sort(collect_list(struct(b IS NULL AS x, -b AS y, id, s)))"
SORTED = [
    Case("first(id)", f"try_element_at({IN_ORDER}, 1).id"),
    Case(
        "first(s) FILTER (WHERE b > 1)",
        "try_element_at(array_sort(collect_list(struct(-b, id, s)) FILTER (WHERE b > 1)), 1).s",
    ),
    Case("last(id)", f"try_element_at({IN_ORDER}, -1).id"),
    Case("last(s) IGNORE NULLS", f"try_element_at(filter({IN_ORDER}, r -> r.s IS NOT NULL), -1).s"),
    Case("collect_list(id)", f"transform({IN_ORDER}, r -> r.id)"),
    Case("listagg(s, '|')", f"if(count(s) = 0, NULL, array_join(transform({IN_ORDER}, r -> r.s), '|'))"),
    Case("listagg(s, '|') WITHIN GROUP (ORDER BY s)"),
    Case("max_by(s, id)"),
    Case("min_by(DISTINCT b, b, 3)"),  # the only DISTINCT here, so Spark does not rewrite it
    Case("count(*)"),
]
FROM = {"sorted": "(SELECT k, g, s, b, id, f FROM t WHERE id >= 0 ORDER BY b DESC, id)"}

SETS: dict[str, list[Case]] = {
    "moments": WELFORD,
    "rows": ROWS,
    "values": VALUES,
    "distincts": DISTINCTS,
    "beside": BESIDE,
    "sorted": SORTED,
}
GROUPS = {"by a key": "k", "by two keys": "g, f", "of everything": ""}
RAN: set[str] = set()
CLASSES: set[str] = set()
CASES_RUN: set[str] = set()
"""The engine's functions, the classes of Catalyst and the sets that were run."""


def _long(*arguments: str) -> Any:
    return pytest.param(*arguments, marks=pytest.mark.long)


def _soak(*arguments: str) -> Any:
    return pytest.param(*arguments, marks=pytest.mark.soak)


@pytest.mark.parametrize(
    ("cases", "group", "mode"),
    [
        *((name, "by a key", "changelog") for name in SETS),
        ("values", "of everything", "changelog"),
        _long("moments", "of everything", "changelog"),
        _long("rows", "by a key", "append"),
        *(_soak(name, "of everything", "changelog") for name in ("rows", "distincts", "beside", "sorted")),
        *(_soak(name, "by a key", "append") for name in ("values", "moments")),
        _soak("values", "by two keys", "changelog"),
    ],
)
def test_every_function_is_sparks(spark: SparkSession, cases: str, group: str, mode: str) -> None:
    bench = Workbench(spark).source("t", TABLE, mode)  # type: ignore[arg-type]
    chosen, keys = SETS[cases], GROUPS[group]
    query = _query([case.ours for case in chosen], keys, FROM.get(cases, "t"))
    CLASSES.update(
        re.findall(r'aggregate\.(\w+)"', bench.spark.sql(query)._jdf.queryExecution().optimizedPlan().toJSON())
    )
    circuit = lower(bench.view("v", query).project())
    CASES_RUN.add(cases)
    RAN.update(call.function for node in circuit.nodes if isinstance(node, Aggregate) for call in node.calls)
    content, whole, store = Rows(), Rows(), DictStore()
    width = len(keys.split(",")) if keys else 0
    for step, change in enumerate(_history(random.Random(cases + group), grow=mode == "append")):
        whole = plus(whole, change)
        content = plus(content, _step(circuit, store, step, change))
        if step not in COMPARED:
            continue
        rows = bench.spark.createDataFrame(list(whole.elements()), TABLE).coalesce(1)
        rows.createOrReplaceTempView("t")
        answer = bench.spark.sql(_query([case.expected for case in chosen], keys)).toArrow()
        expected = _rows_of(answer.append_column("weight", pa.array([1] * len(answer), pa.int64())))
        _compare(chosen, width, list(content.elements()), list(expected.elements()))
    asked = _asked_for(circuit, store)
    assert sorted(map(repr, asked.elements())) == sorted(map(repr, content.elements()))


def test_every_function_was_run() -> None:
    """A function without a case would never be compared with Spark."""
    if len(RAN) < len(FUNCTIONS) and len(CASES_RUN) < len(SETS):
        pytest.skip("only some of the cases have run")
    assert set(FUNCTIONS) == RAN
    assert set(READERS) <= CLASSES


def _query(texts: list[str], keys: str, rows: str = "t") -> str:
    columns = ", ".join(f"{text} AS r{number}" for number, text in enumerate(texts))
    return f"SELECT {keys}, {columns} FROM {rows} GROUP BY {keys}" if keys else f"SELECT {columns} FROM {rows}"


def _compare(cases: list[Case], width: int, ours: list[tuple[Any, ...]], sparks: list[tuple[Any, ...]]) -> None:
    by_key = [
        {repr([v + 0.0 if isinstance(v, float) else v for v in row[:width]]): row for row in rows}
        for rows in (ours, sparks)
    ]
    assert by_key[0].keys() == by_key[1].keys()
    assert len(ours) == len(sparks)
    for key, mine in by_key[0].items():
        for case, a, b in zip(cases, mine[width:], by_key[1][key][width:], strict=True):
            assert case.compare(a, b), f"{case.ours} of {key}: {a!r}, Spark has {b!r} for {case.expected}"


NAN = float("nan")


def _history(chance: random.Random, grow: bool) -> Iterator[Rows]:
    """A change a step. Rows are often equal, and every group loses rows, one of them all."""
    present: list[tuple[Any, ...]] = []
    pool: list[tuple[Any, ...]] = []
    for step in range(STEPS):
        change = Rows()
        if not grow:
            gone = [row for row in present if row[0] == step - 1] + chance.sample(present, len(present) // 3)
            for row in gone:
                if row in present:
                    present.remove(row)
                    change[row] -= 1
        for _ in range(14):
            row = chance.choice(pool) if pool and chance.random() < 0.2 else _row(chance, len(pool))
            pool.append(row)
            present.append(row)
            change[row] += 1
        yield Rows({row: weight for row, weight in change.items() if weight})


def _row(chance: random.Random, number: int) -> tuple[Any, ...]:
    return (
        chance.choice([None, 0, 1, 2, 3]),
        chance.choice([None, 0.0, -0.0, NAN]),
        number,
        chance.choice([None, 0, 1, 2, 5, -7]),
        chance.choice([None, "", "x", "y", "é\x00z"]),
        chance.choice(
            [None, 0.0, -0.0, 1.5, -2.5, float("inf"), float("-inf"), NAN] if number % 3 == 0 else [1.5, -0.0, 7.25]
        ),
        chance.choice([None, 0.1, 0.5, -3.25, 1000.0, 17.0]),
        chance.choice([None, Decimal("1.10"), Decimal("-2.05"), Decimal("9999999999.99"), Decimal(0)]),
        chance.choice([None, Decimal("0.0001"), Decimal("12345678901234567890.0123"), Decimal(-1)]),
        chance.choice(
            [
                None,
                datetime(1960, 1, 1, 0, 0, 0, 1, UTC),
                datetime(2024, 2, 29, tzinfo=UTC),
                datetime(2001, 1, 1, tzinfo=UTC),
            ]
        ),
        chance.choice([None, True, False]),
        chance.choice([None, b"", b"\x00", b"\xff"]),
    )


def _contexts(circuit: Circuit, store: DictStore, step: int) -> Callable[[int], StepContext]:
    return contexts_of(circuit, store, step)


def _step(circuit: Circuit, store: DictStore, step: int, change: Rows) -> Rows:
    """The change of the one view."""
    context = _contexts(circuit, store, step)
    changes: list[pa.Table] = []
    for index, node in enumerate(circuit.nodes):
        if isinstance(node, Source):
            changes.append(to_table(change, node.types))
            continue
        operate = operator_of(node).step
        assert operate is not None
        changes.append(operate(node, [changes[i] for i in node.inputs], context(index)))
        changes[-1].validate(full=True)
    return _rows_of(changes[-1])


def _asked_for(circuit: Circuit, store: DictStore) -> Rows:
    """The content of the one view, as a query reads it after the last step."""
    view = next(index for index, node in enumerate(circuit.nodes) if isinstance(node, View))
    return _rows_of(content_of(circuit, view, _contexts(circuit, store, STEPS)))


def _rows_of(table: pa.Table) -> Rows:
    """As `zsets.to_rows`, with lists and structs as tuples, which have a hash."""
    rows = Rows()
    for *row, weight in zip(*(column.to_pylist() for column in table.columns), strict=True):
        rows[tuple(map(_frozen, row))] += weight
    return Rows({row: weight for row, weight in rows.items() if weight})


class Double(float):
    """A double that equals itself, also NaN, and in which -0.0 differs from 0.0. Otherwise a Counter would take the retraction of a row with
    -0.0 for that of a row with 0.0."""

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(map(_frozen, value.values()))
    if isinstance(value, float):
        return Double(value)
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
