"""How far a checkpoint has got, as values. At most one is under way.

    NoCheckpoint -> DueCheckpoint -> NamedCheckpoint -> Frozen -> Folding -> Folded -> NoCheckpoint

The core goes from one to the next (coordinator/core.py). The log knows whether the intent of a named checkpoint is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from base.version import VersionId


@dataclass(frozen=True)
class NoCheckpoint:
    pass


@dataclass(frozen=True)
class DueCheckpoint:
    """It is wanted at the next drained boundary, at which it gets its name."""


@dataclass(frozen=True)
class NamedCheckpoint:
    """The intent of this checkpoint is written at this boundary, and no step runs until it is frozen. `version`, here and in the next phases:
    what is made."""

    version: VersionId


@dataclass(frozen=True)
class Frozen:
    """Every worker has set its changes aside. Steps go on."""

    version: VersionId


@dataclass(frozen=True)
class Folding:
    """The workers fold it into their databases, in the background."""

    version: VersionId


@dataclass(frozen=True)
class Folded:
    """Every worker has it, and the log does not say so yet."""

    version: VersionId


NO_CHECKPOINT = NoCheckpoint()

InDatabases = Frozen | Folding | Folded
CheckpointPhase = NoCheckpoint | DueCheckpoint | NamedCheckpoint | InDatabases
