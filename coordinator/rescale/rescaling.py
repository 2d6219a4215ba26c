"""The shell of a rescale: it carries out what the machine says, and reports afterwards what has happened.

phases.py        decides when each part is due
wishes.py        a start and users: a rescale begins, is paused, or gets another target
beside_steps.py  tasks for new workers, weights, copies
this module      while the workers have no step: records, new workers, cuts, and the removal of workers that have left
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from base.logger import Logger
from base.slots import NO_SLOTS
from coordinator.core import Core
from coordinator.loop_part import LoopPart, Recovered
from coordinator.measures import SettledStep
from coordinator.rescale.actions import AddWorkers, Cut, LogRescale, RemoveWorkers, RescaleAction, Wish
from coordinator.rescale.beside_steps import RescaleBesideSteps
from coordinator.rescale.cut_budget import WHOLE_CUT_BYTES, CutBudget, CutMeasured
from coordinator.rescale.hosts import tasks_for
from coordinator.rescale.machine import Rescale
from coordinator.rescale.parts import RescaleParts
from coordinator.rescale.phases import Idle, MovingPortions
from coordinator.rescale.planner import Planners
from coordinator.rescale.recruiting import RescaleRecruits
from coordinator.rescale.requests import LayoutRequest
from coordinator.rescale.rescale_shown import RescaleView
from coordinator.rescale.slot_copies import SlotCopies
from coordinator.rescale.slot_moves import Portion
from coordinator.rescale.wishes import Wishes
from coordinator.specification import PipelineSpec
from coordinator.starting.workers.database_names import birth_of
from coordinator.starting.workers.found_databases import ExpectedDatabases
from coordinator.status import StatusBoard
from engine.resident.crew import Crew
from engine.resident.launcher import Launcher
from engine.resident.messages import NewDatabase
from faults.points import reached
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.layout_records import LayoutIntent
from io_kafka.step_log.state import StepLogState
from storage.transaction import CutNumber

_log = Logger("coordinator.rescale")


class Rescaling(LoopPart):
    """The owner of what the rescales of one run are made of: the machine, which the core asks; the wishes of users and of the start; and what
    is done in the background. All of it outlives a recovery. `births`: of the workers."""

    def __init__(
        self, spec: PipelineSpec, launcher: Launcher, planners: Planners, writer: PipelineWriter, board: StatusBoard
    ) -> None:
        self.machine = Rescale(Idle({}))
        """Nobody owns anything before the first recovery."""
        self.births: dict[int, str] = {}
        self._expected: ExpectedDatabases | None = None
        self._has_started = False
        self._cuts_in_term = 0
        self._writer, self._monotonic = writer, spec.kafka.outside.monotonic
        self._budget, self._copies = CutBudget(), SlotCopies()
        self._view = RescaleView(
            self.machine, writer, board, self._budget, births=self.births, monotonic=self._monotonic
        )
        parts = RescaleParts(
            machine=self.machine,
            spec=spec,
            launcher=launcher,
            planners=planners,
            writer=writer,
            board=board,
            budget=self._budget,
            view=self._view,
            recruiting=RescaleRecruits(spec.register_s, board, self._monotonic),
            copies=self._copies,
        )
        self._wishes = Wishes(parts)
        self._beside_steps = RescaleBesideSteps(parts, self._wishes)

    @property
    def _log_state(self) -> StepLogState:
        return self._writer.state

    def recovered(self, recovered: Recovered) -> None:
        """A rescale that is under way goes on. At the start of the run, one may be wanted."""
        found = recovered.found
        self.machine.recovered(recovered.owned, self._log_state)
        self._expected, self._cuts_in_term = found.expected, 0
        self.births.clear()
        self.births.update(found.bound.births)
        self._beside_steps.reset()
        if not self._has_started:
            self._has_started = True
            self._wishes.want_configured_workers(recovered.goal)
        if found.companions:
            self._wishes.shrink(found.companions)
        else:
            self._wishes.cancel_shrink()
        self._wishes.resubmit()
        self._view.reset()
        self._view.show()

    def ask(self, request: LayoutRequest, crew: Crew) -> None:
        """Raises RescaleRefused."""
        self._wishes.ask(request, crew)
        self._view.show()

    def look(self, core: Core, crew: Crew) -> None:
        """Raises TaskLost, NoSlots."""
        self._view.look(core)
        self._beside_steps.look(core, crew)

    def note_step(self, step: SettledStep) -> None:
        """Feeds step times into the cut budget."""
        self._budget.note_step(step.took_ms, step.write_ms)
        if self._log_state.rescale is not None:
            self._view.progress.note_step(step.took_ms)

    @property
    def awaits_answers(self) -> bool:
        return not self.machine.is_idle

    def do(self, action: RescaleAction, core: Core, crew: Crew) -> None:
        """Carries out the action, then reports it to the core."""
        self._view.note_action()
        match action:
            case LogRescale(wish):
                self._log_rescale(wish)
                core.rescale_intended(self._log_state)
            case AddWorkers(new, step):
                self._add_workers(new, step, core, crew)
            case Cut():
                self._cut(action, core, crew)
            case RemoveWorkers(leaving):
                self._remove_workers(leaving, core, crew)
            case _:
                assert_never(action)
        self._view.show()

    def _log_rescale(self, wish: Wish) -> None:
        target, strategy = wish.aim.target, wish.aim.strategy
        intent = LayoutIntent(
            epoch=self._writer.epoch,
            change=self._log_state.current_layout.number + 1,
            mode=strategy.mode,
            target=target,
            asked=wish.asked,
            budget_bytes=strategy.budget_bytes,
            budget_ms=strategy.budget_ms,
            protocol=strategy.protocol,
            hosts=wish.hosts,
        )
        self._writer.log.append([intent])
        self._wishes.recorded()
        _log.info("a rescale begins", mode=strategy.mode, workers=list(target.members))
        reached("layout.intended")

    def _add_workers(self, new: Sequence[int], step: int, core: Core, crew: Crew) -> None:
        assert self._log_state.rescale is not None and self._expected is not None and crew.placement is not None
        births = dict.fromkeys(new, birth_of(self._log_state.rescale.change, crew.term))
        databases = {number: self._expected.database(number, birth) for number, birth in births.items()}
        crew.admit(tasks_for(new, crew, self._log_state.rescale_hosts), databases, NewDatabase(NO_SLOTS, core.version))
        reached("workers.created")
        crew.enter(new, step)
        crew.join(crew.placement.with_members([*crew.placement.workers, *new]))
        self.births.update(births)
        reached("workers.joined")
        core.workers_added(crew.placement.owned)

    def _cut(self, cut: Cut, core: Core, crew: Crew) -> None:
        assert self._log_state.rescale is not None
        began = self._monotonic()
        self._cuts_in_term += 1
        number = CutNumber(crew.term.number, self._cuts_in_term)
        bytes_max = WHOLE_CUT_BYTES if cut.is_whole else self._budget.bytes_max(self._log_state.rescale.strategy)
        slots, moved = crew.slots.cut(number, cut.slots, cut.source, cut.destination, bytes_max=bytes_max)
        reached("cut.done")
        took_ms = 1e3 * (self._monotonic() - began)
        assert crew.placement is not None
        portion = Portion(cut.slots, cut.source, cut.destination)
        copied_bytes: int | None = None
        if isinstance(self.machine.phase, MovingPortions) and portion in self.machine.phase.copied_portions:
            copied_bytes = self._copies.moved(portion)
        measured = CutMeasured(
            slots=len(slots),
            moved_bytes=moved,
            took_ms=took_ms,
            copied_bytes=copied_bytes,
            version=core.version.version,
        )
        core.cut(crew.placement.owned, self._budget.note_cut(measured))
        self._view.progress.note_cut(measured, self._monotonic())

    def _remove_workers(self, leaving: Sequence[int], core: Core, crew: Crew) -> None:
        assert crew.placement is not None
        crew.join(crew.placement.with_members(set(crew.placement.workers) - set(leaving)))
        crew.leave(leaving)
        for number in leaving:
            del self.births[number]
        core.workers_removed(crew.placement.owned)
