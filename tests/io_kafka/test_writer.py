"""The one writer, on a real broker: commits, crashes, fences, and commits in doubt."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from base.version import VersionId
from io_kafka.broker.local import LocalBroker
from io_kafka.clients import step_log_reader
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import UnsuitableStepLog, ensure_step_log
from io_kafka.clients.topics import Topics
from io_kafka.clients.transactions import Claimant, FencedLog
from io_kafka.clients.writer import STEP_HEADER, HandleOutput, PipelineWriter
from io_kafka.clients.writer_faults import Fenced, OutcomeUnknown, WriteRefused
from io_kafka.clients.writer_limits import WriterLimits
from io_kafka.errors import NoLeader
from io_kafka.outside import REAL
from io_kafka.step_log.digest import MESSAGES_SCHEMA, canonical, digest
from io_kafka.step_log.output_progress import DigestMismatch, StepBeyondEnd
from io_kafka.step_log.records import CheckpointIntent, DivisionRecord, InputRange, Record, StepRecord
from io_kafka.step_log.state import BrokenStepLog, StepLogState
from tests.conftest import Broker
from tests.io_kafka.layouts import auto, layout, placed
from tests.io_kafka.ways import IN_BOTH_WAYS
from tests.settled import settle, settled_log

pytestmark = pytest.mark.usefixtures("way")

ENCODER = "test-1"
PARTITIONS = 3
Message = tuple[int, bytes | None, bytes | None]


class Pipe:
    """Topics of one test pipeline: a log, output `view` of three partitions, output `dead` of one."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self.prefix, self.log, self.id = prefix, f"{prefix}log", f"{prefix}pipeline"
        self.settings = KafkaSettings.parse({"bootstrap.servers": bootstrap_servers})
        topics = Topics(self.settings)
        ensure_step_log(topics, self.log)
        topics.ensure(f"{prefix}view", PARTITIONS)
        topics.ensure(f"{prefix}dead", 1)

    def writer(self, limits: WriterLimits | None = None) -> PipelineWriter:
        return PipelineWriter(FencedLog(self.settings, self.id, self.log, limits=limits))

    def started(self, limits: WriterLimits | None = None) -> PipelineWriter:
        writer = self.writer(limits)
        writer.log.start(Claimant("p", "here", os.getpid()))
        return writer

    def outputs(self, step: int) -> list[HandleOutput]:
        """Step s writes s + 1 messages to view/0, one to view/2, none to view/1; and one dead letter if s is odd."""
        view: list[Message] = [(0, b"k%d" % i, b"step %d row %d" % (step, i)) for i in range(step + 1)]
        dead: list[Message] = [(0, None, b"dead %d" % step)] if step % 2 else []
        return [
            HandleOutput("view", f"{self.prefix}view", PARTITIONS, table([*view, (2, b"gone", None)])),
            HandleOutput("dead", f"{self.prefix}dead", 1, table(dead)),
        ]

    def division(self, step: int, epoch: int) -> DivisionRecord:
        ranges = (InputRange(topic="in", partition=0, start=step * 10, end=step * 10 + 10),)
        return DivisionRecord(epoch=epoch, step=step, ranges=ranges)

    def step(self, writer: PipelineWriter, step: int, *, divide: bool = True) -> StepRecord | None:
        if divide and not writer.state.pending:
            writer.log.append([self.division(step, writer.epoch)])
        return writer.write_step(step, self.outputs(step), encoder=ENCODER)

    def visible(
        self, topic: str, partition: int, end: int | None = None
    ) -> list[tuple[int, bytes | None, bytes | None]]:
        """(step, key, value) of what a read_committed consumer finds in a partition of `view` or `dead`, below
        `end`."""
        found = []
        name = f"{self.prefix}{topic}"
        settle(self.settings, name, partition)
        with closing(Consumer(self.settings.consumer_config())) as consumer:
            low, high = consumer.get_watermark_offsets(ClientPartition(name, partition), timeout=30)
            consumer.assign([ClientPartition(name, partition, low)])
            at, stop = low, high if end is None else end
            while at < stop:
                message = consumer.poll(30)
                assert message is not None, f"{name}/{partition} stays at {at} of {stop}"
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    at = message.offset()
                    continue
                at = message.offset() + 1
                if at <= stop:
                    found.append((int(dict(message.headers())[STEP_HEADER]), message.key(), message.value()))
        return found

    def expected(self, topic: str, partition: int, steps: range) -> list[tuple[int, bytes | None, bytes | None]]:
        outputs = {(s, o.handle): o.messages.to_pylist() for s in steps for o in self.outputs(s)}
        return [(s, m["key"], m["value"]) for s in steps for m in outputs[s, topic] if m["partition"] == partition]

    def check_exactly(self, steps: int) -> None:
        """The output topics have the steps 0 .. steps - 1, each once; and so says the log."""
        state = settled_log(self.settings, self.log)
        state.check()
        assert state.steps == steps
        for topic, partitions in (("view", PARTITIONS), ("dead", 1)):
            for partition in range(partitions):
                assert self.visible(topic, partition) == self.expected(topic, partition, range(steps))


