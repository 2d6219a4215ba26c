"""What a transition to another revision does next: a machine without I/O, clock or randomness.

    NONE -LogTransition-> filling -(all filled) Measure-> ready -LogSwitch-> switching -(step t)-> clearing -LogSettled-> NONE
                            |  ^                            |                    |                  ^
                            |  +-- a turn: taken back, held-+--------------------+                  |
                            +----------------------- LogTurn(abort) --------------------------------+

With --gradual step t leads from switching to draining, and the step with which everything has left to clearing. Nothing is due meanwhile.

Which phase it is follows from the step log. The machine remembers only what the log cannot know: what users have asked for, and what is known
in the present phase (known.py), such as how large the differences are. Its actions are for drained boundaries, and none of them comes in a
replay.

    action           what the shell does                                                        report
    LogTransition    writes the intent                                                          began
    Look             begins to look at the topics of the next project, beside the steps         looking, and looked when that is over
    Measure          asks the workers how large the differences are                             measured
    LogSwitch        writes that the next step is the first one of the next revision            -
    LogTurn          writes the turn                                                            turned
    Clear            has the workers remove tables, up to a bound                               cleared
    LogSettled       writes that nothing is left                                                -
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from base.machine import Machine
from base.version import VersionId
from coordinator.boundary import Boundary
from coordinator.revisions.turns import TurnName
from coordinator.transition.known import Cleared, Known, Looked, Looking, Measured, NothingKnown
from io_kafka.step_log.revision_state import Clearing, Detached, Draining, Filling, Switching
from io_kafka.step_log.state import StepLogState


@dataclass(frozen=True)
class LogTransition:
    pass


@dataclass(frozen=True)
class Look:
    pass


@dataclass(frozen=True)
class Measure:
    pass


@dataclass(frozen=True)
class LogSwitch:
    pass


@dataclass(frozen=True)
class LogTurn:
    reason: Literal["abort", "resume"]


@dataclass(frozen=True)
class Clear:
    pass


@dataclass(frozen=True)
class LogSettled:
    pass


TransitionAction = LogTransition | Look | Measure | LogSwitch | LogTurn | Clear | LogSettled


@dataclass(frozen=True)
class TransitionRequests:
    """What users have asked for of the transition that is prepared or under way, and what the log does not have yet. `is_switch`: a switch that
    only people hold may be made."""

    is_switch: bool = False
    turn: Literal["abort", "resume"] | None = None


NO_REQUESTS = TransitionRequests()


class Transition(Machine[Known]):
    """`asked`: what users want. `request`: how far the transition is that comes next: "wanted" if it is prepared and only has to be recorded.
    `checkpoint`: the one that has to be complete before the switch, before more is cleared, or before the end is recorded; "needed" if it is
    not frozen yet. `waits_for_store`: loads of batch tables go with the end of the transition that the version in the checkpoint store still
    needs; the shell sets it. `unrunnable_revision`: the one that this release cannot run alone (coordinator/starting/release.py), so that its
    steps have to wait for a transition."""

    def __init__(
        self,
        asked: TransitionRequests = NO_REQUESTS,
        request: Literal["preparing", "wanted"] | None = None,
        unrunnable_revision: int | None = None,
    ) -> None:
        super().__init__(NothingKnown())
        self.asked, self.request, self.unrunnable_revision = asked, request, unrunnable_revision
        self.checkpoint: Literal["needed"] | VersionId | None = None
        self.waits_for_store = False

    @property
    def known(self) -> Known:
        """What is known of the switch. The phase of the transition itself is in the log."""
        return self.phase

    def after_recovery(self) -> Transition:
        """What outlives a recovery: what is known is of workers that are gone."""
        return Transition(self.asked, self.request, self.unrunnable_revision)

    @property
    def needs_checkpoint(self) -> bool:
        return self.checkpoint == "needed"

    @property
    def holds(self) -> Sequence[str] | None:
        """Why the switch has to wait; None as long as the differences are not measured. See Measured."""
        return self.known.holds if isinstance(self.known, Measured) else None

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
                return LogTransition() if self.request == "wanted" and is_undivided else None
            case Filling() | Detached() | Switching() if self.asked.turn == "abort":
                return LogTurn("abort")
            case Filling():
                return self._of_filled(log, phase) if is_undivided else None
            case Detached():
                if self.asked.turn != "resume" or not is_undivided:
                    return None
                return LogTurn("resume") if isinstance(self.known, Cleared) else Clear()
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
            case NothingKnown():
                return Look()
            case Looking():
                return None
            case Looked():
                return Measure()
            case Measured(holds):
                is_held = phase.intent.choices.hold or phase.is_held or bool(holds)
                if phase.is_paused or (is_held and (holds or not self.asked.is_switch)):
                    return None
                return LogSwitch() if self.checkpoint is None else None
            case Cleared():
                raise AssertionError(self.with_story("nothing is cleared while new nodes are filled"))
            case _:
                assert_never(self.known)

    def _of_clearing(self, at: Boundary) -> TransitionAction | None:
        if self.checkpoint is not None or at.is_checkpointing:
            return None
        if not isinstance(self.known, Cleared):
            return Clear()
        return None if self.waits_for_store else LogSettled()

    def goes_on_by_itself(self, log: StepLogState) -> bool:
        """Whether something is due without a step: a preparation or a look is under way, or a checkpoint has to be complete."""
        return isinstance(log.revisions.phase, Clearing) or self.checkpoint is not None or self.waits_beside

    def blocks_steps(self, log: StepLogState) -> bool:
        """Whether no step may be divided, because it would run alone the revision that this release cannot run."""
        is_in_force = log.revision is not None and log.revision.number == self.unrunnable_revision
        return is_in_force and not isinstance(log.revisions.phase, Filling)

    def is_at_end(self, log: StepLogState) -> bool:
        """Whether steps are blocked, and no transition is under way or prepared that would end that."""
        return self.blocks_steps(log) and log.revisions.phase is None and self.request is None

    @property
    def waits_beside(self) -> bool:
        """Whether something is done beside the steps that the transition waits for."""
        return self.request == "preparing" or isinstance(self.known, Looking)

    def is_aborting(self, log: StepLogState) -> bool:
        """Whether it is to be taken back, or is being taken back. No step is needed for that, so it goes on while a run is paused."""
        phase = log.revisions.phase
        if isinstance(phase, Clearing):
            return not phase.is_switched
        return phase is not None and self.asked.turn == "abort"

    # Requests

    def ask(self, what: TurnName, log: StepLogState) -> bool:
        """A user asks for this turn of the transition that is prepared or under way. Returns whether it is possible; if not, nothing changes. A
        pause and its end are recorded by the caller."""
        phase = log.revisions.phase
        match what:
            case "abort" if (phase is None and self.request is None) or isinstance(phase, Draining | Clearing):
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

    def preparing(self) -> None:
        """A request is being prepared. The turn that was asked for of the transition before it is over."""
        self.request, self.asked = "preparing", replace(self.asked, turn=None)

    def refused(self) -> None:
        """What was being prepared cannot begin."""
        self.request = None

    def prepared(self) -> None:
        """The next transition has only to be recorded."""
        self.request = "wanted"

    def began(self) -> None:
        """An abort that was asked for while it was prepared comes next: what is recorded of it, such as loads, is taken back as usual."""
        self.request, self.asked = None, TransitionRequests(turn=self.asked.turn)
        self.look_again()

    def look_again(self) -> None:
        """What stands in the way of the switch may have changed."""
        if not isinstance(self.known, Cleared):
            self.begin_again(NothingKnown(), "look again")

    def looking(self) -> None:
        self.tell(NothingKnown.looking)

    def looked(self) -> None:
        self.tell(Looking.looked)

    def measured(self, holds: Sequence[str], *, reads_again: bool) -> None:
        """`reads_again`: messages were read again. They may expire at any moment, so a checkpoint comes before the switch: no replay across it
        then needs them, and such a replay could not be given up any more."""
        self.tell(Looked.measured, holds)
        if reads_again and not holds:
            self.checkpoint = "needed"

    def turned(self) -> None:
        """The switch or another turn is in the log, so another phase begins."""
        self.begin_again(NothingKnown(), "turned")
        self.checkpoint = None
        self.asked = replace(self.asked, is_switch=False, turn=None)

    def cleared(self, *, is_done: bool, is_last: bool) -> None:
        """`is_last`: the transition has ended, and the next checkpoint is without these tables. Otherwise it is filled again."""
        self.tell(NothingKnown.cleared, is_done)
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
        self.begin_again(NothingKnown(), "settled")

    def check(self, log: StepLogState) -> None:
        """Asserts the invariants. `next` calls it before each decision."""
        phase, known = log.revisions.phase, self.known
        where = f"in the phase {'of no transition' if phase is None else phase.kind}"
        assert self.request is None or phase is None, self.with_story(f"another transition is {self.request} {where}")
        assert self.asked.turn != "resume" or isinstance(phase, Detached), self.with_story(f"a resumption {where}")
        assert self.checkpoint is None or isinstance(phase, Filling | Clearing), self.with_story(
            f"a checkpoint {where}"
        )
        match known:
            case NothingKnown():
                pass
            case Looking() | Looked() | Measured():
                assert isinstance(phase, Filling), self.with_story(f"{known} {where}")
            case Cleared():
                assert isinstance(phase, Detached | Clearing), self.with_story(f"{known} {where}")
            case _:
                assert_never(known)
