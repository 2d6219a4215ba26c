"""Why the switch of a transition whose new nodes are filled has to wait, for users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from base.fault import Fault
from coordinator.revisions.rereadable import grown_topics, reads
from coordinator.transition.course import Course
from coordinator.transition.draining import leaves_at_once
from coordinator.transition.resolved_projects import Resolved
from engine.analysis.stages import plan_stages
from engine.analysis.withholding import outputs_by_number, views_behind
from engine.model.circuit import Output
from engine.model.filling import Switched
from engine.model.numbers import NumberedCircuit
from engine.operators.arrangement import Key
from engine.resident.messages import Size
from io_kafka.clients.lost_topics import lost_topics
from io_kafka.clients.topics import Topics
from io_kafka.step_log.records import NodeErrors
from io_kafka.step_log.revision_records import RevisionIntent
from io_kafka.step_log.revision_state import Clearing, Detached, Filling, Phase
from io_kafka.step_log.state import StepLogState


@dataclass(frozen=True)
class TopicFindings:
    """What the topics of the next project say. `resolved`: the project with its topics; None if it cannot be resolved. `reasons`: why the
    switch has to wait."""

    resolved: Resolved | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class SwitchObstacles:
    """The reasons why the switch has to wait, at one moment: `log` is the state of the step log then, and `phase` the transition in it."""

    course: Course
    log: StepLogState
    phase: Filling

    def reasons(
        self, of_topics: Sequence[str], sizes: Sequence[Size], rows_max: int, *, accepts_errors: bool
    ) -> list[str]:
        """Nothing if the switch may come. `of_topics`: what the topics say; see TopicFindings. `sizes`: of the differences. `rows_max`: how many
        rows one step passes on. `accepts_errors`: the user has asked for the switch, and so accepts error rows of new nodes."""
        facts = self.course.facts(self.phase.intent)
        found = list(self._why_too_many(sizes, rows_max))
        for each, size in zip(facts.differences, sizes, strict=True):
            if each.appends and size.gone:
                found.append(
                    f"{size.gone:,} rows would have to be taken back from append output {each.appends[0]}, which cannot be; "
                    f"`--append {each.appends[0]}=from-now` of `stepwell apply` gives it only what comes out from the switch on"
                )
        found += self._why_not_released()
        found += of_topics
        wrong = _of_new_nodes(self.course, self.phase.intent, self.log.errors)
        if wrong and not accepts_errors:
            found.append(f"new nodes have rows in error: {wrong[0].example}")
        return found

    def _why_too_many(self, sizes: Sequence[Size], rows_max: int) -> Iterator[str]:
        """With --gradual the rows leave in several steps, except those of a difference that lies in one slot."""
        rows = [size.come + size.gone for size in sizes]
        if not self.phase.intent.choices.gradual:
            if sum(rows) > rows_max:
                yield (
                    f"{sum(rows):,} rows differ, and one step passes on {rows_max:,} at most (stepwell.switch.rows.max); with "
                    "`stepwell apply --gradual` they leave in several steps"
                )
            return
        program = self.course.switching(self.phase.intent)
        for each, size in zip(self.course.facts(self.phase.intent).differences, rows, strict=True):
            node = program.circuit.nodes[program.numbers.index(each.number)]
            assert isinstance(node, Switched)
            if leaves_at_once(node) and size > rows_max:
                yield (
                    f"{size:,} rows of view {each.view} differ, and cannot leave in several steps, because what reads the view needs all "
                    f"of them at once; one step passes on {rows_max:,} at most (stepwell.switch.rows.max)"
                )

    def look(self, topics: Topics) -> TopicFindings:
        """The check may run in the background, and asks Kafka and registries."""
        try:
            resolved = self.course.projects.resolve_next(self.phase.intent, topics, self.log.topics)
            self.course.projects.look_at_taken_back(self.phase.before, self.phase.intent, topics, self.log.topics)
            return TopicFindings(resolved, tuple(self._why_input_differs(topics)))
        except Fault as fault:
            return TopicFindings(None, (f"the next project cannot read or write its topics: {fault}",))

    def _why_input_differs(self, topics: Topics) -> Iterator[str]:
        """What is wrong with topics that were read again. A fault that comes with the step of the switch would end the run."""
        log, intent = self.log, self.phase.intent
        there = topics.describe(each.topic for each in intent.topics)
        for recreated in lost_topics(intent.topics, there).recreated.values():
            yield (
                f"{recreated}, and new nodes have messages that are gone; take the change back with `stepwell revision abort`, and apply it "
                "again"
            )
        new = sorted(log.only_read_again)
        begins, ends = topics.begin_offsets({each.topic for each in new}), topics.end_offsets_of(new)
        for where in new:
            at, first, end = log.reads_again[where], begins.get(where), ends[where]
            if first is None or not first <= at <= end:
                yield (
                    f"{where} has the offsets from {first} to {end}, and new nodes have read up to {at}: "
                    "the topic was made anew, or cut"
                )
        handles = self.course.handles_read_again(intent)
        for source in self.course.plan_of_next(intent).inputs:
            is_read_again = source.is_keyed and source.table.handle in handles
            mine = [where for where in log.next_offsets if reads(source, where)]
            if is_read_again and grown_topics(source, mine, log.grown):
                yield (
                    f"the topic of {source.table.handle} has got more partitions meanwhile, so the order of the messages of a key "
                    "is not known"
                )

    def _why_not_released(self) -> Iterator[str]:
        """Why outputs that are withheld cannot be released after the switch: what an output has kept can be released by the same node alone."""
        before, now = self.course.plan_of(self.phase.before), self.course.plan_of_next(self.phase.intent)
        withheld = outputs_by_number(before.numbered, self.log.counted)
        stay = outputs_by_number(now.numbered)
        topics = {output.handle: output.topic for output in before.outputs}
        written = {output.topic for output in now.outputs}
        for number, handle in sorted(withheld.items(), key=lambda each: each[1]):
            why = f"output {handle} is withheld because of rows in error, and "
            if number not in stay and (topics[handle] in written or handle in stay.values()):
                yield why + "is written in another way then"
            if number in stay and _place_of(before.numbered, number) != _place_of(now.numbered, number):
                yield why + "its rows lie elsewhere then, where what it has kept is not"
        for handle in self.course.facts(self.phase.intent).taken_back:
            if handle in withheld.values():
                yield f"output {handle} is withheld because of rows in error, so it is not known what it has to take back"


def views_put_in_error(course: Course, phase: Phase, errors: Sequence[NodeErrors]) -> tuple[str, ...]:
    """The views of the next project that have no answer from the switch on, because rows of new nodes are in error. `errors`: of all nodes."""
    is_given_up = isinstance(phase, Detached) or (isinstance(phase, Clearing) and not phase.is_switched)
    wrong = [] if is_given_up else _of_new_nodes(course, phase.intent, errors)
    if not wrong:
        return ()
    now = course.plan_of_next(phase.intent).numbered
    return tuple(sorted(views_behind(now.circuit, now.indices(each.node for each in wrong))))


def _of_new_nodes(course: Course, intent: RevisionIntent, errors: Sequence[NodeErrors]) -> list[NodeErrors]:
    if not errors:
        return []
    new = set(course.facts(intent).young)
    return [each for each in errors if each.node in new]


def _place_of(numbered: NumberedCircuit, number: int) -> Key | None:
    """The columns by which the rows lie that an output keeps while it is withheld."""
    index = numbered.index(number)
    assert index is not None
    output = numbered.circuit.nodes[index]
    assert isinstance(output, Output)
    (place,) = plan_stages(numbered.circuit, frozenset({output.handle})).input_colocation[index]
    return place
