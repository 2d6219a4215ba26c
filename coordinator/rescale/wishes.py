"""What a start and users want of the layout, and what is done about it: a rescale begins, is paused, gets another target, or is refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from base.logger import Logger
from base.slots import drop_empty
from coordinator.goal import Goal
from coordinator.rescale.actions import Aim, Wish
from coordinator.rescale.hosts import why_no_disk_space_for
from coordinator.rescale.parts import RescaleParts
from coordinator.rescale.phases import WantedRescale
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
from coordinator.starting.layouts import has_same_target, layout_of, layout_to, layout_with, target_of, workers_to_have
from engine.model.layout import Layout
from engine.resident.crew import Crew
from io_kafka.step_log.layout_records import (
    HostsPart,
    LayoutIntent,
    LayoutRecord,
    LayoutTurn,
    MoveStrategy,
    TurnReason,
)
from io_kafka.step_log.state import StepLogState

_log = Logger("coordinator.rescale")

COLD, LIVE = MoveStrategy("cold"), MoveStrategy("live")

CHANGE_TAKEN_BACK = "the change was taken back before it began; nothing has moved."
"""What the status says of it."""


class WishSource(Enum):
    """Who wants a rescale. `START`: the command or the settings with which the run was started. `SHRINKING`: a start that has found too few task
    slots."""

    START = "start"
    USER = "user"
    SHRINKING = "shrinking"


@dataclass(frozen=True)
class _Pending:
    """A wish that is not in the log yet, and whose it is."""

    wish: Wish
    source: WishSource


class Wishes:
    """The owner of the one rescale that is wanted in a run and is not in the log yet, from whomever it comes. The wish outlives a recovery,
    after which the machine is told of it again. It also records the turns of a rescale that is in the log."""

    def __init__(self, parts: RescaleParts) -> None:
        self._machine, self._spec, self._writer, self._board = parts.machine, parts.spec, parts.writer, parts.board
        self._launcher, self._planners, self._recruiting = parts.launcher, parts.planners, parts.recruiting
        self._view, self._copies, self._monotonic = parts.view, parts.copies, parts.monotonic
        self._pending: _Pending | None = None

    @property
    def _log_state(self) -> StepLogState:
        return self._writer.state

    @property
    def _layout(self) -> LayoutRecord:
        """The last one that is settled."""
        return self._log_state.current_layout

    @property
    def wish(self) -> Wish | None:
        """What is wanted and not in the log yet."""
        return None if self._pending is None else self._pending.wish

    @property
    def is_asked_by_start(self) -> bool:
        """Whether the start of the run wants it."""
        return self._pending is not None and self._pending.source is WishSource.START

    def want_configured_workers(self, goal: Goal) -> None:
        """At the start of the run, the number of workers is made what the command or the settings say."""
        wanted, log = self._spec.wanted, self._log_state
        workers = workers_to_have(wanted, log)
        if workers is None and goal.ends_with_rescale and not self._is_as_asked():
            workers = wanted.now
        if workers is not None and log.rescale is None:
            layout = layout_of(self._layout)
            target = layout.with_policy(self._spec.policy_now or layout.policy).with_workers(workers)
            self._pending = _Pending(Wish(Aim(target_of(target), COLD), wanted.setting), WishSource.START)
        elif workers is not None:
            self._record_turn(self._plan_again(workers), "replan", wanted.setting)
        elif log.rescale is None and self._layout.asked != wanted.setting and wanted.setting is not None:
            again = {"epoch": self._writer.epoch, "number": self._layout.number + 1, "outcome": "asked"}
            self._writer.log.append([self._layout.model_copy(update={**again, "asked": wanted.setting})])

    def recorded(self) -> None:
        """The intent of what was wanted is in the log."""
        self._pending = None

    def _is_as_asked(self) -> bool:
        """Whether the layout, or the target of the rescale under way, is what the command asks for. The number of workers of that target is
        compared elsewhere (`workers_to_have`). After `abort` the slots may be shared unevenly."""
        policy, number = self._spec.policy_now, self._spec.wanted.now
        if self._log_state.target is not None:
            return policy in (None, layout_to(self._log_state.target, 0).policy)
        layout = layout_of(self._layout)
        return number is None or has_same_target(
            self._layout, layout.with_policy(policy or layout.policy).with_workers(number)
        )

    def _plan_again(self, workers: int) -> Layout:
        """Returns the layout that a plan from the present owners to so many workers gives."""
        assert self._log_state.target is not None
        policy = self._spec.policy_now or layout_to(self._log_state.target, 0).policy
        now = layout_with(drop_empty(self._machine.owned), self._layout.number, policy)
        return now.with_workers(workers)

    def shrink(self, companions: frozenset[int]) -> None:
        """Some workers are companions of others, because there were too few task slots (coordinator/starting/workers/shrinking.py). They
        leave, and whatever was to be done with them is not done."""
        staying = tuple(number for number in sorted(self._machine.owned) if number not in companions)
        target = self._log_state.target
        if target is not None and not set(target.members) <= set(staying):
            assert self._log_state.rescale is not None
            policy = layout_to(target, 0).policy
            now = layout_with(drop_empty(self._machine.owned), self._layout.number, policy)
            self._record_turn(now.with_members(staying), "replan", self._log_state.rescale.asked)
        elif target is None and (self.wish is None or not set(self.wish.aim.target.members) <= set(staying)):
            target_now = target_of(layout_of(self._layout).with_members(staying))
            wish = Wish(Aim(target_now, COLD), self._layout.asked)
            self._pending = _Pending(wish, WishSource.SHRINKING)
        self._board.update(
            layout_fault=f"Spark had fewer task slots than workers, so the run goes on with {len(staying)} workers."
        )

    def cancel_shrink(self) -> None:
        """There are enough task slots again, and the log does not have the rescale to fewer workers."""
        if self._pending is not None and self._pending.source is WishSource.SHRINKING:
            self._pending = None

    def resubmit(self) -> None:
        """After each recovery: the machine is told of the wish."""
        if self._pending is not None and self._log_state.rescale is None:
            self._machine.requested(self._pending.wish)

    def ask(self, request: LayoutRequest, crew: Crew) -> None:
        """Raises RescaleRefused."""
        match request:
            case RescaleRequest():
                self._ask_rescale(request, crew)
            case ReplaceRequest(host, to):
                self._refuse_while_under_way()
                layout = layout_of(self._layout)
                target = without_host(layout, host, to, crew.members, self._spec.state_location)
                hosts = HostsPart(avoided=host, wanted=to)
                self._want(Wish(Aim(target_of(target), LIVE), self._layout.asked, hosts), crew)
            case PauseRequest(is_paused):
                self._intent_under_way()
                self._machine.paused(is_paused)
                if is_paused:
                    self._copies.end()
                self._view.progress.note_pause(is_paused, self._monotonic())
            case TurnRequest() if isinstance(self._machine.phase, WantedRescale):
                self._take_back(crew)
            case TurnRequest(reason):
                intent = self._intent_under_way()
                before = layout_of(self._layout)
                present = layout_with(drop_empty(self._machine.owned), before.number, before.policy)
                self._record_turn(before if reason == "reverse" else present, reason, intent.asked)
            case _:
                assert_never(request)

    def _ask_rescale(self, request: RescaleRequest, crew: Crew) -> None:
        layout = layout_of(self._layout)
        target = layout.with_policy(request.policy or layout.policy).with_workers(request.workers)
        self._check_can_begin(request, target)
        self._want(Wish(Aim(target_of(target), request.strategy), self._layout.asked), crew)

    def _want(self, wish: Wish, crew: Crew) -> None:
        """Raises RescaleRefused if a disk has no room for it."""
        full = why_no_disk_space_for(wish, self._machine.owned, crew, self._spec.state_location)
        if full is not None:
            raise RescaleRefused(full.message, full.what_to_do)
        self._pending = _Pending(wish, WishSource.USER)
        self._machine.requested(wish)
        self._view.note_request()
        self._board.update(layout_fault=None)

    def _check_can_begin(self, request: RescaleRequest, target: Layout) -> None:
        """Raises RescaleRefused if the rescale cannot begin now."""
        self._refuse_while_under_way()
        if has_same_target(self._layout, target):
            raise LayoutIsAsAsked.of(request.workers)
        slots = self._launcher.slots
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
        if strategy.protocol not in self._planners:
            raise RescaleRefused(
                f"this run has no protocol {strategy.protocol}; nothing was changed.",
                "Leave the protocol out, or run the pipeline with `stepwell run`.",
            )

    def _refuse_while_under_way(self) -> None:
        if not self._machine.is_idle:
            raise RescaleRefused(
                f"a change of the layout to {self._heading_for()} workers is under way; nothing was changed.",
                "Wait until it is settled (`stepwell layout show`), or end it: `stepwell layout abort`, `stepwell layout reverse`.",
            )

    def _heading_for(self) -> int:
        """The number of workers to which the rescale that is wanted or under way leads."""
        aim = self._machine.aim
        return len(self._layout.placed.members if aim is None else aim.target.members)

    def _intent_under_way(self) -> LayoutIntent:
        if self._log_state.rescale is None:
            raise RescaleRefused(
                "no change of the layout is under way; nothing was changed.",
                "Begin one with `stepwell layout change --workers N`.",
            )
        return self._log_state.rescale

    def _record_turn(self, layout: Layout, reason: TurnReason, asked: int | None) -> None:
        intent = self._intent_under_way()
        target = target_of(layout)
        self._writer.log.append(
            [LayoutTurn(epoch=self._writer.epoch, change=intent.change, target=target, reason=reason, asked=asked)]
        )
        self._recruiting.forget()
        self._view.progress.left_bytes = None
        self._copies.end()
        self._machine.turned(target)
        _log.info("the rescale has another target", reason=reason, workers=list(target.members))

    def _take_back(self, crew: Crew) -> None:
        """Ends a rescale that waits for tasks for its new workers. Nothing has moved, so it makes no difference which end was asked for."""
        _log.info("the rescale was taken back before it began")
        self.drop(crew, CHANGE_TAKEN_BACK)

    def drop(self, crew: Crew, why: str) -> None:
        """The rescale does not begin, and users are told why."""
        self._machine.refused()
        self._pending = None
        self._recruiting.stop(crew, why)
