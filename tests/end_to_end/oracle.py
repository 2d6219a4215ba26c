"""Whether a pipeline has kept its promises, judged from outside: from the topics alone, and from Spark's batch answer.

Nothing of the engine's code is used: messages are read by a plain consumer, the step log's JSON is parsed here, and what is right is
said by a function that asks Spark. What is required, by the letter that a violation begins with:

    first  when the first message of a step can be read, its division could be read before; never in one transaction with its output
    a      what was read while the pipeline ran is what is read afterwards: topic id, partition, offset, bytes, step
    b      one division a step over all epochs; ranges follow each other without gap; every committed input message is in one
    c      at each boundary that is looked at, a view is what Spark answers over the input up to there; so of two neighbouring
           boundaries, the difference of the answers is the step's output. No step writes what changes nothing
    d      steps never decrease in a partition; up to the end that the record of s names there are exactly the steps up to s
    e      the bytes are those of a run without a crash over the same divisions
    f      as c, of upsert topics: the last message of each key, folded at each boundary
    g      where all input was taken back, views and traces are as they were before there was any

A test opens the oracle before the first run, lets the pipeline run and die, and asks `verify` when it has drained its input.
"""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

STEP_HEADER = "stepwell.step"
RELATIVE_ERROR_MAX = 1e-12
"""Between Spark's sum of doubles, rounded at every addition, and one that is rounded once."""

READ_SECONDS_MAX = 60.0
"""To read to an end that is known; a broker that was killed meanwhile is back well within it."""
LOOK_SECONDS = 0.05
PASSING = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
"""The client gets over these; they are seen where a broker is killed."""
UNSETTLED = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE, *PASSING}
"""And these are passing where a topic is made."""

Place = tuple[str, int]
"""Topic and partition."""
Ends = dict[Place, int]
Shape = tuple[Any, ...]
"""A row without its inexact columns, as plain comparable data; a number is the text that it was written as."""
Bag = dict[Shape, list[tuple[float | None, ...]]]


