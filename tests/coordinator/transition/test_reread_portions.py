"""What each step reads again: by the time of the messages, in portions, and never ahead of the revision in force."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pytest

from coordinator.specification import InputTopic
from coordinator.stepping.reread_order import RereadOrder
from coordinator.transition.reread_portions import RereadPortions
from engine.run.source_table import SourceTable
from io_kafka.clients.time_bound import PROBES_MAX
from io_kafka.formats.batches import TableFormat
from io_kafka.formats.records import RecordFormat
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.division import Division
from io_kafka.step_log.records import DivisionRecord, InputRange, TableRecord
from io_kafka.step_log.revision_records import ReadAgain
from io_kafka.step_log.state import StepLogState
from tests.io_kafka.backlogs import offsets_since, uneven
from tests.io_kafka.test_revision_rules import RUNNING
from tests.io_kafka.test_step_log import folded, step
from tests.io_kafka.transitions import begins, loaded

NO_TIME = -1


class FakeTopics:
    """`times`: of each message, by partition. `probes`: how often it was asked for a time."""

    def __init__(self, times: dict[TopicPartition, list[int]]) -> None:
        self.times, self.probes = times, 0

    def offsets_since(
        self, partitions: Iterable[TopicPartition], milliseconds: int
    ) -> dict[TopicPartition, int | None]:
        self.probes += 1
        return dict(offsets_since(self.times)(tuple(partitions), milliseconds))

    def end_offsets_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {p: len(self.times[p]) for p in partitions}


def source(topic: str, handle: str = "again") -> InputTopic:
    return InputTopic(SourceTable(handle, (topic,), RecordFormat(handle, pa.schema([]))), "earliest", "fail", None)


def table(topic: str) -> InputTopic:
    columns = pa.schema([pa.field("k", pa.string())])
    return InputTopic(SourceTable("table", (topic,), TableFormat("table", columns)), "earliest", "fail", None)


class Story:
    """A transition that reads everything again. `live`: what the revision in force has read, which is all at first."""

    def __init__(
        self,
        times: dict[TopicPartition, list[int]],
        *sources: InputTopic,
        only_new: Sequence[str] = (),
        tables: tuple[TableRecord, ...] = (),
    ) -> None:
        self.topics = FakeTopics(times)
        self.reading = RereadPortions(self.topics, sources, RereadOrder(self.topics.offsets_since))  # type: ignore[arg-type]
        self.live = {p: len(found) for p, found in times.items() if p.topic not in only_new}
        first = tuple(
            InputRange(topic=p.topic, partition=p.partition, start=0, end=n) for p, n in sorted(self.live.items())
        )
        again = (
            ReadAgain(topic=p.topic, partition=p.partition, start=0, is_live=p.topic not in only_new)
            for p in sorted(times)
        )
        self.log: StepLogState = folded(
            *RUNNING, DivisionRecord(epoch=0, step=0, ranges=first), step(0, 1), begins(2, 1, *again, tables=tables)
        )
        self.portions: list[dict[TopicPartition, range]] = []
        self.is_read = False

    def advance(self, rows: int, **more: int) -> int:
        """One step, in which the revision in force reads so many messages `more`. Returns how many were read again."""
        number = self.log.division_next
        ends = {p: at + more.get(p.topic, 0) for p, at in self.live.items()}
        ranges = tuple(OffsetRange(p.topic, p.partition, at, ends[p]) for p, at in sorted(self.live.items()))
        again, self.is_read = self.reading.choose(self.log, Division(number, ranges), rows, None)
        self.live = ends
        parts = tuple(InputRange(topic=r.topic, partition=r.partition, start=r.start, end=r.end) for r in ranges)
        record = DivisionRecord(epoch=0, step=number, ranges=parts, filled=10, again=again)
        offset = self.log.offset_next
        self.log = self.log.apply(record, offset).apply(step(number, number + 1), offset + 1)
        self.log.check()
        self.portions.append({r.where: range(r.start, r.end) for r in again})
        return sum(r.end - r.start for r in again)

    def all_read(self, rows: int) -> list[int]:
        """The sizes of the portions until nothing is left."""
        sizes = []
        while not self.is_read:
            sizes.append(self.advance(rows))
            assert sizes[-1] <= rows and len(sizes) < 10_000
        assert self.log.has_reread_all and self.reading.offsets_left(self.log) == 0
        return sizes


def test_partitions_are_read_beside_each_other_by_time() -> None:
    """So a watermark of ten minutes leaves nothing out: where a portion ends, all that is earlier is read."""
    story = Story(uneven(random.Random(1)), source("in"))
    sizes = story.all_read(200)
    assert len(sizes) < 60, "portions are about as large as they may be"
    at = dict.fromkeys(story.topics.times, 0)
    for portion in story.portions:
        at.update({p: found.stop for p, found in portion.items()})
        read = max(story.topics.times[p][end - 1] for p, end in at.items() if end)
        unread = [story.topics.times[p][end] for p, end in at.items() if end < len(story.topics.times[p])]
        assert all(later >= read for later in unread)


def test_a_portion_costs_few_questions() -> None:
    """The first one has to find the beginning of the messages; the others begin where the last one suggests."""
    story = Story(uneven(random.Random(2)), source("in"))
    story.advance(200)
    assert story.topics.probes <= PROBES_MAX
    story.topics.probes = 0
    sizes = story.all_read(200)
    assert story.topics.probes <= 8 * len(sizes)


@pytest.mark.parametrize("kind", ["equal", "none", "backwards", "some", "one burst"])
def test_messages_without_an_order_of_time_are_read_too(kind: str) -> None:
    counts = {TopicPartition("in", 0): 1000, TopicPartition("in", 1): 100, TopicPartition("in", 2): 0}
    times = {
        "equal": lambda n: 5,
        "none": lambda n: NO_TIME,
        "backwards": lambda n: 10_000 - n,
        "some": lambda n: n if n % 3 else NO_TIME,
        "one burst": lambda n: 7 if 10 < n < 900 else n,
    }[kind]
    story = Story({p: [times(n) for n in range(count)] for p, count in counts.items()}, source("in"))
    sizes = story.all_read(50)
    assert sum(sizes) == 1100
    if kind in ("equal", "none"):
        first = story.portions[0]
        assert [len(first[p]) for p in sorted(first)] == [45, 4], "in proportion"


def test_new_nodes_follow_the_revision_in_force_and_are_never_ahead() -> None:
    times = {TopicPartition("in", 0): list(range(100)), TopicPartition("new", 0): list(range(30))}
    story = Story(times, source("in"), source("new"), only_new=("new",))
    times[TopicPartition("in", 0)] = list(range(400))
    assert story.advance(60) <= 60 and not story.is_read
    while not story.is_read:
        story.advance(60, **{"in": 10})
    assert story.log.reads_again == {
        TopicPartition("in", 0): story.live[TopicPartition("in", 0)],
        TopicPartition("new", 0): 30,
    }
    times[TopicPartition("new", 0)] += [31, 32]
    assert story.reading.offsets_left(story.log) == 2, "a topic that only the next revision reads is followed"
    assert story.advance(0) == 0 and not story.is_read, "a pause"
    assert story.advance(60, **{"in": 7}) == 9 and story.is_read


def test_batch_tables_come_first() -> None:
    """A message of them has many rows, so few messages are enough."""
    times = {TopicPartition("rows", 0): [0] * 5, TopicPartition("in", 0): [0] * 300}
    story = Story(times, table("rows"), source("in"))
    assert story.advance(2048) == 2 and story.portions[0].keys() == {TopicPartition("rows", 0)}
    assert story.advance(1) == 1
    story.advance(2048)
    assert story.log.reads_again == {TopicPartition("rows", 0): 5, TopicPartition("in", 0): 0}
    story.advance(2048)
    assert story.is_read


def test_a_table_that_only_new_nodes_read_ends_with_its_load() -> None:
    """Whatever somebody else has written behind it."""
    times = {TopicPartition("rows", 0): [0] * 9, TopicPartition("rows", 1): [0], TopicPartition("in", 0): [0] * 3}
    story = Story(times, table("rows"), source("in"), only_new=["rows"], tables=(loaded("rows", 5, 0),))
    assert story.reading.offsets_left(story.log) == 8
    story.all_read(4096)
    assert story.log.reads_again == {
        TopicPartition("rows", 0): 5,
        TopicPartition("rows", 1): 0,
        TopicPartition("in", 0): 3,
    }


def test_a_partition_that_has_come_is_announced_though_nothing_is_read() -> None:
    times = {TopicPartition("in", 0): [1, 2, 3]}
    story = Story(times, source("in"))
    times[TopicPartition("in", 1)] = [4, 5]
    story.live[TopicPartition("in", 1)] = 0
    assert story.advance(0, **{"in": 0}) == 0
    assert story.log.reads_again == {TopicPartition("in", 0): 0, TopicPartition("in", 1): 0}
    assert story.portions[-1] == {TopicPartition("in", 1): range(0)}
