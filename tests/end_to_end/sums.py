"""The smallest project with state: sums by key, with hooks for what a test wants to differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F

from tests.end_to_end.harness import Playground, Resolved, Value
from tests.end_to_end.oracle import Answer, Batch, Ends, Messages


def files(source: str = "", total: str = "sum(n)") -> dict[str, str]:
    """`source`: more properties of the source, beginning with a comma."""
    return {
        "sums.sql": f"""
CREATE STREAMING TABLE numbers (k STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@in'{source});
CREATE MATERIALIZED VIEW sums TBLPROPERTIES ('topic' = '@out', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, {total} AS total, count(*) AS n FROM numbers GROUP BY k;
"""
    }


def project(
    play: Playground,
    source: str = "",
    *,
    rows: int = 2,
    workers: int = 1,
    total: str = "sum(n)",
) -> Resolved:
    """`rows`: of a step, at most."""
    conf: dict[str, Any] = {"stepwell.step.rows.max": rows, "stepwell.workers": workers}
    return play.resolve(files(source, total), conf)


def row(k: str, n: int) -> Value:
    return {"k": k, "n": n}


def rows(first: int, count: int) -> list[Value]:
    """Over three keys."""
    return [row("abc"[i % 3], i) for i in range(first, first + count)]


def left_without_checkpoint(play: Playground, source: str = "", **options: Any) -> Resolved:
    """A pipeline that stopped at a malformed message in its third step: two steps are written, and in no checkpoint."""
    play.topic("in")
    play.send("in", [*rows(0, 4), "rubbish", *rows(5, 3)])
    resolved = project(play, source, **options)
    try:
        play.run(resolved)
    except Exception as fault:
        assert "malformed" in str(fault)
    state = play.log(resolved)
    assert (state.steps, len(state.pending), state.checkpoints) == (2, 2, ())
    return resolved


def batch(play: Playground) -> Batch:
    """Spark's answer at every boundary, of all in one query: a row counts at each boundary that it lies below."""

    def answers(inputs: Messages, boundaries: Sequence[Ends]) -> list[dict[str, Answer]]:
        rows = [(t, p, m.offset, (m.value or b"").decode()) for (t, p), found in inputs.items() for m in found]
        ends = [(i, *place, end) for i, limits in enumerate(boundaries) for place, end in limits.items()]
        numbers = play.spark.createDataFrame(rows, "topic STRING, part INT, at LONG, text STRING")
        parsed = numbers.withColumn("row", F.from_json("text", "k STRING, n INT")).select("*", "row.*")
        below = parsed.join(
            play.spark.createDataFrame(ends, "i INT, topic STRING, part INT, `end` LONG"), ["topic", "part"]
        )
        sums = below.where("at < `end`").groupBy("i", "k").agg(F.sum("n").alias("total"), F.count("*").alias("n"))
        texts: list[list[str]] = [[] for _ in boundaries]
        for i, text in sums.select(
            "i", F.to_json(F.struct("k", "total", "n"), {"ignoreNullFields": "false"})
        ).collect():
            texts[i].append(text)
        return [{"sums": Answer(found)} for found in texts]

    return answers
