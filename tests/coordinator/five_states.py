"""The five states in which the coordinator holds workers that live longer than a step, as the design that this project follows has them.

              pause()                boundary()             stop(step)
     Run ───────────────> Pause ───────────────────> Paused ─────────────┐
      ^                     │ resume()                │ resume()         v
      └─────────────────────┴─────────────────────────┘        Stop(at) ───────> Stopped
                                                                  boundary(), at step `at`

The core has no such states, because a boundary of today is a call of `next`: a request takes effect there at once. The tests compare the
core with this machine over all short sequences of requests, so that dropping the states has changed nothing.
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


@dataclass
class FiveStates:
    """`step`: the next step to run. `stop_at`: set exactly in Stop and Stopped. `stopping`: a stop was asked for, and goes before all else."""

    step: int
    state: State = State.RUN
    stop_at: int | None = None
    stopping: bool = False

    @property
    def may_step(self) -> bool:
        return self.state is State.RUN or (
            self.state is State.STOP and self.stop_at is not None and self.step < self.stop_at
        )

    def request(self, what: str) -> None:
        if what == "stop":
            self.stopping = True
        elif self.stopping or what == "checkpoint":
            return
        elif what == "pause" and self.state is State.RUN:
            self.state = State.PAUSE
        elif what == "resume":
            self.state = State.RUN

    def boundary(self) -> None:
        """Between two steps: what was asked for takes effect. A stop pauses first, and stops before the step that the pause answered."""
        if self.stopping and self.state is State.RUN:
            self.state = State.PAUSE
        if self.state is State.PAUSE:
            self.state = State.PAUSED
        if self.stopping and self.state is State.PAUSED:
            self.state, self.stop_at = State.STOP, self.step
        if self.state is State.STOP and self.step == self.stop_at:
            self.state = State.STOPPED
