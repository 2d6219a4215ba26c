"""What the parts of the shell of a rescale share during one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.rescale.cut_budget import CutBudget
from coordinator.rescale.machine import Rescale
from coordinator.rescale.planner import Planners
from coordinator.rescale.recruiting import RescaleRecruits
from coordinator.rescale.rescale_shown import RescaleView
from coordinator.rescale.slot_copies import SlotCopies
from coordinator.specification import PipelineSpec
from coordinator.status import StatusBoard
from engine.resident.launcher import Launcher
from io_kafka.clients.writer import PipelineWriter


@dataclass(frozen=True, kw_only=True)
class RescaleParts:
    """`machine`: what happens in the background is reported to it. `launcher` knows how many task slots Spark has. `planners`: the protocols
    that this run has."""

    machine: Rescale
    spec: PipelineSpec
    launcher: Launcher
    planners: Planners
    writer: PipelineWriter
    board: StatusBoard
    budget: CutBudget
    view: RescaleView
    recruiting: RescaleRecruits
    copies: SlotCopies

    @property
    def monotonic(self) -> Callable[[], float]:
        return self.spec.kafka.outside.monotonic
