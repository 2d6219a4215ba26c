"""`make demo`: from an empty folder to a table that says whether Stepwell kept its promise.

    broker, topics -> reference data -> service starts -> flights are sent, airlines and planes are corrected and deleted
    -> a view is edited, and `stepwell apply` changes it while steps go on
    -> kill -9 -> service starts again, replays, continues -> it gets one worker more, while steps go on -> all is read
    -> stepwell stop -> every view against Spark's batch answer of the edited project

The exit status is 0 if every view is equal and every step was written once, otherwise 1. All files are in build/demo, and the table is in
build/demo.json.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

from examples.flights.edit import Edited, edit, edited_as
from examples.flights.resize import Resized, resize
from examples.flights.show import Recovery, Show, Stage, Totals, main
from io_kafka.broker.local import LocalBroker

EDIT_AT = 0.1
"""The share of the input that is read before the edit: there are routes then that the view takes in by its new definition."""

SLOW_MESSAGES = 1500
"""Sent at each look while the edit is applied. Most of that time Spark starts and plans, and the service should have something to read."""

SLOW_TO = 0.5
"""The share of the input at which no more is sent while the edit is applied, however long that takes."""

KILL_AT = 0.4
"""The share of the input that is read before the kill. A checkpoint fits before it, and enough input is left after it."""


class Demo(Show):
    """One broker, and a service in local mode that is killed."""

    gate_at = EDIT_AT + 0.05
    # The rest is sent after the kill, so that the second run has something to read.
    second_gate_at = 0.75

    def start_world(self) -> str:
        running = LocalBroker.find_running(self.folder / "broker")
        if running is not None:
            running.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        with self.console.status("starting a Kafka broker (the first time it is downloaded)"):
            self._broker = LocalBroker(self.folder / "broker").start(die_with_parent=True)
        self.console.print(f"Kafka broker at {self._broker.bootstrap_servers}")
        return self._broker.bootstrap_servers

    def end_world(self) -> None:
        self._broker.stop()

    def happen(self, stage: Stage) -> Totals:
        service, watch, story = stage.service, stage.watch, stage.story
        service.start()
        story.until("the service starts", lambda: watch.state.steps > 0)
        edited, slow_messages, slow_s = self._edit(stage)
        stage.feed.open_gate(int(self.second_gate_at * stage.messages))
        story.until(
            "streaming", lambda: watch.messages_read > KILL_AT * stage.messages and watch.steps_after_checkpoint > 0
        )
        service.kill()
        watch.look()
        killed_at, replay = time.monotonic(), watch.steps_after_checkpoint
        stage.feed.open_gate()
        restarted_at = service.start()
        story.until("killed with SIGKILL, recovering", lambda: len(watch.first_step_at) > 1)
        resized: list[Resized] = []
        story.meanwhile("a worker more, live", lambda: resized.append(resize(service, 1)))
        story.until("streaming", lambda: watch.messages_read == stage.messages)
        done_at = time.monotonic()
        story.say("stopping at a checkpoint")
        service.stop()
        watch.look()
        first, second = min(watch.first_step_at), max(watch.first_step_at)
        assert first < second, "the second run has claimed an epoch of its own"
        lived_s = killed_at - watch.first_step_at[first] - slow_s + done_at - watch.first_step_at[second]
        recovery = Recovery("service killed", replay, round(watch.first_step_at[second] - restarted_at, 1))
        return stage.totals(lived_s, (recovery,), resized[0], edited, slow_messages)

    def _edit(self, stage: Stage) -> tuple[Edited, int, float]:
        """Edits a view while messages come slowly. Returns what it cost, and how many messages were read meanwhile in how many seconds."""
        watch, feed = stage.watch, stage.feed
        stage.story.until("streaming", lambda: watch.messages_read > EDIT_AT * stage.messages)
        read, began = watch.messages_read, time.monotonic()
        answers: list[dict[str, Any]] = []
        slow_to = int(SLOW_TO * stage.messages)
        stage.story.meanwhile(
            "a view is edited, live",
            lambda: answers.append(edit(self.folder / "project", stage.service)),
            beside=lambda: feed.open_gate(min(feed.sent + SLOW_MESSAGES, slow_to)),
        )
        watch.look()
        return edited_as(answers[0], watch.state), watch.messages_read - read, time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main(Demo, __doc__, Path("build/demo")))