class Message(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def step(self) -> int:
        """-1: it names none."""
        return int(dict(self.headers).get(STEP_HEADER, b"-1"))


Messages = dict[Place, list[Message]]


@dataclass(frozen=True)
class Watched:
    """`mode`: append, upsert or changelog."""

    view: str
    topic: str
    mode: str


@dataclass(frozen=True)
class Answer:
    """A view's rows as Spark's to_json writes them; `inexact`: columns that are compared within RELATIVE_ERROR_MAX."""

    rows: Sequence[str]
    inexact: frozenset[str] = frozenset()


Batch = Callable[[Messages, Sequence[Ends]], Sequence[Mapping[str, Answer]]]
"""(all committed input, ends) -> Spark's answer over the input below each of these ends, by view."""


class Violated(AssertionError):
    """`found`: everything that is wrong, each beginning with its letter."""

    def __init__(self, found: Sequence[str]) -> None:
        super().__init__("\n".join(found))
        self.found = tuple(found)


@dataclass
class Story:
    """What the step log says, by step. `ranges`: of the division; `inputs`: number of messages read; `outputs`: number of messages and end.
    `at`: offsets in the log of the division's last record and of the step's."""

    ranges: dict[int, dict[Place, tuple[int, int]]] = field(default_factory=dict)
    inputs: dict[int, dict[Place, int]] = field(default_factory=dict)
    outputs: dict[int, dict[Place, tuple[int, int]]] = field(default_factory=dict)
    at: dict[int, tuple[int, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def steps(self) -> range:
        return range(len(self.outputs))

    def boundary(self, step: int) -> Ends:
        """Where the input of the steps up to `step` ends; nothing before step 0."""
        return {} if step < 0 else {place: end for place, (_, end) in self.ranges[step].items()}


class Oracle:
    """Watches while its block runs. Topics may be made meanwhile."""

    def __init__(self, servers: str, log_topic: str, views: Sequence[Watched]) -> None:
        self.servers, self.log, self.views = servers, (log_topic, 0), tuple(views)
        self.seen: Messages = defaultdict(list)
        self.inputs: Messages = {}
        self._topics = {log_topic, *(view.topic for view in views)}
        self._ids: dict[str, str] = {}
        self._at: Ends = {}
        self._divided: set[int] = set()
        self._late: list[str] = []
        self._fault: BaseException | None = None
        self._stopping = threading.Event()
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._thread = threading.Thread(target=self._watch, daemon=True, name="oracle")

    def __enter__(self) -> Oracle:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(READ_SECONDS_MAX)

    # While the pipeline runs

    def _watch(self) -> None:
        try:
            with closing(_consumer(self.servers)) as live, closing(_LogTail(self.servers, self.log)) as tail:
                looked = 0.0
                while not self._stopping.is_set():
                    if len(self._ids) < len(self._topics) and time.monotonic() - looked > LOOK_SECONDS:
                        self._take_new_topics(live)
                        looked = time.monotonic()
                    for message in _arrived(live):
                        self._notice(message, tail)
        except BaseException as fault:
            self._fault = fault

    def _take_new_topics(self, live: Consumer) -> None:
        for name, (topic_id, partitions) in self._describe(self._topics - self._ids.keys()).items():
            live.incremental_assign([TopicPartition(name, p, OFFSET_BEGINNING) for p in partitions])
            self._at.update({(name, p): -1 for p in partitions})
            self._ids[name] = topic_id

    def _describe(self, names: Iterable[str]) -> dict[str, tuple[str, set[int]]]:
        """Id and partitions of those that are there."""
        found = {}
        for name, answer in self._admin.describe_topics(TopicCollection(sorted(names))).items():
            try:
                topic = answer.result(READ_SECONDS_MAX)
                found[name] = (str(topic.topic_id), {p.id for p in topic.partitions})
            except KafkaException as error:
                if error.args[0].code() not in UNSETTLED:
                    raise
        return found

    def _notice(self, message: Any, tail: _LogTail) -> None:
        place = (message.topic(), message.partition())
        if not _is_content(message):
            if message.error().code() == KafkaError._PARTITION_EOF:
                self._at[place] = message.offset()
            return
        noticed = _message(message)
        if place != self.log and noticed.step not in self._divided:
            self._divided |= tail.divisions()
            if noticed.step not in self._divided:
                self._late.append(f"first: step {noticed.step} can be read in {_at(place)}, and its division can not")
                self._divided.add(noticed.step)
        self.seen[place].append(noticed)
        self._at[place] = noticed.offset + 1

    # Afterwards

    def verify(
        self,
        batch: Batch | None = None,
        *,
        sample: int | None = None,
        seed: int = 0,
        twin: Mapping[str, str] | None = None,
    ) -> Story:
        """Raises Violated, with everything that is wrong. To be called when no run is under way and all input is in a step.

        `batch`: c and f; at every boundary, or with `sample` at the first, the last, and at both sides of so many steps, chosen by `seed`.
        `twin`: e; output topic -> topic of a run without a crash."""
        ends = self._catch_up()
        self.__exit__()
        if self._fault is not None:
            raise self._fault
        again = read(self.servers, ends)
        story = tell(self.seen[self.log])
        self.inputs = read(self.servers, self._settled_ends({p for ranges in story.ranges.values() for p in ranges}))
        found = [*self._late, *self._twice(again), *story.faults, *check_divisions(story, self.inputs)]
        found += check_order(story, {place: again[place] for place in ends if place != self.log})
        if not found:  # what is out of order cannot be folded
            found += self._check_views(story, batch, _chosen(story.steps, sample, seed))
        if twin is not None:
            found += self._check_twin(again, twin)
        if found:
            raise Violated(found)
        return story

    def _settled_ends(self, places: Iterable[Place]) -> Ends:
        """Once nothing is under way: a broker acknowledges a commit before every partition has its marker."""
        partitions = [TopicPartition(*place) for place in places]

        def ends(level: IsolationLevel) -> Ends:
            asked = self._admin.list_offsets({p: OffsetSpec.latest() for p in partitions}, isolation_level=level)
            return {(p.topic, p.partition): int(answer.result(READ_SECONDS_MAX).offset) for p, answer in asked.items()}

        deadline = time.monotonic() + READ_SECONDS_MAX
        while True:
            assert time.monotonic() < deadline, f"no end of {places}, or a transaction stays open"
            with suppress(KafkaException):  # of a topic that was made just now
                if (stable := ends(IsolationLevel.READ_COMMITTED)) == ends(IsolationLevel.READ_UNCOMMITTED):
                    return stable

    def _catch_up(self) -> Ends:
        """The ends, once the watcher has come to them."""
        deadline = time.monotonic() + READ_SECONDS_MAX
        present = self._describe(self._topics).keys()
        ends: Ends = {}
        while self._fault is None and (not ends or any(self._at[place] < end for place, end in ends.items())):
            assert time.monotonic() < deadline, f"the watcher is at {self._at}, and should come to {ends or present}"
            time.sleep(0.005)
            if present <= self._ids.keys() and not ends:
                ends = self._settled_ends(self._at)
        return ends

    def _twice(self, again: Messages) -> Iterator[str]:
        """a: the log may have been cut meanwhile, at its beginning; nothing else may have changed."""
        for name, (topic_id, partitions) in self._describe(self._ids).items():
            if topic_id != self._ids[name]:
                yield f"a: topic {name} had id {self._ids[name]} and has {topic_id}"
            if partitions != {p for topic, p in self._at if topic == name}:
                yield f"a: topic {name} has another number of partitions than when it was first seen"
        for place, second in again.items():
            low = second[0].offset if place == self.log and second else 0
            first = [message for message in self.seen[place] if message.offset >= low]
            if first != second:
                both = Counter(first)
                both.subtract(second)
                example = next((m for m, n in both.items() if n), None)
                yield f"a: {_at(place)}: {len(first)} messages were seen, {len(second)} are there now; for example {example}"

    def _check_views(self, story: Story, batch: Batch | None, boundaries: Sequence[int]) -> Iterator[str]:
        answers: dict[int, Mapping[str, Answer]] = {}
        if batch is not None:
            given = batch(self.inputs, [story.boundary(step) for step in boundaries])
            answers = dict(zip(boundaries, given, strict=True))
        for view in self.views:
            content = Content(view)
            parts = {place: messages for place, messages in self.seen.items() if place[0] == view.topic}
            for step, written in _by_step(story, parts):
                yield from content.take(step, written)
                if step in answers:
                    yield from content.compare(step, answers[step][view.view])

    def _check_twin(self, again: Messages, twin: Mapping[str, str]) -> Iterator[str]:
        """Neither the offset (markers take some too) nor the time is compared."""
        theirs = read(self.servers, self._settled_ends({(twin[t], p) for t, p in again if t in twin}))
        for (topic, partition), mine in again.items():
            if topic in twin:
                other = theirs[twin[topic], partition]
                left, right = [m[1:] for m in mine], [m[1:] for m in other]
                if left != right:
                    where = next((i for i, (m, o) in enumerate(zip(left, right, strict=False)) if m != o), None)
                    step = mine[where].step if where is not None else "?"
                    yield (f"e: {topic}/{partition}: {len(left)} messages, {len(right)} in a run without a crash; "
                           f"they differ from the message with index {where}, step {step}")  # fmt: skip

    def content(self, view: str, story: Story) -> Bag:
        """A view's rows after the last step, all columns exact."""
        (watched,) = (each for each in self.views if each.view == view)
        content = Content(watched)
        parts = {place: messages for place, messages in self.seen.items() if place[0] == watched.topic}
        for step, written in _by_step(story, parts):
            for fault in content.take(step, written):
                raise Violated([fault])
        return content.bag(frozenset())

    def check_drained(
        self, story: Story, blank: int, traces: Mapping[str, int], traces_blank: Mapping[str, int]
    ) -> None:
        """g: all input has been taken back. `blank`: the last step before there was input, -1 for none; `traces`: rows by table, now and then."""
        found = []
        short = Story(story.ranges, story.inputs, {s: story.outputs[s] for s in range(blank + 1)}, story.at)
        for view in self.views:
            now, then = self.content(view.view, story), self.content(view.view, short)
            if now != then:
                found.append(f"g: {view.view} has {_size(now)} rows, and had {_size(then)} before there was input")
        for table in sorted(traces.keys() | traces_blank.keys()):
            if traces.get(table, 0) != traces_blank.get(table, 0):
                was = traces_blank.get(table, 0)
                found.append(f"g: the trace of {table} has {traces.get(table, 0)} rows, and had {was} before")
        if found:
            raise Violated(found)


class Content:
    """What an output topic's messages make, step after step."""

    def __init__(self, view: Watched) -> None:
        self.view = view
        self.letter = "f" if view.mode == "upsert" else "c"
        self._rows: Counter[bytes] = Counter()  # append and changelog: the row's JSON, canonical
        self._by_key: dict[bytes, tuple[int, bytes]] = {}  # upsert: where a live key is, and its value
        self._homes: dict[bytes, int] = {}

    def take(self, step: int, written: Sequence[tuple[int, Message]]) -> Iterator[str]:
        """`written`: (partition, message) of this step, in order within a partition."""
        changes: Counter[bytes] = Counter()
        gross = 0
        for partition, message in written:
            where = f"{self.view.view}, step {step}, partition {partition}, offset {message.offset}"
            if self.view.mode == "upsert":
                yield from self._put(where, partition, message)
                continue
            for image, weight in self._images(message):
                changes[image] += weight
                gross += 1
        if gross != sum(abs(weight) for weight in changes.values()):
            yield f"c: {self.view.view}, step {step}: a row is both added and taken away in one step"
        self._rows.update(changes)
        for image in changes:
            if self._rows[image] < 0:
                yield f"c: {self.view.view}, step {step}: takes away a row that is not there: {image.decode()[:200]}"
            if not self._rows[image]:
                del self._rows[image]

    def _put(self, where: str, partition: int, message: Message) -> Iterator[str]:
        if message.key is None:
            yield f"f: {where}: a message without a key in an upsert topic"
            return
        if self._homes.setdefault(message.key, partition) != partition:
            yield f"f: {where}: key {message.key!r} was in partition {self._homes[message.key]} before"
        before = self._by_key.get(message.key)
        if message.value == (None if before is None else before[1]):
            yield f"f: {where}: says of key {message.key!r} what was said before: nothing changes"
        if message.value is None:
            self._by_key.pop(message.key, None)
        else:
            self._by_key[message.key] = (partition, message.value)

    def _images(self, message: Message) -> Iterator[tuple[bytes, int]]:
        assert message.value is not None, f"{self.view.view}: a message without a value at offset {message.offset}"
        if self.view.mode == "append":
            yield message.value, 1
            return
        change = json.loads(message.value, parse_float=_Number, parse_int=_Number)
        for image, weight in ((change["before"], -1), (change["after"], 1)):
            if image is not None:
                yield _text(image).encode(), weight

    def bag(self, inexact: frozenset[str]) -> Bag:
        live = self._rows.elements() if self.view.mode != "upsert" else (value for _, value in self._by_key.values())
        return _bag(live, inexact)

    def compare(self, step: int, answer: Answer) -> Iterator[str]:
        mine, right = self.bag(answer.inexact), _bag(answer.rows, answer.inexact)
        for shape in mine.keys() | right.keys():
            extra, missing = _unmatched(mine.get(shape, []), right.get(shape, []))
            if extra or missing:
                yield (f"{self.letter}: {self.view.view} after step {step}: {len(extra)} too many and {len(missing)} missing of "
                       f"{dict(shape)} {[*extra, *missing][:2]}")  # fmt: skip


# The step log


def tell(log: Sequence[Message]) -> Story:
    """Reads the records; what contradicts b or `first` is among the faults."""
    story = Story()
    divided: dict[int, int] = {}
    offsets = {message.offset for message in log}
    for message in log:
        assert message.value is not None
        record = json.loads(message.value)
        assert record["kind"] not in ("refresh", "reset"), "the oracle judges one generation; this log has a refresh"
        step = record.get("step")
        if record["kind"] == "division":
            ranges = {(r["topic"], r["partition"]): (r["start"], r["end"]) for r in record["ranges"]}
            if step in story.outputs:
                story.faults.append(f"b: step {step} is divided again after its output, by epoch {record['epoch']}")
            if story.ranges.setdefault(step, ranges) != ranges:
                story.faults.append(f"b: step {step} has two divisions: {story.ranges[step]} and {ranges}")
            divided[step] = message.offset
        elif record["kind"] == "step":
            if step in story.outputs or step != len(story.outputs):
                story.faults.append(f"b: step {step} is recorded where step {len(story.outputs)} is due")
                continue
            story.inputs[step] = {(i["topic"], i["partition"]): i["messages"] for i in record["inputs"]}
            story.outputs[step] = {(o["topic"], o["partition"]): (o["messages"], o["end"]) for o in record["outputs"]}
            if step not in divided:
                story.faults.append(f"first: step {step} is recorded, and was never divided")
            elif offsets.issuperset(range(divided[step], message.offset)):
                story.faults.append(f"first: the division of step {step} is in one transaction with its output")
    return story


def check_divisions(story: Story, inputs: Messages) -> Iterator[str]:
    """b."""
    at: Ends = {}
    began: Ends = {}
    for step in story.steps:
        if step not in story.ranges:
            continue  # told already
        for place, (start, end) in story.ranges[step].items():
            began.setdefault(place, start)
            if at.get(place, start) != start or end < start:
                yield f"b: step {step} reads {_at(place)} from {start} to {end}, and the one before ended at {at[place]}"
            at[place] = end
            read_now = sum(start <= message.offset < end for message in inputs[place]) if start < end else 0
            if read_now != story.inputs[step].get(place, 0):
                counted = story.inputs[step].get(place, 0)
                yield f"b: step {step} read {counted} messages of {_at(place)}, where {read_now} are committed"
    for place, messages in inputs.items():
        outside = [m.offset for m in messages if not began.get(place, 0) <= m.offset < at.get(place, 0)]
        if outside:
            yield f"b: {len(outside)} committed messages of {_at(place)} are in no step; the first has offset {outside[0]}"


def check_order(story: Story, outputs: Messages) -> Iterator[str]:
    """d."""
    for place, messages in outputs.items():
        for one, next_one in pairwise(messages):
            if next_one.step < one.step:
                yield f"d: {_at(place)} offset {next_one.offset}: step {next_one.step} after step {one.step}"
        begin, index = 0, 0
        for step in story.steps:
            count, end = story.outputs[step].get(place, (0, begin))
            here = index
            while index < len(messages) and messages[index].offset < end:
                index += 1
            wrong = [m for m in messages[here:index] if m.step != step]
            if wrong or index - here != count:
                yield (f"d: {_at(place)} [{begin}, {end}): {index - here - len(wrong)} messages of step {step}, and {len(wrong)} of others; "
                       f"the step log says {count}")  # fmt: skip
            begin = end
        if index < len(messages):
            yield f"d: {_at(place)}: {len(messages) - index} messages beyond {begin}, the end that the last record names"


def _by_step(story: Story, parts: Messages) -> Iterator[tuple[int, list[tuple[int, Message]]]]:
    steps: defaultdict[int, list[tuple[int, Message]]] = defaultdict(list)
    for (_, partition), messages in sorted(parts.items()):
        for message in messages:
            steps[message.step].append((partition, message))
    for step in story.steps:
        yield step, steps[step]


def _chosen(steps: range, sample: int | None, seed: int) -> list[int]:
    """Boundaries to be looked at, each after its step."""
    if sample is None or 2 * sample + 2 >= len(steps):
        return list(steps)
    inner = random.Random(seed).sample(range(1, len(steps) - 1), sample)
    return sorted({0, steps[-1], *inner, *(step - 1 for step in inner)})


# Rows


class _Number(str):
    """A number as it was written."""


def _bag(rows: Iterable[str | bytes], inexact: frozenset[str]) -> Bag:
    bag: Bag = defaultdict(list)
    for text in rows:
        row = json.loads(text, parse_float=_Number, parse_int=_Number)
        exact = tuple(sorted((name, _plain(value)) for name, value in row.items() if name not in inexact))
        bag[exact].append(tuple(None if row[n] is None else float(row[n]) for n in sorted(inexact)))
    return dict(bag)


def _plain(value: Any) -> Any:
    if isinstance(value, _Number):
        return ("number", str(value))
    if isinstance(value, dict):
        return ("struct", *((name, _plain(inner)) for name, inner in value.items()))
    return ("array", *map(_plain, value)) if isinstance(value, list) else (type(value).__name__, str(value))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_text(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return str(value) if isinstance(value, _Number) else json.dumps(value)


def _unmatched(
    have: Sequence[tuple[float | None, ...]], want: Sequence[tuple[float | None, ...]]
) -> tuple[list[Any], list[Any]]:
    rest, extra = list(want), []
    for row in have:
        match = next((i for i, other in enumerate(rest) if all(map(_close, row, other))), None)
        if match is None:
            extra.append(row)
        else:
            rest.pop(match)
    return extra, rest


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return one == other or (one != one and other != other) or math.isclose(one, other, rel_tol=RELATIVE_ERROR_MAX)


def _size(bag: Bag) -> int:
    return sum(map(len, bag.values()))


# Kafka


def _consumer(servers: str) -> Consumer:
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": "oracle", "isolation.level": "read_committed", "enable.auto.commit": False,
        "enable.partition.eof": True, "auto.offset.reset": "error", "fetch.wait.max.ms": 5, "fetch.queue.backoff.ms": 2,
    })  # fmt: skip
    consumer.list_topics(
        timeout=READ_SECONDS_MAX
    )  # one that is assigned before it knows its broker waits half a second
    return consumer


def _arrived(consumer: Consumer) -> list[Any]:
    """What is there, after a short wait for the first: `consume` alone waits for a full batch."""
    first = consumer.poll(LOOK_SECONDS)
    return [] if first is None else [first, *consumer.consume(10_000, timeout=0)]


def read(servers: str, ends: Ends) -> Messages:
    """Every committed message below these ends, by partition, in order."""
    found: Messages = {place: [] for place in ends}
    deadline = time.monotonic() + READ_SECONDS_MAX
    with closing(_consumer(servers)) as consumer:
        open_places = {place for place, end in ends.items() if end > 0}
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in open_places])
        while open_places:
            assert time.monotonic() < deadline, f"no end of {sorted(open_places)} in {READ_SECONDS_MAX} s"
            for message in _arrived(consumer):
                place = (message.topic(), message.partition())
                if _is_content(message):
                    if message.offset() < ends[place]:
                        found[place].append(_message(message))
                elif message.error().code() == KafkaError._PARTITION_EOF and message.offset() >= ends[place]:
                    open_places.discard(place)
    return found


