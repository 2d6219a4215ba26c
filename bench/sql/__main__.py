"""`python -m bench.sql` runs the suites' queries incrementally, compares them with Spark after every change, and measures both.

    --lower-only           only says which queries lower, and what refuses the others
    --add                  with --lower-only: adds those that lower to bench/sql/lowers.txt
    --edits                only says how much state an edit of a suite's project keeps
    --suite tpch           only this suite (several with commas)
    --queries q01,q03      only these queries
    --scale 0.02           the scale factor
    --workers 2            the number of workers, which share this process
    --output FILE          where the rows of the table are written as JSON, in place of BENCHMARKS.md

A run without --output over whole suites, with their scales, is written to bench/results/sql.json and BENCHMARKS.md.

The exit status is 1 if an answer was not Spark's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from pyspark.sql import SparkSession

from bench import report
from bench.sql import edits
from bench.sql.lowering import add_known, forms, table
from bench.sql.measuring import Measured, Options, SuiteRun
from bench.sql.suites import SUITES
from bench.sql.text import SUITE_TITLES, line, section, summary, title
from stepwell.spark.session import make_session

SCALES = {"nexmark": 0.1, "tpch": 0.02, "tpcds": 0.01}
"""Scale factors at which Spark's batch run of most queries takes longer than its start of a job."""

ROWS = Path("build/sql/rows")
"""Generated rows, which the next run reads."""

BATCH_SETTINGS = {"spark.sql.adaptive.enabled": "true", "spark.sql.shuffle.partitions": "4"}
"""Spark's batch runs have its adaptive plans, and no more partitions than little data needs."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sql", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--suite", default=",".join(SUITES), help="suites, with commas between them")
    parser.add_argument("--queries", default="", help="queries, with commas between them; all by default")
    parser.add_argument("--lower-only", action="store_true", help="only say which queries lower")
    parser.add_argument("--add", action="store_true", help="add those that lower to the list of those that must")
    parser.add_argument("--scale", type=float, help="the scale factor of each suite")
    parser.add_argument("--workers", type=int, default=1, help="the number of workers")
    parser.add_argument("--output", type=Path, help="a file for the results, in place of BENCHMARKS.md")
    parser.add_argument("--edits", action="store_true", help="only say how much state an edit keeps")
    options = parser.parse_args()
    suites = [name for name in options.suite.split(",") if name] or list(SUITES)
    names = [name for name in options.queries.split(",") if name]
    spark = make_session("stepwell-suites", BATCH_SETTINGS, java_options="")  # with Java's optimising compiler
    spark.sparkContext.setLogLevel("ERROR")
    if options.edits:
        print(edits.table([kept for suite in suites for kept in edits.kept_of(SUITES[suite](), spark)]))
        return
    if options.lower_only:
        found = [form for suite in suites for form in forms(SUITES[suite](), spark, names)]
        print(table(found))
        if options.add:
            add_known(found)
        return
    rows = _measured(suites, names, spark, options)
    print(summary(rows))
    if options.output is None and not names and options.scale is None:
        _publish(rows)
    raise SystemExit(any(row.equal is False for row in rows))


def _measured(suites: list[str], names: list[str], spark: SparkSession, options: argparse.Namespace) -> list[Measured]:
    rows: list[Measured] = []
    print(title())
    with tempfile.TemporaryDirectory(prefix="stepwell-suites-") as work:
        for suite in suites:
            chosen = Options(options.scale or SCALES[suite], workers=options.workers)
            run = SuiteRun(SUITES[suite](), spark, ROWS, Path(work), chosen)
            for row in run.rows(names):
                print(line(row), flush=True)
                rows.append(row)
                if options.output is not None:
                    options.output.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return rows


def _publish(rows: list[Measured]) -> None:
    """Puts the rows into bench/results/sql.json, beside those of the suites that did not run, and writes BENCHMARKS.md."""
    before = json.loads(report.SQL.read_text())["rows"] if report.SQL.exists() else []
    new = section(rows)
    kept = [row for row in before if row["what"] not in {row["what"] for row in new}]
    order = list(SUITE_TITLES.values())
    whole = sorted(kept + new, key=lambda row: order.index(row["what"]))
    setting = report.Setting.here("make benchmarks-sql")
    note = (
        f"Written by `{setting.command}`, last on {setting.date}: {setting.cores} cores ({setting.cpu}). Scale factors: "
        f"{', '.join(f'{SUITE_TITLES[name]} {scale}' for name, scale in SCALES.items())} (Nexmark: in millions of events). *step_ms* is the "
        "median of five steps, each after 1 % of the rows of every table were inserted, updated or deleted, on one worker in process, with "
        "its database and without Kafka. *spark_ms* is the median of three batch runs of the same query by Spark over the same rows in "
        "Parquet, on all cores. *equal*: after the load and after each change the view held Spark's answer."
    )
    report.SQL.write_text(json.dumps({"rows": whole, "note": note}, indent=1) + "\n")
    report.rewrite()


if __name__ == "__main__":
    main()
