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
import random
import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

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

from tests.end_to_end.oracle_rows import Answer, Bag, Content, Watched, size_of
from tests.end_to_end.oracle_topics import (
    LOOK_SECONDS,
    READ_SECONDS_MAX,
    UNSETTLED,
    WATCHING_MS,
    Ends,
    LogTail,
    Message,
    Messages,
    Place,
    arrived,
    at,
    is_content,
    is_gone,
    open_consumer,
    read,
    to_message,
)

__all__ = ["Answer", "Batch", "Ends", "Messages", "Oracle", "Story", "Violated", "Watched"]

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
    `switches`: the first steps of later revisions of the project."""

    ranges: dict[int, dict[Place, tuple[int, int]]] = field(default_factory=dict)
    inputs: dict[int, dict[Place, int]] = field(default_factory=dict)
    outputs: dict[int, dict[Place, tuple[int, int]]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    switches: list[int] = field(default_factory=list)

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
        self._again: Messages = {}
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
            with (
                closing(open_consumer(self.servers, WATCHING_MS)) as live,
                closing(LogTail(self.servers, self.log)) as tail,
            ):
                looked = 0.0
                while not self._stopping.is_set():
                    if len(self._ids) < len(self._topics) and time.monotonic() - looked > LOOK_SECONDS:
                        self._take_new_topics(live)
                        looked = time.monotonic()
                    for message in arrived(live):
                        self._notice(message, tail)
        except BaseException as fault:
            self._fault = fault

    def prove_watching(self) -> None:
        """Raises what ended the watch."""
        if self._fault is not None:
            raise self._fault

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

    def _notice(self, message: Any, tail: LogTail) -> None:
        place = (message.topic(), message.partition())
        if is_gone(message):  # of a topic that was made anew or cut: what `verify` reads again says so with its letter
            return
        if not is_content(message):
            if message.error().code() == KafkaError._PARTITION_EOF:
                self._at[place] = message.offset()
            return
        noticed = to_message(message)
        if place != self.log and noticed.step not in self._divided:
            self._divided |= tail.divisions()
            if noticed.step not in self._divided:
                self._late.append(f"first: step {noticed.step} can be read in {at(place)}, and its division can not")
                self._divided.add(noticed.step)
        self.seen[place].append(noticed)
        self._at[place] = noticed.offset + 1

    # Afterwards

    def verify(self, batch: Batch | None = None, *, sample: int | None = None, seed: int = 0) -> Story:
        """Raises Violated, with everything that is wrong but e and g. To be called when no run is under way and all input is in a step;
        it ends the watch.

        `batch`: c and f, at every boundary; with `sample`, at the first, the last, and at both sides of so many steps chosen by `seed`."""
        ends = self._catch_up()
        self.__exit__()
        self.prove_watching()
        self._again = again = read(self.servers, ends)
        story = tell(self.seen[self.log])
        self.inputs = read(self.servers, self._settled_ends({p for ranges in story.ranges.values() for p in ranges}))
        found = [*self._late, *self._twice(again), *story.faults, *check_divisions(story, self.inputs)]
        found += check_order(story, {place: again[place] for place in ends if place != self.log})
        if not found:  # what is out of order cannot be folded
            found += self._check_views(story, batch, _chosen(story.steps, sample, seed))
        if found:
            raise Violated(found)
        return story

    def verify_twin(self, twin: Mapping[str, str]) -> None:
        """e, after `verify`: `twin` is output topic -> topic of a run without a crash over the same divisions."""
        found = list(self._check_twin(self._again, twin))
        if found:
            raise Violated(found)

    def _settled_ends(self, places: Iterable[Place]) -> Ends:
        """Once nothing is under way: a broker acknowledges a commit before every partition has its marker."""
        partitions = [TopicPartition(*place) for place in places]

        def ends(level: IsolationLevel) -> Ends:
            asked = client.list_offsets({p: OffsetSpec.latest() for p in partitions}, isolation_level=level)
            return {(p.topic, p.partition): int(answer.result(READ_SECONDS_MAX).offset) for p, answer in asked.items()}

        deadline = time.monotonic() + READ_SECONDS_MAX
        client: AdminClient = self._admin
        answer: object = None
        while True:
            assert time.monotonic() < deadline, f"no end of all partitions, or a transaction stays open: {answer}"
            try:
                stable, end = ends(IsolationLevel.READ_COMMITTED), ends(IsolationLevel.READ_UNCOMMITTED)
            except KafkaException as fault:  # of a topic that was made just now
                answer = fault
                # The old one may know the former leader for ever.
                client = AdminClient({"bootstrap.servers": self.servers})
                continue
            if stable == end:
                return stable
            answer = stable, end

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
                yield f"a: {at(place)}: {len(first)} messages were seen, {len(second)} are there now; for example {example}"

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
        """g: all input has been taken back. `blank`: the last step before there was input, -1 for none; `traces`: rows of each, now
        and then."""
        found = []
        short = Story(story.ranges, story.inputs, {s: story.outputs[s] for s in range(blank + 1)})
        for view in self.views:
            now, then = self.content(view.view, story), self.content(view.view, short)
            if now != then:
                found.append(f"g: {view.view} has {size_of(now)} rows, and had {size_of(then)} before there was input")
        for table in sorted(traces.keys() | traces_blank.keys()):
            if traces.get(table, 0) != traces_blank.get(table, 0):
                was = traces_blank.get(table, 0)
                found.append(f"g: the trace of {table} has {traces.get(table, 0)} rows, and had {was} before")
        if found:
            raise Violated(found)


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
            before = story.ranges.get(step, ranges)
            if ranges != before and not is_cut(ranges, before):
                story.faults.append(f"b: step {step} has two divisions: {before} and {ranges}")
            elif ranges != before:
                for void in [later for later in story.ranges if later > step]:  # they began where this one ended
                    del story.ranges[void], divided[void]
            story.ranges[step] = ranges
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
        elif record["kind"] == "revision_switch":
            story.switches.append(step)
        elif (
            record["kind"] == "revision_turn"
            and record["reason"] in ("abort", "taken_back")
            and (story.switches and story.switches[-1] not in story.outputs)
        ):  # the switch, and what was divided behind it, is void
            first = story.switches.pop()
            for void in [later for later in story.ranges if later >= first]:
                del story.ranges[void], divided[void]
    return story


def is_cut(ranges: dict[Place, tuple[int, int]], before: dict[Place, tuple[int, int]]) -> bool:
    """Whether it is less input of the same step: what was found to be too many bytes."""
    return ranges.keys() == before.keys() and all(
        start == before[place][0] and end <= before[place][1] for place, (start, end) in ranges.items()
    )


def check_divisions(story: Story, inputs: Messages) -> Iterator[str]:
    """b."""
    reached: Ends = {}
    began: Ends = {}
    offsets = {place: [message.offset for message in messages] for place, messages in inputs.items()}
    for step in story.steps:
        if step not in story.ranges:
            continue  # told already
        for place, (start, end) in story.ranges[step].items():
            began.setdefault(place, start)
            due = reached.get(place, start)
            if start != due or end < start:
                yield f"b: step {step} reads {at(place)} from {start} to {end}, and the one before ended at {due}"
            reached[place] = end
            read_now = bisect_left(offsets[place], end) - bisect_left(offsets[place], start)
            if read_now != story.inputs[step].get(place, 0):
                counted = story.inputs[step].get(place, 0)
                yield f"b: step {step} read {counted} messages of {at(place)}, where {read_now} are committed"
    for place, messages in inputs.items():
        outside = [m.offset for m in messages if not began.get(place, 0) <= m.offset < reached.get(place, 0)]
        if outside:
            yield f"b: {len(outside)} committed messages of {at(place)} are in no step; the first has offset {outside[0]}"


def check_order(story: Story, outputs: Messages) -> Iterator[str]:
    """d."""
    for place, messages in outputs.items():
        for one, next_one in pairwise(messages):
            if next_one.step < one.step:
                yield f"d: {at(place)} offset {next_one.offset}: step {next_one.step} after step {one.step}"
        begin, index = 0, 0
        for step in story.steps:
            count, end = story.outputs[step].get(place, (0, begin))
            here = index
            while index < len(messages) and messages[index].offset < end:
                index += 1
            wrong = [m for m in messages[here:index] if m.step != step]
            if wrong or index - here != count:
                yield (f"d: {at(place)} [{begin}, {end}): {index - here - len(wrong)} messages of step {step}, and {len(wrong)} of others; "
                       f"the step log says {count}")  # fmt: skip
            begin = end
        if index < len(messages):
            yield f"d: {at(place)}: {len(messages) - index} messages beyond {begin}, the end that the last record names"


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
