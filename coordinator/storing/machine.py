"""Which version is uploaded to the checkpoint store, and when: a state machine without I/O, clock or randomness (base/machine.py).

    NoUpload -Upload-> Uploading -all workers have answered-> Uploaded -Describe-> Describing -the manifest is written-> Described
      ^                                                                                                                    |
      +------------------------ LogStored; or a fault: tried again after a while, with the last complete version of then --+

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
from typing import ClassVar, Literal, assert_never

from base.machine import Machine
from base.version import EMPTY, VersionId

RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 1.0, 60.0
"""Between two attempts: twice as long after each failure. A store that is back is noticed within a minute, and one that is away costs
nothing."""

PhaseShown = Literal["idle", "uploading", "uploaded", "describing", "described"]


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


@dataclass(frozen=True)
class NoUpload:
    """No version is under way."""

    shown: ClassVar[PhaseShown] = "idle"

    def uploading(self, version: VersionId) -> Uploading:
        return Uploading(version)


@dataclass(frozen=True)
class UploadBegun:
    """`version`: that which is uploaded."""

    version: VersionId

    def given_up(self) -> NoUpload:
        return NoUpload()


@dataclass(frozen=True)
class Uploading(UploadBegun):
    """The workers upload their state."""

    shown: ClassVar[PhaseShown] = "uploading"

    def uploaded(self) -> Uploaded:
        return Uploaded(self.version)


@dataclass(frozen=True)
class Uploaded(UploadBegun):
    """All of it is in the store, without a manifest."""

    shown: ClassVar[PhaseShown] = "uploaded"

    def describing(self) -> Describing:
        return Describing(self.version)


@dataclass(frozen=True)
class Describing(UploadBegun):
    """The manifest is written."""

    shown: ClassVar[PhaseShown] = "describing"

    def described(self) -> Described:
        return Described(self.version)


@dataclass(frozen=True)
class Described(UploadBegun):
    """The manifest is in the store, and the log does not say so."""

    shown: ClassVar[PhaseShown] = "described"

    def recorded(self) -> NoUpload:
        return NoUpload()


StoringPhase = NoUpload | Uploading | Uploaded | Describing | Described


class StoringMachine(Machine[StoringPhase]):
    """Times are in seconds of any clock that does not go back. `lag_s_max`: how long a complete version may wait for the store. `failures`:
    since the last version that was stored. `again_at`: when the next attempt may begin. `waits_since`: when the first version that waits for
    the store was seen to be complete; None if none waits."""

    def __init__(self, lag_s_max: float) -> None:
        super().__init__(NoUpload())
        self.lag_s_max = lag_s_max
        self.failures = 0
        self.again_at = 0.0
        self.waits_since: float | None = None

    def next(self, complete: VersionId, stored: VersionId | None, now: float) -> StoringAction | None:
        """`complete`: the last version that all workers have. `stored`: the last one that the log says is stored."""
        self.check(complete)
        behind = complete not in (EMPTY, stored)
        if not behind:
            self.waits_since = None
        elif self.waits_since is None:
            self.waits_since = now
        match self.phase:
            case NoUpload():
                return Upload(complete) if behind and self.may_begin(now) else None
            case Uploaded(version):
                return Describe(version)
            case Described(version):
                return LogStored(version)
            case Uploading() | Describing():
                return None
            case _:
                assert_never(self.phase)

    def may_begin(self, now: float) -> bool:
        """Whether an upload would begin if a version waited."""
        return isinstance(self.phase, NoUpload) and now >= self.again_at

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
        self.tell(NoUpload.uploading, version)

    def uploaded(self) -> None:
        self.tell(Uploading.uploaded)

    def describing(self) -> None:
        self.tell(Uploaded.describing)

    def described(self) -> None:
        self.tell(Describing.described)

    def recorded(self, complete: VersionId, now: float) -> None:
        """The record is in the log. What has become complete meanwhile waits since now at the latest."""
        is_last = isinstance(self.phase, UploadBegun) and self.phase.version == complete
        self.tell(Described.recorded)
        self.waits_since = None if is_last else now
        self.failures, self.again_at = 0, 0.0

    def failed(self, now: float) -> None:
        """What was under way, or was about to begin, is given up."""
        self.failures += 1
        self.again_at = now + min(RETRY_SECONDS_MAX, RETRY_SECONDS_MIN * 2 ** (self.failures - 1))
        self._give_up()

    def recovered(self) -> None:
        """New workers have opened a checkpoint, and know nothing of an upload."""
        self.again_at = 0.0
        self._give_up()

    def _give_up(self) -> None:
        if not isinstance(self.phase, NoUpload):
            self.tell(UploadBegun.given_up)

    def check(self, complete: VersionId) -> None:
        """Asserts the invariants. `next` calls it before each decision. `complete`: see there."""
        if isinstance(self.phase, UploadBegun):
            version = self.phase.version
            assert EMPTY < version <= complete, self.with_story(
                f"{version} is uploaded, and the last complete one is {complete}"
            )
        assert self.again_at == 0.0 or self.failures > 0, "nothing has failed, and it waits before it tries again"
