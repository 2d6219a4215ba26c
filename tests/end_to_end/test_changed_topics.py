"""Topics that others change: deleted, made again, grown, expired or compacted, while a pipeline runs or between two runs."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from base.fault import ExitCode, exit_code_of
from coordinator.starting.errors import TopicChanged
from faults.points import Crash, CrashOrder, arm
from io_kafka.clients.step_log_reader import StepLogGone
from io_kafka.clients.writer_faults import WriteRefused
from io_kafka.errors import KafkaFault, OffsetGone, UnknownTopic
from io_kafka.step_log.output_progress import InputChanged
from stepwell.doctor.kafka import log_checks
from storage.database import Database
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Resolved, wait_until


def stops(play: Playground, resolved: Resolved, fault: type[Exception], text: str) -> None:
    with pytest.raises(fault, match=text) as e:
        play.run(resolved)
    assert exit_code_of(e.value) == ExitCode.KAFKA


def written(play: Playground) -> Resolved:
    play.topic("in")
    play.send("in", sums.rows(0, 4))
    resolved = sums.project(play)
    play.run(resolved)
    return resolved


def test_input_that_expired_before_it_was_read_stops_the_run(play: Playground) -> None:
    resolved = written(play)
    play.send("in", sums.rows(4, 6))
    before = play.read("out")
    place = TopicPartition(f"{play.prefix}in", 0, 7)
    play.admin.delete_records([place])[place].result()
    checks = log_checks(dict(resolved.spec.kafka.options), play.topics, resolved.spec.name, (), ())
    assert [check.found for check in checks if check.level == "FAIL"] == [
        "partition 0 begins at offset 7, and the pipeline goes on at offset 4"
    ]
    for _ in range(2):
        stops(
            play, resolved, OffsetGone, r"in' partition 0: offset 4 does not exist.*\[7, 10\).*expired.*--full-refresh"
        )
    assert play.read("out") == before
    play.run(resolved, full_refresh=True)
    assert play.check(resolved) == {"sums": 3}


def test_an_input_topic_that_is_gone_stops_the_run(play: Playground) -> None:
    resolved = written(play)
    play.delete_topic("in")
    stops(play, resolved, UnknownTopic, f"'{play.prefix}in' does not exist on this broker. Create it")


def test_an_output_topic_that_is_gone_is_not_made_again(play: Playground) -> None:
    resolved = written(play)
    play.delete_topic("out")
    stops(play, resolved, TopicChanged, f"topic {play.prefix}out, which this pipeline has written to, was deleted")
    assert f"{play.prefix}out" not in play.topics.names()
    play.run(resolved, full_refresh=True)
    play.check(resolved)


def test_an_output_topic_with_more_partitions_stops_the_run(play: Playground) -> None:
    resolved = written(play)
    play.grow("out", 5)
    stops(play, resolved, TopicChanged, f"output topic {play.prefix}out had 2 partitions and has 5 now.*--full-refresh")


def is_another(play: Playground, topic: str, topic_id: str) -> bool:
    try:
        return play.topics.describe([topic])[topic].topic_id != topic_id
    except UnknownTopic:
        return False


@pytest.mark.parametrize("is_made_anew", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_topic_of_plan_documents_that_is_deleted_under_a_run_is_written_again(
    play: Playground, is_made_anew: bool
) -> None:
    """The run is the last one that knows them, and the next start needs them."""
    resolved = written(play).at_pace(growth_seconds=0.0)
    topic = resolved.spec.plan_topic
    with play.running(resolved) as run:
        run.wait_until(lambda status: status["phase"] == "run")
        before = play.topics.describe([topic])[topic].topic_id
        play.admin.delete_topics([topic], operation_timeout=20)[topic].result()
        if is_made_anew:
            play.topics.ensure(topic, 1, {"cleanup.policy": "compact"})
        wait_until(lambda: run.fault is not None or is_another(play, topic, before))
        wait_until(lambda: run.fault is not None or len(play.read(topic, prefixed=False)) > 0)
        play.send("in", sums.rows(4, 4))
    play.run(resolved)
    assert play.check(resolved) == {"sums": 3}


# A writer waits some seconds, or a minute, for a topic that was there just now.
@pytest.mark.parametrize("name", ["in", *(pytest.param(name, marks=pytest.mark.soak) for name in ("out", "log"))])
def test_a_topic_deleted_under_a_run_stops_it(play: Playground, name: str) -> None:
    """And the next run says so as well: nothing is made again in silence."""
    resolved = written(play)
    with play.running(resolved) as run:
        run.wait_until(lambda status: status["phase"] == "run")
        topic = resolved.spec.log_topic if name == "log" else play.prefix + name
        play.admin.delete_topics([topic], operation_timeout=20)[topic].result()
        if name != "in":
            play.send("in", sums.rows(4, 4))
        wait_until(lambda: run.fault is not None)
    assert isinstance(run.fault, KafkaFault) and topic in str(run.fault), run.fault
    assert isinstance(run.fault, {"in": UnknownTopic, "out": WriteRefused, "log": StepLogGone}[name])
    with pytest.raises(Exception, match=r"deleted|does not exist") as e:
        play.run(resolved)
    assert exit_code_of(e.value) in (ExitCode.KAFKA, ExitCode.STATE)


def test_topics_made_anew_under_a_run_are_noticed(play: Playground) -> None:
    resolved = written(play).at_pace(growth_seconds=0.0)
    with play.running(resolved) as run:
        run.wait_until(lambda status: status["phase"] == "run")
        run.requests.ask("pause")  # while the topic is missing, nobody looks
        run.wait_until(lambda status: status["phase"] == "paused")
        play.delete_topic("out")
        play.topic("out", 2)
        wait_until(lambda: play.prefix + "out" in play.topics.names())  # the broker tells of it a moment later
        run.requests.ask("resume")
        wait_until(lambda: run.fault is not None)
    assert isinstance(run.fault, TopicChanged) and "was deleted and created again" in str(run.fault)


@pytest.mark.soak
def test_input_that_was_compacted_under_a_replay_stops_the_run(play: Playground) -> None:
    """The broker's own cleaner does it, which looks once in 15 s."""
    play.topic("in")
    compacted = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"}
    entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in compacted.items()]
    resource = ConfigResource(ResourceType.TOPIC, play.prefix + "in", incremental_configs=entries)
    play.admin.incremental_alter_configs([resource])[resource].result()
    play.send("in", [({"k": "a"}, sums.row("a", n)) for n in range(4)])
    resolved = sums.project(play, ", 'mode' = 'upsert', 'key' = 'k'")
    with arm(CrashOrder("checkpoint.paused", "raise")), pytest.raises(Crash):
        play.run(resolved)
    Database.close_all()
    before = play.read("out")
    play.send("in", [({"k": "b"}, sums.row("b", 1))])  # the cleaner leaves the last segment alone
    wait_until(lambda: len(play.read("in")) < 5)
    stops(play, resolved, InputChanged, f"step 0.*{play.prefix}in")
    assert play.read("out") == before
    play.run(resolved, full_refresh=True)
    assert play.check(resolved) == {"sums": 2}
