"""What the core tells the loop to do: the table in core.py says what each action means. Those of a rescale and of a transition are beside their
machines."""

from __future__ import annotations

from dataclasses import dataclass

from base.version import VersionId
from coordinator.rescale.actions import RescaleAction
from coordinator.transition.machine import TransitionAction


@dataclass(frozen=True)
class Divide:
    """Choose the input of `step`."""

    step: int


@dataclass(frozen=True)
class Give:
    """`replay`: the log has the output of `step` already, so its input must not be divided again."""

    step: int
    replay: bool


@dataclass(frozen=True)
class Collect:
    step: int


@dataclass(frozen=True)
class Settle:
    """`replay`: the log has the output of `step` already, so the new output is only compared with it."""

    step: int
    replay: bool


@dataclass(frozen=True)
class LogIntent:
    version: VersionId


@dataclass(frozen=True)
class Freeze:
    version: VersionId


@dataclass(frozen=True)
class Fold:
    version: VersionId


@dataclass(frozen=True)
class Complete:
    """`former` is the version before. Nothing older than it is needed once `version` is complete."""

    version: VersionId
    former: VersionId


@dataclass(frozen=True)
class ChangeProgram:
    """The workers run another program than `step`, which is the next one."""

    step: int


@dataclass(frozen=True)
class Wait:
    pass


@dataclass(frozen=True)
class Exit:
    pass


CheckpointAction = LogIntent | Freeze | Fold | Complete
OngoingAction = (
    Divide | Give | Collect | Settle | CheckpointAction | RescaleAction | TransitionAction | ChangeProgram | Wait
)
"""All actions but the one that ends the run."""

Action = OngoingAction | Exit
