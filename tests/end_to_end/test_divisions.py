"""When the next step is divided: with the output of the one before it where a whole step waits, after it where less does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from coordinator.checkpoints.checkpointing import Checkpointing
from coordinator.goal import Goal
from coordinator.requests import Requests
from coordinator.shown_status import next_step_of
from coordinator.status import StatusBoard
from io_kafka.clients.transactions import FencedLog
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.division import StepLimits
from io_kafka.step_log.records import DivisionRecord, Record
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Resolved, renamed


def transactions(play: Playground, resolved: Resolved) -> list[list[str]]:
    """The log's divisions and steps, by the transaction that they stand in: the end of one takes an offset too."""
    found: list[list[str]] = []
    offset_next = -1
    for message in play.read(resolved.spec.log_topic, prefixed=False):
        assert message.value is not None
        record = json.loads(message.value)
        if message.offset != offset_next:
            found.append([])
        offset_next = message.offset + 1
        if record["kind"] in ("division", "step"):
            found[-1].append(f"{record['kind']} {record['step']}")
    return [records for records in found if records]


def test_over_a_backlog_the_next_divisions_stand_in_the_outputs_transaction(play: Playground) -> None:
    play.topic("in", partitions=2)
    resolved = sums.project(play)
    for partition in (0, 1):
        play.send("in", sums.rows(4 * partition, 4 - partition), partition)
    play.run(resolved)
    assert transactions(play, resolved) == [
        ["division 0"],
        ["step 0", "division 1", "division 2"],  # the workers run step 1 now, and step 2 while step 1 is written
        ["step 1"],
        ["step 2"],
        ["division 3"],  # one row was left: it might have been more by now
        ["step 3"],
    ]
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 4


def test_a_stop_leaves_a_division_that_the_next_run_takes_up(play: Playground) -> None:
    play.topic("in")
    resolved = sums.project(play)
    play.send("in", sums.rows(0, 8))
    requests = Requests()

    class StopsAfterStep1(StatusBoard):
        def note_step(self, step: int, *args: Any, **named: Any) -> None:
            super().note_step(step, *args, **named)
            if step == 1:
                requests.ask("stop")

    board = StopsAfterStep1(resolved.spec.name)
    play.run(resolved, board=board, requests=requests, goal=Goal.SERVE)
    state = play.log(resolved)
    # Step 2 was running when step 1 was written.
    assert ([record.step for record in state.pending], state.steps, state.checkpoints[-1].step) == ([3], 3, 3)
    assert play.run(resolved)["steps_replayed"] == 0
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 4


