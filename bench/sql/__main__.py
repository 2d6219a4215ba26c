"""`python -m bench.sql` runs the suites' queries incrementally, compares them with Spark after every change, and measures both.

    --lower-only           only says which queries lower, and what refuses the others
    --suite tpch           only this suite (several with commas)
    --queries q01,q03      only these queries
    --scale 0.02           the scale factor
    --workers 2            the number of workers, which share this process
    --output FILE          where the rows of the table are written as JSON

The exit status is 1 if an answer was not Spark's.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from bench.sql import measuring
from bench.sql.lowering import forms, table
from bench.sql.measuring import Measured, Options, SuiteRun
from bench.sql.suites import SUITES
from bench.sql.text import line, summary, title
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
    parser.add_argument("--scale", type=float, help="the scale factor of each suite")
    parser.add_argument("--workers", type=int, default=1, help="the number of workers")
    parser.add_argument("--output", type=Path, default=measuring.RESULTS, help="the file for the results")
    options = parser.parse_args()
    suites = [name for name in options.suite.split(",") if name] or list(SUITES)
    names = [name for name in options.queries.split(",") if name]
    spark = make_session("stepwell-suites", BATCH_SETTINGS, java_options="")  # with Java's optimising compiler
    spark.sparkContext.setLogLevel("ERROR")
    if options.lower_only:
        print(table([form for suite in suites for form in forms(SUITES[suite](), spark, names)]))
        return
    rows = _measured(suites, names, spark, options)
    print(summary(rows))
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
                measuring.write(rows, options.output)
    return rows


if __name__ == "__main__":
    main()
