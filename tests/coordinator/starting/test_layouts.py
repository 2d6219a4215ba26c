"""Layouts in the step log, and what a start does about the number of workers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.slots import NO_SLOTS, SlotSet
from base.version import EMPTY, VersionId
from coordinator.checkpoints.completion import ownership_of
from coordinator.starting.errors import StateLost, WorkersUnknown
from coordinator.starting.layouts import (
    WorkersWanted,
    first_layout,
    layout_of,
    layout_to,
    layout_with,
    record_of,
    target_of,
    workers_to_have,
)
from coordinator.starting.project.same_project import refuse_former
from coordinator.starting.workers.opening import check_owned
from coordinator.starting.workers.usable_versions import owners_by_version
from engine.model.layout import DynamicShards, FixedShards, Layout, Policy
from engine.model.placement import Placement
from io_kafka.step_log.former_formats import Former
from io_kafka.step_log.records import CheckpointIntent, Claim
from io_kafka.step_log.state import StepLogState
from tests.io_kafka.layouts import change, layout, owned_by, placed

POLICIES = st.sampled_from([FixedShards(64), FixedShards(4096), DynamicShards(0.1), DynamicShards(0.5)])


def state(*more: object) -> StepLogState:
    log = StepLogState("log")
    for record in (Claim(epoch=0, pipeline="p", run_id="r", host="h", pid=1), *more):
        log = log.apply(record, log.offset_next)  # type: ignore[arg-type]
    return log


@given(POLICIES, st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_a_layout_is_the_same_after_it_was_recorded(policy: Policy, sizes: list[int]) -> None:
    made = Layout.initial(policy, sizes[0])
    for workers in sizes[1:]:
        made = made.with_workers(workers)
    births = dict.fromkeys(made.members, "0")
    assert layout_of(record_of(made, births, epoch=0, asked=None, outcome="changed")) == made
    assert layout_to(target_of(made), made.number) == made


def test_the_layout_of_any_owners_has_as_many_shards_as_they_need() -> None:
    owned = {0: SlotSet(((0, 3), (5, 65536))), 4: SlotSet(((3, 5),))}
    made = layout_with(owned, 3, FixedShards(8))
    made.check()
    assert made.shards == 65536 and {worker: made.slots_of(worker) for worker in (0, 4)} == owned
    assert layout_with(owned_by(0, 1), 3, FixedShards(8)).shards == 8


@pytest.mark.parametrize(
    ("now", "setting", "asked", "changes_to"),
    [
        (None, None, None, None),
        (None, 2, 2, None),
        (None, 3, 2, 3),
        (None, 3, 3, None),  # it was acted on, and a command has changed the layout since
        (4, 3, 3, 4),
        (4, 3, None, 4),
        (2, 3, None, None),  # the command goes before the setting
        (None, 2, None, None),
    ],
)
def test_when_a_start_changes_the_number_of_workers(
    now: int | None, setting: int | None, asked: int | None, changes_to: int | None
) -> None:
    two = layout().model_copy(update={"asked": asked})
    assert workers_to_have(WorkersWanted(now, setting, 8, FixedShards()), state(two)) == changes_to


def test_a_start_in_the_middle_of_a_change_compares_with_where_that_leads() -> None:
    log = state(layout(), change(workers=(0, 1, 2)))
    assert workers_to_have(WorkersWanted(3, None, 8, FixedShards()), log) is None
    assert workers_to_have(WorkersWanted(2, None, 8, FixedShards()), log) == 2


def test_a_new_state_has_the_workers_that_are_wanted() -> None:
    assert len(first_layout(WorkersWanted(3, 2, 1, FixedShards()), 0).placed.members) == 3
    assert len(first_layout(WorkersWanted(None, 2, 1, FixedShards()), 0).placed.members) == 2
    assert first_layout(WorkersWanted(None, None, 1, DynamicShards(0.1)), 0).shards == 16
    with pytest.raises(WorkersUnknown, match="number of workers of a new pipeline on a cluster"):
        first_layout(WorkersWanted(None, None, None, FixedShards()), 0)


def test_a_checkpoint_records_who_owns_what_at_that_moment() -> None:
    births = {0: "0", 1: "0", 2: "1.0.0"}
    log = state(layout(), change(workers=(0, 1, 2)))
    begun = Placement(0, {**owned_by(0, 1), 2: NO_SLOTS}, {})
    assert ownership_of(begun, births, log) == placed(0, 1), "who owns nothing yet need not be there after a crash"
    moved = Placement(0, owned_by(0, 1, 2), {})
    assert ownership_of(moved, births, log).births == births
    shrinking = state(layout(), change(workers=(0,)))
    assert ownership_of(Placement(0, {**owned_by(0), 1: NO_SLOTS}, {}), births, shrinking).births == {0: "0"}


def test_the_owners_of_every_version_that_may_be_opened() -> None:
    assert owners_by_version(state(layout())) == {EMPTY: {0: "0", 1: "0"}}
    version = VersionId(1, 0, "c")
    intent = CheckpointIntent(epoch=0, version=version, placed=placed(0))
    log = state(layout(), change(workers=(0,)), intent)
    assert owners_by_version(log) == {EMPTY: {0: "0", 1: "0"}, version: {0: "0"}}


@pytest.mark.parametrize(
    ("owned", "said"),
    [
        ({0: owned_by(0)[0], 1: owned_by(0, 1)[1]}, "worker 0 owns slots 0-65535, and the step log says slots 0-32767"),
        ({0: owned_by(0, 1)[0], 1: NO_SLOTS}, "worker 1 owns no slots"),
    ],
)
def test_databases_with_other_slots_than_the_log_says_are_refused(owned: dict[int, SlotSet], said: str) -> None:
    check_owned(EMPTY, owned_by(0, 1), state(layout()))
    with pytest.raises(StateLost, match=f"at version 0 .*do not belong together: {said}"):
        check_owned(EMPTY, owned, state(layout()))
    unknown = VersionId(1, 0, "of a backup")
    check_owned(unknown, owned_by(0, 1), state(layout()))
    with pytest.raises(StateLost, match=r"two workers, one of them worker 1, own|no worker owns slots"):
        check_owned(unknown, owned, state(layout()))


def test_the_state_of_a_former_version_is_refused() -> None:
    refuse_former(state(layout()))
    with pytest.raises(StateLost, match="former version of Stepwell"):
        refuse_former(state(Former(epoch=0)))
