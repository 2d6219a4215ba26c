"""doctor compares what the step log reads next with what the inputs hold."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from io_kafka.clients.topics import TopicFacts
from io_kafka.errors import BrokerUnreachable
from io_kafka.offsets import TopicPartition
from stepwell.doctor.positions import position_checks

IN = TopicPartition("in", 0)


class Broker:
    """Has topic `in` with one partition, which holds `begin` up to `end`."""

    def __init__(self, begin: int, end: int, *, id: str = "a", is_away: bool = False) -> None:
        self.begin, self.end, self.id, self.is_away = begin, end, id, is_away

    def names(self) -> set[str]:
        if self.is_away:
            raise BrokerUnreachable("localhost:9092", "listing topics", "no answer")
        return {"in", "other"}

    def describe(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        return {name: TopicFacts(name, self.id, 1, {}) for name in names}

    def begin_offsets(self, names: Iterable[str]) -> dict[TopicPartition, int]:
        return {TopicPartition(name, 0): self.begin for name in names}

    def high_watermarks(self, names: Iterable[str]) -> dict[TopicPartition, int]:
        return {TopicPartition(name, 0): self.end for name in names}


def log(checkpoint: int | None, *starts: int, next_: int) -> Any:
    """Steps from 0 on, whose divisions begin at `starts`. `checkpoint`: its step."""
    divisions = {
        step: SimpleNamespace(step=step, ranges=(SimpleNamespace(where=IN, start=start),))
        for step, start in enumerate(starts)
    }
    return SimpleNamespace(
        next_offsets={IN: next_, TopicPartition("gone", 0): 5},
        divisions=divisions,
        checkpoints=() if checkpoint is None else (SimpleNamespace(step=checkpoint),),
        topics={"in": SimpleNamespace(topic="in", id="a")},
    )


AT_50 = log(2, 10, 20, 30, 40, next_=50)
"""The checkpoint is before step 2, which has read from offset 30."""


@pytest.mark.parametrize(
    ("broker", "found"),
    [
        (Broker(30, 50), None),
        (Broker(0, 1000), None),
        (
            Broker(31, 50),
            "partition 0 begins at offset 31, and the steps since the last checkpoint have read from offset 30",
        ),
        (Broker(51, 70), "partition 0 begins at offset 51, and the pipeline goes on at offset 50"),
        (Broker(0, 49), "partition 0 ends at offset 49, and the pipeline goes on at offset 50"),
        (Broker(0, 1000, id="b"), "it was deleted and created again since it was read"),
        (Broker(0, 0, is_away=True), None),
    ],
)
def test_what_a_start_reads_has_to_be_there(broker: Broker, found: str | None) -> None:
    checks = position_checks(broker, AT_50)  # type: ignore[arg-type]
    assert [(check.name, check.level, check.found) for check in checks] == (
        [] if found is None else [("input in", "FAIL", found)]
    )
    assert all(check.what_to_do for check in checks)


def test_without_a_checkpoint_all_steps_are_replayed() -> None:
    broker: Any = Broker(11, 50)
    assert len(position_checks(broker, log(None, 10, 20, next_=50))) == 1
    assert position_checks(broker, log(1, 10, 20, next_=50)) == []
    assert position_checks(broker, log(2, 10, 20, next_=50)) == [], "a checkpoint after the last step"