def table(messages: list[Message]) -> pa.Table:
    columns = [[m[i] for m in messages] for i in range(3)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, MESSAGES_SCHEMA, strict=True)]
    return canonical(pa.table(arrays, schema=MESSAGES_SCHEMA))


@pytest.fixture
def pipe(broker: Broker, topic_prefix: str) -> Pipe:
    return Pipe(broker.bootstrap_servers, topic_prefix)


@IN_BOTH_WAYS
def test_steps_are_written_with_their_digests_and_ends(pipe: Pipe) -> None:
    writer = pipe.started()
    assert writer.epoch == 0
    records = [pipe.step(writer, s) for s in range(4)]
    pipe.check_exactly(4)
    for step, record in enumerate(records):
        assert record is not None
        assert [(p.handle, p.partition) for p in record.outputs] == [("dead", 0), ("view", 0), ("view", 1), ("view", 2)]
        assert [p.messages for p in record.outputs] == [step % 2, step + 1, 0, 1]
        nothing = pa.array([], pa.binary())
        assert record.digests["view", 1] == digest(nothing, nothing, ENCODER)  # an empty partition has its digest
        for part in record.outputs:  # a consumer that reads up to the end has exactly the steps <= step
            assert pipe.visible(part.handle, part.partition, part.end) == pipe.expected(
                part.handle, part.partition, range(step + 1)
            )
    read = settled_log(pipe.settings, pipe.log)
    assert [read.step_records[s] for s in range(4)] == records
    assert read.__dict__ == writer.state.__dict__
    writer.log.close()


@IN_BOTH_WAYS
def test_the_next_division_travels_with_the_step(pipe: Pipe) -> None:
    writer = pipe.started()
    writer.log.append([pipe.division(0, writer.epoch)])
    writer.write_step(0, pipe.outputs(0), encoder=ENCODER, divisions=[pipe.division(1, writer.epoch)])
    assert [d.step for d in settled_log(pipe.settings, pipe.log).pending] == [1]
    pipe.step(writer, 1, divide=False)
    pipe.check_exactly(2)


@IN_BOTH_WAYS
def test_a_restart_goes_on_and_a_replay_is_compared(pipe: Pipe) -> None:
    first = pipe.started()
    before = [pipe.step(first, s) for s in range(3)]
    second = pipe.started()
    assert second.epoch == 1 and second.state.steps == 3
    assert [pipe.step(second, s, divide=False) for s in range(3)] == before  # written before: discarded
    with pytest.raises(DigestMismatch, match="step 1, output 'view' partition 0"):
        second.write_step(1, [pipe.outputs(2)[0], pipe.outputs(1)[1]], encoder=ENCODER)
    with pytest.raises(StepBeyondEnd, match="step 4 cannot be written: the output of step 3"):
        second.write_step(4, pipe.outputs(4), encoder=ENCODER)
    pipe.step(second, 3)
    pipe.check_exactly(4)


