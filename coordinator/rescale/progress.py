"""How far a rescale is, as users see it."""

from __future__ import annotations

from coordinator.rescale.cut_budget import CutMeasured


class RescaleProgress:
    """The progress of one rescale in this run. The rescale began at `now`, or went on then. `left_bytes`: None until the sources have counted.
    `seconds`: from then to the last cut, without the time in which a user had paused the rescale. `longest_pause_ms`: the longest time in which
    no step could begin because of the rescale. `longest_step_ms`: of the steps meanwhile."""

    def __init__(self, now: float) -> None:
        self._began_at = now
        self._moves_began_at: float | None = None
        self.cuts = self.slots_moved = self.moved_bytes = 0
        self.left_bytes: int | None = None
        self.seconds = 0.0
        self.longest_cut_ms = 0.0
        self.cuts_ms = 0.0
        self.longest_pause_ms = 0.0
        self.longest_step_ms = 0.0
        self._paused_at: float | None = None
        self._paused_s = 0.0  # since the moves began

    def note_weights(self, left_bytes: int, now: float) -> None:
        """The sources have counted what they are to give away."""
        self.left_bytes = left_bytes
        self._moves_began_at = now if self._moves_began_at is None else self._moves_began_at

    def note_pause(self, is_paused: bool, now: float) -> None:
        """A user has paused the rescale, or lets it go on."""
        if is_paused and self._paused_at is None:
            self._paused_at = now
        elif not is_paused and self._paused_at is not None:
            self._paused_s += self._paused_until(now)
            self._paused_at = None

    def _paused_until(self, now: float) -> float:
        """Returns how many seconds of the time since the moves began belong to the pause that has not ended; 0 without one."""
        if self._paused_at is None or self._moves_began_at is None:
            return 0.0
        return now - max(self._paused_at, self._moves_began_at)

    def _moving_s(self, now: float) -> float:
        began_at = now if self._moves_began_at is None else self._moves_began_at
        return now - began_at - self._paused_s - self._paused_until(now)

    def note_block(self, took_ms: float) -> None:
        """For so long no step could begin."""
        self.longest_pause_ms = max(self.longest_pause_ms, took_ms)

    def note_step(self, took_ms: float) -> None:
        """A step has ended during the rescale."""
        self.longest_step_ms = max(self.longest_step_ms, took_ms)

    def note_cut(self, cut: CutMeasured, now: float) -> None:
        """A cut has ended."""
        self.cuts += 1
        self.slots_moved += cut.slots
        self.moved_bytes += cut.moved_bytes
        self.seconds = self._moving_s(now)
        if self.left_bytes is not None:
            self.left_bytes = max(0, self.left_bytes - cut.moved_bytes)
        self.longest_cut_ms = max(self.longest_cut_ms, cut.took_ms)
        self.cuts_ms += cut.took_ms

    def note_copy(self, copied_bytes: int, now: float) -> None:
        """So much was copied in the background."""
        self.moved_bytes += copied_bytes
        self.seconds = self._moving_s(now)
        if self.left_bytes is not None:
            self.left_bytes = max(0, self.left_bytes - copied_bytes)

    @property
    def bytes_per_s(self) -> float | None:
        """While it was not paused; None as long as nothing has moved."""
        return self.moved_bytes / self.seconds if self.moved_bytes and self.seconds else None

    @property
    def seconds_left(self) -> float | None:
        """The seconds that the rescale still takes at the rate so far; None as long as there is none."""
        if self.left_bytes == 0:
            return 0.0
        if self.left_bytes is None or self.moved_bytes == 0:
            return None
        return self.left_bytes * self.seconds / self.moved_bytes

    def done_numbers(self, now: float) -> dict[str, object]:
        """What was done, as in `Status.layout`. `elapsed_s`: since the rescale began, also with what it had to wait for."""
        return {
            "cuts": self.cuts,
            "slots_moved": self.slots_moved,
            "bytes_moved": self.moved_bytes,
            "bytes_per_s": None if self.bytes_per_s is None else round(self.bytes_per_s),
            "seconds": round(self.seconds, 3),
            "elapsed_s": round(now - self._began_at, 3),
            "longest_cut_ms": round(self.longest_cut_ms, 1),
            "cuts_ms": round(self.cuts_ms, 1),
            "longest_pause_ms": round(self.longest_pause_ms, 1),
            "longest_step_ms": round(self.longest_step_ms, 1),
        }

    def left_numbers(self) -> dict[str, object]:
        """What is left to do, as in `Status.layout`."""
        seconds = self.seconds_left
        return {"bytes_left": self.left_bytes, "seconds_left": None if seconds is None else round(seconds, 1)}
