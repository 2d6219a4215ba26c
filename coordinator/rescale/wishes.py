"""What a start and users want of the layout, and what is done about it: a rescale begins, is paused, gets another target, or is refused."""

from __future__ import annotations

from typing import assert_never

import structlog

from base.slots import drop_empty
from coordinator.core import Core
from coordinator.rescale.actions import Aim, Wish
from coordinator.rescale.hosts import why_no_disk_space_for
from coordinator.rescale.phases import Idle, UnderWay, Wanted
from coordinator.rescale.replacing import without_host
from coordinator.rescale.requests import (
    LayoutIsAsAsked,
    LayoutRequest,
    PauseRequest,
    ReplaceRequest,
    RescaleRefused,
    RescaleRequest,
    TurnRequest,
)
from coordinator.rescale.shared import RescaleParts
from coordinator.starting.layouts import has_same_target, layout_of, layout_to, layout_with, target_of, workers_to_have
from engine.model.layout import Layout
from engine.resident.crew import Crew
from io_kafka.step_log.layout_records import HostsPart, LayoutIntent, LayoutTurn, MoveStrategy, TurnReason

_log = structlog.get_logger("coordinator.rescale")

COLD, LIVE = MoveStrategy("cold"), MoveStrategy("live")

TAKEN_BACK = "the change was taken back before it began; nothing has moved."
"""What the status says of it."""


