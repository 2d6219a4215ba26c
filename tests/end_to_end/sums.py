"""The smallest project with state: sums by key, with hooks for what a test wants to differ."""

from __future__ import annotations

from typing import Any

from tests.end_to_end.harness import Playground, Resolved, Value


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
    in_spark: bool = False,
) -> Resolved:
    """`rows`: of a step, at most. `in_spark`: steps so small would run in the driver."""
    conf: dict[str, Any] = {"stepwell.step.rows.max": rows, "stepwell.workers": workers}
    if in_spark:
        conf["stepwell.step.driver.rows.max"] = 0
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
    assert (state.steps, len(state.pending), state.checkpoints) == (2, 1, ())
    return resolved
