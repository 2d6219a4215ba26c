"""Layouts in the step log: from records to the values that the engine has for them, and back; and what a start does about the number of
workers.

A start acts on a number of workers that the command names. On the number in the project's settings it acts only if that differs from the
one that was acted on last (`LayoutRecord.asked`). Otherwise a setting that nobody has touched would undo a rescale that was made by
command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import assert_never

from base.slots import SLOTS, SlotSet
from coordinator.starting.errors import WorkersUnknown
from engine.model.layout import DynamicShards, FixedShards, Layout, Policy
from io_kafka.step_log.layout_records import (
    DynamicPart,
    FixedPart,
    LayoutRecord,
    Outcome,
    Ownership,
    PolicyPart,
    Target,
    ranges_of,
)
from io_kafka.step_log.state import StepLogState
from storage.identity import FIRST_BIRTH


@dataclass(frozen=True)
class WorkersWanted:
    """How many workers are wanted. `now`: named by the command that starts the run. `setting`: in the project's settings. `default`: of
    a new state; None if there is no such default. `policy`: of a new state."""

    now: int | None
    setting: int | None
    default: int | None
    policy: Policy


def first_layout(wanted: WorkersWanted, epoch: int) -> LayoutRecord:
    """The layout of a new state. Raises WorkersUnknown."""
    workers = next((n for n in (wanted.now, wanted.setting, wanted.default) if n is not None), None)
    if workers is None:
        raise WorkersUnknown(
            "the number of workers of a new pipeline on a cluster must be set: the driver's cores say nothing about the executors'.",
            "Set stepwell.workers, or run with --workers N. Each worker needs one task slot.",
        )
    layout = Layout.initial(wanted.policy, workers)
    births = dict.fromkeys(layout.members, FIRST_BIRTH)
    return record_of(layout, births, epoch=epoch, asked=wanted.setting, outcome="first")


def workers_to_have(wanted: WorkersWanted, state: StepLogState) -> int | None:
    """The number of workers to which a start has to bring the layout, or the rescale that is under way; None if it has not to."""
    layout = state.current_layout
    asked = layout.asked if state.rescale is None else state.rescale.asked
    heading_for = len(layout.placed.members if state.target is None else state.target.members)
    for number, is_new in ((wanted.now, True), (wanted.setting, wanted.setting != asked)):
        if number is not None and is_new:
            return None if number == heading_for else number
    return None


def has_same_target(record: LayoutRecord, layout: Layout) -> bool:
    """Whether the recorded layout has the members, the owners and the policy of this one. Its number and its births do not matter."""
    target = target_of(layout)
    has = (record.placed.ranges, tuple(record.placed.births), record.policy)
    return has == (target.ranges, target.members, target.policy)


def record_of(
    layout: Layout, births: Mapping[int, str], *, epoch: int, asked: int | None, outcome: Outcome
) -> LayoutRecord:
    """The record of a layout all of whose members are born."""
    return LayoutRecord(
        epoch=epoch,
        number=layout.number,
        shards=layout.shards,
        policy=part_of(layout.policy),
        placed=Ownership.of(births, layout.owned),
        asked=asked,
        outcome=outcome,
    )


def layout_of(record: LayoutRecord) -> Layout:
    """The layout that was recorded."""
    members = tuple(record.placed.births)
    return Layout(record.number, _policy_of(record.policy), members, owners_of(record.placed.ranges, record.shards))


def target_of(layout: Layout) -> Target:
    """The layout as that to which a rescale leads."""
    return Target(
        shards=layout.shards,
        policy=part_of(layout.policy),
        members=layout.members,
        ranges=ranges_of(layout.owned),
    )


def layout_to(target: Target, number: int) -> Layout:
    """The layout to which a rescale leads."""
    return Layout(number, _policy_of(target.policy), target.members, owners_of(target.ranges, target.shards))


def owners_of(ranges: tuple[tuple[int, int], ...], shards: int) -> tuple[int, ...]:
    """The owner of each shard. No range begins inside a shard."""
    each = SLOTS // shards
    owners: list[int] = []
    for (first, owner), (end, _) in pairwise((*ranges, (SLOTS, -1))):
        assert first % each == 0, f"a range begins at slot {first}, and shards have {each} slots"
        owners += [owner] * ((end - first) // each)
    return tuple(owners)


def layout_with(owned: Mapping[int, SlotSet], number: int, policy: Policy) -> Layout:
    """The layout in which these members own these slots, with as many shards as that needs."""
    ranges = ranges_of(owned)
    shards = policy.shards_needed(len(owned))
    while any(first % (SLOTS // shards) for first, _ in ranges):
        shards *= 2
    return Layout(number, policy, tuple(sorted(owned)), owners_of(ranges, shards))


def part_of(policy: Policy) -> PolicyPart:
    """The policy as the records have it."""
    match policy:
        case FixedShards(shards):
            return FixedPart(shards=shards)
        case DynamicShards(inaccuracy):
            return DynamicPart(inaccuracy=inaccuracy)
        case _:
            assert_never(policy)


def _policy_of(part: PolicyPart) -> Policy:
    match part:
        case FixedPart(shards=shards):
            return FixedShards(shards)
        case DynamicPart(inaccuracy=inaccuracy):
            return DynamicShards(inaccuracy)
        case _:
            assert_never(part)
