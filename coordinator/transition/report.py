"""What users see of a transition: how far the one under way is, why it waits, and how the last one ended."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import assert_never

from coordinator.revisions.choices import Chosen, recorded_choices
from coordinator.revisions.transition_shown import ChangedViews, TransitionEnded, TransitionPhase, TransitionShown
from coordinator.status import StatusBoard
from coordinator.transition.machine import AnyTransition
from coordinator.transition.plan import TransitionFacts
from coordinator.transition.portions import Portions
from coordinator.transition.progress import RereadPace, share_drained, share_filled
from io_kafka.step_log.revision_records import RevisionIntent, RevisionRecord
from io_kafka.step_log.revision_state import Clearing, Detached, Draining, Filling, Phase, Switching
from io_kafka.step_log.value import LogValue

_NOTHING = TransitionEnded(
    number=0, outcome="aborted", step=0, begin_ms=0.0, pause_ms=0.0, messages=0, seconds=0.0, filling_s=0.0
)


class TransitionReport:
    """What users see of the transitions of one run. It measures the times of a transition by `now`, in seconds."""

    def __init__(self, board: StatusBoard, now: Callable[[], float]) -> None:
        self._board, self._now = board, now
        self._began_at = self._switch_at = 0.0  # when the intent and the switch were to be recorded
        self._ended = _NOTHING
        self._pace = RereadPace()

    # What happens

    def begins(self) -> None:
        """The intent is to be recorded."""
        self._began_at, self._pace = self._now(), RereadPace()

    def switches(self) -> None:
        """The switch is to be recorded."""
        self._switch_at = self._now()

    def adopted(self, log: LogValue) -> None:
        """The workers run another program from the next step on."""
        if isinstance(log.revisions.phase, Filling) and self._began_at and not self._ended.begin_ms:
            self._ended = replace(self._ended, begin_ms=round(1e3 * (self._now() - self._began_at), 1))

    def stepped(
        self, step: int, log: LogValue, concerned: Callable[[Draining | Clearing], Collection[str]], *, replay: bool
    ) -> None:
        """A step is settled. Those of the switch are what the transition is told by when it has ended. `concerned`: the handles of the outputs
        to which a switch writes."""
        phase = log.revisions.phase
        if isinstance(phase, Filling) and phase.intent.again:
            self._pace.note(self._now(), log)
        if replay or not (isinstance(phase, Draining) or (isinstance(phase, Clearing) and phase.since == step + 1)):
            return
        handles = concerned(phase)
        messages = sum(part.messages for part in log.step_records[step].outputs if part.handle in handles)
        self._ended = replace(self._ended, messages=self._ended.messages + messages)
        if log.revision is not None and log.revision.step == step:
            self._ended = replace(
                self._ended,
                pause_ms=round(1e3 * (self._now() - self._switch_at), 1) if self._switch_at else 0.0,
                filling_s=round(self._switch_at - self._began_at, 2) if self._began_at else 0.0,
            )

    def settled(self, phase: Clearing, revision: RevisionRecord) -> TransitionEnded:
        """The transition is over. `revision`: the one in force."""
        ended = replace(
            self._ended,
            number=phase.intent.number,
            outcome="switched" if phase.is_switched else "aborted",
            step=revision.step if phase.is_switched else phase.since,
            seconds=round(self._now() - self._began_at, 1) if self._began_at else 0.0,
        )
        self._board.update(transition_last=ended.to_json())
        self._ended, self._began_at, self._switch_at = _NOTHING, 0.0, 0.0
        return ended

    # What is shown

    def show(self, shown: TransitionShown | None) -> None:
        self._board.update(transition=None if shown is None else shown.to_json())

    def under_way(
        self,
        log: LogValue,
        machine: AnyTransition,
        facts: TransitionFacts,
        portions: Portions,
        *,
        in_error: tuple[str, ...] = (),
    ) -> TransitionShown:
        """`facts`: of the transition in `log`. `in_error`: the views that the switch puts in error."""
        phase = log.revisions.phase
        assert phase is not None
        shown, because, error = _shown_of(phase, machine)
        is_filling = isinstance(phase, Filling)
        filled = share_filled(log) if is_filling else 0.0 if isinstance(phase, Detached) else 1.0
        return TransitionShown(
            number=phase.intent.number,
            phase=shown,
            is_paused=log.revisions.is_paused,
            held_because=because,
            filled=round(filled, 4),
            seconds_left=self._seconds_left(phase.intent, log.filled, portions) if is_filling else None,
            drained=share_drained(log),
            since_step=phase.intent.step,
            differences=machine.differences,
            views=ChangedViews(facts.rebuilt, facts.new, facts.dropped),
            error=error,
            in_error=in_error,
            chosen=recorded_choices(phase.intent.choices),
        )

    def _seconds_left(self, intent: RevisionIntent, filled: int, portions: Portions) -> float | None:
        """Positions are counted as if nothing else were to be done, and messages as they have become fewer."""
        of_positions = portions.ms_of_positions(intent.whole - filled)
        of_messages = self._pace.seconds_left if intent.again else 0.0
        if of_positions is None or of_messages is None:
            return None
        return round(1e-3 * of_positions + of_messages, 1)


def preparing(number: int, facts: TransitionFacts | None, chosen: Chosen) -> TransitionShown:
    """A request is being prepared. `number`: of the revision that it leads to. `facts`: None before it is planned."""
    return TransitionShown(
        number=number,
        phase="preparing",
        is_paused=False,
        held_because="",
        filled=0.0,
        seconds_left=None,
        drained=None,
        since_step=None,
        differences=None,
        views=ChangedViews() if facts is None else ChangedViews(facts.rebuilt, facts.new, facts.dropped),
        error="",
        chosen=chosen,
    )


def _shown_of(phase: Phase, machine: AnyTransition) -> tuple[TransitionPhase, str, str]:
    """(the phase as it is shown, why the switch is held, the error)."""
    match phase:
        case Filling(turn=turn):
            error = "" if turn is None or turn.error is None else turn.error
            if machine.obstacles is None:
                return "filling", "", error
            if machine.obstacles:
                return "held", machine.obstacles[0], error
            if phase.is_held and not machine.asked.is_switch:
                return "held", f"the step of the switch has failed: {error}", error
            if phase.intent.choices.hold and not machine.asked.is_switch:
                return "held", "it waits for `stepwell revision switch`, as --hold asked for", error
            return "ready", "", error
        case Detached(turn=turn):
            return "detached", "", turn.error or ""
        case Switching() | Draining():
            return "switching", "", ""
        case Clearing():
            return "clearing", "", ""
        case _:
            assert_never(phase)
