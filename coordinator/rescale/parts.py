"""What the parts of the shell of a rescale share during one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.rescale.copying import Copying
from coordinator.rescale.cut_budget import CutBudget
from coordinator.rescale.machine import Rescale
from coordinator.rescale.planner import Planners
from coordinator.rescale.recruiting import RescaleRecruits
from coordinator.rescale.view import RescaleView
from coordinator.specification import PipelineSpec
from coordinator.status import StatusBoard
from engine.resident.launcher import Launcher
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.layout_records import LayoutRecord
from io_kafka.step_log.state import StepLogState


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
    copying: Copying

    @property
    def log(self) -> StepLogState:
        return self.writer.state

    @property
    def layout(self) -> LayoutRecord:
        """The last one that is settled."""
        return self.log.current_layout

    @property
    def monotonic(self) -> Callable[[], float]:
        return self.spec.kafka.outside.monotonic
