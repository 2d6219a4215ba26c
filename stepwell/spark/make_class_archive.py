"""Makes the archive of the JVM's classes if it does not exist.

python -m stepwell.spark.make_class_archive      takes about 15 s and 150 MB, once per Python environment
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

from stepwell.spark.class_archive import BESIDE, QUIET, archive
from stepwell.spark.session import FAST_START, SMALL_HEAP, make_session

EXIT_SECONDS_MAX = 300.0
"""The time for the JVM to write the archive and end. This takes 10 s on an idle machine, and took more than two minutes on one that others used.
Without the archive each start of Spark takes twice the processor time."""

NO_IDLE_WORKER = {"spark.python.worker.reuse": "false"}
"""A Python worker that waits for its next task can print a traceback when the JVM ends."""


DEFINITION = """
CREATE MATERIALIZED VIEW v AS
WITH latest AS (SELECT k, max(d) AS d, sum(n) AS n FROM t WHERE n > 1 AND k IS NOT NULL GROUP BY k HAVING count(*) > 0)
SELECT t.k, latest.n + 1 AS n, avg(t.n) OVER (PARTITION BY t.k ORDER BY t.d DESC) AS a, explode(array(t.n, 1)) AS e,
  CASE WHEN t.s IN ('a', 'b') THEN upper(t.s) ELSE cast(t.d AS DATE) END AS s
FROM t LEFT JOIN latest ON t.k = latest.k WHERE t.n > (SELECT min(n) FROM latest) AND EXISTS (SELECT 1 FROM t u WHERE u.k = t.k)
UNION ALL SELECT DISTINCT k, 1L, 1D, 1, s FROM t ORDER BY k LIMIT 9;
"""
"""A definition with what queries usually have, so that the classes of most rules of Spark's analyser and optimiser are loaded."""


NICENESS = 19
"""The least wish for the processor that there is."""


def under_way(place: Path) -> bool:
    """Whether another process makes this archive. Removes the drafts of processes that have ended before they were ready."""
    found = False
    for draft in place.parent.glob(f"{place.stem}.*"):
        number = draft.suffix.removeprefix(".")
        if number.isdecimal() and psutil.pid_exists(int(number)):
            found = True
        elif number.isdecimal():
            draft.unlink(missing_ok=True)
    return found


def make(place: Path) -> None:
    """Starts a session, runs a query and a Python task in it, and ends its JVM. On its way out the JVM writes the classes that it has loaded."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(f".{os.getpid()}")
    draft.touch()  # so that another one sees it
    options = f'"-XX:ArchiveClassesAtExit={draft}" {QUIET} {FAST_START} {SMALL_HEAP}'
    session = make_session("classes", NO_IDLE_WORKER, java_options=options)
    session.range(9).groupBy("id").count().collect()
    session.sparkContext.parallelize([0], 1).map(str).collect()
    _plan(session)
    session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when its standard input closes
    gateway.proc.wait(EXIT_SECONDS_MAX)
    if not draft.stat().st_size:
        draft.unlink()
        raise FileNotFoundError(f"nothing in {draft}")
    draft.rename(place)


def _plan(session: SparkSession) -> None:
    """What a start does with a definition: it is split off its file, analysed, optimised and read as JSON."""
    session.createDataFrame(pa.table({"x": [1]})).toArrow()
    columns = "k string, n bigint, s string, d timestamp"
    session.createDataFrame([], columns).createOrReplaceTempView("t")
    splitter = getattr(session._jvm, "org.apache.spark.sql.pipelines.graph.SqlGraphRegistrationContext")
    splitter.splitSqlFileIntoQueries(session._jsparkSession, DEFINITION, "definition.sql")
    planned = session.sql(DEFINITION.split(" AS\n", 1)[1].rstrip(";\n"))._jdf.queryExecution()
    planned.analyzed().toJSON()
    planned.optimizedPlan().toJSON()


def main() -> None:
    wanted = archive()
    if wanted is None:
        sys.exit("there is no Java: neither JAVA_HOME nor the path names one")
    if wanted.exists():
        return
    if BESIDE in sys.argv[1:]:
        os.nice(NICENESS)
        if under_way(wanted):
            return
    try:
        make(wanted)
    except (OSError, subprocess.TimeoutExpired) as fault:
        sys.stderr.write(
            f"This Java wrote no archive of classes ({fault}). Sessions work without it and start a little later.\n"
        )


if __name__ == "__main__":
    main()
