"""The one writer, on a real broker: commits, crashes, fences, and commits in doubt."""

from __future__ import annotations

import os
from contextlib import closing

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as ClientPartition

from io_kafka.clients import KafkaSettings
from io_kafka.digest import MESSAGES_SCHEMA, canonical, digest
from io_kafka.log_records import CheckpointIntent, DivisionRecord, InputRange, StepRecord, VersionId
from io_kafka.output_progress import DigestMismatch, StepBeyondEnd
from io_kafka.step_log_reader import StepLogReader, ensure_step_log
from io_kafka.topics import Topics
from io_kafka.writer import STEP_HEADER, Fenced, PipelineWriter, StepOutput
from tests.conftest import Broker

ENCODER = "test-1"
PARTITIONS = 3
Message = tuple[int, bytes | None, bytes | None]


class Pipe:
    """Topics of one test pipeline: a log, output `view` of three partitions, output `dead` of one."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self.prefix, self.log = prefix, f"{prefix}log"
        self.settings = KafkaSettings.parse({"bootstrap.servers": bootstrap_servers})
        topics = Topics(self.settings)
        ensure_step_log(topics, self.log)
        topics.ensure(f"{prefix}view", PARTITIONS)
        topics.ensure(f"{prefix}dead", 1)

    def writer(self) -> PipelineWriter:
        return PipelineWriter(self.settings, f"{self.prefix}pipeline", self.log)

    def started(self) -> PipelineWriter:
        writer = self.writer()
        writer.start(pipeline="p", host="here", pid=os.getpid())
        return writer

    def outputs(self, step: int) -> list[StepOutput]:
        """Step s writes s + 1 messages to view/0, one to view/2, none to view/1; and one dead letter if s is odd."""
        view: list[Message] = [(0, b"k%d" % i, b"step %d row %d" % (step, i)) for i in range(step + 1)]
        dead: list[Message] = [(0, None, b"dead %d" % step)] if step % 2 else []
        return [
            StepOutput("view", f"{self.prefix}view", PARTITIONS, table([*view, (2, b"gone", None)])),
            StepOutput("dead", f"{self.prefix}dead", 1, table(dead)),
        ]

    def division(self, step: int, epoch: int) -> DivisionRecord:
        ranges = (InputRange(topic="in", partition=0, start=step * 10, end=step * 10 + 10),)
        return DivisionRecord(epoch=epoch, step=step, ranges=ranges)

    def step(self, writer: PipelineWriter, step: int, *, divide: bool = True) -> StepRecord | None:
        if divide and not writer.state.pending:
            writer.append([self.division(step, writer.epoch)])
        return writer.write_step(step, self.outputs(step), encoder=ENCODER)

    def visible(
        self, topic: str, partition: int, end: int | None = None
    ) -> list[tuple[int, bytes | None, bytes | None]]:
        """(step, key, value) of what a read_committed consumer finds in a partition of `view` or `dead`, below
        `end`."""
        found = []
        name = f"{self.prefix}{topic}"
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
        state = StepLogReader(self.settings, self.log).read()
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
        for part in record.outputs:  # who reads up to the end has exactly the steps <= step
            assert pipe.visible(part.handle, part.partition, part.end) == pipe.expected(
                part.handle, part.partition, range(step + 1)
            )
    read = StepLogReader(pipe.settings, pipe.log).read()
    assert [read.step_records[s] for s in range(4)] == records
    assert read.__dict__ == writer.state.__dict__
    writer.close()


def test_the_next_division_travels_with_the_step(pipe: Pipe) -> None:
    writer = pipe.started()
    writer.append([pipe.division(0, writer.epoch)])
    writer.write_step(0, pipe.outputs(0), encoder=ENCODER, division_next=pipe.division(1, writer.epoch))
    assert [d.step for d in StepLogReader(pipe.settings, pipe.log).read().pending] == [1]
    pipe.step(writer, 1, divide=False)
    pipe.check_exactly(2)


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


def test_the_older_of_two_writers_can_write_nothing(pipe: Pipe) -> None:
    old = pipe.started()
    pipe.step(old, 0)
    old.append([pipe.division(1, old.epoch)])
    new = pipe.started()
    with pytest.raises(Fenced, match="taken over from epoch 0: epoch 1"):
        pipe.step(old, 1, divide=False)
    with pytest.raises(Fenced):
        old.append([CheckpointIntent(epoch=0, version=VersionId(version=1, step=1, checkpoint_id="c"))])
    pipe.step(new, 1, divide=False)  # and was not disturbed by it
    pipe.check_exactly(2)


def test_a_claim_over_another_holder_than_the_one_looked_at_is_refused(pipe: Pipe) -> None:
    holder = pipe.started()
    late = pipe.writer()
    with pytest.raises(Fenced, match="epoch 0"):
        late.start(pipeline="p", host="there", pid=1, expect_epoch=-1)
    assert StepLogReader(pipe.settings, pipe.log).read().epoch == holder.epoch