def test_the_older_of_two_writers_is_fenced(pipe: Pipe) -> None:
    old = pipe.started()
    pipe.step(old, 0)
    old.log.append([pipe.division(1, old.epoch)])
    new = pipe.started()
    with pytest.raises(Fenced, match="taken over from epoch 0: epoch 1"):
        pipe.step(old, 1, divide=False)
    with pytest.raises(Fenced):
        old.log.append([layout()])
    pipe.step(new, 1, divide=False)  # and was not disturbed by it
    pipe.check_exactly(2)


def test_a_claim_over_another_holder_than_the_one_looked_at_is_refused(pipe: Pipe) -> None:
    holder = pipe.started()
    late = pipe.writer()
    with pytest.raises(Fenced, match="epoch 0"):
        late.log.start(Claimant("p", "there", 1), expect_epoch=-1)
    assert settled_log(pipe.settings, pipe.log).epoch == holder.epoch


def test_what_an_older_writer_commits_until_it_is_fenced_is_known_to_the_next(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress is read after the fence: what was read before it may be overtaken by the very last commit."""
    old, new = pipe.started(), pipe.writer()
    pipe.step(old, 0)
    old.log.append([pipe.division(1, old.epoch)])
    read_tail, overtaken = new.log._reader.read_tail, False

    def read_then_overtake(state: StepLogState, **how: bool) -> tuple[StepLogState, list[Record]]:
        nonlocal overtaken
        tail = read_tail(state, **how)
        if not overtaken:
            overtaken = True
            pipe.step(old, 1, divide=False)
        return tail

    monkeypatch.setattr(new.log._reader, "read_tail", read_then_overtake)
    new.log.start(Claimant("p", "here", os.getpid()))
    assert overtaken and new.state.steps == 2
    pipe.step(new, 2)
    pipe.check_exactly(3)


# Crashes of the writer


class Stopping(FencedLog):
    """Says when it is about to commit, and when it has, and goes on when told to."""

    told: Connection | None = None

    def _commit(self, producer: Producer) -> None:
        self._say("before commit")
        super()._commit(producer)
        self._say("after commit")

    def _say(self, what: str) -> None:
        if self.told is not None:
            self.told.send(what)
            self.told.recv()


def write_until_killed(bootstrap_servers: str, prefix: str, told: Connection) -> None:
    pipe = Pipe(bootstrap_servers, prefix)
    log = Stopping(pipe.settings, pipe.id, pipe.log)
    writer = PipelineWriter(log)
    writer.log.start(Claimant("p", "here", os.getpid()))
    for step in range(2):
        pipe.step(writer, step)
    writer.log.append([pipe.division(2, writer.epoch)])
    log.told = told
    pipe.step(writer, 2, divide=False)


@pytest.mark.long
@pytest.mark.parametrize(("point", "steps"), [("before commit", 2), ("after commit", 3)])
def test_a_writer_killed_within_a_step_leaves_all_of_it_or_nothing(pipe: Pipe, point: str, steps: int) -> None:
    here, there = multiprocessing.Pipe()
    servers = pipe.settings.bootstrap_servers
    child = multiprocessing.get_context("spawn").Process(target=write_until_killed, args=(servers, pipe.prefix, there))
    child.start()
    try:
        while here.recv() != point:
            here.send("go on")
    finally:
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    next_run = pipe.started()  # aborts what was open
    pipe.check_exactly(steps)
    assert next_run.state.steps == steps
    assert [d.step for d in next_run.state.pending] == [2][: 3 - steps]  # step 2 stays divided as it was
    for step in range(steps, 5):
        pipe.step(next_run, step)
    pipe.check_exactly(5)


# Commits in doubt


class Doubting(FencedLog):
    """Does something to the world at the commit of its next transaction."""

    instead: Callable[[Callable[[], None]], None] | None = None

    def _commit(self, producer: Producer) -> None:
        act, self.instead = self.instead, None
        if act is None:
            super()._commit(producer)
        else:
            act(lambda: super(Doubting, self)._commit(producer))


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    local = LocalBroker(Path(tmp_path_factory.mktemp("mortal"))).start(die_with_parent=True)
    yield local
    local.stop()


def lost(commit: Callable[[], None]) -> None:
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the request never arrived"))


def answer_lost(commit: Callable[[], None]) -> None:
    commit()
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the answer never arrived"))


@pytest.mark.parametrize("fault", [lost, answer_lost])
def test_a_commit_without_an_answer_is_settled_by_the_log(
    pipe: Pipe, fault: Callable[[Callable[[], None]], None]
) -> None:
    log = Doubting(pipe.settings, pipe.id, pipe.log)
    writer = PipelineWriter(log)
    log.instead = fault
    assert writer.log.start(Claimant("p", "here", os.getpid())) == 0  # also the claim's own
    assert settled_log(pipe.settings, pipe.log).epoch == 0
    writer.log.append([layout()])
    for step in range(3):
        writer.log.append([pipe.division(step, 0)])
        log.instead = fault
        record = pipe.step(writer, step, divide=False)
        assert record == settled_log(pipe.settings, pipe.log).step_records[step]
    log.instead = fault
    intent = CheckpointIntent(epoch=0, version=VersionId(version=0, step=3, checkpoint_id="c"), placed=placed(0, 1))
    writer.log.append([intent])
    pipe.check_exactly(3)
    assert settled_log(pipe.settings, pipe.log).__dict__ == writer.state.__dict__
    assert writer.state.intent == intent.version


def test_a_fence_after_a_commit_without_an_answer_does_not_write_again(pipe: Pipe) -> None:
    """Another run made its producer and ended before its claim, while the commit was done and its answer lost."""
    log = Doubting(pipe.settings, pipe.id, pipe.log)
    writer = PipelineWriter(log)
    writer.log.start(Claimant("p", "here", os.getpid()))

    def fenced(commit: Callable[[], None]) -> None:
        commit()
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced by a newer producer instance"))

    writer.log.append([layout(), pipe.division(0, 0)])
    log.instead = fenced
    record = pipe.step(writer, 0, divide=False)
    assert record == settled_log(pipe.settings, pipe.log).step_records[0]
    before = settled_log(pipe.settings, pipe.log).offset_next
    log.instead = fenced
    writer.log.append([auto()])
    assert settled_log(pipe.settings, pipe.log).offset_next == before + 2, "a record and its marker, once"
    pipe.step(writer, 1)
    pipe.check_exactly(2)


def test_a_producer_that_has_seen_an_error_is_not_used_again(pipe: Pipe) -> None:
    """Not even where its commit was acknowledged: a late copy of a request that it sent twice could end half of its next transaction."""
    reports: list[Callable[[KafkaError], None]] = []  # one a producer

    def made(config: Mapping[str, Any]) -> Producer:
        reports.append(config["error_cb"])
        return REAL.producer(config)

    def lose_a_connection() -> None:
        reports[-1](KafkaError(KafkaError._TRANSPORT, "a connection was lost"))

    def commit_with_an_error(commit: Callable[[], None]) -> None:
        commit()
        lose_a_connection()

    settings = replace(pipe.settings, outside=replace(REAL, producer=made))
    log = Doubting(settings, pipe.id, pipe.log)
    writer = PipelineWriter(log)
    writer.log.start(Claimant("p", "here", os.getpid()))
    pipe.step(writer, 0)
    assert len(reports) == 1
    writer.log.append([pipe.division(1, 0)])
    log.instead = commit_with_an_error
    pipe.step(writer, 1, divide=False)
    assert len(reports) == 2, "a doubtful commit counted as made before the log was asked"
    lose_a_connection()
    pipe.step(writer, 2)
    assert len(reports) == 3
    pipe.check_exactly(3)


class Leaderless(Consumer):
    """A client whose partition has no leader, for a number of requests for its offsets."""

    answers: ClassVar[list[int]] = []

    def get_watermark_offsets(self, *given: Any, **named: Any) -> tuple[int, int]:
        if self.answers:
            raise KafkaException(KafkaError(self.answers.pop()))
        found: tuple[int, int] = super().get_watermark_offsets(*given, **named)
        return found


@pytest.mark.parametrize(
    "code", [KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._NOENT]
)
def test_a_step_log_without_a_leader_is_waited_for(pipe: Pipe, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens while a broker restarts: at the start, when a commit is in doubt, and when the log is searched for a
    successor. The wait is bounded."""
    monkeypatch.setattr(Leaderless, "answers", [code] * 3)
    settings = replace(pipe.settings, outside=replace(REAL, consumer=lambda config: Leaderless(dict(config))))
    log = Doubting(settings, pipe.id, pipe.log)
    writer = PipelineWriter(log)
    writer.log.start(Claimant("p", "here", os.getpid()))
    pipe.step(writer, 0)

    def leaderless_after(commit: Callable[[], None]) -> None:
        commit()
        Leaderless.answers.extend([code] * 3)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "a connection was lost"))

    writer.log.append([pipe.division(1, 0)])
    log.instead = leaderless_after
    pipe.step(writer, 1, divide=False)
    assert not Leaderless.answers
    Leaderless.answers.extend([code] * 3)
    writer.log.confirm()
    pipe.check_exactly(2)
    Leaderless.answers.extend([code] * 1000)
    with pytest.raises(NoLeader, match="no leader while reading the step log"):
        step_log_reader.StepLogReader(settings, pipe.log, timeout_s=0.3).read()


