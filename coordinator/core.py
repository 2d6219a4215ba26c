"""What the coordinator does next: a state machine without I/O, clock or randomness.

The shell asks `next()`, does what it says, and reports with the method named after the action. Everything that the invariants
forbid is impossible to ask for here:

- a step runs only on a division that the log holds (1);
- a step whose output is in the log is only verified, never written again; one that is not is written (3, 4);
- a checkpoint is taken at a boundary, of steps whose output is committed; one at a time; its intent is in the log before, its
  completion after every worker has it (6).

    next()            the shell's duty                                  report
    Divide            end offsets -> division -> log, or nothing        divided / nothing_to_read
    RunStep           the Spark job of a step; then write or verify     stepped
    Intend            log the intent of a checkpoint                    intended
    Freeze            every worker sets its changes aside (fast)        frozen
    Fold              begin to fold, in the background                  folding; later folded
    Complete          versions() of every worker agree; log it          completed
    Wait              until something is asked, or a fold ends
    Exit              everything is at a checkpoint and closed
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from base.version import VersionId
from coordinator.workers import State, Workers


class NoCommonVersion(Exception):
    """The workers' databases share no version: at least one is not this pipeline's, or was lost."""

    def __init__(self, versions: dict[int, tuple[VersionId, ...]]) -> None:
        self.versions = versions
        shown = "; ".join(
            f"worker {w}: {', '.join(f'{v.version} (step {v.step}, {v.checkpoint_id})' for v in vs) or 'none'}"
            for w, vs in versions.items()
        )
        super().__init__(
            f"no checkpoint is common to all workers: {shown}. Restore the storage folder that belongs to this pipeline, "
            "or rebuild the state with `stepwell run --full-refresh`."
        )


def common_version(versions: dict[int, tuple[VersionId, ...]]) -> VersionId:
    """The latest version that every worker can open: identities are compared, not numbers."""
    shared = set.intersection(*(set(held) for held in versions.values())) if versions else set()
    if not shared:
        raise NoCommonVersion(versions)
    return max(shared)


class Checkpoint(Enum):
    """Where the one checkpoint that may be under way is."""

    NONE = "none"
    WANTED = "wanted"
    INTENDED = "intended"
    FROZEN = "frozen"
    FOLDING = "folding"
    FOLDED = "folded"


class Action(Enum):
    DIVIDE = "divide"
    RUN_STEP = "run_step"
    INTEND = "intend"
    FREEZE = "freeze"
    FOLD = "fold"
    COMPLETE = "complete"
    WAIT = "wait"
    EXIT = "exit"


@dataclass
class Core:
    """`version`: the last complete checkpoint. `divided`: the last step that the log has a division for, `written`: the last step
    whose output the log has; both -1 for none. `written <= divided` always, and `version.step <= written + 1`."""

    version: VersionId
    divided: int
    written: int
    available_now: bool = False
    checkpoint: Checkpoint = Checkpoint.NONE
    pending: VersionId | None = None
    workers: Workers = field(init=False)
    stopping: bool = False
    exhausted: bool = False

    def __post_init__(self) -> None:
        self.workers = Workers(self.version.step)

    @property
    def step(self) -> int:
        return self.workers.step

    @property
    def replaying(self) -> bool:
        """Whether the step that is next has its output in the log already."""
        return self.step <= self.written

    def next(self) -> Action:
        """What to do now. Checkpoints go before steps; a stop waits for its own checkpoint."""
        self.workers.boundary()
        progress = self._checkpoint_action()
        if progress is not None:
            return progress
        if self.stopping:
            return self._stop_action()
        if not self.workers.may_step():
            return Action.WAIT
        if self.step <= self.divided:
            return Action.RUN_STEP
        if self.available_now and self.exhausted:
            self.request_stop()
            return self.next()
        return Action.DIVIDE

    def _checkpoint_action(self) -> Action | None:
        if self.checkpoint is Checkpoint.WANTED:
            if self.replaying:
                return None  # the steps being replayed are in the log; a checkpoint of them can wait, and stays wanted
            return Action.INTEND
        return {
            Checkpoint.INTENDED: Action.FREEZE,
            Checkpoint.FROZEN: Action.FOLD,
            Checkpoint.FOLDED: Action.COMPLETE,
        }.get(self.checkpoint)

    def _stop_action(self) -> Action:
        if self.workers.state is not State.STOPPED:
            self._stop_at_boundary()
        if self.checkpoint is Checkpoint.FOLDING:
            return Action.WAIT
        if self.step > self.version.step and not self.replaying:
            self.checkpoint = Checkpoint.WANTED
            return Action.INTEND
        return Action.EXIT

    def _stop_at_boundary(self) -> None:
        if self.workers.state is State.RUN:
            self.workers.pause()
        self.workers.boundary()
        if self.workers.state is State.PAUSED:
            self.workers.stop(self.step)
        self.workers.boundary()

    # Requests

    def request_checkpoint(self) -> bool:
        """Wants a checkpoint; False if there is nothing new to keep or one is under way."""
        if self.checkpoint is not Checkpoint.NONE or self.step == self.version.step:
            return False
        self.checkpoint = Checkpoint.WANTED
        return True

    def request_pause(self) -> None:
        if not self.stopping:
            self.workers.pause()

    def request_resume(self) -> None:
        if not self.stopping:
            self.workers.resume()

    def request_stop(self) -> None:
        """Stop at the next boundary, at a checkpoint. A replay under way is broken off: what it did is not needed."""
        self.stopping = True

    # Reports

    def log_divided(self, step: int) -> None:
        assert step == self.divided + 1 == self.step, f"division {step}, but step {self.step} is next"
        self.divided = step
        self.exhausted = False

    def nothing_to_read(self) -> None:
        self.exhausted = True

    def stepped(self) -> None:
        """The step's output is in the log: written now, or verified against what was written before."""
        assert self.step <= self.divided, f"step {self.step} ran without a division"
        self.written = max(self.written, self.step)
        self.workers.stepped()

    def intended(self, checkpoint_id: str) -> None:
        self._advance(Checkpoint.WANTED, Checkpoint.INTENDED)
        self.pending = VersionId(self.version.version + 1, self.step, checkpoint_id)

    def frozen(self) -> None:
        assert self.pending is not None and self.pending.step == self.step, "a step ran between intent and freeze"
        self._advance(Checkpoint.INTENDED, Checkpoint.FROZEN)

    def folding(self) -> None:
        self._advance(Checkpoint.FROZEN, Checkpoint.FOLDING)

    def folded(self) -> None:
        self._advance(Checkpoint.FOLDING, Checkpoint.FOLDED)

    def completed(self, versions: dict[int, tuple[VersionId, ...]]) -> None:
        """Every worker has the new version: exactly one more than before (seed)."""
        latest = common_version(versions)
        assert latest == self.pending, f"after checkpoint {self.pending} the workers share {latest}"
        assert latest.version == self.version.version + 1
        self._advance(Checkpoint.FOLDED, Checkpoint.NONE)
        self.version, self.pending = latest, None

    def _advance(self, source: Checkpoint, target: Checkpoint) -> None:
        assert self.checkpoint is source, f"checkpoint is {self.checkpoint.value}, not {source.value}"
        self.checkpoint = target

    def check(self) -> None:
        """The invariants, after any transition."""
        self.workers.check()
        assert -1 <= self.written <= self.divided
        assert self.version.step <= self.step <= self.written + 1 or self.replaying
        assert self.version.step <= self.written + 1, "a checkpoint holds a step whose output is not committed"
        assert (self.pending is not None) == (self.checkpoint not in (Checkpoint.NONE, Checkpoint.WANTED))
        if self.pending is not None:
            assert self.pending.step <= self.step
            assert self.pending.step <= self.written + 1
