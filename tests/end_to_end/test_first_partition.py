"""Somebody gives the step log, or the topic of plan documents, more partitions: nothing stops as long as they are empty."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition

from io_kafka.clients.plan_topic import PLAN_TOPIC_CONFIG
from io_kafka.clients.step_log_reader import LOG_CONFIG, UnsuitableStepLog
from stepwell.doctor.kafka import log_checks, plan_topic_check
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Resolved

CONFIGS = {"steps": LOG_CONFIG, "plans": PLAN_TOPIC_CONFIG}


@pytest.mark.parametrize("which", ["steps", "plans"])
def test_partitions_behind_the_first_are_not_used(
    play: Playground, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    """In the step log messages there are refused, with a text that can be followed."""
    play.topic("in")
    pipeline = sums.project(play)
    topic = f"stepwell.{pipeline.spec.name}.{which}"
    play.topics.ensure(topic, 3, CONFIGS[which])
    replace(play, prefix="").send(topic, [("key", "foreign")], 2)
    play.send("in", sums.rows(0, 4))
    if which == "steps":
        with pytest.raises(
            UnsuitableStepLog, match=r"there are messages in partition 2.* Delete the messages of these"
        ):
            play.run(pipeline)
        assert level(play, pipeline, which) == "FAIL"
        place = TopicPartition(topic, 2, -1)
        play.admin.delete_records([place])[place].result()
    for first in (4, 8):
        play.run(pipeline)
        assert play.check(pipeline) == {"sums": 3}
        play.send("in", sums.rows(first, 4))
    assert "it has 3 partitions, of which only the first is used" in capsys.readouterr().out
    assert level(play, pipeline, which) == "WARN"


def level(play: Playground, pipeline: Resolved, which: str) -> str:
    """What the doctor says of the topic."""
    if which == "plans":
        return plan_topic_check(play.topics, pipeline.spec.name).level
    return log_checks({"bootstrap.servers": play.servers}, play.topics, pipeline.spec.name, [], ())[0].level