def test_a_broker_that_has_not_heard_of_a_new_step_log_is_waited_for(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster's broker may be asked before it has learned of the topic that another one has just created."""
    unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
    monkeypatch.setattr(Leaderless, "answers", [unknown] * 3)
    settings = replace(pipe.settings, outside=replace(REAL, consumer=lambda config: Leaderless(dict(config))))
    writer = PipelineWriter(Doubting(settings, pipe.id, pipe.log))
    writer.log.start(Claimant("p", "here", os.getpid()))
    pipe.step(writer, 0)
    pipe.check_exactly(1)
    Leaderless.answers.extend([unknown] * 3)
    with pytest.raises(step_log_reader.StepLogGone):
        step_log_reader.StepLogReader(settings, pipe.log).read()
    assert len(Leaderless.answers) == 2, "whoever only reads asks once"
    Leaderless.answers.extend([unknown] * 1000)
    monkeypatch.setattr(step_log_reader, "NEW_TOPIC_SECONDS_MAX", 0.3)
    with pytest.raises(step_log_reader.StepLogGone):
        step_log_reader.StepLogReader(settings, pipe.log).read(is_known=True)


class LateMarkers(Consumer):
    """A client to which the first answers about the last stable offset are those of a broker that has not written some markers yet."""

    answers: ClassVar[list[int]] = []

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._is_committed = config["isolation.level"] == "read_committed"

    def get_watermark_offsets(self, *given: Any, **named: Any) -> tuple[int, int]:
        low, end = super().get_watermark_offsets(*given, **named)
        return low, self.answers.pop() if self._is_committed and self.answers else end


def test_a_successor_whose_claim_has_no_marker_yet_is_waited_for(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit is acknowledged before its marker is written. A suspended run that wakes up in between would not find its successor."""
    settings = replace(pipe.settings, outside=replace(REAL, consumer=lambda config: LateMarkers(dict(config))))
    writer = PipelineWriter(Doubting(settings, pipe.id, pipe.log))
    writer.log.start(Claimant("p", "here", os.getpid()))
    writer.log.confirm()
    before = writer.state.offset_next
    PipelineWriter(Doubting(pipe.settings, pipe.id, pipe.log)).log.start(Claimant("p", "there", os.getpid()))
    monkeypatch.setattr(LateMarkers, "answers", [before] * 3)
    with pytest.raises(Fenced, match="on there"):
        writer.log.confirm()
    assert not LateMarkers.answers


def test_a_transaction_that_stays_open_is_not_waited_for(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(pipe.settings, outside=replace(REAL, consumer=lambda config: LateMarkers(dict(config))))
    writer = PipelineWriter(Doubting(settings, pipe.id, pipe.log))
    writer.log.start(Claimant("p", "here", os.getpid()))
    monkeypatch.setattr(step_log_reader, "DECIDED_SECONDS_MAX", 0.2)
    monkeypatch.setattr(LateMarkers, "answers", [writer.state.offset_next] * 1000)
    with pytest.raises(OutcomeUnknown, match="neither committed nor aborted"):
        writer.log.confirm()


@pytest.mark.long
@pytest.mark.parametrize("delay_ms", [None, pytest.param(1, marks=pytest.mark.soak)])
def test_a_broker_killed_around_a_commit_leaves_each_step_once(
    mortal: LocalBroker, topic_prefix: str, delay_ms: int | None
) -> None:
    """None: between produce and commit; otherwise that long after the commit was sent. Whichever way it went, the
    writer finds out and the step is there once."""
    pipe = Pipe(mortal.bootstrap_servers, topic_prefix)
    log = Doubting(pipe.settings, pipe.id, pipe.log)
    writer = PipelineWriter(log)
    writer.log.start(Claimant("p", "here", os.getpid()))
    pipe.step(writer, 0)
    writer.log.append([pipe.division(1, writer.epoch)])

    def restart() -> None:
        mortal.kill()
        mortal.start(die_with_parent=True)

    def fault(commit: Callable[[], None]) -> None:
        if delay_ms is None:
            restart()
            commit()
            return
        timer = threading.Timer(delay_ms / 1000, restart)
        timer.start()
        try:
            commit()
        finally:
            timer.join()

    log.instead = fault
    pipe.step(writer, 1, divide=False)
    for step in (2, 3):
        pipe.step(writer, step)
    pipe.check_exactly(4)
    assert settled_log(pipe.settings, pipe.log).__dict__ == writer.state.__dict__


# Refusals


@IN_BOTH_WAYS
def test_a_message_the_broker_refuses_is_named_and_nothing_is_written(pipe: Pipe) -> None:
    pipe.settings = KafkaSettings.parse({**dict(pipe.settings.options), "topic.metadata.propagation.max.ms": "1000"})
    writer = pipe.started()
    writer.log.append([pipe.division(0, writer.epoch)])
    for advice, outputs in (
        (
            "Raise `max.message.bytes` of the topic",
            [
                HandleOutput(
                    "view",
                    f"{pipe.prefix}view",
                    PARTITIONS,
                    table([(0, b"k", b"v"), (1, None, bytes(3_000_000)), (1, b"k", b"v"), (2, None, b"")]),
                )
            ],
        ),
        (
            "Correct the topic or the permissions",
            [*pipe.outputs(0), HandleOutput("lost", f"{pipe.prefix}no-such-topic", 1, table([(0, None, b"v")]))],
        ),
    ):
        with pytest.raises(WriteRefused, match=rf"step 0, topic .* partition [01]: Kafka refuses .*\. {advice}"):
            writer.write_step(0, outputs, encoder=ENCODER)
    pipe.check_exactly(0)
    pipe.step(writer, 0)  # the writer can still be used
    pipe.check_exactly(1)


def test_a_log_that_becomes_compacted_under_a_run_is_named(pipe: Pipe) -> None:
    writer = pipe.started()
    set_policy(pipe, "compact")
    with pytest.raises(
        WriteRefused, match=rf"topic '{pipe.log}' partition 0: Kafka refuses .* Set cleanup\.policy=delete on the topic"
    ):
        writer.log.append([pipe.division(0, writer.epoch)])
    set_policy(pipe, "delete")
    pipe.step(writer, 0)
    pipe.check_exactly(1)


def set_policy(pipe: Pipe, policy: str) -> None:
    admin = AdminClient({"bootstrap.servers": pipe.settings.bootstrap_servers})
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, pipe.log, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result()


def test_a_timeout_of_transactions_above_the_brokers_limit_is_named(pipe: Pipe) -> None:
    pipe.settings = KafkaSettings.parse({**dict(pipe.settings.options), "transaction.timeout.ms": "99999999"})
    with pytest.raises(
        WriteRefused, match=r"Lower `kafka\.transaction\.timeout\.ms` .* or raise `transaction\.max\.timeout\.ms`"
    ):
        pipe.started()


@IN_BOTH_WAYS
def test_the_limit_of_the_topic_decides_how_large_a_message_may_be(pipe: Pipe) -> None:
    Topics(pipe.settings).ensure(f"{pipe.prefix}large", 1, {"max.message.bytes": "4000000"})
    writer = pipe.started()
    writer.log.append([pipe.division(0, writer.epoch)])
    large = table([(0, b"a", b"v"), (0, b"large", bytes(3_000_000)), (0, b"z", b"v")])
    writer.write_step(0, [HandleOutput("large", f"{pipe.prefix}large", 1, large)], encoder=ENCODER)
    found = [(key, len(value or b"")) for _, key, value in pipe.visible("large", 0)]
    assert found == [(b"a", 1), (b"large", 3_000_000), (b"z", 1)]


@IN_BOTH_WAYS
def test_a_record_names_thousands_of_partitions(pipe: Pipe) -> None:
    """Its size grows with the partitions of a pipeline, and must not be what bounds them."""
    writer = pipe.started()
    ranges = tuple(InputRange(topic="in" * 50, partition=n, start=0, end=10**12) for n in range(20_000))
    writer.log.append([DivisionRecord(epoch=writer.epoch, step=0, ranges=ranges)])
    assert settled_log(pipe.settings, pipe.log).pending[0].ranges == ranges


@IN_BOTH_WAYS
def test_more_messages_than_the_clients_queue_holds(pipe: Pipe) -> None:
    """The writer waits until the queue has room, and leaves none out."""
    pipe.settings = KafkaSettings.parse({**dict(pipe.settings.options), "queue.buffering.max.messages": "7"})
    writer = pipe.started()
    writer.log.append([pipe.division(0, writer.epoch)])
    rows = [(number, b"%02d" % key, b"v") for number in range(PARTITIONS) for key in range(20)]
    writer.write_step(0, [HandleOutput("view", f"{pipe.prefix}view", PARTITIONS, table(rows))], encoder=ENCODER)
    for number in range(PARTITIONS):
        assert [key for _, key, _ in pipe.visible("view", number)] == [b"%02d" % key for key in range(20)]


def test_a_log_that_could_lose_records_is_refused(broker: Broker, topic_prefix: str) -> None:
    topics = Topics(KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers}))
    topics.ensure(f"{topic_prefix}compacted", 1, {"cleanup.policy": "compact", "retention.ms": "1000"})
    with pytest.raises(
        UnsuitableStepLog, match=r"retention\.ms is 1000 and its cleanup\.policy is compact, .* cleanup\.policy=delete"
    ):
        ensure_step_log(topics, f"{topic_prefix}compacted")


def test_a_record_that_cannot_follow_is_never_written(pipe: Pipe) -> None:
    writer = pipe.started()
    with pytest.raises(BrokenStepLog, match="where step 0 is the next to be divided"):
        writer.log.append([pipe.division(3, writer.epoch)])
    pipe.step(writer, 0)
    pipe.check_exactly(1)


def test_fences_long_ago_do_not_count(pipe: Pipe) -> None:
    """A service that lives for months meets more timeouts than two."""
    writer = pipe.started(WriterLimits(fence_forgotten_commits=2))
    for step in range(4):
        Producer(pipe.settings.producer_config(f"{pipe.prefix}pipeline")).init_transactions(30)
        pipe.step(writer, step)
    pipe.check_exactly(4)


@pytest.mark.long
def test_two_fences_without_a_claim_are_ignored(pipe: Pipe) -> None:
    """A broker also fences a producer whose transaction timed out. Two runs that fence each other must give up in the end."""
    writer = pipe.started()
    for step in range(3):
        Producer(pipe.settings.producer_config(f"{pipe.prefix}pipeline")).init_transactions(30)
        if step < 2:
            pipe.step(writer, step)
    with pytest.raises(Fenced):
        pipe.step(writer, 2)
    pipe.check_exactly(2)
