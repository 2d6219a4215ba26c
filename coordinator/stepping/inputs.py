"""Where the pipeline reads next: offsets, added partitions, and the division of a step.

Guarantees: a division starts where the division before it ended, according to the step log. A partition that was added to a topic is read
only in a division whose record announces it. A run with `available_now` reads nothing that arrived after its start.

The step log remembers what was divided. This module keeps only what the log cannot know: the first offsets of partitions that were never
divided, and what this run has found out about the topics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import structlog

from base.options import OnError
from coordinator.specification import InputTopic, PipelineSpec
from coordinator.starting.batch_tables import ends_of_tables, limits_of_tables
from coordinator.starting.positions import depends_on_the_start, starting_positions
from coordinator.starting.same_topics import check_topics
from coordinator.status import StatusBoard
from coordinator.stepping.clock import StepClock, reading_of
from coordinator.stepping.dividing import Dividing
from coordinator.stepping.idle import IdleInputs
from coordinator.stepping.views_in_error import is_release_due, next_counted
from coordinator.transition.draining import outputs_with_content
from coordinator.transition.portions import Portions
from coordinator.transition.reread_portions import ReadingAgain
from engine.analysis.event_time_sources import sides_by_watermark
from engine.model.numbers import NumberedCircuit
from engine.operators.table import operator_of
from engine.run.reading_again import CANNOT_READ, not_read_again
from io_kafka.clients.topics import TopicFacts, Topics
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.division import Division, Limits, divide
from io_kafka.step_log.input_policy import InputPolicy
from io_kafka.step_log.records import DivisionRecord, InputRange, NodeErrors, TopicIdentity
from io_kafka.step_log.state import StepLogState
from io_kafka.step_log.value import PENDING_STEPS_MAX

_log = structlog.get_logger("coordinator.stepping.inputs")

AHEAD_STEPS = PENDING_STEPS_MAX
"""How many steps after the one whose output is written may be divided: the one that the workers run meanwhile, and the one after it, so that
its division is durable when the workers are free."""


WIDENINGS_MAX = 4
"""How often a run gives a step more input because a view has an error over the rows up to its end. The last time it has eight times the rows of
a full step: memory bounds a step, and an error that more rows do not end belongs to the rows that are there."""


def offsets_after(
    starts: Mapping[TopicPartition, int], divided: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where the next division starts in each partition of `starts`: the end of the last division, or else the partition's start."""
    return {partition: divided.get(partition, start) for partition, start in starts.items()}


def of_announced_partitions(
    found: Mapping[TopicPartition, int], identities: Iterable[TopicIdentity]
) -> dict[TopicPartition, int]:
    """The entries of `found` for partitions that the identities count. A partition that was added later is not read before a division
    announces it."""
    counts = _partition_counts(identities)
    return {partition: at for partition, at in found.items() if partition.partition < counts[partition.topic]}


def offsets_if_known(
    known: Mapping[TopicPartition, int], inputs: Iterable[InputTopic], identities: Iterable[TopicIdentity]
) -> dict[TopicPartition, int] | None:
    """The next offset of every partition that the inputs read and the identities count; None if one of them has none yet."""
    counts = _partition_counts(identities)
    tables = [source.table for source in inputs]
    if any(topic not in counts for table in tables for topic in table.topics):
        return None
    read = {
        partition
        for table in tables
        for topic in table.topics
        for partition in (TopicPartition(topic, number) for number in range(counts[topic]))
        if table.reads(partition)
    }
    return {partition: known[partition] for partition in read} if read <= known.keys() else None


def _partition_counts(identities: Iterable[TopicIdentity]) -> dict[str, int]:
    return {identity.topic: identity.partitions for identity in identities}


def with_partitions(
    identities: tuple[TopicIdentity, ...], counts: Mapping[str, int], inputs: Collection[str]
) -> tuple[TopicIdentity, ...]:
    """The identities, with the numbers of partitions in `counts` for the input topics. Output topics keep theirs, because `check_topics`
    raises an error if one of them has grown."""
    return tuple(
        TopicIdentity(topic=i.topic, id=i.id, partitions=counts[i.topic]) if i.topic in inputs else i
        for i in identities
    )