class Wishes:
    """The wishes for a layout in one run. `wish`: what is wanted and not in the log yet; it outlives a recovery. `is_asked_by_start`: whether
    the start of the run wants it."""

    def __init__(self, parts: RescaleParts) -> None:
        self._parts = parts
        self.wish: Wish | None = None
        self.is_asked_by_start = False
        self._shrinking: Wish | None = None  # the one that `shrink` has made

    def start(self, core: Core) -> None:
        """At the start of the run, the number of workers is made what the command or the settings say."""
        wanted, log = self._parts.spec.wanted, self._parts.log
        workers = workers_to_have(wanted, log)
        if workers is None and core.goal.ends_with_rescale and not self._is_as_asked():
            workers = wanted.now
        if workers is not None and log.rescale is None:
            layout = layout_of(self._parts.layout)
            target = layout.with_policy(self._parts.spec.policy_now or layout.policy).with_workers(workers)
            self.wish, self.is_asked_by_start = Wish(Aim(target_of(target), COLD), wanted.setting), True
        elif workers is not None:
            self._turn(core, self._plan_again(core, workers), "replan", wanted.setting)
        elif log.rescale is None and self._parts.layout.asked != wanted.setting and wanted.setting is not None:
            again = {"epoch": self._parts.writer.epoch, "number": self._parts.layout.number + 1, "outcome": "asked"}
            self._parts.writer.append([self._parts.layout.model_copy(update={**again, "asked": wanted.setting})])

    def _is_as_asked(self) -> bool:
        """Whether the layout, or that to which the rescale under way leads, is what the command of a run for the layout alone asks for, if
        its number of workers is. After `abort` the slots may be shared unevenly."""
        policy, number = self._parts.spec.policy_now, self._parts.spec.wanted.now
        if self._parts.log.target is not None:
            return policy in (None, layout_to(self._parts.log.target, 0).policy)
        layout = layout_of(self._parts.layout)
        return number is None or has_same_target(
            self._parts.layout, layout.with_policy(policy or layout.policy).with_workers(number)
        )

    def _plan_again(self, core: Core, workers: int) -> Layout:
        """Returns the layout that a plan from the present owners to so many workers gives."""
        assert self._parts.log.target is not None
        policy = self._parts.spec.policy_now or layout_to(self._parts.log.target, 0).policy
        now = layout_with(drop_empty(core.rescale.owned), self._parts.layout.number, policy)
        return now.with_workers(workers)

    def shrink(self, core: Core, companions: frozenset[int]) -> None:
        """Some workers are companions of others, because there were too few task slots (coordinator/starting/shrinking.py). They leave, and
        whatever was to be done with them is not done."""
        staying = tuple(number for number in sorted(core.rescale.owned) if number not in companions)
        target = self._parts.log.target
        if target is not None and not set(target.members) <= set(staying):
            assert self._parts.log.rescale is not None
            policy = layout_to(target, 0).policy
            now = layout_with(drop_empty(core.rescale.owned), self._parts.layout.number, policy)
            self._turn(core, now.with_members(staying), "replan", self._parts.log.rescale.asked)
        elif target is None and (self.wish is None or not set(self.wish.aim.target.members) <= set(staying)):
            target_now = target_of(layout_of(self._parts.layout).with_members(staying))
            self.wish = self._shrinking = Wish(Aim(target_now, COLD), self._parts.layout.asked)
            self.is_asked_by_start = False
        self._parts.board.update(
            layout_fault=f"Spark had fewer task slots than workers, so the run goes on with {len(staying)} workers."
        )

    def shrink_no_more(self) -> None:
        """There are enough task slots again, and the log does not have the rescale to fewer workers."""
        if self.wish is not None and self.wish is self._shrinking:
            self.wish = None

    def go_on(self, core: Core) -> None:
        """After each recovery: the wish is told to the new core."""
        if self.wish is not None and self._parts.log.rescale is None:
            core.rescale.tell(Idle.requested, self.wish)

    def ask(self, request: LayoutRequest, core: Core, crew: Crew) -> None:
        """Raises RescaleRefused."""
        match request:
            case RescaleRequest():
                self._ask_rescale(request, core, crew)
            case ReplaceRequest(host, to):
                self._refuse_while_under_way(core)
                layout = layout_of(self._parts.layout)
                target = target_of(without_host(layout, host, to, crew.members, self._parts.spec.state_location))
                hosts = HostsPart(avoided=host, wanted=to)
                self._want(Wish(Aim(target, LIVE), self._parts.layout.asked, hosts), core, crew)
            case PauseRequest(is_paused):
                self._under_way()
                core.rescale.tell(UnderWay.paused, is_paused)
                if is_paused:
                    self._parts.copying.end()
                self._parts.view.progress.note_pause(is_paused, self._parts.monotonic())
            case TurnRequest() if isinstance(core.rescale.phase, Wanted):
                self._take_back(core, crew)
            case TurnRequest(reason):
                intent = self._under_way()
                before = layout_of(self._parts.layout)
                present = layout_with(drop_empty(core.rescale.owned), before.number, before.policy)
                self._turn(core, before if reason == "reverse" else present, reason, intent.asked)
            case _:
                assert_never(request)

    def _ask_rescale(self, request: RescaleRequest, core: Core, crew: Crew) -> None:
        layout = layout_of(self._parts.layout)
        target = layout.with_policy(request.policy or layout.policy).with_workers(request.workers)
        self._refuse(request, target, core)
        self._want(Wish(Aim(target_of(target), request.strategy), self._parts.layout.asked), core, crew)

    def _want(self, wish: Wish, core: Core, crew: Crew) -> None:
        """Raises RescaleRefused if a disk has no room for it."""
        full = why_no_disk_space_for(wish, core.rescale.owned, crew, self._parts.spec.state_location)
        if full is not None:
            raise RescaleRefused(full.message, full.what_to_do)
        self.wish, self.is_asked_by_start = wish, False
        core.rescale.tell(Idle.requested, wish)
        self._parts.view.note_request()
        self._parts.board.update(layout_fault=None)

    def _refuse(self, request: RescaleRequest, target: Layout, core: Core) -> None:
        """Raises RescaleRefused if the rescale cannot begin now."""
        self._refuse_while_under_way(core)
        if has_same_target(self._parts.layout, target):
            raise LayoutIsAsAsked.of(request.workers)
        slots = self._parts.launcher.slots
        if slots is not None and request.workers > slots:
            raise RescaleRefused(
                f"Spark has {slots} task slots, and {request.workers} workers need one each; nothing was changed.",
                "Ask for fewer workers, or give Spark more task slots.",
            )
        strategy = request.strategy
        if strategy.protocol == "batches":
            return
        if strategy.mode != "live":
            raise RescaleRefused(
                f"a {strategy.mode} change does not go by a protocol such as {strategy.protocol}; nothing was changed.",
                "Ask for a live change, or leave the protocol out.",
            )
        if strategy.protocol not in self._parts.planners:
            raise RescaleRefused(
                f"this run has no protocol {strategy.protocol}; nothing was changed.",
                "Leave the protocol out, or run the pipeline with `stepwell run`.",
            )

    def _refuse_while_under_way(self, core: Core) -> None:
        if not core.rescale.is_idle:
            raise RescaleRefused(
                f"a change of the layout to {self._heading_for(core)} workers is under way; nothing was changed.",
                "Wait until it is settled (`stepwell layout show`), or end it: `stepwell layout abort`, `stepwell layout reverse`.",
            )

    def _heading_for(self, core: Core) -> int:
        """The number of workers to which the rescale that is wanted or under way leads."""
        aim = core.rescale.aim
        return len(self._parts.layout.placed.members if aim is None else aim.target.members)

    def _under_way(self) -> LayoutIntent:
        if self._parts.log.rescale is None:
            raise RescaleRefused(
                "no change of the layout is under way; nothing was changed.",
                "Begin one with `stepwell layout change --workers N`.",
            )
        return self._parts.log.rescale

    def _turn(self, core: Core, layout: Layout, reason: TurnReason, asked: int | None) -> None:
        intent = self._under_way()
        target = target_of(layout)
        self._parts.writer.append(
            [
                LayoutTurn(
                    epoch=self._parts.writer.epoch, change=intent.change, target=target, reason=reason, asked=asked
                )
            ]
        )
        self._parts.recruiting.forget()
        self._parts.view.progress.left_bytes = None
        self._parts.copying.end()
        core.rescale.tell(UnderWay.turned, target)
        _log.info("the rescale has another target", reason=reason, workers=list(target.members))

    def _take_back(self, core: Core, crew: Crew) -> None:
        """Ends a rescale that waits for tasks for its new workers. Nothing has moved, so it makes no difference which end was asked for."""
        _log.info("the rescale was taken back before it began")
        self.drop(core, crew, TAKEN_BACK)

    def drop(self, core: Core, crew: Crew, why: str) -> None:
        """The rescale does not begin, and users are told why."""
        core.rescale.tell(Wanted.refused)
        self.wish = None
        self._parts.recruiting.stop(crew, why)
