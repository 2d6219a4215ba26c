"""What a transition to another revision does next: a machine without I/O, clock or randomness.

    NONE -LogTransition-> filling -(all filled) Measure-> ready -LogSwitch-> switching -(step t)-> clearing -LogSettled-> NONE
                            |  ^                            |                    |                  ^
                            |  +-- a turn: taken back, held-+--------------------+                  |
                            +----------------------- LogTurn(abort) --------------------------------+

With --gradual step t leads from switching to draining, and the step with which everything has left to clearing. Nothing is due meanwhile.

Which phase it is follows from the step log. The machine remembers only what the log cannot know: what users have asked for, how large the
differences are, and how far tables are cleared. Its actions are for drained boundaries, and none of them comes in a replay.

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
from dataclasses import dataclass
from typing import Literal, assert_never

from base.version import VersionId
from coordinator.boundary import Boundary
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


@dataclass
class Transition:
    """`preparing`: a request is being prepared. `is_wanted`: a project is prepared, to which the next transition leads. `look`: whether the
    topics of the next project are to be looked at, which comes before the differences are measured. `holds`: why the switch has to wait, for
    people; empty if nothing stands in its way, and None as long as the differences are not measured."""

    preparing: bool = False
    is_wanted: bool = False
    is_paused: bool = False
    is_switch_asked: bool = False
    turn: Literal["abort", "resume"] | None = None
    look: Literal["due", "under way", "over"] = "due"
    holds: Sequence[str] | None = None
    is_clear: bool = False
    """Whether the workers have nothing left to clear."""
    waits_for: VersionId | None = None
    """The checkpoint that has to be complete before the switch, before more is cleared, or before the end is recorded."""
    needs_checkpoint: bool = False
    waits_for_store: bool = False
    """Whether loads of batch tables go with the end of the transition that the version in the checkpoint store still needs; the shell sets
    it."""
    unrunnable_revision: int | None = None
    """The revision that this release cannot run alone (coordinator/starting/release.py), so that its steps have to wait for a transition."""

    def next(self, log: StepLogState, at: Boundary) -> TransitionAction | None:
        """What is due at this drained boundary; None if steps may go on."""
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
                return LogTransition() if self.is_wanted and is_undivided else None
            case Filling() | Detached() | Switching() if self.turn == "abort":
                return LogTurn("abort")
            case Filling():
                return self._of_filled(log, phase) if is_undivided else None
            case Detached():
                if self.turn != "resume" or not is_undivided:
                    return None
                return LogTurn("resume") if self.is_clear else Clear()
            case Switching() | Draining():
                return None
            case Clearing():
                return self._of_clearing(log, at)
            case _:
                assert_never(phase)

    def _of_filled(self, log: StepLogState, phase: Filling) -> TransitionAction | None:
        if log.filled < phase.intent.whole or not log.is_read_again:
            return None
        if self.look != "over":
            return Look() if self.look == "due" else None
        if self.holds is None:
            return Measure()
        is_held = phase.intent.choices.hold or phase.is_held or bool(self.holds) or self.is_paused
        if is_held and (self.holds or not self.is_switch_asked):
            return None
        return None if self.needs_checkpoint or self.waits_for is not None else LogSwitch()

    def _of_clearing(self, log: StepLogState, at: Boundary) -> TransitionAction | None:
        if self.needs_checkpoint or self.waits_for is not None or at.is_checkpointing:
            return None
        if not self.is_clear:
            return Clear()
        return None if self.waits_for_store else LogSettled()

    def goes_on_by_itself(self, log: StepLogState) -> bool:
        """Whether something is due without a step: a preparation or a look is under way, or a checkpoint has to be complete."""
        is_between = self.needs_checkpoint or self.waits_for is not None
        return isinstance(log.revisions.phase, Clearing) or is_between or self.waits_beside

    def holds_steps(self, log: StepLogState) -> bool:
        """Whether no step may be divided, because it would run alone the revision that this release cannot run."""
        is_in_force = log.revision is not None and log.revision.number == self.unrunnable_revision
        return is_in_force and not isinstance(log.revisions.phase, Filling)

    def is_at_end(self, log: StepLogState) -> bool:
        """Whether steps are held, and no transition is under way or prepared that would end that."""
        return self.holds_steps(log) and log.revisions.phase is None and not (self.preparing or self.is_wanted)

    @property
    def waits_beside(self) -> bool:
        """Whether something is done beside the steps that the transition waits for."""
        return self.preparing or self.look == "under way"

    def is_aborting(self, log: StepLogState) -> bool:
        """Whether it is to be taken back, or is being taken back. No step is needed for that, so it goes on while a run is paused."""
        phase = log.revisions.phase
        if isinstance(phase, Clearing):
            return not phase.is_switched
        return phase is not None and self.turn == "abort"

    # Reports

    def asked(self) -> None:
        """A request is being prepared. What was asked for of the transition before it is over."""
        self.preparing, self.turn = True, None

    def began(self) -> None:
        """An abort that was asked for while it was prepared comes next: what is recorded of it, such as loads, is taken back as usual."""
        self.is_wanted = self.is_paused = self.is_switch_asked = False
        self.look_again()

    def look_again(self) -> None:
        """What stands in the way of the switch may have changed."""
        self.look, self.holds = "due", None

    def looking(self) -> None:
        self.look = "under way"

    def looked(self) -> None:
        assert self.look == "under way", "nothing looks at the topics"
        self.look = "over"

    def measured(self, holds: Sequence[str], *, reads_again: bool) -> None:
        """`reads_again`: messages were read again. They may expire at any moment, so a checkpoint comes before the switch: no replay across it
        then needs them, and such a replay could not be given up any more."""
        self.holds, self.needs_checkpoint = tuple(holds), reads_again and not holds

    def turned(self) -> None:
        self.is_clear = self.needs_checkpoint = False
        self.waits_for = None
        self.turn, self.is_switch_asked = None, False
        self.look_again()

    def cleared(self, *, is_done: bool, is_last: bool) -> None:
        """`is_last`: the transition has ended, and the next checkpoint is without these tables. Otherwise it is filled again."""
        self.is_clear, self.needs_checkpoint = is_done, is_last

    def frozen(self, version: VersionId) -> None:
        if self.needs_checkpoint:
            self.needs_checkpoint, self.waits_for = False, version

    def completed(self, version: VersionId) -> None:
        if self.waits_for == version:
            self.waits_for = None

    def settled(self) -> None:
        self.is_clear = False
