"""How the steps of the loop become samples of the load: without I/O or clock.

Steps overlap: the workers run one while the output of the step before is written. So what a step has cost is the time from the end of the step
before it, or from its own beginning if that was later. These costs add up to the time in which steps ran."""

from __future__ import annotations

from coordinator.automatic.load import NO_STEPS, LoadSample, StepClass


class Sampler:
    """`seconds`: how long a sample is at least. It is longer if a step is. Times are of any clock that does not go back."""

    def __init__(self, seconds: float, now: float) -> None:
        self._seconds = seconds
        self._lag_before: int | None = None
        self._stepped_at = now
        self._begin(now)

    def _begin(self, now: float) -> None:
        self._began_at = now
        self._busy_s, self._rows = 0.0, 0
        self._classes: dict[int, StepClass] = {}
        self._is_changing = self._is_disturbed = False

    def note_step(self, rows: int, took_s: float, now: float) -> None:
        """A step with so many rows has ended, which began so long ago."""
        cost_s = now - max(self._stepped_at, now - took_s)
        self._stepped_at = now
        self._busy_s += cost_s
        self._rows += rows
        size = rows.bit_length()
        self._classes[size] = self._classes.get(size, NO_STEPS).with_step(rows, 1e3 * cost_s)

    def note(self, *, is_changing: bool, is_disturbed: bool) -> None:
        """What is so at a moment of the sample counts for all of it."""
        self._is_changing |= is_changing
        self._is_disturbed |= is_disturbed

    def is_due(self, now: float) -> bool:
        """Whether the sample is long enough."""
        return now - self._began_at >= self._seconds

    def take(self, lag: int | None, workers: int, now: float) -> LoadSample:
        """The sample that ends now, and a new one begins. `lag`: None as long as nobody has looked at the topics."""
        before, self._lag_before = self._lag_before, lag
        is_known = before is not None and lag is not None
        sample = LoadSample(
            seconds=now - self._began_at,
            busy_s=min(self._busy_s, now - self._began_at),
            rows=self._rows,
            arrived=max(0, lag - before + self._rows) if lag is not None and before is not None else 0,
            lag=lag or 0,
            workers=workers,
            classes=self._classes,
            is_changing=self._is_changing,
            is_disturbed=self._is_disturbed or not is_known,
        )
        self._begin(now)
        return sample