class _LogTail:
    """The step log as far as it can be read at one moment after another."""

    def __init__(self, servers: str, log: Place) -> None:
        self._log, self._at = TopicPartition(*log, OFFSET_BEGINNING), 0
        self._consumer = _consumer(servers)
        self._consumer.assign([self._log])
        self.close = self._consumer.close

    def divisions(self) -> set[int]:
        """The steps of those that can be read now and could not the last time."""
        _, end = self._consumer.get_watermark_offsets(self._log, timeout=READ_SECONDS_MAX, cached=False)
        found: set[int] = set()
        deadline = time.monotonic() + READ_SECONDS_MAX
        while self._at < end:
            assert time.monotonic() < deadline, f"the step log does not come to {end}"
            for message in _arrived(self._consumer):
                if _is_content(message):
                    record = json.loads(message.value())
                    found |= {record["step"]} if record["kind"] == "division" else set()
                    self._at = message.offset() + 1
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    self._at = message.offset()
        return found


def _is_content(message: Any) -> bool:
    """Not an end of a partition, nor an error that passes; raises others."""
    error = message.error()
    if error is None:
        return True
    if error.code() not in {KafkaError._PARTITION_EOF, *PASSING} and not error.retriable():
        raise KafkaException(error)
    return False


def _message(message: Any) -> Message:
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Message(message.offset(), message.key(), message.value(), headers)


def _at(place: Place) -> str:
    return f"{place[0]}/{place[1]}"
