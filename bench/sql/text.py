"""The results for people."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.sql.measuring import Measured

SUITE_TITLES = {"nexmark": "Nexmark", "tpch": "TPC-H", "tpcds": "TPC-DS"}

_WIDTHS = (8, 6, 7, 6, 8, 9, 9, 9, 9, 7)
_TITLES = ("suite", "query", "lowers", "equal", "rows", "load ms", "step ms", "max", "Spark ms", "ratio")


def title() -> str:
    return _aligned(_TITLES)


def line(row: Measured) -> str:
    """One row, with what differed or what was refused behind it."""
    cells = (
        row.suite,
        row.query,
        row.lowers,
        row.equal,
        row.rows,
        row.load_ms,
        row.step_ms,
        row.step_ms_max,
        row.batch_ms,
        row.ratio,
    )
    return f"{_aligned([_cell(cell) for cell in cells])}  {row.problem}".rstrip()


def summary(rows: Sequence[Measured]) -> str:
    """How many forms of each suite lower and equal Spark, and the ratio of a step to a batch run."""
    return "\n".join(
        _of_suite(suite, [row for row in rows if row.suite == suite]) for suite in dict.fromkeys(r.suite for r in rows)
    )


def section(rows: Sequence[Measured]) -> list[dict[str, object]]:
    """The rows of the section in BENCHMARKS.md, with a table a suite."""
    return [
        {
            "what": SUITE_TITLES[row.suite],
            "query": row.query,
            "lowers": row.lowers,
            "equal": row.equal,
            "rows": row.rows,
            "step_ms": row.step_ms,
            "spark_ms": row.batch_ms,
            "step_of_spark": row.ratio,
            "refused_or_wrong": row.problem.replace("|", "/"),
        }
        for row in rows
    ]


def _of_suite(suite: str, rows: Sequence[Measured]) -> str:
    text = f"{suite}: {sum(row.lowers for row in rows)} of {len(rows)} lower, {sum(row.equal is True for row in rows)} equal Spark"
    ratios = sorted((row.ratio, row.query) for row in rows if row.ratio is not None)
    if not ratios:
        return text
    worst, query = ratios[-1]
    above = sum(ratio > 0.1 for ratio, _ in ratios)
    middle = statistics.median(ratio for ratio, _ in ratios)
    return f"{text}; step / batch: median {middle:.3f}, worst {worst:.3f} ({query}), {above} above 0.1"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _aligned(cells: Sequence[str]) -> str:
    return " ".join(
        f"{cell:<{width}}" if i < 2 else f"{cell:>{width}}"
        for i, (cell, width) in enumerate(zip(cells, _WIDTHS, strict=True))
    )
