"""`python -m bench.sql` runs the suites' queries incrementally and compares them with Spark.

    --lower-only           only says which queries lower, and what refuses the others
    --suite tpch           only this suite (several with commas)
    --queries q01,q03      only these queries
"""

from __future__ import annotations

import argparse

from bench.sql.lowering import forms, table
from bench.sql.suites import SUITES
from stepwell.spark.session import make_session


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sql", description=__doc__.split("\n")[0])
    parser.add_argument("--suite", default=",".join(SUITES), help="suites, with commas between them")
    parser.add_argument("--queries", default="", help="queries, with commas between them; all by default")
    parser.add_argument("--lower-only", action="store_true", help="only say which queries lower")
    options = parser.parse_args()
    names = [name for name in options.queries.split(",") if name]
    spark = make_session("stepwell-suites", {})
    spark.sparkContext.setLogLevel("ERROR")
    found = [form for suite in options.suite.split(",") for form in forms(SUITES[suite](), spark, names)]
    print(table(found))


if __name__ == "__main__":
    main()
