"""Any of a source's partitions may have rows in a step, whatever worker reads them."""

from __future__ import annotations

from typing import Any

from tests.end_to_end.harness import Playground, Value

SOURCES = {
    "upserts": "'mode' = 'upsert', 'key' = 'k'",
    "changes": "'mode' = 'changelog', 'key' = 'k'",
    "both_images": "'mode' = 'changelog'",
    "inserts": "'mode' = 'append'",
}
PARTITIONS = 3


def message(table: str, k: int) -> tuple[Value, Value]:
    row: dict[str, Any] = {"k": k, "n": 10 * k}
    envelope = {"before": None, "after": row, "op": "c"}
    return (str(k) if table in ("upserts", "changes") else None), (row if table in ("upserts", "inserts") else envelope)


def test_two_workers_and_three_partitions(play: Playground) -> None:
    """All partitions have rows in the first step, one of them in the second: one worker reads two partitions and the other one."""
    tables = "".join(
        f"CREATE STREAMING TABLE {table} (k INT, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@{table}', {mode});\n"
        f"CREATE MATERIALIZED VIEW sums_of_{table} TBLPROPERTIES ('topic' = '@sums_of_{table}', 'mode' = 'upsert', 'key' = 'parity')\n"
        f"  AS SELECT k % 2 AS parity, sum(n) AS total, count(*) AS rows FROM {table} GROUP BY k % 2;\n"
        for table, mode in SOURCES.items()
    )
    for table in SOURCES:
        play.topic(table, PARTITIONS)
    conf: dict[str, Any] = {"stepwell.workers": 2}
    resolved = play.resolve({"tables.sql": tables}, conf)
    for step, filled in enumerate([range(PARTITIONS), [1]]):
        for table in SOURCES:
            for partition in filled:
                first = 100 * step + partition
                play.send(table, [message(table, first + PARTITIONS * i) for i in range(4)], partition)
        assert play.run(resolved)["steps_run"] == 1
        assert play.check(resolved) == {f"sums_of_{table}": 2 for table in SOURCES}
