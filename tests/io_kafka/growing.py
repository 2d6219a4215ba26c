"""A step log in memory that grows in place, for tests of what reads its state."""

from __future__ import annotations

from dataclasses import fields

from io_kafka.step_log.records import Record
from io_kafka.step_log.state import StepLogState


class GrowingLog(StepLogState):
    """Production code gets a new state for each record; here `append` makes this object the new state."""

    def append(self, record: Record) -> None:
        now = StepLogState(**{each.name: getattr(self, each.name) for each in fields(StepLogState)})
        vars(self).update(vars(now.apply(record, now.offset_next)))
