"""The sizes of the state that a checkpoint reports, and the parts of a step's time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from base.version import VersionId
from coordinator.actions import Fold
from coordinator.checkpoints.checkpointing import Checkpointing, bytes_of
from coordinator.status import StepTimes
from coordinator.stepping.measuring import step_times
from coordinator.stepping.step_output import StepResult
from engine.resident.messages import LayerFolded
from engine.run.task_setup import TaskSetup


def folded(tables: dict[int, int], disk: dict[str, int]) -> LayerFolded:
    return LayerFolded(versions=(), table_bytes=tables, disk_bytes=disk, free_bytes=0)


def test_bytes_of_all_workers_are_added_up_by_view_and_by_layer() -> None:
    setup: Any = SimpleNamespace(owner_of_table=lambda table: "sums" if table < 3 else "rows")
    found = [folded({1: 10, 2: 5, 3: 7}, {"committed": 100}), folded({1: 1}, {"committed": 50, "working": 9})]
    assert bytes_of(found, cast(TaskSetup, setup)) == ({"sums": 16, "rows": 7}, {"committed": 150, "working": 9})
    assert bytes_of([], cast(TaskSetup, setup)) == ({}, {})


def test_a_fold_that_does_not_end_is_told_and_told_again() -> None:
    """With the workers that it waits for."""
    now = [100.0]
    crew = crew_that(begin_fold=lambda may_rewrite: None, poll_folds=lambda: None, folding=[1, 4])
    core: Any = core_that(is_stopping=False, is_rescaling=False)
    spec: Any = SimpleNamespace(kafka=SimpleNamespace(outside=SimpleNamespace(monotonic=lambda: now[0])))
    checkpoints = Checkpointing(
        spec, cast(Any, SimpleNamespace(state=None)), cast(Any, None), cast(Any, None), kept=tuple
    )
    checkpoints.do(Fold(VersionId(1, 1, "v1")), core, crew, {})
    told = []
    for seconds in (0.0, 59.0, 1.5, 30.0, 31.0):
        now[0] += seconds
        with capture_logs() as said:
            checkpoints.notice_fold(core, crew)
        told.append([(event["seconds"], event["workers"]) for event in said])
    assert told == [[], [], [(60, [1, 4])], [], [(122, [1, 4])]]


def crew_that(**orders: Any) -> Any:
    return SimpleNamespace(checkpoints=SimpleNamespace(**orders))


def core_that(*, is_stopping: bool, is_rescaling: bool) -> Any:
    rescale = SimpleNamespace(is_idle=not is_rescaling)
    return SimpleNamespace(folding=lambda: None, stopping=is_stopping, rescale=rescale)


def test_no_file_is_rewritten_during_a_rescale() -> None:
    told: list[bool] = []
    crew = crew_that(begin_fold=lambda may_rewrite: told.append(may_rewrite))
    spec: Any = SimpleNamespace(kafka=SimpleNamespace(outside=SimpleNamespace(monotonic=lambda: 0.0)))
    checkpoints = Checkpointing(
        spec, cast(Any, SimpleNamespace(state=None)), cast(Any, None), cast(Any, None), kept=tuple
    )
    for is_rescaling in (False, True, False):
        checkpoints.do(Fold(VersionId(1, 1, "v1")), core_that(is_stopping=False, is_rescaling=is_rescaling), crew, {})
    assert told == [True, False, True]


@pytest.mark.parametrize(("is_stopping", "is_rescaling"), [(True, False), (False, True)])
def test_the_workers_are_hurried_once_if_something_waits_for_a_fold(*, is_stopping: bool, is_rescaling: bool) -> None:
    hurried: list[bool] = []
    crew = crew_that(
        begin_fold=lambda may_rewrite: None, poll_folds=lambda: None, expedite_fold=lambda: hurried.append(True)
    )
    spec: Any = SimpleNamespace(kafka=SimpleNamespace(outside=SimpleNamespace(monotonic=lambda: 0.0)))
    checkpoints = Checkpointing(
        spec, cast(Any, SimpleNamespace(state=None)), cast(Any, None), cast(Any, None), kept=tuple
    )
    for fold in (1, 2):
        checkpoints.do(Fold(VersionId(fold, 1, "v1")), core_that(is_stopping=False, is_rescaling=False), crew, {})
        checkpoints.notice_fold(core_that(is_stopping=False, is_rescaling=False), crew)
        assert len(hurried) == fold - 1
        for _ in range(3):
            checkpoints.notice_fold(core_that(is_stopping=is_stopping, is_rescaling=is_rescaling), crew)
        assert len(hurried) == fold


def test_time_beyond_the_slowest_worker_is_the_exchange_and_the_way_to_the_workers() -> None:
    result = StepResult([], read_ms=2.0, compute_ms=3.0, state_ms=1.0)
    assert step_times(result, 0.5, 10.0, 4.0) == StepTimes(0.5, 2.0, 3.0, 1.0, exchange=4.0, write=4.0)
    assert step_times(result, 0.5, 5.9, 4.0).exchange == 0.0, "workers run beside each other and their parts overlap"
