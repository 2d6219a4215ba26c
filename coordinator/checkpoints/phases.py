"""The phases of a checkpoint (base/machine.py). At most one checkpoint is under way.

    NoCheckpoint -wanted-> DueCheckpoint -named-> NamedCheckpoint -frozen-> FrozenCheckpoint -folding-> FoldingCheckpoint
      ^                                                                                                     |
      +-------------------------- completed --------------------------- FoldedCheckpoint <------------- folded

machine.py reports the events. A stop names its checkpoint at once. The log knows whether the intent of a named one is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from base.version import VersionId


@dataclass(frozen=True)
class NotNamed:
    """What both phases have in which no checkpoint has a name."""

    def named(self, version: VersionId) -> NamedCheckpoint:
        return NamedCheckpoint(version)


@dataclass(frozen=True)
class NoCheckpoint(NotNamed):
    """Nothing is wanted."""

    def wanted(self) -> DueCheckpoint:
        return DueCheckpoint()


@dataclass(frozen=True)
class DueCheckpoint(NotNamed):
    """A checkpoint is wanted at the next drained boundary, at which it receives its name."""


@dataclass(frozen=True)
class NamedCheckpoint:
    """The intent of this checkpoint is written at this boundary, and no step runs until it is frozen. `version`, here and in the next phases:
    what is made."""

    version: VersionId

    def frozen(self) -> FrozenCheckpoint:
        return FrozenCheckpoint(self.version)


@dataclass(frozen=True)
class FrozenCheckpoint:
    """Every worker has set its changes aside. Steps go on."""

    version: VersionId

    def folding(self) -> FoldingCheckpoint:
        return FoldingCheckpoint(self.version)


@dataclass(frozen=True)
class FoldingCheckpoint:
    """The workers fold it into their databases, in the background."""

    version: VersionId

    def folded(self) -> FoldedCheckpoint:
        return FoldedCheckpoint(self.version)


@dataclass(frozen=True)
class FoldedCheckpoint:
    """Every worker has it, and the log does not say so yet."""

    version: VersionId

    def completed(self) -> NoCheckpoint:
        return NoCheckpoint()


InDatabases = FrozenCheckpoint | FoldingCheckpoint | FoldedCheckpoint
CheckpointPhase = NoCheckpoint | DueCheckpoint | NamedCheckpoint | InDatabases
