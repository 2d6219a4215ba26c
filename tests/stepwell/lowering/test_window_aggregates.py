"""Every aggregate function over frames of a window, step by step over insertions and retractions, beside Spark's batch answer.

The rows have a total order, so that Spark's lists and first values are determined. Rows that are there several times are told apart by their
number.
"""

from __future__ import annotations

import random
import re

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.model.ordered import OWN_FUNCTIONS, Window
from engine.operators import window_aggregates
from engine.operators.aggregate_functions import FUNCTIONS
from engine.state.store import DictStore
from stepwell.lowering.driver import lower
from tests.engine.zsets import Rows, plus
from tests.stepwell.lowering.projects import Workbench
from tests.stepwell.lowering.test_aggregate_functions import (
    COMPARED,
    TABLE,
    Case,
    _compare,
    _history,
    _rows_of,
    _step,
    close,
    covariance,
    same_but_for_zeros,
)

KEYS = 3
"""Columns by which a row is found in both answers."""

MOMENTS = [
    Case(text, compare=close)
    for text in (
        "stddev(b)", "stddev_samp(d)", "stddev_pop(d)", "variance(m)", "var_samp(w)", "var_pop(e)", "stddev(e) FILTER (WHERE f)",
        "covar_samp(e, b)", "corr(e, id)", "corr(e, b) FILTER (WHERE f)", "regr_slope(e, id)", "regr_intercept(e, id)", "regr_r2(e, b)",
        "regr_sxx(e, b)", "regr_sxy(e, b)", "regr_syy(e, b)", "regr_count(e, b)", "regr_avgx(e, b)", "skewness(e)", "kurtosis(e)",
    )
]  # fmt: skip
MOMENTS.append(Case("covar_pop(d, e)", compare=covariance))
CASES = [
    *MOMENTS,
    Case("count(*)"),
    Case("count(b, s)"),
    Case("sum(b)"),
    Case("avg(m)"),
    Case("sum(d)", compare=same_but_for_zeros),
    Case("min(d)", compare=same_but_for_zeros),
    Case("max(w)"),
    Case("max(array(b, id))"),
    Case("min(struct(s, b))"),
    Case("bool_and(f)"),
    Case("count_if(b > 1)"),
    Case("try_sum(b)"),
    Case("try_sum(if(m IS NULL, NULL, 90000000000000000000000000000000000000BD))"),
    Case("try_avg(w) FILTER (WHERE f)"),
    Case("approx_count_distinct(s)"),
    Case("approx_count_distinct(d)"),
    Case("approx_count_distinct(b) FILTER (WHERE f)"),
    Case("max_by(s, id)"),
    Case("min_by(d, id)"),
    Case("max_by(struct(id, d), id) FILTER (WHERE f)"),
    Case("max_by(s, id, 3)"),
    Case("min_by(d, id, 2) FILTER (WHERE b > 1)"),
    Case("collect_list(b)"),
    Case("collect_list(d)"),
    Case("collect_list(s) RESPECT NULLS"),
    Case("collect_list(struct(s, b, m))"),
    Case("array_agg(w) FILTER (WHERE f)"),
    Case("collect_set(s)", "sort_array(collect_set(s){})"),
    Case("listagg(s, '|')"),
    Case("listagg(y)"),
    Case("mode(s)", "mode(s, true){}"),
    Case("bit_and(b)"),
    Case("bit_or(id)"),
    Case("bit_xor(b)"),
    Case("percentile(d, 0.3)"),
    Case("percentile(m, array(0, 0.25, 0.5, 1))"),
    Case("percentile_approx(b, 0.5)"),
    Case("approx_percentile(t, array(0.1, 0.9))"),
    Case("first(s)"),
    Case("first(s) FILTER (WHERE b > 1)"),
    Case("last(s) FILTER (WHERE f)"),
    Case("first(d) IGNORE NULLS"),
    Case("last(d) FILTER (WHERE b > 1) IGNORE NULLS"),
    Case("any_value(m) FILTER (WHERE id > 20)"),
]
ORDERED = "PARTITION BY k ORDER BY id"
FRAMES = {
    "running": ORDERED,
    "the last rows": f"{ORDERED} ROWS 3 PRECEDING",
    "rows to come, of which there may be none": f"{ORDERED} DESC ROWS BETWEEN 1 FOLLOWING AND 4 FOLLOWING",
    "a range": "ORDER BY id RANGE BETWEEN 5 PRECEDING AND 2 FOLLOWING",
    "the whole partition": f"{ORDERED} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
}
SELDOM = ("a range", "rows to come, of which there may be none")
NOT_OVER = {"percentile_disc"}
"""Spark has it with WITHIN GROUP alone, which it does not take over a frame."""

RAN: set[str] = set()


def _query(texts: list[str], frame: str) -> str:
    columns = ", ".join(f"{text} AS r{number}" for number, text in enumerate(texts))
    numbered = f"row_number() OVER ({re.sub(' (ROWS|RANGE).*', '', frame)})"
    return f"SELECT k, id, {numbered} AS n, {columns} FROM t WINDOW w AS ({frame})"


@pytest.mark.parametrize(
    "frame", [pytest.param(name, marks=pytest.mark.long if name in SELDOM else []) for name in FRAMES]
)
def test_every_function_of_frames_is_sparks(spark: SparkSession, frame: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames are read in portions of some rows, with longer frames among them."""
    monkeypatch.setattr(window_aggregates, "PORTION_ROWS_MAX", 7)
    bench = Workbench(spark).source("t", TABLE, "changelog")
    circuit = lower(bench.view("v", _query([f"{case.ours} OVER w" for case in CASES], FRAMES[frame])).project())
    RAN.update(call.function for node in circuit.nodes if isinstance(node, Window) for call in node.calls)
    store, whole, content = DictStore(), Rows(), Rows()
    for step, change in enumerate(_history(random.Random(frame), grow=False)):
        whole = plus(whole, change)
        content = plus(content, _step(circuit, store, step, change))
        if step not in COMPARED:
            continue
        spark.createDataFrame(list(whole.elements()), TABLE).coalesce(1).createOrReplaceTempView("t")
        expected = [(case.sparks or f"{case.ours}{{}}").format(" OVER w") for case in CASES]
        answer = spark.sql(_query(expected, FRAMES[frame])).toArrow()
        sparks = _rows_of(answer.append_column("weight", pa.array([1] * len(answer), pa.int64())))
        _compare(CASES, KEYS, list(content.elements()), list(sparks.elements()))


def test_every_function_was_run_over_a_frame() -> None:
    """A function without a case would never be compared with Spark."""
    if "collect_list" not in RAN:
        pytest.skip("no case has run")
    assert set(FUNCTIONS) - NOT_OVER == RAN - OWN_FUNCTIONS