def test_a_replay_divides_nothing(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its output is not written, so what would stand beside it would be lost."""
    play.topic("in")
    play.send("in", sums.rows(0, 2))
    resolved = sums.project(play)
    with monkeypatch.context() as crash, pytest.raises(InterruptedError):
        crash.setattr(Checkpointing, "do", interrupted)
        play.run(resolved)
    assert (play.log(resolved).steps, play.log(resolved).pending) == (1, ())
    play.send("in", sums.rows(2, 4))  # a whole step waits while step 0 is replayed
    write_step = PipelineWriter.write_step

    def checked(self: PipelineWriter, step: int, *args: Any, divisions: Sequence[DivisionRecord], **named: Any) -> Any:
        assert not divisions or step == self.state.steps, "a division stands beside output that is not written"
        return write_step(self, step, *args, divisions=divisions, **named)

    monkeypatch.setattr(PipelineWriter, "write_step", checked)
    assert play.run(resolved)["steps_replayed"] == 1
    assert transactions(play, resolved)[2:] == [["division 1"], ["step 1", "division 2"], ["step 2"]]
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 3


def test_available_now_takes_what_was_there_when_it_began(play: Playground) -> None:
    """A producer that goes on would else keep it from ending."""
    play.topic("in")
    resolved = sums.project(play)
    play.send("in", sums.rows(0, 4))

    class SendsMore(StatusBoard):
        def note_step(self, step: int, *args: Any, **named: Any) -> None:
            super().note_step(step, *args, **named)
            if step == 0:
                play.send("in", sums.rows(4, 6))

    board = SendsMore(resolved.spec.name)
    assert play.run(resolved, board=board)["rows"] == 4
    assert play.run(resolved)["rows"] == 6
    assert play.check(resolved) == {"sums": 3}


def test_a_pipeline_without_state_goes_on_from_its_checkpoint(play: Playground) -> None:
    """None of its tasks opens a database, and yet a checkpoint says which step is next."""
    play.topic("in")
    resolved = play.resolve({
        "large.sql": """
CREATE STREAMING TABLE numbers (k STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE MATERIALIZED VIEW large TBLPROPERTIES ('topic' = '@large') AS SELECT k, n FROM numbers WHERE n > 2;
"""}, {"stepwell.step.rows.max": 2, "stepwell.workers": 2})  # fmt: skip
    for first in (0, 4):
        play.send("in", sums.rows(first, 4))
        status = play.run(resolved)
        assert (status["steps_run"], status["steps_replayed"]) == (2, 0)
    assert play.log(resolved).checkpoints[-1].step == 4
    assert play.check(resolved) == {"large": 5}
    assert play.check_steps(resolved) == 4


def test_a_step_without_state_that_is_too_large_on_one_worker_is_run_again_by_all(play: Playground) -> None:
    """The other workers have finished it when one of them says how large it is."""
    play.topic("in", partitions=2)
    files = {
        "all.sql": """
CREATE STREAMING TABLE texts (k STRING, text STRING) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE MATERIALIZED VIEW letters TBLPROPERTIES ('topic' = '@letters') AS SELECT k, length(text) AS n FROM texts;
"""
    }
    resolved = play.resolve(files, {"stepwell.workers": 2})
    resolved = replace(resolved, spec=replace(resolved.spec, limits=StepLimits(1_000, BYTES, message_bytes=1)))
    for partition, length in ((0, 10), (1, 1000)):
        play.send("in", [{"k": "abc"[i % 3], "text": "x" * length} for i in range(8)], partition)
    status = play.run(resolved)
    assert status["recoveries"] == 0 and status["steps_run"] > 2
    assert play.check(resolved) == {"letters": 16}
    assert play.check_steps(resolved) == status["steps_run"]


BYTES = 3_000
LARGE = {
    "large.sql": """
CREATE STREAMING TABLE large (k STRING, n INT, text STRING) USING kafka TBLPROPERTIES ('subscribe' = '@large');
CREATE STREAMING TABLE small (k STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@small', 'mode' = 'upsert', 'key' = 'k');
CREATE MATERIALIZED VIEW sums TBLPROPERTIES ('topic' = '@out', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, sum(n) AS total, sum(length(text)) AS letters, count(*) AS rows FROM large GROUP BY k
  UNION ALL SELECT concat('small ', k), n, 0, 1 FROM small;
"""
}


def ranges(play: Playground, resolved: Resolved) -> dict[int, dict[tuple[str, int], tuple[int, int]]]:
    """The divisions of the steps as they were run."""
    found = {}
    for message in play.read(resolved.spec.log_topic, prefixed=False):
        assert message.value is not None
        record = json.loads(message.value)
        if record["kind"] == "division":
            found[record["step"]] = {(r["topic"], r["partition"]): (r["start"], r["end"]) for r in record["ranges"]}
    return found


def test_a_step_holds_no_more_bytes_than_it_may_with_any_number_of_workers(play: Playground) -> None:
    """Large messages in two partitions, small ones in another topic, one that is larger than a step may be. With one worker and with three the
    divisions are the same, and no step holds more than its bytes."""
    play.topic("large", partitions=2)
    play.topic("small", partitions=2)
    for partition in (0, 1):
        play.send("large", [{"k": "abc"[i % 3], "n": i, "text": "x" * 100 * i} for i in range(8)], partition)
        play.send("small", [(str(k), {"k": str(k), "n": k}) for k in range(partition, 40, 2)], partition)
    play.send("large", [{"k": "a", "n": 1, "text": "y" * 2 * BYTES}, {"k": "b", "n": 1, "text": "z"}])
    divisions = []
    for workers in (1, 3):
        resolved = play.resolve(LARGE, {"stepwell.step.bytes.max": BYTES})
        other = renamed(resolved, f"-{workers}", workers)
        other = replace(other, spec=replace(other.spec, limits=StepLimits(1_000, BYTES, message_bytes=1)))
        play.run(other)
        divisions.append(ranges(play, other))
        status = play.run(other)
        assert status["steps_run"] == 0
        assert status["step"] + 1 == next_step_of(status) == play.log(other).steps
        assert play.check_steps(other) == len(divisions[-1])
        assert [m.content for m in play.read("out-1")] == [m.content for m in play.read(f"out-{workers}")]
    assert divisions[0] == divisions[1]
    assert len(divisions[0]) > 4
    sizes = {
        (topic, m.partition, m.offset): len(m.key or b"") + len(m.value or b"")
        for topic in resolved.spec.input_topics
        for m in play.read(topic, prefixed=False)
    }
    for division in divisions[0].values():
        held = [[sizes[*place, offset] for offset in range(*span)] for place, span in division.items()]
        assert sum(sum(each) for each in held if len(each) > 1) <= BYTES
    published_by_first = replace(resolved.project, views=tuple(
        replace(view, output=view.output and replace(view.output, topic=view.output.topic + "-1")) for view in resolved.project.views
    ))  # fmt: skip
    assert play.check(replace(resolved, project=published_by_first)) == {"sums": 43}


@pytest.mark.long
@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_crash_around_a_second_division_changes_nothing(
    play: Playground, is_recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run finds the first division or the second one, and comes to the same steps."""
    play.topic("in")
    play.send("in", sums.rows(0, 40))
    resolved = sums.project(play)
    limits = StepLimits(1_000, 150, message_bytes=1)
    plain, crashed = (
        replace(each, spec=replace(each.spec, limits=limits))
        for each in (renamed(resolved, "-plain", 1), renamed(resolved, "-crashed", 1))
    )
    play.run(plain)
    append = FencedLog.append

    def crashes(self: FencedLog, records: Sequence[Record]) -> None:
        is_second = isinstance(records[0], DivisionRecord) and records[0].step == 2 and 2 in self.state.divisions
        if is_recorded or not is_second:
            append(self, records)
        if is_second:
            raise InterruptedError

    with monkeypatch.context() as crash, pytest.raises(InterruptedError):
        crash.setattr(FencedLog, "append", crashes)
        play.run(crashed)
    assert (play.log(crashed).steps, len(play.log(crashed).pending)) == (2, 1)
    play.run(crashed)
    assert len(ranges(play, plain)) > 5
    assert ranges(play, crashed) == ranges(play, plain)
    assert [m.content for m in play.read("out-crashed")] == [m.content for m in play.read("out-plain")]


def test_a_step_with_output_is_replayed_whole_where_the_bound_is_lower_now(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 8))
    resolved = sums.project(play, rows=8)
    with monkeypatch.context() as crash, pytest.raises(InterruptedError):
        crash.setattr(Checkpointing, "do", interrupted)
        play.run(resolved)
    assert play.log(resolved).steps == 1
    play.send("in", sums.rows(8, 8))
    lower = replace(resolved, spec=replace(resolved.spec, limits=StepLimits(8, 40, message_bytes=1)))
    status = play.run(lower)
    assert (status["steps_replayed"], status["steps_run"]) == (1, 4)
    assert [list(each.values()) for each in ranges(play, lower).values()] == [
        [(0, 8)],
        *([(n, n + 2)] for n in (8, 10, 12, 14)),
    ]
    assert play.check(resolved) == {"sums": 3}


def interrupted(*_: Any) -> None:
    raise InterruptedError
