"""The states of a worker: a state machine without I/O.

    Opened ──start──> Run ──pause──> Paused ──resume──> Run          enter(step): a worker without state, in Run, stands before a later step
                       │               │
                       └─────stop──────┴──> Stopping(at) ──at step `at`──> Stopped

A worker reads its orders between two steps. So a pause takes effect at once, and there is no state "pausing". A worker that is to stop at a
later step than its own runs the steps until there. An order that does not fit the state is a mistake and raises AssertionError.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    CLOSED = "closed"
    """The database is not open."""
    RUN = "run"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass
class StepState:
    """Which step a worker runs next, and whether it may. `step`: the next step that the worker runs. `stop_at`: set in STOPPING and STOPPED."""

    state: State = State.CLOSED
    step: int = -1
    stop_at: int | None = None

    def start(self, step: int) -> None:
        """The database was opened, and its state is that before `step`."""
        assert self.state is State.CLOSED, self._text("start")
        self.state, self.step = State.RUN, step

    def enter(self, step: int) -> None:
        """The database, which has no state, takes its place before a later step."""
        assert self.state is State.RUN and step >= self.step, self._text(f"enter before step {step}")
        self.step = step

    def begin_step(self, step: int) -> None:
        assert self.state in (State.RUN, State.STOPPING), self._text(f"step {step}")
        assert step == self.step, self._text(f"step {step}")
        self.check()

    def repeat_step(self, step: int) -> None:
        """The worker has run the step and is to run it again. It must have no state."""
        assert self.state is State.RUN and step == self.step - 1, self._text(f"step {step} again")
        self.step = step

    def end_step(self) -> None:
        self.step += 1
        self._stop_if_there()

    def pause(self) -> int:
        """The step before which the worker stands now."""
        assert self.state in (State.RUN, State.PAUSED), self._text("pause")
        self.state = State.PAUSED
        return self.step

    def resume(self) -> int:
        assert self.state in (State.RUN, State.PAUSED), self._text("resume")
        self.state = State.RUN
        return self.step

    def stop(self, at: int) -> None:
        assert self.state in (State.RUN, State.PAUSED), self._text(f"stop at {at}")
        assert at >= self.step, self._text(f"stop at {at}")
        self.state, self.stop_at = State.STOPPING, at
        self._stop_if_there()

    @property
    def at_boundary(self) -> bool:
        """Whether a checkpoint may be taken now."""
        return self.state in (State.RUN, State.PAUSED, State.STOPPING)

    def check(self) -> None:
        assert (self.step >= 0) == (self.state is not State.CLOSED), self._text("check")
        assert (self.stop_at is not None) == (self.state in (State.STOPPING, State.STOPPED)), self._text("check")
        if self.state is State.STOPPING:
            assert self.stop_at is not None and self.step < self.stop_at, self._text("check")
        if self.state is State.STOPPED:
            assert self.step == self.stop_at, self._text("check")

    def _stop_if_there(self) -> None:
        if self.state is State.STOPPING and self.step == self.stop_at:
            self.state = State.STOPPED
        self.check()

    def _text(self, order: str) -> str:
        return f"{order}: the worker is {self.state.value} before step {self.step}, stop at {self.stop_at}"
