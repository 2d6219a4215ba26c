"""What a pipeline has written that goes from project to project, judged from outside after each transition.

Spark says what is right: its batch answer of the project in force, over all messages that the topics have ever had; for a view with a mark, over
those from the marked offsets on. Beside that, no consumer sees what does not follow from what it has seen before.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from examples.batch import TopicMessage, batch_answer
from io_kafka.step_log.state import StepLogState
from stepwell.planning.plans import ResolvedProject
from tests.end_to_end import formats
from tests.end_to_end.evolving_family import KINDS, WINDOWS, Project, View
from tests.end_to_end.harness import Playground, Resolved, answer_of
from tests.end_to_end.oracle import Ends, Messages, Oracle, Story, Violated, check_order, tell
from tests.end_to_end.oracle_rows import Answer, Content, Watched, bag_of
from tests.end_to_end.oracle_topics import Message, Place
from tests.schema_registry import SchemaRegistry

Kept = dict[str, list[TopicMessage]]
"""Messages by topic, with its prefix."""


@dataclass(frozen=True)
class InForce:
    """A project in force. `since`: the step of its switch, which is 0 for the first one. `marks`: by view and topic, the offsets from
    which it is counted. `kept`: the resolved project over a copy of its files, which later projects replace."""

    project: Project
    resolved: Resolved
    kept: ResolvedProject
    since: int
    marks: Mapping[str, Mapping[Place, int]]

    def columns(self, view: str) -> tuple[str, ...]:
        return tuple(next(v for v in self.resolved.project.views if v.name == view).schema.names)


@dataclass(frozen=True)
class Part:
    """A definition of an append output. `is_from_now`: it gets only what comes out from its switch on. Otherwise it gets in that step what the
    definition before it lacks."""

    now: InForce
    is_from_now: bool


@dataclass
class Written:
    """What an output topic has got. `columns`: from which step on it has which. `parts`: of an append topic, the projects that have defined
    it. `retracted`: the step that has taken its rows back, and `dropped` the one from which on nobody writes it."""

    view: View
    columns: list[tuple[int, tuple[str, ...]]]
    parts: list[Part] = field(default_factory=list)
    retracted: int | None = None
    dropped: int | None = None


class LongOracle(Oracle):
    """An oracle that looks again and again, at more and more topics."""

    def add(self, topics: Collection[str]) -> None:
        self._topics |= set(topics)

    def look(self) -> Story:
        """Raises Violated. To be called when no step is under way."""
        ends = self._catch_up()
        self.prove_watching()
        story = tell(self.seen[self.log])
        outputs = {place: list(self.seen[place]) for place in ends if place != self.log}
        found = [*self._late, *story.faults, *check_order(story, outputs)]
        if found:
            raise Violated(found)
        return story

    def boundary(self, step: int) -> Ends:
        """Where the input of the steps up to `step` ends, as far as the log has been seen; nothing if it was not seen yet."""
        story = tell(list(self.seen[self.log]))
        return story.boundary(step) if step in story.ranges else {}


class Judge:
    """Of one round. `kept`: all messages that the inputs have ever had."""

    def __init__(self, play: Playground, registry: SchemaRegistry, first: InForce) -> None:
        self.play, self.registry = play, registry
        self.now = first
        self.kept: Kept = {}
        self.written: dict[str, Written] = {}
        self.oracle = LongOracle(play.servers, first.resolved.spec.log_topic, ())
        self.rows = 0
        self._begin(first, {}, ())

    # What is in force

    def _begin(self, now: InForce, append_from_now: Mapping[str, bool], retracted: Collection[str]) -> None:
        for view in now.project.views.values():
            if view.topic is not None:
                self._begin_view(now, view, is_from_now=append_from_now.get(view.kind, False))
        present = {view.topic for view in now.project.views.values()}
        for topic, written in self.written.items():
            if topic not in present and written.dropped is None:
                written.dropped = now.since
                written.retracted = now.since if topic in retracted else None
        self.oracle.add([self.play.prefix + topic for topic in self.written])
        self.now = now

    def _begin_view(self, now: InForce, view: View, *, is_from_now: bool) -> None:
        assert view.topic is not None
        columns = now.columns(view.name)
        found = self.written.get(view.topic)
        if found is None:
            self.written[view.topic] = Written(view, [(now.since, columns)], [Part(now, is_from_now)])
            return
        if found.columns[-1][1] != columns:
            found.columns.append((now.since, columns))
        if is_from_now or (found.view.kind, found.view.query) != (view.kind, view.query):
            found.parts.append(Part(now, is_from_now))
        found.view = view

    def switched(self, now: InForce, append_from_now: Collection[str], retracted: Collection[str]) -> None:
        self._begin(now, dict.fromkeys(append_from_now, True), retracted)

    # Input

    def keep(self, topics: Collection[str]) -> None:
        """Remembers the messages of these topics, before some expire."""
        for topic, those in self.play.read_all(topics).items():
            found = {(m.partition, m.offset): m for m in self.kept.get(topic, [])}
            found.update({(m.partition, m.offset): m.as_input for m in those})
            self.kept[topic] = [found[place] for place in sorted(found)]

    def _input(self, marks: Mapping[Place, int], ends: Ends | None = None) -> Kept:
        """As Spark reads it, from the marks on, and below these ends."""
        found: Kept = {}
        for topic, those in self.kept.items():
            counted = [m for m in those if m.offset >= marks.get((topic, m.partition), 0)]
            if ends is not None:
                counted = [m for m in counted if m.offset < ends.get((topic, m.partition), 0)]
            if topic == f"{self.play.prefix}people":
                counted = [self._of_avro(m) for m in counted]
            found[topic] = counted
        return found

    def _of_avro(self, message: TopicMessage) -> TopicMessage:
        as_json = formats.of_avro(self.registry)
        value = None if message.value is None else as_json(message.value)
        return message._replace(key=as_json(message.key or b""), value=value)

    # Answers

    def answers(self, now: InForce, ends: Ends | None = None) -> tuple[dict[str, Answer], set[str]]:
        """Spark's answers, and the views for which it raises or that read one of these. Of what a view does not read of another one, Spark
        computes nothing here; a table of it would not be there."""
        errors: dict[str, Exception] = {}
        marked = {view: self._input(marks, ends) for view, marks in now.marks.items()}
        frames = batch_answer(now.kept, self._input({}, ends), errors, marked)
        in_error = set(errors)
        by_kind = now.project.views
        while (
            more := {
                view.name
                for kind, view in by_kind.items()
                if any(by_kind[read].name in in_error for read in KINDS[kind].reads)
            }
            - in_error
        ):
            in_error |= more
        return {name: answer_of(frame) for name, frame in frames.items() if name not in in_error}, in_error

    def judge(self, status: Mapping[str, Any], log: StepLogState, contents: Mapping[str, Answer]) -> None:
        """`contents`: what queries read of kept views, as text. Raises Violated, with everything that is wrong."""
        story = self.oracle.look()
        right, errors = self.answers(self.now)
        in_error = set(status["in_error"])
        found = []
        if in_error != errors:
            found.append(f"in error are {sorted(in_error)}, and for Spark {sorted(errors)}: {status['in_error']}")
        for topic, written in self.written.items():
            found += self._check_topic(story, topic, written, right)
        for name, content in contents.items():
            found += [f"query: {name}: {each}" for each in differences(content.rows, right[name].rows)]
        found += self._check_places(story, log)
        self.rows += sum(len(answer.rows) for answer in right.values())
        if found:
            raise Violated(found)

    def of_next(self, following: InForce, view: str, content: Answer, step: int) -> list[str]:
        """What is wrong with a view of the next revision before the switch, as of the checkpoint before this step. Topics that the revision in
        force does not read are in no division, so only what the others say can be compared."""
        ends = self.oracle.boundary(step - 1)
        topics = {topic for topic, _ in ends}
        unread = {topic for source in following.resolved.project.sources for topic in source.topics} - topics
        if not ends or unread:
            return []
        right, errors = self.answers(following, ends)
        return [] if view in errors else list(differences(content.rows, right[view].rows))

    def judge_rebuilt(self, now: InForce, kept: Kept) -> None:
        """After a full refresh, which counts what the topics have then, and without marks."""
        self.kept = kept
        right, _ = self.answers(now)
        found = []
        for view in now.project.views.values():
            if view.topic is None or view.name not in right:
                continue
            self.written[view.topic].view = view
            content = Content(Watched(view.name, view.topic, KINDS[view.kind].mode))
            messages = self.play.read(view.topic)
            taken = [(m.partition, Message(m.offset, m.key, m.value, m.headers)) for m in messages]
            columns = now.columns(view.name)
            list(content.take(0, [(p, self._read(view.topic, m, columns)) for p, m in taken]))
            rows = self._put_out(now, view.name, None) if view.mode == "append" else right[view.name].rows
            found += content.compare(0, Answer(rows))
        if found:
            raise Violated(found)

    def _check_topic(self, story: Story, topic: str, written: Written, right: Mapping[str, Answer]) -> Iterator[str]:
        """What the messages make. Each time that the columns change, what came before is read with the new ones."""
        view = written.view
        steps = self._by_step(topic)
        late = [step for step in steps if written.dropped is not None and step > written.dropped]
        if late:
            yield f"{view.name}: {topic} was left in step {written.dropped}, and has messages of step {late[0]}"
        content = Content(Watched(view.name, topic, KINDS[view.kind].mode))
        for (since, columns), (until, _) in zip(written.columns, [*written.columns[1:], (None, ())], strict=True):
            content = Content(Watched(view.name, topic, KINDS[view.kind].mode))
            for step in story.steps:
                if until is not None and step >= until:
                    break
                faults = list(content.take(step, [(p, self._read(topic, m, columns)) for p, m in steps.get(step, ())]))
                if step >= since:
                    yield from faults
        last = len(story.steps) - 1
        if written.retracted is not None:
            yield from (f"{view.name} was taken back, and {topic} has {row!r}" for row in content.rows())
        elif written.dropped is None and KINDS[view.kind].mode == "append":
            yield from self._check_append(story, content, written)
        elif written.dropped is None and view.name in right:
            yield from content.compare(last, right[view.name])

    def _check_append(self, story: Story, content: Content, written: Written) -> Iterator[str]:
        """It has all rows of the first definition, and what each later one has added."""
        rows: Counter[str] = Counter()
        for number, part in enumerate(written.parts):
            later = written.parts[number + 1 :]
            until = self._boundary(story, later[0].now.since) if later else None
            rows.update(self._put_out(part.now, self._name_in(part.now, written.view.kind), until))
            base = part.now if part.is_from_now else written.parts[number - 1].now if number else None
            if base is not None:
                name = self._name_in(base, written.view.kind)
                rows.subtract(self._put_out(base, name, self._boundary(story, part.now.since)))
        if any(count < 0 for count in rows.values()):
            yield f"{written.view.name}: the judge is wrong, because the view has lost rows {+Counter({r: -n for r, n in rows.items()})}"
            return
        yield from content.compare(len(story.steps) - 1, Answer(list(rows.elements())))

    def _boundary(self, story: Story, step: int) -> Ends:
        """Where the input ends that views have when a switch begins with this step. Topics that only the new project reads are not in the steps
        before. What was read again of them ends where this step begins."""
        begun = {place: start for place, (start, _) in story.ranges[step].items()}
        return {**begun, **story.boundary(step - 1)}

    @staticmethod
    def _name_in(now: InForce, kind: str) -> str:
        return now.project.views[kind].name

    def _put_out(self, now: InForce, name: str, ends: Ends | None) -> list[str]:
        """The rows that an append output has put out over the messages below these ends. It reads no other view."""
        marked = {view: self._input(marks, ends) for view, marks in now.marks.items()}
        frame = batch_answer(now.kept, self._input({}, ends), None, marked, [name])[name]
        rows = list(answer_of(frame).rows)
        view = next(view for view in now.project.views.values() if view.name == name)
        return self._closed(view, rows, ends) if view.kind == "counted" else rows

    def _closed(self, view: View, rows: Sequence[str], ends: Ends | None) -> list[str]:
        """The windows that the watermark has passed: nothing of the input is late."""
        delay, width = WINDOWS[view.query]
        ticks = self._input({}, ends).get(f"{self.play.prefix}ticks", [])
        last = max((_moment(json.loads(m.value or b"")["at"]) for m in ticks), default=None)
        if last is None:
            return []
        passed = last - timedelta(minutes=delay)
        return [row for row in rows if _moment(json.loads(row)["start"]) + timedelta(minutes=width) <= passed]

    # Messages

    def _by_step(self, topic: str) -> dict[int, list[tuple[int, Message]]]:
        found: defaultdict[int, list[tuple[int, Message]]] = defaultdict(list)
        for (name, partition), messages in sorted(self.oracle.seen.items()):
            if name == self.play.prefix + topic:
                for message in messages:
                    found[message.step].append((partition, message))
        return found

    def _read(self, topic: str, message: Message, columns: Sequence[str]) -> Message:
        """As a consumer reads it who knows these columns: others are left out, and missing ones are null."""
        value = message.value
        if value is None:
            return message
        if KINDS[self.written[topic].view.kind].format == "avro":
            value = formats.of_avro(self.registry)(value)
            assert value is not None, f"{topic} offset {message.offset} is no Avro"
        plain = json.loads(value)
        is_change = KINDS[self.written[topic].view.kind].mode == "changelog"
        images = [plain["before"], plain["after"]] if is_change else [plain]
        if all(image is None or list(image) == list(columns) for image in images):
            return replace_value(message, value)
        fitted = [None if image is None else {name: image.get(name) for name in columns} for image in images]
        new = {**plain, "before": fitted[0], "after": fitted[1]} if is_change else fitted[0]
        return replace_value(message, json.dumps(new).encode())

    def _check_places(self, story: Story, log: StepLogState) -> Iterator[str]:
        """Each committed message of each input is in a step: positions are at the ends."""
        for topic, those in self.kept.items():
            counted: Counter[int] = Counter(m.partition for m in those)
            for partition in counted:
                last = max(m.offset for m in those if m.partition == partition)
                at = {(w.topic, w.partition): offset for w, offset in log.next_offsets.items()}.get((topic, partition))
                if at is not None and at <= last:
                    yield f"{topic}/{partition} was read up to {at}, and has a message at {last}"


def differences(have: Sequence[str], want: Sequence[str]) -> Iterator[str]:
    """Between the rows of two tables, which are JSON."""
    mine, right = bag_of(have, frozenset()), bag_of(want, frozenset())
    for shape in mine.keys() | right.keys():
        more = len(mine.get(shape, ())) - len(right.get(shape, ()))
        if more:
            yield f"{abs(more)} {'too many' if more > 0 else 'missing'} of {dict(shape)}"


def replace_value(message: Message, value: bytes) -> Message:
    return message._replace(value=value)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def dead_letters(messages: Messages, topic: str) -> Iterator[str]:
    """Each malformed message has one letter at most."""
    letters: Counter[tuple[str, int, int]] = Counter()
    for (name, _), those in messages.items():
        if name == topic:
            for message in those:
                letter = json.loads(message.value or b"")
                letters[letter["topic"], letter["partition"], letter["offset"]] += 1
    for place, count in letters.items():
        if count > 1:
            yield f"{place} has {count} dead letters"
