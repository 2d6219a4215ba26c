"""What a transition to another revision does next: a machine without I/O, clock or randomness.

    phase       event                                                                   next phase
    none        LogTransition                                                           Filling
    Filling     all is filled: CheckTopics, MeasureWhatDiffers, LogSwitch               Switching
    Filling     a new node fails: the turn "detached", which the shell writes           Detached
    Detached    ClearUnusedTables until nothing is left, then LogTurn("resume")         Filling
    Switching   the step of the switch; a gradual switch                                Clearing; Draining
    Switching   that step cannot run: the turn "taken_back", which the shell writes     Filling, held
    Draining    the step with which everything has left                                 Clearing
    Clearing    ClearUnusedTables until nothing is left, a checkpoint, LogSettled       none

LogTurn("abort") leads from Filling, Detached and Switching to Clearing. Apart from an abort, nothing is due while steps switch or drain.

Which phase it is follows from the step log. The machine remembers only what the log cannot know: what users have asked for, and what is known
in the present phase (findings.py), such as the request that is prepared, or how large the differences are. Its actions are for drained
boundaries, and none of them comes in a replay.

    action               what the shell does                                                 report
    -                    begins to prepare a request, beside the steps                       preparing; when that is over prepared or refused
    LogTransition        writes the intent                                                   began
    CheckTopics          begins to look at the topics of the next project, beside the steps  checking_topics; at its end topics_checked
    MeasureWhatDiffers   asks the workers how large the differences are                      measured
    LogSwitch            writes that the next step is the first one of the next revision     switched
    LogTurn              writes the turn                                                     turned
    ClearUnusedTables    has the workers remove tables, up to a bound                        cleared
    LogSettled           writes that nothing is left                                         settled
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeAlias, assert_never

from base.machine import Machine
from base.version import VersionId
from coordinator.boundary import Boundary
from coordinator.revisions.turns import TurnName
from coordinator.transition.findings import (
    AllCleared,
    CheckingTopics,
    CheckT,
    Differences,
    Known,
    Measurable,
    Measured,
    NoFindings,
    PreparationT,
    PreparedT,
    Preparing,
    TopicsChecked,
    WantedTransition,
)
from io_kafka.step_log.revision_records import TurnTo
from io_kafka.step_log.revision_state import Clearing, Detached, Draining, Filling, Switching
from io_kafka.step_log.state import StepLogState


@dataclass(frozen=True)
class LogTransition:
    pass


@dataclass(frozen=True)
class CheckTopics:
    pass


@dataclass(frozen=True)
class MeasureWhatDiffers:
    pass


@dataclass(frozen=True)
class LogSwitch:
    pass


@dataclass(frozen=True)
class LogTurn:
    reason: Literal["abort", "resume"]


@dataclass(frozen=True)
class ClearUnusedTables:
    pass


@dataclass(frozen=True)
class LogSettled:
    pass


TransitionAction = (
    LogTransition | CheckTopics | MeasureWhatDiffers | LogSwitch | LogTurn | ClearUnusedTables | LogSettled
)


@dataclass(frozen=True)
class TransitionRequests:
    """What users have asked for of the transition that is prepared or under way, and what the log does not have yet. `is_switch`: whether a
    switch may be made that only users hold. `turn`: the turn that a user wants; None if the user wants none."""

    is_switch: bool = False
    turn: Literal["abort", "resume"] | None = None


NO_REQUESTS = TransitionRequests()


class Transition(Machine[Known[PreparationT, PreparedT, CheckT]], Generic[PreparationT, PreparedT, CheckT]):
    """`asked`: what users want. `known`: what is known beyond the log when it begins. `checkpoint`: the one that has to be complete before the
    switch, before more is cleared, or before the end is recorded; "needed" if it is not frozen yet. `unrunnable_revision`: the one that this
    release cannot run alone (coordinator/starting/project/release.py), so that its steps have to wait for a transition. The parameters of the
    type: see findings.py."""

    def __init__(
        self,
        asked: TransitionRequests = NO_REQUESTS,
        known: Known[PreparationT, PreparedT, CheckT] | None = None,
        unrunnable_revision: int | None = None,
    ) -> None:
        super().__init__(NoFindings() if known is None else known)
        self.asked, self.unrunnable_revision = asked, unrunnable_revision
        self.checkpoint: Literal["needed"] | VersionId | None = None

    @property
    def known(self) -> Known[PreparationT, PreparedT, CheckT]:
        """What is known beyond the log. The phase of the transition itself is in the log."""
        return self.phase

    def after_recovery(self) -> Transition[PreparationT, PreparedT, CheckT]:
        """What outlives a recovery: what is known of a transition under way is of workers that are gone."""
        return Transition(self.asked, self.known if self.has_request else None, self.unrunnable_revision)

    @property
    def wants_abort(self) -> bool:
        """Whether an abort was accepted and is not in the log yet."""
        return self.asked.turn == "abort"

    @property
    def has_request(self) -> bool:
        """Whether another transition is prepared, or has only to be recorded."""
        return isinstance(self.known, Preparing | WantedTransition)

    @property
    def needs_checkpoint(self) -> bool:
        return self.checkpoint == "needed"

    @property
    def obstacles(self) -> Sequence[str] | None:
        """Why the switch has to wait; None as long as the differences are not measured. See Measured."""
        return self.known.obstacles if isinstance(self.known, Measured) else None

    @property
    def differences(self) -> Differences | None:
        """What users see of the differences; see Measurable."""
        return self.known.differences if isinstance(self.known, Measurable) else None

    def next(self, log: StepLogState, at: Boundary) -> TransitionAction | None:
        """What is due at this drained boundary; None if steps may go on."""
        self.check(log)
        return self._due(log, at, is_undivided=log.division_next == at.step)

    def is_due(self, log: StepLogState, at: Boundary) -> bool:
        """Whether something waits for a drained boundary without divided steps."""
        return self._due(log, at, is_undivided=True) is not None

    def _due(self, log: StepLogState, at: Boundary, *, is_undivided: bool) -> TransitionAction | None:
        if at.is_replaying:
            return None
        phase = log.revisions.phase
        match phase:
            case None:
                return LogTransition() if isinstance(self.known, WantedTransition) and is_undivided else None
            case Filling() | Detached() | Switching() if self.wants_abort:
                return LogTurn("abort")
            case Filling():
                return self._of_filled(log, phase) if is_undivided else None
            case Detached():
                if self.asked.turn != "resume" or not is_undivided:
                    return None
                return LogTurn("resume") if isinstance(self.known, AllCleared) else ClearUnusedTables()
            case Switching() | Draining():
                return None
            case Clearing():
                return self._of_clearing(at)
            case _:
                assert_never(phase)

    def _of_filled(self, log: StepLogState, phase: Filling) -> TransitionAction | None:
        if log.filled < phase.intent.whole or not log.has_reread_all:
            return None
        match self.known:
            case NoFindings():
                return CheckTopics()
            case CheckingTopics():
                return None
            case TopicsChecked():
                return MeasureWhatDiffers()
            case Measured(obstacles=obstacles):
                is_held = phase.intent.choices.hold or phase.is_held or bool(obstacles)
                if phase.is_paused or (is_held and (obstacles or not self.asked.is_switch)):
                    return None
                return LogSwitch() if self.checkpoint is None else None
            case Preparing() | WantedTransition() | AllCleared():
                raise AssertionError(self.with_story(f"{type(self.known).__name__} while new nodes are filled"))
            case _:
                assert_never(self.known)

    def _of_clearing(self, at: Boundary) -> TransitionAction | None:
        if self.checkpoint is not None or at.is_checkpointing:
            return None
        if not isinstance(self.known, AllCleared):
            return ClearUnusedTables()
        return None if self.known.waits_for_store else LogSettled()

    def goes_on_by_itself(self, log: StepLogState) -> bool:
        """Whether something is due without a step: a preparation or a look is under way, or a checkpoint has to be complete."""
        return isinstance(log.revisions.phase, Clearing) or self.checkpoint is not None or self.waits_in_background

    def blocks_steps(self, log: StepLogState) -> bool:
        """Whether no step may be divided, because it would run alone the revision that this release cannot run."""
        is_in_force = log.revision is not None and log.revision.number == self.unrunnable_revision
        return is_in_force and not isinstance(log.revisions.phase, Filling)

    def waits_for_users(self, log: StepLogState) -> bool:
        """Whether steps are blocked until a user says how a transition goes on whose new node has failed."""
        return self.blocks_steps(log) and isinstance(log.revisions.phase, Detached) and self.asked.turn is None

    def is_at_end(self, log: StepLogState) -> bool:
        """Whether steps are blocked, and no transition is under way or prepared that would end that."""
        return self.blocks_steps(log) and log.revisions.phase is None and not self.has_request

    @property
    def waits_in_background(self) -> bool:
        """Whether something is done in the background that the transition waits for."""
        return isinstance(self.known, Preparing | CheckingTopics)

    def is_aborting(self, log: StepLogState) -> bool:
        """Whether it is to be taken back, or is being taken back. No step is needed for that, so it goes on while a run is paused."""
        phase = log.revisions.phase
        if isinstance(phase, Clearing):
            return not phase.is_switched
        return phase is not None and self.wants_abort

    # Requests

    def ask(self, what: TurnName, log: StepLogState) -> bool:
        """A user asks for this turn of the transition that is prepared or under way. Returns whether it is possible; if not, nothing changes. A
        pause and its end are recorded by the caller."""
        phase = log.revisions.phase
        match what:
            case "abort" if (phase is None and not self.has_request) or isinstance(phase, Draining | Clearing):
                return False
            case "abort":
                self.asked = replace(self.asked, turn="abort")
            case "pause" if isinstance(phase, Filling):
                pass  # the log has it
            case "resume" if isinstance(phase, Filling | Detached):
                if isinstance(phase, Detached):
                    self.asked = replace(self.asked, turn="resume")
                self.look_again()
            case "switch" if isinstance(phase, Filling):
                self.asked = replace(self.asked, is_switch=True)
                self.look_again()  # the reason of a hold may have gone since, or another one have come
            case "pause" | "resume" | "switch":
                return False
            case _:
                assert_never(what)
        return True

    # Reports

    def note_revision(self, number: int, *, is_runnable: bool) -> None:
        """This revision is recorded, as the one that the run begins with. `is_runnable`: whether this release can run it alone."""
        self.unrunnable_revision = None if is_runnable else number

    def note_store(self, *, needs_loads: bool) -> None:
        """The shell has seen which version is in the checkpoint store; see AllCleared. Other phases ignore it, because it is seen again before
        the end is due."""
        if isinstance(self.phase, AllCleared):
            self.phase = self.phase.note_store(needs_loads)

    def preparing(self, preparation: PreparationT) -> None:
        """A request is being prepared. The turn that was asked for of the transition before it is over."""
        self.tell(NoFindings.preparing, preparation)
        self.asked = replace(self.asked, turn=None)

    def refused(self) -> None:
        """What was being prepared cannot begin."""
        self.tell(Preparing.refused)

    def prepared(self, prepared: PreparedT) -> None:
        """The next transition has only to be recorded."""
        self.tell(Preparing.prepared, prepared)

    def began(self) -> None:
        """An abort that was asked for while it was prepared comes next: what is recorded of it, such as loads, is taken back as usual."""
        self.tell(WantedTransition.began)
        self.asked = TransitionRequests(turn=self.asked.turn)

    def look_again(self) -> None:
        """What stands in the way of the switch may have changed."""
        self.tell(Measurable.look_again)

    def checking_topics(self, look: CheckT) -> None:
        self.tell(NoFindings.checking_topics, look)

    def topics_checked(self, reasons: Sequence[str]) -> None:
        self.tell(CheckingTopics.topics_checked, tuple(reasons))

    def measured(self, differences: Differences, obstacles: Sequence[str], *, reads_again: bool) -> None:
        """`reads_again`: messages were read again. They may expire at any moment, so a checkpoint comes before the switch: no replay across it
        then needs them, and such a replay could not be given up any more."""
        self.tell(TopicsChecked.measured, differences, tuple(obstacles))
        if reads_again and not obstacles:
            self.checkpoint = "needed"

    def switched(self) -> None:
        """The switch is in the log."""
        self.tell(Measured.switched)
        self._go_another_way(None)

    def turned(self, reason: TurnTo) -> None:
        """Another turn is in the log. What was measured was of another filling."""
        self.reset_to(NoFindings(), "turned")
        self._go_another_way(reason)

    def _go_another_way(self, turn: TurnTo | None) -> None:
        """With another phase of the transition, what users have asked for is done, and no checkpoint is waited for. An abort is not done by a
        turn that a fault has made: it comes next."""
        self.checkpoint = None
        is_left = self.wants_abort and turn in ("detached", "taken_back")
        self.asked = TransitionRequests(turn="abort" if is_left else None)

    def cleared(self, *, is_done: bool, is_last: bool) -> None:
        """`is_last`: the transition has ended, and the next checkpoint is without these tables. Otherwise it is filled again."""
        self.tell(NoFindings.cleared, is_done)
        self.checkpoint = "needed" if is_last else None

    def frozen(self, version: VersionId) -> None:
        """A checkpoint is set aside in the databases."""
        if self.checkpoint == "needed":
            self.checkpoint = version

    def completed(self, version: VersionId) -> None:
        if self.checkpoint == version:
            self.checkpoint = None

    def settled(self) -> None:
        """The end is in the log."""
        self.tell(AllCleared.settled)

    def check(self, log: StepLogState) -> None:
        """Asserts the invariants. `next` calls it before each decision."""
        phase, known, name = log.revisions.phase, self.known, type(self.known).__name__
        where = f"in the phase {'of no transition' if phase is None else phase.kind}"
        is_switched = isinstance(phase, Switching | Draining) or (isinstance(phase, Clearing) and phase.is_switched)
        assert self.asked.turn != "resume" or isinstance(phase, Detached), self.with_story(f"a resumption {where}")
        assert self.checkpoint is None or isinstance(phase, Filling | Clearing), self.with_story(
            f"a checkpoint {where}"
        )
        assert self.differences is None or isinstance(phase, Filling) or is_switched, self.with_story(
            f"differences {where}, which nobody has measured"
        )
        match known:
            case NoFindings():
                pass
            case Preparing() | WantedTransition():
                assert phase is None, self.with_story(f"{name} {where}")
            case CheckingTopics() | TopicsChecked() | Measured():
                assert isinstance(phase, Filling), self.with_story(f"{name} {where}")
            case AllCleared():
                assert isinstance(phase, Detached | Clearing), self.with_story(f"{name} {where}")
                assert is_switched or not known.waits_for_store, self.with_story(
                    "the store needs loads of a transition that was not made"
                )
            case _:
                assert_never(known)


AnyTransition: TypeAlias = Transition[Any, Any, Any]
"""For what asks nothing of what the shell keeps in the phases."""
