"""What the step log says about the service: how much it has read, which steps are committed, and since when.

It works whether the service is alive or not, because the log is a topic.
"""

from __future__ import annotations

import time

from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import StepLogReader, ensure_step_log
from io_kafka.clients.topics import Topics
from io_kafka.step_log.records import StepRecord
from io_kafka.step_log.state import StepLogState


class StepLogWatch:
    """`look` brings it up to date. Times are of time.monotonic, and as exact as the looks are frequent."""

    def __init__(self, servers: str, log_topic: str) -> None:
        settings = KafkaSettings.parse({"bootstrap.servers": servers})
        ensure_step_log(Topics(settings), log_topic)
        self._reader = StepLogReader(settings, log_topic)
        self.state = StepLogState(log_topic)
        self.first_step_at: dict[int, float] = {}  # epoch -> when its first new step was seen

    def look(self) -> None:
        self.state, tail = self._reader.read_tail(self.state)
        for record in tail:
            if isinstance(record, StepRecord):
                self.first_step_at.setdefault(record.epoch, time.monotonic())

    @property
    def messages_read(self) -> int:
        """Input messages of committed steps."""
        return sum(r.end - r.start for step in range(self.state.steps) for r in self.state.divisions[step].ranges)

    @property
    def steps_after_checkpoint(self) -> int:
        """The number of steps that a crash now would replay; 0 while there is no checkpoint."""
        return self.state.steps - self.state.checkpoints[-1].step if self.state.checkpoints else 0
