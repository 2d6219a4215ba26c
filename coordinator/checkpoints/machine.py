"""The last complete checkpoint, and the one that is made after it. It is a part of the core, and has no I/O, clock or randomness.

The core decides when a checkpoint is wanted, and at which boundary it begins. What is here knows what the next version is called, what comes
next for it, and what its reports may say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, assert_never

from base.common_version import common_version
from base.machine import Machine
from base.version import VersionId
from coordinator.actions import CheckpointAction, Complete, Fold, Freeze, LogIntent
from coordinator.checkpoints.phases import (
    CheckpointPhase,
    DueCheckpoint,
    FoldedCheckpoint,
    FoldingCheckpoint,
    FrozenCheckpoint,
    NamedCheckpoint,
    NoCheckpoint,
    NotNamed,
)
from io_kafka.step_log.state import StepLogState

P = TypeVar("P")


class CheckpointMachine:
    """`version`: the last complete checkpoint that the databases have. `making`: how far the one after it is. `new_id` returns an id that no
    checkpoint ever had."""

    def __init__(self, version: VersionId, new_id: Callable[[], str]) -> None:
        self.version, self._new_id = version, new_id
        self.making = Machine[CheckpointPhase](NoCheckpoint())

    @property
    def phase(self) -> CheckpointPhase:
        """The phase of the checkpoint that is made."""
        return self.making.phase

    @property
    def is_under_way(self) -> bool:
        """Whether a checkpoint is wanted or being made."""
        return not isinstance(self.phase, NoCheckpoint)

    @property
    def is_freeze_due(self) -> bool:
        """Whether a checkpoint waits for a drained boundary."""
        return isinstance(self.phase, DueCheckpoint | NamedCheckpoint)

    @property
    def is_named(self) -> bool:
        """Whether a checkpoint is between its intent and its freeze."""
        return isinstance(self.phase, NamedCheckpoint)

    @property
    def is_folding(self) -> bool:
        return isinstance(self.phase, FoldingCheckpoint)

    def want(self) -> None:
        """A checkpoint begins at the next drained boundary. None may be under way."""
        self.making.tell(NoCheckpoint.wanted)

    # What comes next

    def after_freeze(self) -> CheckpointAction | None:
        """The next part that does not need a drained boundary, because the version is frozen; None if there is none."""
        match self.phase:
            case NoCheckpoint() | DueCheckpoint() | NamedCheckpoint() | FoldingCheckpoint():
                return None
            case FrozenCheckpoint(version):
                return Fold(version)
            case FoldedCheckpoint(version):
                return Complete(version, former=self.version)
            case _:
                assert_never(self.phase)

    def begin(self, step: int, log: StepLogState) -> LogIntent | Freeze:
        """Asks for the intent until the log has it. Only then may a database be frozen. `step`: the one before which the boundary is."""
        if not self.is_named:
            made = VersionId(self.version.version + 1, step, self._new_id())
            self.making.tell(NotNamed.named, made)
        version = self._in(NamedCheckpoint).version
        return Freeze(version) if log.intent == version else LogIntent(version)

    # Reports

    def frozen(self, step: int, log: StepLogState) -> VersionId:
        """All workers have set their changes aside. Returns the version."""
        version = self._in(NamedCheckpoint).version
        assert version == log.intent, self.making.with_story("a freeze without an intent in the log")
        assert version.step == step, self.making.with_story("a step ran between intent and freeze")
        self.making.tell(NamedCheckpoint.frozen)
        return version

    def folding(self) -> None:
        self.making.tell(FrozenCheckpoint.folding)

    def folded(self, versions: Mapping[int, tuple[VersionId, ...]]) -> None:
        """The fold has ended. `versions` are those that each worker has now; the version that is made must be common to all of them."""
        version, latest = self._in(FoldingCheckpoint).version, common_version(versions)
        assert latest == version, self.making.with_story(f"after checkpoint {version} the workers share {latest}")
        self.making.tell(FoldingCheckpoint.folded)

    def completed(self, log: StepLogState) -> VersionId:
        """The completion is in the log. Returns the version."""
        version = self._in(FoldedCheckpoint).version
        assert log.checkpoints[-1:] == (version,), self.making.with_story(f"{version} is not complete in the log")
        self.version = version
        self.making.tell(FoldedCheckpoint.completed)
        return version

    def _in(self, phase: type[P]) -> P:
        """The phase, which is of this class."""
        assert isinstance(self.phase, phase), self.making.with_story(f"{self.phase} is no {phase.__name__}")
        return self.phase

    def check(self, step: int, log: StepLogState) -> None:
        """Asserts the invariants. `step`: the next one to settle."""
        match self.phase:
            case NoCheckpoint() | DueCheckpoint():
                return
            case NamedCheckpoint(version):
                assert version.step == step, self.making.with_story("a step ran between intent and freeze")
            case FrozenCheckpoint(version) | FoldingCheckpoint(version) | FoldedCheckpoint(version):
                assert version.step <= step, self.making.with_story(f"{version} holds a step that has not run")
                assert version == log.intent, self.making.with_story(f"{version} is in the databases without an intent")
            case _:
                assert_never(self.phase)
        is_next = version.version == self.version.version + 1
        assert is_next, self.making.with_story(f"{version} does not follow {self.version}")
