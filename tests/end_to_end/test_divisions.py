"""When the next step is divided: with the output of the one before it where a whole step waits, after it where less does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinator.checkpointing import Checkpointing
from coordinator.loop import Pipeline
from coordinator.requests import Requests
from coordinator.status import StatusBoard
from io_kafka.clients.writer import PipelineWriter
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Resolved


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


def test_over_a_backlog_the_next_division_stands_in_the_outputs_transaction(play: Playground) -> None:
    play.topic("in", partitions=2)
    resolved = sums.project(play)
    for partition in (0, 1):
        play.send("in", sums.rows(4 * partition, 4 - partition), partition)
    play.run(resolved)
    assert transactions(play, resolved) == [
        ["division 0"],
        ["step 0", "division 1"],
        ["step 1", "division 2"],
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
        def stepped(self, step: int, *args: Any, **named: Any) -> None:
            super().stepped(step, *args, **named)
            if step == 1:
                requests.ask("stop")

    Pipeline(resolved.spec, play.spark.sparkContext, requests, StopsAfterStep1(resolved.spec.name)).run()
    state = play.log(resolved)
    assert ([record.step for record in state.pending], state.steps, state.checkpoints[-1].step) == ([2], 2, 2)
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

    def checked(self: PipelineWriter, step: int, *args: Any, division_next: Any, **named: Any) -> Any:
        assert division_next is None or step == self.state.steps, "a division stands beside output that is not written"
        return write_step(self, step, *args, division_next=division_next, **named)

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
        def stepped(self, step: int, *args: Any, **named: Any) -> None:
            super().stepped(step, *args, **named)
            if step == 0:
                play.send("in", sums.rows(4, 6))

    board = SendsMore(resolved.spec.name)
    Pipeline(resolved.spec, play.spark.sparkContext, Requests(), board).run(available_now=True)
    assert board.show()["rows"] == 4
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


def interrupted(*_: Any) -> None:
    raise InterruptedError
