"""Which version is uploaded to the checkpoint store, and when: a state machine without I/O, clock or randomness.

    IDLE -Upload-> UPLOADING -all workers have answered-> UPLOADED -Describe-> DESCRIBING -the manifest is written-> DESCRIBED -LogStored-> IDLE
      ^                                                                                                                        |
      +------------------------ a fault: tried again after a while, with the last complete version of then ---------------------+

The store is beside the checkpoints: a version is complete without it, and the record in the step log is what makes it *stored*. One version is
uploaded at a time, always the last complete one, so a slow store leaves versions out. Nothing depends on the phase but what is done next,
because an upload that was not recorded is garbage.

    action        what the shell does                                              report
    Upload        asks the owners of the version to upload their state             uploading, then uploaded or failed
    Describe      writes the manifest, beside the steps                            describing, then described or failed
    LogStored     writes the record                                                recorded
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from base.version import EMPTY, VersionId

RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 1.0, 60.0
"""Between two attempts: twice as long after each failure. A store that is back is noticed within a minute, and one that is away costs
nothing."""


@dataclass(frozen=True)
class Upload:
    version: VersionId


@dataclass(frozen=True)
class Describe:
    version: VersionId


@dataclass(frozen=True)
class LogStored:
    version: VersionId


StoringAction = Upload | Describe | LogStored


class Phase(Enum):
    IDLE = "idle"
    UPLOADING = "uploading"
    UPLOADED = "uploaded"
    DESCRIBING = "describing"
    DESCRIBED = "described"


@dataclass
class StoringMachine:
    """Times are in seconds of any clock that does not go back. `lag_s_max`: how long a complete version may wait for the store."""

    lag_s_max: float
    phase: Phase = Phase.IDLE
    version: VersionId | None = None
    """That which is under way."""
    failures: int = 0
    """Since the last version that was stored."""
    again_at: float = 0.0
    waits_since: float | None = None
    """When the first version that waits for the store was seen to be complete; None if none waits."""

    def next(self, complete: VersionId, stored: VersionId | None, now: float) -> StoringAction | None:
        """`complete`: the last version that all workers have. `stored`: the last one that the log says is stored."""
        self.check(complete)
        behind = complete not in (EMPTY, stored)
        if not behind:
            self.waits_since = None
        elif self.waits_since is None:
            self.waits_since = now
        match self.phase:
            case Phase.IDLE:
                return Upload(complete) if behind and now >= self.again_at else None
            case Phase.UPLOADED:
                return Describe(self._under_way)
            case Phase.DESCRIBED:
                return LogStored(self._under_way)
            case Phase.UPLOADING | Phase.DESCRIBING:
                return None
            case _:
                assert_never(self.phase)

    @property
    def _under_way(self) -> VersionId:
        assert self.version is not None, f"{self.phase} without a version"
        return self.version

    @property
    def is_behind(self) -> bool:
        """Whether a complete version waits for the store."""
        return self.waits_since is not None

    def lag_s(self, now: float) -> float:
        """For how long the first version that waits has been complete; 0 if none waits."""
        return 0.0 if self.waits_since is None else now - self.waits_since

    def is_late(self, now: float) -> bool:
        return self.lag_s(now) > self.lag_s_max

    # Reports

    def uploading(self, version: VersionId) -> None:
        assert self.phase is Phase.IDLE, f"an upload in {self.phase}"
        self.phase, self.version = Phase.UPLOADING, version

    def uploaded(self) -> None:
        assert self.phase is Phase.UPLOADING, f"an answer of workers in {self.phase}"
        self.phase = Phase.UPLOADED

    def describing(self) -> None:
        assert self.phase is Phase.UPLOADED, f"a manifest in {self.phase}"
        self.phase = Phase.DESCRIBING

    def described(self) -> None:
        assert self.phase is Phase.DESCRIBING, f"a manifest in {self.phase}"
        self.phase = Phase.DESCRIBED

    def recorded(self, complete: VersionId, now: float) -> None:
        """The record is in the log. What has become complete meanwhile waits since now at the latest."""
        assert self.phase is Phase.DESCRIBED, f"a record in {self.phase}"
        self.waits_since = None if self.version == complete else now
        self.failures, self.again_at = 0, 0.0
        self.phase, self.version = Phase.IDLE, None

    def failed(self, now: float) -> None:
        """What was under way is given up."""
        self.failures += 1
        self.again_at = now + min(RETRY_SECONDS_MAX, RETRY_SECONDS_MIN * 2 ** (self.failures - 1))
        self.phase, self.version = Phase.IDLE, None

    def recovered(self) -> None:
        """New workers have opened a checkpoint, and know nothing of an upload."""
        self.phase, self.version, self.again_at = Phase.IDLE, None, 0.0

    def check(self, complete: VersionId) -> None:
        """Asserts the invariants. `next` calls it before each decision. `complete`: see there."""
        version = self.version
        assert (version is None) == (self.phase is Phase.IDLE), f"version {version} in {self.phase}"
        if version is not None:
            assert EMPTY < version <= complete, f"{version} is uploaded, and the last complete one is {complete}"
        assert self.again_at == 0.0 or self.failures > 0, "nothing has failed, and it waits before it tries again"
