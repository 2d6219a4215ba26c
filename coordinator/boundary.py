"""When the core asks the machines of a rescale and of a transition what is due."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Boundary:
    """Between two steps. `step`: the next one. `is_replaying`: the log has its output already. `is_checkpointing`: a checkpoint is wanted or
    being made."""

    step: int
    is_replaying: bool
    is_checkpointing: bool
