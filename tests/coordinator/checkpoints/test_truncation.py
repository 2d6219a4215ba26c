"""The step log is truncated at a snapshot, on a real broker, and the rest gives the same state as the whole log."""

from __future__ import annotations

from coordinator.checkpoints.truncation import snapshot_due, truncate
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import ensure_step_log
from io_kafka.clients.topics import Topics
from io_kafka.clients.transactions import Claimant, FencedLog
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.records import DivisionRecord, InputRange
from tests.conftest import Broker
from tests.settled import settled_log


def test_a_truncated_log_begins_at_a_snapshot_and_goes_on(broker: Broker, topic_prefix: str) -> None:
    settings = KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers})
    topics, log = Topics(settings), topic_prefix + "steps"
    ensure_step_log(topics, log)

    def run(first: int, last: int) -> PipelineWriter:
        writer = PipelineWriter(FencedLog(settings, topic_prefix + "id", log))
        writer.log.start(Claimant("p", "h", 1))
        for step in range(first, last):
            ranges = (InputRange(topic="in", partition=0, start=step, end=step + 1),)
            writer.log.append([DivisionRecord(epoch=writer.epoch, step=step, ranges=ranges)])
            writer.write_step(step, [], encoder="e")
            if snapshot_due(writer.state, 5):
                writer.log.append([writer.state.snapshot()])
        return writer

    writer = run(0, 23)
    assert [steps for _, steps in writer.state.snapshots] == [5, 10, 15, 20]
    whole = settled_log(settings, log)
    assert truncate(topics, writer.state, 23, kept=4, steps_min=11) is None, "only ten steps can go"
    assert truncate(topics, writer.state, 9, kept=4, steps_min=1) is None, "a worker may have to replay step 9"
    point = truncate(topics, writer.state, 18, kept=4, steps_min=10)
    assert point == whole.snapshots[2][0]
    writer.log.note_truncation(point)
    cut = settled_log(settings, log)
    cut.check()
    assert cut.snapshot() == whole.snapshot() and cut.first == 15
    assert cut.step_records == {s: r for s, r in whole.step_records.items() if s >= 15}
    assert cut.snapshots == writer.state.snapshots
    writer.log.close()
    writer = run(23, 26)
    assert (writer.epoch, settled_log(settings, log).steps) == (1, 26)
    writer.log.close()
