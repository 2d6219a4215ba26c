"""Carries out the actions that concern steps.

    Divide     end offsets -> division -> log
    Give       recorded division -> workers
    Collect    workers -> results; or the step is divided again (redividing.py)
    Settle     results -> transaction, which may also hold the next divisions; or, in a replay, a comparison

Guarantee: a step is settled only after its output is committed or has been compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from base.logger import Logger
from base.memory import Rest
from coordinator.actions import Collect, Divide, Give, Settle
from coordinator.core import Core
from coordinator.measures import SettledStep
from coordinator.requests import Requests
from coordinator.specification import PipelineSpec
from coordinator.starting.errors import TopicChanged
from coordinator.status import StatusBoard, StepTimes
from coordinator.stepping.idle_wait import PAUSE_SECONDS_MIN, Bell, QuietInput
from coordinator.stepping.inputs import Inputs
from coordinator.stepping.measuring import measures_of, project_shown, step_times
from coordinator.stepping.redividing import Redividing
from coordinator.stepping.step_answers import ExpectedStep
from coordinator.stepping.step_output import StepResult, gather
from coordinator.stepping.stuck_filling import StuckFilling
from coordinator.stepping.unknown_schemas import unknown_in_replay, unknown_to_record
from coordinator.stepping.views_in_error import (
    error_rows,
    error_texts,
    errors_after,
    errors_before,
    withholding_of_step,
    without_absent_nodes,
)
from coordinator.transition.draining import outputs_with_content
from coordinator.transition.portions import Portions
from engine.errors import DataError
from engine.model.circuit import Circuit
from engine.model.filling import HASHES
from engine.model.numbers import NumberedCircuit
from engine.operators.facts import DivisionFacts
from engine.resident.crew import Crew, WorkerOutput
from engine.run.rereading import first_reread_source
from engine.run.step_input import StepInput
from engine.run.task_setup import TaskSetup
from faults.points import reached
from io_kafka.clients.writer import PipelineWriter
from io_kafka.errors import StepTooLarge
from io_kafka.formats.encode import ENCODER_ID
from io_kafka.offsets import OffsetRange
from io_kafka.step_log.output_progress import InputChanged, compare_errors, compare_inputs
from io_kafka.step_log.programs import FillingProgram, PresentProgram, ProgramOfStep, SwitchingProgram
from io_kafka.step_log.records import DivisionRecord, InputChecksum, NodeErrors
from io_kafka.step_log.revision_records import Drain

_log = Logger("coordinator.stepping.stepping")


@dataclass
class _StepUnderWay:
    """A step that the workers have. `began`: when it was given. `bytes_max`: how many bytes it may have; None if it is read whatever it has.
    `asks_border`: see DivisionFacts."""

    record: DivisionRecord
    began: float
    bytes_max: int | None
    asks_border: bool


@dataclass(frozen=True)
class _StepThatRan:
    """A step that the workers have finished, with their outputs. `ended`: when."""

    given: _StepUnderWay
    outputs: Sequence[WorkerOutput]
    ended: float

    @property
    def computed_ms(self) -> float:
        return 1e3 * (self.ended - self.given.began)


class Stepping:
    """The divisions and steps of one program, with one crew."""

    def __init__(
        self,
        spec: PipelineSpec,
        writer: PipelineWriter,
        inputs: Inputs,
        requests: Requests,
        board: StatusBoard,
        *,
        answers: NumberedCircuit,
        portions: Portions,
        bell: Bell | None,
        wants_abort: Callable[[], bool],
    ) -> None:
        """`answers`: the circuit of the project whose views have answers. `bell`: see QuietInput. `wants_abort`: see StuckFilling."""
        self._spec, self._writer, self._inputs, self._is_unwanted = spec, writer, inputs, wants_abort
        self._answers, self._portions = answers, portions
        self._requests, self._board = requests, board
        board.show_project(project_shown(spec, answers))
        self._monotonic = spec.kafka.outside.monotonic
        self._redividing = Redividing(spec.kafka, writer, inputs)
        self._quiet, self._rest = QuietInput(bell), Rest(spec.kafka.outside.give_back_memory)
        self._divide_ms = 0.0  # the time that the division of the next step took
        self._under_way: _StepUnderWay | None = None  # what the workers have
        self._ran: _StepThatRan | None = None

    def divide(self, action: Divide, core: Core, *, awaits_answers: bool) -> None:
        """Commits the division of a step. If there is nothing to read it reports that to the core, and waits (idle_wait.py). `awaits_answers`:
        the loop has to look at answers of the workers meanwhile."""
        began = self._monotonic()
        division = self._inputs.choose_or_empty(self._writer.state, action.step)
        reached("division.chosen")
        if division is None:
            core.nothing_to_read()
            if not self._inputs.topics.ends_now:
                self._rest.wait(began)
                pause_s = self._quiet.pause_s(began, lambda: self._inputs.silent_offsets(self._writer.state))
                self._requests.wait(PAUSE_SECONDS_MIN if awaits_answers else pause_s)
            return
        if any(part.start < part.end for part in division.ranges):
            self._quiet.end()
        self._rest.work()
        self._writer.log.append(
            self._inputs.records(self._writer.state, self._writer.epoch, [division], is_drained=True)
        )
        self._inputs.topics.note_announced()
        self._divide_ms = 1e3 * (self._monotonic() - began)

    def rest(self) -> None:
        """No step can be made at this moment: a pause, or something that holds the steps."""
        self._rest.wait(self._monotonic())

    def give(self, action: Give, core: Core, crew: Crew) -> None:
        """Gives the step to the workers."""
        record = self._writer.state.divisions[action.step]
        if not action.replay:
            record = self._redividing.record_policy_in_force(record)
        reached("step.begun")
        asks_border = self._inputs.clock.asks(record.clock_us)
        bytes_max = None if action.replay else self._spec.limits.bytes_max
        under_way = self._under_way = _StepUnderWay(record, self._monotonic(), bytes_max, asks_border)
        crew.steps.give(self._step_input(crew, under_way))
        core.given(action.step, self._writer.state)

    def collect(self, action: Collect, core: Core, crew: Crew) -> None:
        """Takes the results of the step that the workers have. Raises the fault that stopped it."""
        under_way = self._under_way
        assert under_way is not None and under_way.record.step == action.step
        try:
            outputs = self._collect_or_shrink(under_way, crew)
        except DataError as fault:
            self._redividing.count_error_rows(crew.setup.numbered, under_way.record, fault)
            if not self._is_of_transition(under_way.record.step, fault, crew):
                self._redividing.widen_if_possible(under_way.record, fault)
            raise
        self._ran = _StepThatRan(under_way, outputs, self._monotonic())
        self._under_way = None
        core.collected(action.step)

    def settle(self, action: Settle, core: Core, crew: Crew) -> SettledStep:
        """Writes the output of a step, or in a replay compares it with what was written. Raises TaskLost if a worker has answered what cannot be
        right."""
        ran, step, log = self._ran, action.step, self._writer.state
        assert ran is not None
        self._ran = None
        record = ran.given.record
        result = self._gather(record, ran.outputs, crew.setup)
        reached("step.gathered")
        if not action.replay:
            self._refuse_output_to_lost_topics(step, result)
        errors = self._errors_after(action, record, result, crew)
        self._inputs.note_watermarks(record, result.watermarks_by_node_us)
        self._inputs.clock.note(record.clock_us, result.border_us, is_whole=ran.given.asks_border)
        ahead = [] if action.replay else self._inputs.choose_ahead(log, step, errors)
        chosen = self._monotonic()
        self._writer.write_step(
            step,
            result.outputs,
            encoder=ENCODER_ID,
            inputs=result.inputs,
            again=result.again,
            skipped=result.skipped,
            unknown=unknown_to_record(self._spec, result.unknown, result.skipped),
            errors=errors,
            divisions=self._inputs.records(log, self._writer.epoch, ahead, is_drained=False),
        )
        reached("replay.compared" if action.replay else "step.complete")
        drain = log.revisions.drain_at(record.step)
        if drain is None:
            self._note_filled(record, ran.computed_ms)
        else:
            self._note_drained(record.step, drain, crew.setup.plan.circuit)
        times = step_times(result, self._divide_ms, ran.computed_ms, 1e3 * (self._monotonic() - chosen))
        took_ms = times.divide + ran.computed_ms + times.write
        self._publish(step, result, times, took_ms, replayed=action.replay)
        core.settled(step, self._writer.state)
        self._divide_ms = 0.0
        if ahead:
            self._inputs.topics.note_announced()
        return SettledStep(
            number=step, rows=record.division.rows, took_ms=took_ms, write_ms=times.write, is_replay=action.replay
        )

    def _refuse_output_to_lost_topics(self, step: int, result: StepResult) -> None:
        """A project that stands still has no output. Should a step have some for a topic that is gone, the topic must not be made again."""
        for output in result.outputs:
            if output.topic in self._spec.lost_topics and output.messages.num_rows:
                raise TopicChanged(
                    f"step {step} has output for topic {output.topic}, which was deleted or created again.",
                    "Restore the topic, or rebuild with `stepwell run --full-refresh`.",
                )

    def _gather(self, record: DivisionRecord, outputs: Sequence[WorkerOutput], setup: TaskSetup) -> StepResult:
        """What the workers have answered, which is what the division asked of them. Raises TaskLost."""
        withholding = withholding_of_step(setup.numbered, record)
        expected = ExpectedStep(
            step=record.step,
            plan=setup.plan_with(withholding),
            partitions=setup.facts.partitions,
            ranges=record.division.ranges,
            again=self._spans_read_again(record),
            dead_letters=record.dead_letters,
            counted=withholding.nodes,
            clock_us=record.clock_us,
        )
        return gather(self._spec, expected, outputs)

    def _errors_after(
        self, action: Settle, record: DivisionRecord, result: StepResult, crew: Crew
    ) -> tuple[NodeErrors, ...]:
        """How many rows are in error after the step, by node. A replay is compared with what was recorded of inputs and errors."""
        step, log, numbered = action.step, self._writer.state, crew.setup.numbered
        before, revision_since = errors_before(log, step), log.revisions.revision_since(step)
        errors = errors_after(numbered, step, before or (), result.errors, revision_since=revision_since)
        if action.replay and step in log.step_records:
            compare_inputs(step, result.inputs, log.step_records[step].inputs)
            self._compare_again(crew, record, result.again)
            if before is not None:
                compare_errors(step, errors, without_absent_nodes(numbered, log.step_records[step], revision_since))
        return errors

    def _publish(self, step: int, result: StepResult, times: StepTimes, took_ms: float, *, replayed: bool) -> None:
        """Shows what the step did."""
        self._board.note_step(step, result.rows, times, replayed=replayed, skipped=result.skipped)
        self._board.measures.note_step(measures_of(result, times, took_ms, replayed=replayed))
        self._board.note_event_time(result.late, result.watermarks_us)
        self._publish_views_in_error()
        if result.late:
            _log.info("late rows were left out", step=step, rows=result.late)

    def _is_of_transition(self, step: int, fault: DataError, crew: Crew) -> bool:
        """Whether the step would have gone well without the transition, so that no other input helps."""
        log = self._writer.state
        if log.program_key(step).kind != "filling":
            return step == log.revisions.switch_step
        return fault.node is not None and self._answers.index(crew.setup.facts.numbers[fault.node]) is None

    def _note_drained(self, step: int, drain: Drain, circuit: Circuit) -> None:
        """Notes how many messages the outputs have received of what differs, in a step of a drain."""
        log = self._writer.state
        before, after = _feed_positions(log.program_of(step))
        handles = outputs_with_content(circuit)
        messages = sum(part.messages for part in log.outputs(step) if part.handle in handles)
        self._portions.drained.note(before, after, drain, messages)

    def _note_filled(self, record: DivisionRecord, took_ms: float) -> None:
        """Notes what a step has cost that is none of a drain: with what it gave to new nodes, if it gave them something."""
        before, after = _feed_positions(self._writer.state.program_of(record.step))
        again = self._inputs.new_nodes.weight(self._spans_read_again(record))
        given = self._portions.fed_positions_between(before, after) if record.filled is not None else 0
        self._portions.note(given, again, took_ms, record.division.rows)

    def _collect_or_shrink(self, under_way: _StepUnderWay, crew: Crew) -> list[WorkerOutput]:
        """The outputs of all workers. If the step has too many bytes, it is divided again over less input, and given to the workers again."""
        step = under_way.record.step
        is_filling = isinstance(self._writer.state.revisions.program_of(step, 0, 0), FillingProgram)
        meanwhile = StuckFilling(step, self._is_unwanted, self._monotonic).look if is_filling else None
        try:
            return crew.steps.collect(step, meanwhile)
        except StepTooLarge:
            given = self._step_input(crew, under_way)
            under_way.record = self._redividing.record_within_bytes(under_way.record, given, crew.setup.kafka_reread)
            under_way.bytes_max = None
            crew.steps.give(self._step_input(crew, under_way))
            return crew.steps.collect(step, meanwhile)

    def _publish_views_in_error(self) -> None:
        """Shows what is in error, and logs what is new or in error no more."""
        now = error_texts(self._answers, self._writer.state.errors, self._spec.column_names)
        before = self._board.show_in_error(now)
        self._board.measures.show_error_rows(error_rows(self._answers, self._writer.state.errors))
        for view in sorted(now.keys() - before.keys()):
            _log.warning("rows are in error, so what depends on them is withheld", view=view, error=now[view])
        for view in sorted(before.keys() - now.keys()):
            _log.info("no row is in error any more", view=view)

    def _step_input(self, crew: Crew, under_way: _StepUnderWay) -> StepInput:
        record = under_way.record
        program = self._writer.state.program_of(record.step)
        facts = DivisionFacts(
            number=record.step,
            withholding=withholding_of_step(crew.setup.numbered, record),
            filled=_feed_positions(program),
            clock_us=record.clock_us,
            idle=frozenset(record.idle),
            asks_border=under_way.asks_border,
        )
        return StepInput(
            facts=facts,
            ranges=record.division.ranges,
            on_error=dict(record.on_error),
            grown=frozenset(record.grown),
            bytes_max=under_way.bytes_max,
            truncate=dict(record.truncate),
            again=self._spans_read_again(record),
            unknown=unknown_in_replay(self._writer.state.step_records.get(record.step)),
        )

    def _compare_again(self, crew: Crew, record: DivisionRecord, found: Sequence[InputChecksum]) -> None:
        """Raises DataError, which names a new node, if other messages were read again than in the first run: the revision in force can go on."""
        if not self._spans_read_again(record):  # also after an abort
            return
        try:
            compare_inputs(record.step, found, self._writer.state.step_records[record.step].again)
        except InputChanged as fault:
            what_to_do = (
                "Abort the transition: `stepwell revision abort`. Or begin to fill again: `stepwell revision resume`."
            )
            raise DataError(f"what was read again has changed: {fault.message}", what_to_do).locate(
                owner=f"topic {fault.topic}", step=record.step, node=first_reread_source(crew.setup.plan.circuit)
            ) from fault

    def _spans_read_again(self, record: DivisionRecord) -> tuple[OffsetRange, ...]:
        """What the step reads for new nodes; nothing if the transition is over without them."""
        if self._writer.state.revisions.passage_that_fills(record.step) is None:
            return ()
        return tuple(each.span for each in record.again)


def _feed_positions(program: ProgramOfStep) -> tuple[int, int]:
    """The positions of the feeds before and after a step. The step of a switch gives whole contents to new outputs, and a step of a drain a part
    of them."""
    match program:
        case PresentProgram():
            return 0, 0
        case FillingProgram(_, _, before, after):
            return before, after
        case SwitchingProgram(drained=drained):
            return (0, HASHES) if drained is None else drained
        case _:
            assert_never(program)
