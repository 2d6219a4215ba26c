"""The identity of a checkpoint, which the step log, the databases and the coordinator share.

A version is named by three fields together. Two checkpoints can get the same number around a crash, so no part of the project compares
versions by `version` alone. The order of versions is that of their numbers; the other fields only make it total.

The written form is the same in the step log and in a database's description: a JSON object with these three fields, in this order.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class VersionId:
    """The name of a complete checkpoint. `version` is the checkpoint's number, and `step` is the first step that it does not hold; neither is
    negative. `checkpoint_id` is unique for each attempt at a checkpoint.

    Raises ValueError if a number is negative."""

    version: int
    step: int
    checkpoint_id: str

    def __post_init__(self) -> None:
        if self.version < 0 or self.step < 0:
            raise ValueError(f"version {self.version} at step {self.step}: neither number can be negative")


EMPTY = VersionId(0, 0, "empty")
"""The version of a database that was just created: it holds no step."""
