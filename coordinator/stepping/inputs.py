"""The division of a step: which messages of the input topics it reads, and what its record says besides.

Guarantees: a division starts where the division before it ended, according to the step log. A partition that was added to a topic is read
only in a division whose record announces it. A run that ends with its input reads nothing that arrived after its start.

    input_topics.py   what the broker says of the topics        new_nodes.py   what a step gives to new nodes
    dividing.py       how many messages of each partition       clock.py, idle.py   the time of a step, and which inputs are silent
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from base.logger import Logger
from coordinator.specification import PipelineSpec
from coordinator.starting.topics.batch_tables import limits_of_tables
from coordinator.starting.topics.positions import depends_on_the_start
from coordinator.status import StatusBoard
from coordinator.stepping.clock import StepClock, reading_of
from coordinator.stepping.dividing import Dividing
from coordinator.stepping.idle import IdleInputs
from coordinator.stepping.input_topics import InputTopics
from coordinator.stepping.new_nodes import NewNodes
from coordinator.stepping.offsets import empty_division
from engine.analysis.event_time_sources import sides_by_watermark
from engine.model.numbers import NumberedCircuit
from engine.operators.table import operator_of
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.division import Division, StepLimits, divide
from io_kafka.step_log.division_records import ranges_of
from io_kafka.step_log.input_policy import InputPolicy
from io_kafka.step_log.records import DivisionRecord, NodeErrors
from io_kafka.step_log.state import StepLogState
from io_kafka.step_log.value import PENDING_STEPS_MAX

_log = Logger("coordinator.stepping.inputs")

AHEAD_STEPS = PENDING_STEPS_MAX
"""How many steps after the one whose output is written may be divided: the one that the workers run meanwhile, and the one after it, so that
its division is durable when the workers are free."""


WIDENINGS_MAX = 4
"""How often a run gives a step more input because a view has an error over the rows up to its end. The last time it has eight times the rows of
a full step: memory bounds a step, and an error that more rows do not end belongs to the rows that are there."""


def outputs_without_input(spec: PipelineSpec) -> bool:
    """Whether there is output before any input: constants, and counts of nothing."""
    return any(operator_of(node).output.comes_without_input(node) for node in spec.circuit.nodes)


def _partitions_of(log: StepLogState, step: int) -> frozenset[TopicPartition]:
    """What this step has read; nothing if the log has forgotten it."""
    record = log.divisions.get(step)
    return frozenset() if record is None else frozenset(each.where for each in record.division.ranges)


class Inputs:
    """The divisions of one program in one run. `former`: by which the same run has divided before a recovery or another program. The
    new ones have as many widenings of a step as are left."""

    def __init__(
        self,
        spec: PipelineSpec,
        numbered: NumberedCircuit,
        topics: InputTopics,
        new_nodes: NewNodes,
        log: StepLogState,
        *,
        board: StatusBoard,
        former: Inputs | None = None,
    ) -> None:
        self.topics, self.new_nodes = topics, new_nodes
        self._spec, self._board = spec, board
        self._monotonic, self._wall_clock = spec.kafka.outside.monotonic, spec.kafka.outside.wall_clock
        self.clock = StepClock(reading_of(numbered.circuit), spec.clock_resolution_us)
        self._idle = IdleInputs(sides_by_watermark(numbered.circuit), spec.idle_after_s, log.idle)
        self._idle_in_last: tuple[str, ...] = ()  # by the last step that is settled
        self._may_divide_ahead = True
        self._dividing = Dividing(
            numbered.circuit, spec.inputs, topics.table_ends, limits_of_tables(spec.limits), topics.offsets_since
        )
        self._widenings: dict[int, int] = {}  # how often each step was widened
        if topics.ends_now:
            self.clock.until_us = self._wall_us()
            new_nodes.read_what_is_there()
        if former is not None:
            self._take_over(former)

    def _take_over(self, former: Inputs) -> None:
        self._widenings = former._widenings
        self.new_nodes.take_over(former.new_nodes)
        self._idle.take_over(former._idle)
        self._idle_in_last = former._idle_in_last
        if former.clock.until_us is not None:
            self.clock.until_us = former.clock.until_us

    def allow(self, *, ahead: bool, filling: bool) -> None:
        """`ahead`: steps may be divided ahead, because nothing waits for a boundary without steps that are divided already. `filling`: new nodes
        are filled, because the transition is not paused."""
        self._may_divide_ahead, self.new_nodes.is_paused = ahead, not filling

    def silent_offsets(self, log: StepLogState) -> dict[TopicPartition, int] | None:
        """Where the next step begins to read, of all partitions that may grow; None if time alone may make a step due at any moment, or if no
        message does."""
        if self.clock.reading.is_read or self._spec.lost_topics:
            return None
        offsets = self.topics.next_offsets(log)
        return {where: at for where, at in offsets.items() if where not in self.topics.table_ends}

    def choose(self, log: StepLogState, step: int) -> Division | None:
        """The division of `step`, which starts where the last one ended. None if there is nothing to read."""
        self.topics.check_if_due(log)
        offsets = self.topics.next_offsets(log)
        return self._divide(step, offsets, self._ends_now(offsets))

    def choose_or_empty(self, log: StepLogState, step: int) -> Division | None:
        """The division of `step` as `choose` gives it. If there is nothing to read, it is empty if something is due without input, and else
        None."""
        division = None if self._reads_nothing_at_switch(log, step) else self.choose(log, step)
        if division is None and self._is_due_without_input(log, step):
            return empty_division(step, self.topics.next_offsets(log))
        return division

    def _reads_nothing_at_switch(self, log: StepLogState, step: int) -> bool:
        """Whether the step is the first one of a switch and reads no new input, so that only the difference leaves in it. It reads input if it
        is the first one to read a topic: should that fail, the former project goes on."""
        has_begun = self.topics.next_offsets(log).keys() <= _partitions_of(log, step - 1)
        return step == log.revisions.switch_step and has_begun

    def _is_due_without_input(self, log: StepLogState, step: int) -> bool:
        return (
            # output that does not depend on input, or a record of where the topics ended at this start
            (step == 0 and (outputs_without_input(self._spec) or any(map(depends_on_the_start, self._spec.inputs))))
            # outputs that were withheld
            or self.new_nodes.is_release_due(log, log.errors)
            # a portion for new nodes
            or self.new_nodes.is_due(log, step)
            # a switch, or a part of a drain
            or log.revisions.is_to_pass_on(step)
            # what changes because time passes
            or self.clock.is_due(self._wall_us(), log.clock_us)
            # what changes because an input is silent
            or self._is_idleness_due(log, step)
        )

    def choose_ahead(self, log: StepLogState, step: int, errors: Sequence[NodeErrors]) -> list[Division]:
        """The divisions that are recorded together with the output of `step`, which costs no transaction of their own: those of the next
        AHEAD_STEPS steps that are not divided yet, as long as a full step of input waits for each. If less waits, the division is chosen later,
        so that it holds what arrives until then. `errors`: the error rows after `step`. If outputs are to be released, the next division is
        chosen at a drained boundary."""
        if not self._may_divide_ahead or self.new_nodes.is_release_due(log, errors):
            return []
        if not self.topics.goal.divides_input or log.revisions.drain is not None:
            return []  # the step after the end of a drain runs another program
        dividing, limits = self._dividing, self._limits
        undivided = range(log.division_next, step + AHEAD_STEPS + 1)
        if not undivided or not dividing.is_full(log.divisions[log.division_next - 1].division, limits):
            return []  # there was no backlog, so the next division reads the end offsets itself
        self.topics.check_if_due(log)
        chosen: list[Division] = []
        offsets = self.topics.next_offsets(log)
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
        self.new_nodes.note_watermarks(record.step, watermarks_us)
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
        now = self._ends_now(self.topics.offsets_after(before))
        rows = record.division.rows
        limits = StepLimits(rows_max=self._spec.limits.rows if rows < self._spec.limits.rows else 2 * rows)
        found = divide(record.step, starts, {partition: now[partition] for partition in starts}, limits)
        ends = (
            before
            if found is None
            else {partition: max(end, found.ends[partition]) for partition, end in before.items()}
        )
        return ends if ends != before else None

    def _idle_inputs(self, log: StepLogState, step: int) -> tuple[str, ...]:
        """No input is idle while new nodes are filled: a watermark of theirs would go on without the rows that are still read again for them."""
        return self._idle.idle if log.revisions.passage_that_fills(step) is None else ()

    def _is_idleness_due(self, log: StepLogState, step: int) -> bool:
        return log.revisions.passage_that_fills(step) is None and self._idle.is_due(log.idle)

    def records(
        self, log: StepLogState, epoch: int, divisions: Iterable[Division], *, is_drained: bool
    ) -> list[DivisionRecord]:
        """Returns the records of divisions that follow each other; see `record`."""
        made: list[DivisionRecord] = []
        for division in divisions:
            made.append(self.record(log, epoch, division, is_drained=is_drained, after=made[-1] if made else None))
        return made

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
        topics, policy = self.topics.to_announce, self.policy
        counting = self.new_nodes.counting(log, division.step, is_drained=is_drained)
        portion = self.new_nodes.portion(log, division, self._spec.limits.rows, after)
        last_us = log.clock_us if after is None else after.clock_us
        return DivisionRecord(
            epoch=epoch,
            step=division.step,
            ranges=ranges_of(division),
            topics=topics,
            on_error=policy.on_error,
            dead_letters=policy.dead_letters,
            truncate=policy.truncate,
            grown=log.topics_grown(topics),
            counted=counting.counted,
            released=counting.released,
            filled=portion.filled,
            again=portion.again,
            clock_us=self.clock.time(self._wall_us(), last_us),
            idle=self._idle_inputs(log, division.step),
        )

    def _wall_us(self) -> int:
        return int(1e6 * self._wall_clock())

    def _divide(
        self, step: int, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Division | None:
        return self._dividing.divide(step, offsets, ends, self._limits)

    @property
    def _limits(self) -> StepLimits:
        return self.new_nodes.limits(self._spec.limits)

    @property
    def policy(self) -> InputPolicy:
        """What a step does with malformed messages and with truncations; see NewNodes.policy."""
        return self.new_nodes.policy(self._spec)

    def _ends_now(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Returns where the inputs end now, and notes which inputs are silent; see InputTopics.ends."""
        ends = self.topics.ends(offsets)
        if self._idle.is_used:
            waiting = {partition.topic for partition in ends if ends[partition] > offsets[partition]}
            active = {each.table.handle for each in self._spec.inputs if not waiting.isdisjoint(each.table.topics)}
            self._idle.look(self._monotonic(), active)
        return ends
