"""The benchmark's own arithmetic: input, batch answers, latency, figures. That it measures the right thing is as much a claim as its results."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench import check, generate
from bench.generate import CHUNK_ROWS, PARTITIONS, Shape
from bench.latency import TRACED, Arrivals, readable_at
from bench.measure import Usage
from bench.medians import medians, ratios
from bench.result import Result, Step, fill
from bench.topics import Messages
from bench.workloads import FULL, WORKLOADS

SHAPE = Shape(seed=3)


def test_any_range_of_rows_is_the_same_as_in_the_whole() -> None:
    whole = pa.concat_tables(generate.bids(SHAPE, 0, 2 * CHUNK_ROWS))
    part = pa.concat_tables(generate.bids(SHAPE, CHUNK_ROWS - 5, CHUNK_ROWS + 7))
    assert part.to_pylist() == whole.slice(CHUNK_ROWS - 5, 12).to_pylist()


def test_a_bid_is_taken_back_once_and_only_after_it_came_in_its_partition() -> None:
    ((rows, weights),) = generate.changes(SHAPE, 0, CHUNK_ROWS)
    names = generate.as_json(rows).to_pylist()
    assert (weights < 0).sum() * 3 == CHUNK_ROWS
    for partition in range(PARTITIONS):
        live: Counter[str] = Counter()
        for i in range(partition, CHUNK_ROWS, PARTITIONS):
            live[names[i]] += int(weights[i])
            assert live[names[i]] >= 0, f"message {i} takes back what is not there"


def test_runs_over_the_changelog_begin_at_a_chunk() -> None:
    for _, rows, _ in (*FULL.ours, *FULL.theirs):
        assert (FULL.rows - rows) % CHUNK_ROWS == 0


def _messages(keys: list[str | None], values: list[str | None]) -> Messages:
    n = len(values)
    data = [pa.array([None if v is None else v.encode() for v in column], pa.binary()) for column in (keys, values)]
    return Messages(pa.array(np.zeros(n, np.int32)), *data, pa.array(np.zeros(n, np.int64)))


def _w2(auction: int, bids: int, total: int, top: int) -> str:
    return f'{{"auction":{auction},"bids":{bids},"total":{total},"top":{top}}}'


EXPECTED = pa.table({"auction": [1, 2], "bids": [2, 1], "total": [30, 5], "top": [20, 5]})


def test_of_an_upsert_topic_the_last_message_of_each_key_counts() -> None:
    found = _messages(
        ["a1", "a3", "a1", "a2", "a3"],
        [_w2(1, 1, 10, 10), _w2(3, 1, 1, 1), _w2(1, 2, 30, 20), _w2(2, 1, 5, 5), None],
    )
    assert check.difference(WORKLOADS["W2"], found, EXPECTED) is None


@pytest.mark.parametrize(
    ("values", "difference"),
    [
        ([_w2(1, 2, 30, 20)], "1 keys missing, 0 too many, 0 wrong"),
        ([_w2(1, 2, 30, 20), _w2(2, 1, 6, 5)], "0 keys missing, 0 too many, 1 wrong"),
        ([_w2(1, 2, 30, 20), _w2(2, 1, 5, 5), _w2(4, 1, 5, 5)], "0 keys missing, 1 too many, 0 wrong"),
    ],
)
def test_a_wrong_output_is_told(values: list[str], difference: str) -> None:
    found = _messages([str(i) for i in range(len(values))], list(values))
    assert check.difference(WORKLOADS["W2"], found, EXPECTED) == difference


def test_a_repeated_row_of_an_append_topic_is_told() -> None:
    row = '{"auction":3,"bidder":1,"price_eur":9,"channel":"APPLE","date_time":"2026-11-01T00:00:00.120Z"}'
    expected = check.rows_of(WORKLOADS["W1"], _messages([None], [row]))
    assert (
        check.difference(WORKLOADS["W1"], _messages([None], [row.replace("T", " ", 1).replace("120Z", "12")]), expected)
        is None
    )
    assert check.difference(WORKLOADS["W1"], _messages([None, None], [row, row]), expected) == "1 rows too many of 1"


def test_a_bid_is_readable_when_the_count_of_its_auction_reaches_it() -> None:
    keys = [b"7", b"8", b"7", b"7"]
    arrivals = Arrivals(at=[1.0, 2.0, 3.0], key=[b"7", b"7", b"8"], count=[2, 1, 1])
    assert readable_at(keys, arrivals).tolist() == [1.0, 3.0, 1.0, np.inf]


@pytest.mark.parametrize("workload", ["W1", "W2"])
def test_every_bid_is_found_in_the_output_of_its_workload(workload: str) -> None:
    """The batch answer over the bids one after another, as messages: all that must come are found, and nothing else."""
    bids = next(generate.bids(Shape(), 0, 2_000))
    traced, arrivals = TRACED[workload](), Arrivals()
    keys, must_come = traced.keys(bids)
    counts: Counter[int] = Counter()
    for number, row in enumerate(bids.to_pylist()):
        counts[row["auction"]] += 1
        if workload == "W2":
            message = f'{{"auction":{row["auction"]},"bids":{counts[row["auction"]]},"total":1,"top":1}}'
        elif row["price"] > 5_000 and row["auction"] % 3 == 0:
            at = row["date_time"].isoformat(timespec="milliseconds")
            message = f'{{"auction":{row["auction"]},"bidder":{row["bidder"]},"price_eur":1,"channel":"APPLE","date_time":"{at}Z"}}'
        else:
            continue
        traced.take(message.encode(), float(number), arrivals)
    expected = [key for key, must in zip(keys, must_come, strict=True) if must]
    assert readable_at(expected, arrivals).tolist() == np.flatnonzero(must_come).tolist()


def test_figures_are_of_the_steps_after_the_warm_up() -> None:
    steps = [Step(10.0, 100), Step(14.0, 100), Step(15.0, 100), Step(16.5, 100), Step(17.5, 100)]
    usage = Usage(at=[0.0, 20.0], tree_cpu_s=[0.0, 40.0], broker_cpu_s=[0.0, 2.0], machine_idle_s=[0.0, 0.0])
    result = Result("stepwell", "W1", 100)
    fill(result, steps, 200, usage)
    assert (result.steps, result.rows, result.rows_per_s) == (3, 300, round(300 / 3.5))
    assert (result.step_ms_p50, result.step_ms_max) == (1000.0, 1500.0)
    assert result.cpu_s_per_million == round(7.0 / 300 * 1e6, 2)


def _result(engine: str, step_rows: int, rate: int, **more: Any) -> Result:
    return Result(engine, "W1", step_rows, rows_per_s=rate, **more)


def test_of_several_rounds_the_median_is_shown() -> None:
    rounds = [
        _result("stepwell", 10, 300, step_ms_p50=4.0, parts={"read": 1.0}, equal=True),
        _result("stepwell", 10, 100, step_ms_p50=9.0, parts={"read": 5.0}, equal=True, note="slow"),
        _result("stepwell", 10, 200, step_ms_p50=6.0, parts={"read": 3.0}, equal=False),
    ]
    (shown,) = medians(rounds)
    assert (shown.rows_per_s, shown.step_ms_p50, shown.parts, shown.equal) == (200, 6.0, {"read": 3.0}, False)
    assert (shown.note, shown.latency_ms_p50) == ("slow", None)


def test_a_round_that_failed_is_told_and_has_no_figures() -> None:
    failed = Result("stepwell", "W1", 10, failed="no broker")
    (shown,) = medians([_result("stepwell", 10, 100), failed, _result("stepwell", 10, 300)])
    assert (shown.rows_per_s, shown.failed, shown.note) == (200, None, "failed in a round of 3: no broker")
    assert medians([failed, failed]) == [failed]


def test_ratios_are_taken_within_a_round() -> None:
    results = []
    for mine, mine_large, theirs in [(400, 100, 100), (100, 90, 50), (900, 300, 300)]:
        results += [_result("stepwell", 10, mine), _result("stepwell", 20, mine_large), _result("pyflink", 20, theirs)]
    assert ratios(results, "stepwell", "pyflink") == (3.0, {20: 1.0})
    assert ratios(results, "stepwell", "structured_streaming") == (None, {})
