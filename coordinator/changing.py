"""Carries out a change of the layout: requests, tasks for new workers, records, cuts, and the removal of workers that have left.

change.py decides when each part is due. This module carries it out first and reports it to the core afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

import structlog

from base.slots import NO_SLOTS, owning
from coordinator.binding import Rules, birth_of
from coordinator.change import Bury, ChangeAction, Cut, LogChange, Staff, Wanted
from coordinator.change_view import ChangeView, leaving
from coordinator.copying import Copying
from coordinator.core import Core
from coordinator.cut_budget import HOT_CUT_BYTES, CutBudget
from coordinator.hosts import tasks_for, why_no_room_for
from coordinator.layout_requests import ChangeRefused, ChangeRequest, HoldRequest, LayoutRequest, TurnRequest
from coordinator.layouts import is_as, layout_of, layout_to, layout_with, target_of, workers_to_have
from coordinator.specification import PipelineSpec
from coordinator.status import StatusBoard
from engine.model.layout import Layout
from engine.resident.crew import Crew
from engine.resident.launcher import Launcher
from engine.resident.messages import NewDatabase
from engine.resident.start_faults import NoSlots
from faults.points import reached
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.layout_records import LayoutIntent, LayoutRecord, LayoutTurn, Target, TurnReason
from io_kafka.step_log.state import StepLogState
from storage.transaction import CutNumber

_log = structlog.get_logger("coordinator.changing")

MOVED_BYTES_MAX = 128 << 20
"""Between two checkpoints of a live change. Each moved byte is folded at its destination and kept in the undo log of its source."""


TAKEN_BACK = "the change was taken back before it began; nothing has moved."
"""What the status says of it."""


class Changing:
    """The changes of one run. `births`: of the workers. `launcher` knows how many task slots Spark has."""

    def __init__(self, spec: PipelineSpec, launcher: Launcher, writer: PipelineWriter, board: StatusBoard) -> None:
        self._spec, self._launcher, self._writer, self._board = spec, launcher, writer, board
        self._monotonic = spec.kafka.outside.monotonic
        self.births: dict[int, str] = {}
        self._rules: Rules | None = None
        self._wanted: Wanted | None = None  # it outlives a recovery
        self._has_started = False
        self._is_asked_by_start = False  # whether the change that is wanted is
        self._recruit_until: float | None = None
        self._weighing: tuple[int, Target] | None = None  # the change, and where it leads, for which the sources count
        self._copying = Copying()
        self._batch = 0
        self._budget = CutBudget()
        self._cuts_ms = 0.0  # what the cuts since the last step have taken
        self._moved_since: tuple[int, int] = (-1, 0)  # (version, bytes moved since it)
        self._view = ChangeView(writer, board, self._budget, self._monotonic)

    @property
    def _state(self) -> StepLogState:
        return self._writer.state

    @property
    def _layout(self) -> LayoutRecord:
        return self._state.settled_layout

    # The start, and requests

    def begin(self, core: Core, births: Mapping[int, str], rules: Rules) -> None:
        """After each recovery: a change that is under way goes on. At the start of the run, the number of workers is made what the command or
        the settings say."""
        self.births, self._rules = dict(births), rules
        self._recruit_until, self._weighing, self._batch = None, None, 0
        self._copying = Copying()
        if not self._has_started:
            self._start(core)
        if self._wanted is not None and self._state.change is None:
            core.change.request(self._wanted, self._state)
        self._view.recovered(core)
        self._view.show(core, self.births)

    def _start(self, core: Core) -> None:
        self._has_started = True
        wanted, state = self._spec.wanted, self._state
        workers = workers_to_have(wanted, state)
        if workers is None and core.only_layout and not self._is_as_asked():
            workers = wanted.now
        if workers is not None and state.change is None:
            layout = layout_of(self._layout)
            target = layout.with_policy(self._spec.policy_now or layout.policy).with_workers(workers)
            self._wanted, self._is_asked_by_start = Wanted("cold", target_of(target), wanted.setting), True
        elif workers is not None:
            self._turn(core, self._replanned(core, workers), "replan", wanted.setting)
        elif state.change is None and self._layout.asked != wanted.setting and wanted.setting is not None:
            again = {"epoch": self._writer.epoch, "number": self._layout.number + 1, "outcome": "asked"}
            self._writer.append([self._layout.model_copy(update={**again, "asked": wanted.setting})])

    def _is_as_asked(self) -> bool:
        """Whether the layout, or that to which the change under way leads, is what the command of a run for the layout alone asks for, if its
        number of workers is. After `abort` the slots may be shared unevenly."""
        policy, number = self._spec.policy_now, self._spec.wanted.now
        if self._state.target is not None:
            return policy in (None, layout_to(self._state.target, 0).policy)
        layout = layout_of(self._layout)
        return number is None or is_as(self._layout, layout.with_policy(policy or layout.policy).with_workers(number))

    def _replanned(self, core: Core, workers: int) -> Layout:
        """From the present owners to so many workers."""
        assert self._state.target is not None
        policy = self._spec.policy_now or layout_to(self._state.target, 0).policy
        now = layout_with(owning(core.change.owned), self._layout.number, policy)
        return now.with_workers(workers)

    def request(self, request: LayoutRequest, core: Core, crew: Crew) -> None:
        """Raises ChangeRefused."""
        match request:
            case ChangeRequest():
                self._request_change(request, core, crew)
            case HoldRequest(is_held):
                self._change_under_way()
                core.change.is_held = is_held
                self._view.progress.held(is_held, self._monotonic())
            case TurnRequest() if self._state.change is None and core.change.wanted is not None:
                self._take_back(core, crew)
            case TurnRequest(reason):
                change = self._change_under_way()
                before = layout_of(self._layout)
                present = layout_with(owning(core.change.owned), before.number, before.policy)
                self._turn(core, before if reason == "reverse" else present, reason, change.asked)
            case _:
                assert_never(request)
        self._view.show(core, self.births)

    def _request_change(self, request: ChangeRequest, core: Core, crew: Crew) -> None:
        if not core.change.is_idle(self._state):
            raise ChangeRefused(
                f"a change of the layout to {self._heading_for(core)} workers is under way; nothing was changed.",
                "Wait until it is settled (`stepwell layout show`), or end it: `stepwell layout abort`, `stepwell layout reverse`.",
            )
        layout = layout_of(self._layout)
        target = layout.with_policy(request.policy or layout.policy).with_workers(request.workers)
        if is_as(self._layout, target):
            raise ChangeRefused(
                f"the layout has {request.workers} workers already; nothing was changed.",
                "`stepwell layout show` shows them.",
            )
        slots = self._launcher.slots
        if slots is not None and request.workers > slots:
            raise ChangeRefused(
                f"Spark has {slots} task slots, and {request.workers} workers need one each; nothing was changed.",
                "Ask for fewer workers, or give Spark more task slots.",
            )
        if request.protocol != "batches" and request.mode != "live":
            raise ChangeRefused(
                f"a {request.mode} change does not go by a protocol such as {request.protocol}; nothing was changed.",
                "Ask for a live change, or leave the protocol out.",
            )
        if (full := why_no_room_for(target_of(target), core.change.owned, crew, self._spec.place)) is not None:
            raise ChangeRefused(full.message, full.what_to_do)
        self._wanted = Wanted(
            request.mode,
            target_of(target),
            self._layout.asked,
            request.budget_bytes,
            request.budget_ms,
            request.protocol,
        )
        self._is_asked_by_start = False
        core.change.request(self._wanted, self._state)
        self._view.requested()
        self._board.update(layout_fault=None)

    def _heading_for(self, core: Core) -> int:
        """The number of workers to which the change that is wanted or under way leads."""
        target = core.change.target(self._state)
        return len(self._layout.placed.members if target is None else target.members)

    def _change_under_way(self) -> LayoutIntent:
        if self._state.change is None:
            raise ChangeRefused(
                "no change of the layout is under way; nothing was changed.",
                "Begin one with `stepwell layout change --workers N`.",
            )
        return self._state.change

    def _turn(self, core: Core, layout: Layout, reason: TurnReason, asked: int | None) -> None:
        change = self._change_under_way()
        target = target_of(layout)
        self._writer.append(
            [LayoutTurn(epoch=self._writer.epoch, change=change.change, target=target, reason=reason, asked=asked)]
        )
        self._recruit_until, self._view.progress.left_bytes = None, None
        self._copying.end()
        core.change.turned()
        _log.info("the change of the layout has another target", reason=reason, workers=list(target.members))

    # What goes on beside the steps

    def look(self, core: Core, crew: Crew) -> None:
        """Called by the loop between its actions. Raises TaskLost, NoSlots."""
        change, state = core.change, self._state
        self._view.look(core, self.births)
        if state.change is None:
            self._copying.end()
        is_free = self._copying.look(crew)
        change.is_copying = self._copying.has_begun
        if not is_free or change.is_idle(state):
            return
        if change.wanted is None and state.change is None:
            return  # workers are about to leave
        if (new := change.new(state)) and not change.is_recruited:
            self._recruit(core, crew, len(new))
        if state.change is None:
            if change.is_recruited:
                self._look_for_room(core, crew)
        elif not new and not change.is_moved(state):
            if not change.is_weighed:
                self._weigh(core, crew)
            elif state.change.mode == "live" and self._copying.is_done and not change.is_copied:
                self._copying.end()  # this portion has moved, and the sources may merge again
            elif not (change.is_copied or change.is_held or core.replaying(state)):
                self._copy(core, crew)
        change.is_crowded = self._is_crowded(core)
        if state.change is not None and state.change.protocol != "batches" and change.is_weighed:
            assert state.target is not None
            slots_left = sum(len(slots) for slots in leaving(change.owned, state.target.owned).values())
            change.slots_per_round = self._slots_per_round(state.change, slots_left)

    def _recruit(self, core: Core, crew: Crew, count: int) -> None:
        """Has tasks started for new workers, and notices when they are there."""
        if self._recruit_until is None:
            self._recruit_until = self._monotonic() + self._spec.register_s
            crew.recruiting.recruit(count)
        crew.check()
        if len(crew.recruiting.candidates) >= count:
            self._recruit_until = None
            core.change.recruited()
        elif self._monotonic() > self._recruit_until:
            self._no_recruits(core, crew, count)

    def _look_for_room(self, core: Core, crew: Crew) -> None:
        """Once more before the change begins, when it is known to which hosts the new workers come."""
        assert core.change.wanted is not None
        fault = why_no_room_for(core.change.wanted.target, core.change.owned, crew, self._spec.place)
        if fault is None:
            return
        if self._is_asked_by_start:
            raise fault
        self._drop_wish(core, crew, str(fault))

    def _take_back(self, core: Core, crew: Crew) -> None:
        """Ends a change that waits for tasks for its new workers. Nothing has moved, so it makes no difference which end was asked for."""
        _log.info("the change of the layout was taken back before it began")
        self._drop_wish(core, crew, TAKEN_BACK)

    def _drop_wish(self, core: Core, crew: Crew, why: str) -> None:
        core.change.refuse()
        self._wanted = None
        self._stop_recruiting(crew, why)

    def _stop_recruiting(self, crew: Crew, why: str) -> None:
        crew.recruiting.dismiss()
        self._recruit_until = None
        self._board.update(layout_fault=why)

    def _no_recruits(self, core: Core, crew: Crew, count: int) -> None:
        registered = len(crew.recruiting.candidates)
        slots, busy = self._launcher.slots_now(), len(crew.members)
        fault = NoSlots(count, registered, slots, self._spec.register_s, busy)
        is_under_way = self._state.change is not None
        if core.change.mode(self._state) == "cold" and (is_under_way or self._is_asked_by_start):
            crew.recruiting.dismiss()
            raise fault  # nothing goes on without them
        _log.warning("no tasks for the new workers", fault=str(fault), is_under_way=is_under_way)
        if is_under_way:
            self._stop_recruiting(crew, str(fault))
        else:
            self._drop_wish(core, crew, str(fault))

    def _weigh(self, core: Core, crew: Crew) -> None:
        """Has the sources count the bytes of the slots that they are to give away."""
        target = self._state.target
        assert target is not None and self._state.change is not None
        present = self._state.change.change, target
        if self._weighing is None:
            self._weighing = present
            bound = self._budget.bytes_max(self._state.change)
            crew.slots.begin_weighing(leaving(core.change.owned, target.owned), bound)
        weighed = crew.slots.weighed()
        if weighed is None:
            return
        left_bytes, heavy = weighed
        is_wanted, self._weighing = self._weighing == present, None
        if is_wanted:  # and the change was not turned meanwhile
            self._view.progress.weighed(left_bytes, self._monotonic())
            core.change.weighed(heavy)
            self._view.show(core, self.births)

    def _copy(self, core: Core, crew: Crew) -> None:
        """Has the sources copy the slots that are to be copied: of a hot change all, of a live one those that are over the budget."""
        ways = core.change.to_copy(self._state)
        if not ways:
            return
        copied_bytes = self._copying.goes_on(crew, ways)
        if copied_bytes:
            self._view.progress.copied(copied_bytes, self._monotonic())
            self._view.show(core, self.births)
        if self._copying.is_done:
            core.change.copied()

    def _is_crowded(self, core: Core) -> bool:
        """Whether a live change has moved so much since the last version that a checkpoint has to come first."""
        version, moved = self._moved_since
        if version != core.version.version or core.change.mode(self._state) != "live" or moved < MOVED_BYTES_MAX:
            return False
        core.request_checkpoint(forced=True)
        return True

    def _slots_per_round(self, change: LayoutIntent, slots_left: int) -> int:
        """As many as fit into the budget if all have the same size."""
        budget, left_bytes = self._budget.bytes_max(change), self._view.progress.left_bytes or 0
        return max(1, slots_left * budget // left_bytes) if left_bytes > budget else max(1, slots_left)

    def stepped(self, took_ms: float, write_ms: float) -> None:
        """A step has taken so long, and the write of its output alone. Cuts are measured by that."""
        self._budget.stepped(took_ms, write_ms)
        self._cuts_ms = 0.0
        if self._state.change is not None:
            self._view.progress.stepped(took_ms)

    # Actions

    def do(self, action: ChangeAction, core: Core, crew: Crew) -> None:
        """Carries out the action, then reports it to the core."""
        self._view.acts()
        match action:
            case LogChange(wanted):
                self._log_change(wanted)
                core.change_intended(self._state)
            case Staff(new, step):
                self._staff(new, step, core, crew)
            case Cut():
                self._cut(action, core, crew)
            case Bury(leaving):
                self._bury(leaving, core, crew)
            case _:
                assert_never(action)
        self._view.show(core, self.births)

    def _log_change(self, wanted: Wanted) -> None:
        intent = LayoutIntent(
            epoch=self._writer.epoch,
            change=self._layout.number + 1,
            mode=wanted.mode,
            target=wanted.target,
            asked=wanted.asked,
            budget_bytes=wanted.budget_bytes,
            budget_ms=wanted.budget_ms,
            protocol=wanted.protocol,
        )
        self._writer.append([intent])
        self._wanted = None
        _log.info("the layout changes", mode=wanted.mode, workers=list(wanted.target.members))
        reached("layout.intended")

    def _staff(self, new: Sequence[int], step: int, core: Core, crew: Crew) -> None:
        assert self._state.change is not None and self._rules is not None and crew.placement is not None
        born = dict.fromkeys(new, birth_of(self._state.change.change, crew.term))
        databases = {number: self._rules.database(number, birth) for number, birth in born.items()}
        crew.admit(tasks_for(new, crew), databases, NewDatabase(NO_SLOTS, core.version))
        reached("born")
        crew.enter(new, step)
        crew.join(crew.placement.with_members([*crew.placement.workers, *new]))
        self.births |= born
        reached("joined")
        core.staffed(crew.placement.owned)

    def _cut(self, cut: Cut, core: Core, crew: Crew) -> None:
        assert self._state.change is not None
        began = self._monotonic()
        self._batch += 1
        number = CutNumber(crew.term.number, self._batch)
        bytes_max = HOT_CUT_BYTES if cut.is_whole else self._budget.bytes_max(self._state.change)
        slots, moved = crew.slots.give(number, cut.slots, cut.source, cut.destination, bytes_max=bytes_max)
        reached("cut.done")
        took_ms = 1e3 * (self._monotonic() - began)
        assert crew.placement is not None
        self._cuts_ms += took_ms
        core.cut(crew.placement.owned, self._budget.steps_between(self._cuts_ms))
        self._budget.moved(moved, took_ms)
        version, before = self._moved_since
        since = before if version == core.version.version else 0
        self._moved_since = (core.version.version, since + moved)
        self._view.progress.moved(len(slots), moved, took_ms, self._monotonic())

    def _bury(self, leaving: Sequence[int], core: Core, crew: Crew) -> None:
        assert crew.placement is not None
        crew.join(crew.placement.with_members(set(crew.placement.workers) - set(leaving)))
        crew.leave(leaving)
        for number in leaving:
            del self.births[number]
        core.buried(crew.placement.owned)