def as_large_as_known(
    identities: tuple[TopicIdentity, ...], known: Mapping[str, TopicIdentity], inputs: Collection[str]
) -> tuple[TopicIdentity, ...]:
    """The identities, with as many partitions of the input topics as a division has named. Such a topic may have grown since they were found."""
    counts = {i.topic: max(i.partitions, known.get(i.topic, i).partitions) for i in identities}
    return with_partitions(identities, counts, inputs)


def ends_until(until: Mapping[TopicPartition, int], offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The ends of a run that reads only what was there at its start. An earlier run may have read a partition beyond them already."""
    return {partition: max(end, offsets[partition]) for partition, end in until.items()}


def empty_division(step: int, offsets: Mapping[TopicPartition, int]) -> Division:
    """A division with an empty range for each partition."""
    return Division(step, tuple(OffsetRange(p.topic, p.partition, at, at) for p, at in sorted(offsets.items())))


def _partitions_of(log: StepLogState, step: int) -> frozenset[TopicPartition]:
    """What this step has read; nothing if the log has forgotten it."""
    record = log.divisions.get(step)
    return frozenset() if record is None else frozenset(each.where for each in record.division.ranges)


def outputs_without_input(spec: PipelineSpec) -> bool:
    """Whether there is output before any input: constants, and counts of nothing."""
    return any(operator_of(node).outputs_without_input(node) for node in spec.circuit.nodes)


class Inputs:
    """One run's view of the input topics. `identities` are those of all topics of the pipeline, as `prepare` found them. `finishes`: the run
    ends with the steps that are divided, and divides none ahead. `counted`: the numbers of new nodes, whose error rows every division counts.
    `portions`: how far each step fills them. `reading`: what is read again for them. `before`: in the steps of a switch, the circuit of the
    former project. `former`: by which the same run has read before a recovery or another program. The new ones go on up to the ends that it
    found at its start, and with as many widenings of a step as are left."""

    def __init__(
        self,
        spec: PipelineSpec,
        topics: Topics,
        board: StatusBoard,
        identities: tuple[TopicIdentity, ...],
        log: StepLogState,
        *,
        plan: NumberedCircuit,
        available_now: bool,
        finishes: bool = False,
        counted: Collection[int] = (),
        portions: Portions | None = None,
        reading: ReadingAgain | None = None,
        before: NumberedCircuit | None = None,
        former: Inputs | None = None,
    ) -> None:
        self._spec, self._plan, self._topics, self._board = spec, plan, topics, board
        self._monotonic, self._wall_clock = spec.kafka.outside.monotonic, spec.kafka.outside.wall_clock
        self.clock = StepClock(reading_of(plan.circuit), spec.clock_resolution_us)
        self._idle = IdleInputs(sides_by_watermark(plan.circuit), spec.idle_after_s, log.idle)
        self._idle_in_last: tuple[str, ...] = ()  # by the last step that is settled
        self._identities = as_large_as_known(identities, log.topics, spec.input_topics)
        self.finishes = finishes
        self._may_divide_ahead, self._is_filling_paused = True, False
        self._always_counted, self._portions, self._before = frozenset(counted), portions, before
        self._reading = reading
        self._gives_contents = bool(outputs_with_content(plan.circuit))
        self._announced = False  # whether a division of this run names the topics as they are now
        self._table_ends = ends_of_tables(spec, log)
        self._dividing = Dividing(
            plan.circuit, spec.inputs, self._table_ends, limits_of_tables(spec.limits), topics.offsets_since
        )
        # Within a run no question to the broker, which would be part of the pause in which a project changes.
        starts = offsets_if_known(log.next_offsets, spec.inputs, self._identities) if former is not None else None
        self._starts = self._find_starts(log.next_offsets) if starts is None else starts
        self._until = self._ends_of(sorted(self._starts)) if available_now else None
        if reading is not None and available_now:
            reading.ends = {}
        if available_now:
            self.clock.until_us = self._wall_us()
        self._growth_checked_at = self._monotonic()
        self._widenings: dict[int, int] = {}  # how often each step was widened
        if former is not None:
            self._take_over(former)

    def read_again(self, ranges: Iterable[OffsetRange]) -> int:
        """How many messages were read again, where a message of a batch table counts as many rows."""
        return 0 if self._reading is None else self._reading.weight(ranges)

    def _take_over(self, former: Inputs) -> None:
        self._widenings = former._widenings
        if self._reading is not None and former._reading is not None:
            self._reading.ends = former._reading.ends
        self._idle.take_over(former._idle)
        self._idle_in_last = former._idle_in_last
        if self._until is not None and former._until is not None:
            self._until = {where: former._until.get(where, end) for where, end in self._until.items()}
            self.clock.until_us = former.clock.until_us

    def allow(self, *, ahead: bool, filling: bool) -> None:
        """`ahead`: steps may be divided ahead, because nothing waits for a boundary without steps that are divided already. `filling`: new nodes
        are filled, because the transition is not paused."""
        self._may_divide_ahead, self._is_filling_paused = ahead, not filling

    @property
    def ends_now(self) -> bool:
        """Whether the run reads only what was there at its start."""
        return self._until is not None

    def silent_offsets(self, log: StepLogState) -> dict[TopicPartition, int] | None:
        """Where the next step begins to read, of all partitions that may grow; None if time alone may make a step due at any moment."""
        if self.clock.reading.is_read:
            return None
        offsets = offsets_after(self._starts, log.next_offsets)
        return {where: at for where, at in offsets.items() if where not in self._table_ends}

    def choose(self, log: StepLogState, step: int) -> Division | None:
        """The division of `step`, which starts where the last one ended. None if there is nothing to read."""
        self._check_for_growth_if_due(log)
        offsets = offsets_after(self._starts, log.next_offsets)
        return self._divide(step, offsets, self._ends_now(offsets))

    def choose_or_first(self, log: StepLogState, step: int) -> Division | None:
        """As `choose`, but a step without input is divided too if something is due: output that does not depend on input, or a record of where
        the topics ended at this start, both in step 0; the release of outputs that were withheld; a portion; a switch, or a part of a drain;
        what changes because time passes, or because an input is silent. The first step of a switch has no input, because it is a pause for
        all that arrives. If it begins to read a topic, it does so: should that fail, the former project goes on."""
        is_pause = step == log.revisions.switch_step and self._starts.keys() <= _partitions_of(log, step - 1)
        division = None if is_pause else self.choose(log, step)
        is_first_due = step == 0 and (
            outputs_without_input(self._spec) or any(map(depends_on_the_start, self._spec.inputs))
        )
        is_due = self._is_release_due(log, log.errors) or self._is_portion_due(log, step)
        is_due = is_due or log.revisions.is_to_pass_on(step)
        is_due = is_due or self.clock.is_due(self._wall_us(), log.clock_us)
        is_due = is_due or self._is_idleness_due(log, step)
        if division is None and (is_first_due or is_due):
            return empty_division(step, offsets_after(self._starts, log.next_offsets))
        return division

    def choose_ahead(self, log: StepLogState, step: int, errors: Sequence[NodeErrors]) -> list[Division]:
        """The divisions that are recorded together with the output of `step`, which costs no transaction of their own: those of the next
        AHEAD_STEPS steps that are not divided yet, as long as a full step of input waits for each. If less waits, the division is chosen later,
        so that it holds what arrives until then. `errors`: the error rows after `step`. If outputs are to be released, the next division is
        chosen at a drained boundary."""
        if self.finishes or not self._may_divide_ahead or self._is_release_due(log, errors):
            return []
        if log.revisions.drain is not None:
            return []  # the step after its end runs another program
        dividing, limits = self._dividing, self._limits
        undivided = range(log.division_next, step + AHEAD_STEPS + 1)
        if not undivided or not dividing.is_full(log.divisions[log.division_next - 1].division, limits):
            return []  # there was no backlog, so the next division reads the end offsets itself
        self._check_for_growth_if_due(log)
        chosen: list[Division] = []
        offsets = offsets_after(self._starts, log.next_offsets)
        ends = self._ends_now(offsets)
        for later in undivided:
            division = self._divide(later, offsets, ends)
            if division is None or not dividing.is_full(division, limits):
                break
            chosen.append(division)
            offsets = {**offsets, **{r.where: r.end for r in division.ranges}}
        return chosen

    def note_watermarks(self, record: DivisionRecord, watermarks_us: Mapping[int, int]) -> None:
        """`watermarks_us`: after the step of this division, by node of the circuit."""
        jumped = not set(record.idle).issubset(self._idle_in_last)
        self._dividing.note_watermarks(record.step, watermarks_us, jumped=jumped)
        if jumped:
            _log.info("watermarks go on without idle inputs", step=record.step, idle=list(record.idle))
        self._idle_in_last = record.idle
        self._board.update(idle=list(record.idle))

    def widen(self, record: DivisionRecord) -> dict[TopicPartition, int] | None:
        """Where the ranges of a step may end instead, so that it has more input: as much as a step may have at first, then twice as much as
        before. None if no more has arrived, or if the step was widened WIDENINGS_MAX times by this run."""
        self._widenings = {step: often for step, often in self._widenings.items() if step >= record.step}
        widenings = self._widenings[record.step] = self._widenings.get(record.step, 0) + 1
        if widenings > WIDENINGS_MAX:
            return None
        before, starts = record.division.ends, {r.where: r.start for r in record.ranges}
        now = self._ends_now(offsets_after(self._starts, before))
        rows = record.division.rows
        limits = Limits(rows_max=self._spec.limits.rows if rows < self._spec.limits.rows else 2 * rows)
        found = divide(record.step, starts, {partition: now[partition] for partition in starts}, limits)
        ends = (
            before
            if found is None
            else {partition: max(end, found.ends[partition]) for partition, end in before.items()}
        )
        return ends if ends != before else None

    @property
    def partitions(self) -> dict[str, int]:
        """The number of partitions of each input topic."""
        known = _partition_counts(self._identities)
        return {name: known[name] for name in self._spec.input_topics}

    def _is_release_due(self, log: StepLogState, errors: Sequence[NodeErrors]) -> bool:
        return is_release_due([node for node in log.counted if node not in self._always_counted], errors)

    def _idle_inputs(self, log: StepLogState, step: int) -> tuple[str, ...]:
        """No input is idle while new nodes are filled: a watermark of theirs would go on without the rows that are still read again for them."""
        return self._idle.idle if log.revisions.passage_that_fills(step) is None else ()

    def _is_idleness_due(self, log: StepLogState, step: int) -> bool:
        return log.revisions.passage_that_fills(step) is None and self._idle.is_due(log.idle)

    def _is_portion_due(self, log: StepLogState, step: int) -> bool:
        """Whether a step without input fills new nodes."""
        passage = log.revisions.passage_that_fills(step)
        if passage is None or self._is_filling_paused:
            return False
        if log.filled < passage.intent.whole or self._reading is None:
            return log.filled < passage.intent.whole
        with self._of_new_nodes(step):
            return self._reading.offsets_left(log) > 0

    @contextmanager
    def _of_new_nodes(self, step: int) -> Iterator[None]:
        """A topic that only new nodes need is no reason to end the run. Raises DataError, which names a new node."""
        try:
            yield
        except CANNOT_READ as fault:
            raise not_read_again(self._plan.circuit, step, fault) from fault

    def records(
        self, log: StepLogState, epoch: int, divisions: Iterable[Division], *, is_drained: bool
    ) -> list[DivisionRecord]:
        """Of divisions that follow each other. See `record`."""
        made: list[DivisionRecord] = []
        for division in divisions:
            made.append(self.record(log, epoch, division, is_drained=is_drained, after=made[-1] if made else None))
        return made

    def _portion(self, log: StepLogState, division: Division, after: DivisionRecord | None) -> dict[str, Any]:
        """What the step gives to new nodes: up to which position it fills them, and what is read again. Nothing outside a transition. In a
        drain, the position up to which differences have left."""
        drain = log.revisions.drain_at(division.step)
        if drain is not None and self._portions is not None:
            drained = self._portions.drained.next(log.filled, drain, gives_contents=self._gives_contents)
            return {"filled": drained, "again": ()}
        passage = log.revisions.passage_that_fills(division.step)
        if passage is None or self._portions is None:
            return {"filled": None, "again": ()}
        position = log.filled if after is None else after.filled or 0
        again: tuple[InputRange, ...] = ()
        is_read = True
        if self._reading is not None:
            may_read = not self._is_filling_paused and self._portions.are_messages_next(position)
            rows = self._portions.next_messages(division.rows, self._spec.limits.rows) if may_read else 0
            with self._of_new_nodes(division.step):
                again, is_read = self._reading.choose(log, division, rows, after)
        if not self._is_filling_paused and (is_read or not self._portions.are_messages_next(position)):
            position = self._portions.next(position, division.rows, passage.intent.whole)
        return {"filled": position, "again": again}

    @property
    def policy(self) -> InputPolicy:
        """That of the project. No letter is written of what is read again."""
        again = () if self._reading is None else self._reading.sources
        skipped: dict[str, OnError] = {
            each.table.handle: "skip" if each.on_error == "dead-letter" else each.on_error for each in again
        }
        truncated = {each.table.handle: each.truncate for each in again if each.truncate != "fail"}
        spec = self._spec
        return InputPolicy({**spec.on_error, **skipped}, spec.dead_letter_topics, {**spec.truncate, **truncated})

    def record(
        self,
        log: StepLogState,
        epoch: int,
        division: Division,
        *,
        is_drained: bool,
        after: DivisionRecord | None = None,
    ) -> DivisionRecord:
        """The log's record of `division`. The first one of a run, and the first one after a topic grew, names the topics. `is_drained`: whether
        all steps before it are written. `after`: the division before it, if the log does not have it yet."""
        topics: tuple[TopicIdentity, ...] = () if self._announced else self._identities
        record = DivisionRecord.of(epoch, division, topics, grown=log.topics_grown(topics))
        before = self._before if division.step == log.revisions.switch_step else None
        counted, released = next_counted(self._plan, log, is_drained=is_drained, before=before)
        counting = {"counted": tuple(sorted(self._always_counted.union(counted))), "released": released}
        last_us = log.clock_us if after is None else after.clock_us
        time = {"clock_us": self.clock.time(self._wall_us(), last_us), "idle": self._idle_inputs(log, division.step)}
        portion = self._portion(log, division, after)
        return record.model_copy(update={**self.policy._asdict(), **counting, **time, **portion})

    def _wall_us(self) -> int:
        return int(1e6 * self._wall_clock())

    def note_record(self) -> None:
        """To be called when the record of a division is in the log."""
        self._announced = True

    def check_topics(self) -> dict[str, TopicFacts]:
        """The facts of all topics now. Raises TopicChanged if one was recreated since the start."""
        facts = self._topics.describe(identity.topic for identity in self._identities)
        check_topics(self._spec, facts, {identity.topic: identity for identity in self._identities})
        return facts

    def _divide(
        self, step: int, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Division | None:
        return self._dividing.divide(step, offsets, ends, self._limits)

    @property
    def _limits(self) -> Limits:
        """As long as messages are read again, a step reads half as many new ones as it may. The other half is for those."""
        limits = self._spec.limits
        if self._reading is None or self._is_filling_paused:
            return limits
        return replace(limits, rows_max=max(1, limits.rows_max // 2))

    def _ends_of(self, asked: list[TopicPartition]) -> dict[TopicPartition, int]:
        """The last stable offsets; of a batch table, where its load has ended."""
        return {**self._topics.end_offsets_of(asked), **self._table_ends}

    def _ends_now(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The last stable offsets of all partitions; with `available_now`, those at the start of the run. Shows the lag, and notes which inputs
        are silent."""
        if self._until is not None:
            ends = ends_until(self._until, offsets)
        else:
            ends = self._ends_of(sorted(offsets))
        lag = {str(partition): ends[partition] - offsets[partition] for partition in ends}
        self._board.update(lag=lag)
        self._board.measures.note_lag(sum(lag.values()))
        if self._idle.is_used:
            waiting = {partition.topic for partition in ends if ends[partition] > offsets[partition]}
            active = {each.table.handle for each in self._spec.inputs if not waiting.isdisjoint(each.table.topics)}
            self._idle.look(self._monotonic(), active)
        return ends

    def _check_for_growth_if_due(self, log: StepLogState) -> None:
        if self._until is None and self._monotonic() - self._growth_checked_at > self._spec.pace.growth_seconds:
            self._check_for_growth(log)

    def _find_starts(self, known: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return of_announced_partitions(starting_positions(self._topics, self._spec.inputs, known), self._identities)

    def _check_for_growth(self, log: StepLogState) -> None:
        self._growth_checked_at = self._monotonic()
        counts = {name: fact.partitions for name, fact in self.check_topics().items()}
        found = with_partitions(self._identities, counts, self._spec.input_topics)
        if found == self._identities:
            return
        self._identities, self._announced = found, False
        self._starts = self._find_starts(offsets_after(self._starts, log.next_offsets))
        _log.info("an input topic has grown", partitions=len(self._starts))
