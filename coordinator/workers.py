"""The states of the workers, as the coordinator holds them (seed: "Coordinator/worker synchronization details").

              pause()                paused(step)             stop(step)
     Run ───────────────> Pause ───────────────────> Paused ─────────────┐
      ^                                               │ resume()         v
      └───────────────────────────────────────────────┘        Stop(at) ───────> Stopped
                                                                   stopped(), at step `at`

A pause takes effect at a step's boundary; the answer is the step that would be next. All workers of one driver run the same step, so
the maximum that the seed takes over their answers is that step, and `Stop` at a step below it is a fatal error.
No I/O here: the shell runs steps while `may_step` says so, and reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    RUN = "run"
    PAUSE = "pause"
    PAUSED = "paused"
    STOP = "stop"
    STOPPED = "stopped"


class InvalidTransition(AssertionError):
    """A transition that the diagram does not have; says the way that led here."""


@dataclass
class Workers:
    """`step`: the next step to run. `stop_at`: set exactly in Stop and Stopped; `step <= stop_at` always holds."""

    step: int
    state: State = State.RUN
    stop_at: int | None = None
    history: tuple[str, ...] = ()

    def may_step(self) -> bool:
        """Whether the next step may begin."""
        return self.state is State.RUN or (
            self.state is State.STOP and self.stop_at is not None and self.step < self.stop_at
        )

    def pause(self) -> None:
        """Asks for a pause at the next boundary; the reader's wait is cancelled by the shell."""
        if self.state in (State.PAUSE, State.PAUSED):
            return
        self._move("pause", {State.RUN}, State.PAUSE)

    def boundary(self) -> None:
        """The shell is between two steps."""
        if self.state is State.PAUSE:
            self._move("boundary", {State.PAUSE}, State.PAUSED)
        elif self.state is State.STOP and self.step == self.stop_at:
            self._move("boundary", {State.STOP}, State.STOPPED)

    def resume(self) -> None:
        if self.state is not State.RUN:
            self._move("resume", {State.PAUSE, State.PAUSED}, State.RUN)

    def stop(self, at: int) -> None:
        """Stops before step `at`, the maximum of what the workers answered to the pause."""
        if at < self.step:
            raise InvalidTransition(f"stop at step {at}, but step {self.step} is next: {' > '.join(self.history)}")
        self._move(f"stop({at})", {State.PAUSED}, State.STOP)
        self.stop_at = at

    def stepped(self) -> None:
        """Step `step` is done: its output is committed or was verified."""
        if self.state not in (State.RUN, State.PAUSE, State.STOP):
            raise InvalidTransition(f"a step ended in state {self.state.value}: {' > '.join(self.history)}")
        self.step += 1

    def check(self) -> None:
        assert (self.stop_at is not None) == (self.state in (State.STOP, State.STOPPED))
        assert self.stop_at is None or self.step <= self.stop_at
        assert self.state is not State.STOPPED or self.step == self.stop_at

    def _move(self, event: str, sources: set[State], target: State) -> None:
        if self.state not in sources:
            raise InvalidTransition(f"{event} in state {self.state.value}: {' > '.join(self.history)}")
        self.history = (*self.history[-15:], event)
        self.state = target
