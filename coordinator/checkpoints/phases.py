"""The phases of a checkpoint (base/machine.py). At most one checkpoint is under way.

    NoCheckpoint -wanted-> DueCheckpoint -named-> NamedCheckpoint -frozen-> Frozen -folding-> Folding -folded-> Folded -completed-> NoCheckpoint

made.py tells the events. A stop names its checkpoint at once. The log knows whether the intent of a named one is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from base.version import VersionId


@dataclass(frozen=True)
class NoCheckpoint:
    """Nothing is wanted."""

    def wanted(self) -> DueCheckpoint:
        return DueCheckpoint()

    def named(self, version: VersionId) -> NamedCheckpoint:
        return NamedCheckpoint(version)


@dataclass(frozen=True)
class DueCheckpoint:
    """It is wanted at the next drained boundary, at which it gets its name."""

    def named(self, version: VersionId) -> NamedCheckpoint:
        return NamedCheckpoint(version)


@dataclass(frozen=True)
class NamedCheckpoint:
    """The intent of this checkpoint is written at this boundary, and no step runs until it is frozen. `version`, here and in the next phases:
    what is made."""

    version: VersionId

    def frozen(self) -> Frozen:
        return Frozen(self.version)


@dataclass(frozen=True)
class Frozen:
    """Every worker has set its changes aside. Steps go on."""

    version: VersionId

    def folding(self) -> Folding:
        return Folding(self.version)


@dataclass(frozen=True)
class Folding:
    """The workers fold it into their databases, in the background."""

    version: VersionId

    def folded(self) -> Folded:
        return Folded(self.version)


@dataclass(frozen=True)
class Folded:
    """Every worker has it, and the log does not say so yet."""

    version: VersionId

    def completed(self) -> NoCheckpoint:
        return NoCheckpoint()


InDatabases = Frozen | Folding | Folded
CheckpointPhase = NoCheckpoint | DueCheckpoint | NamedCheckpoint | InDatabases
