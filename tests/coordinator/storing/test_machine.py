"""When a version is uploaded: over any sequence of checkpoints, answers, faults and recoveries."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.version import EMPTY, VersionId
from coordinator.storing.machine import (
    RETRY_SECONDS_MAX,
    Describe,
    Described,
    Describing,
    LogStored,
    NoUpload,
    StoringMachine,
    Upload,
    Uploading,
)
from tests.examples import examples

LAG_S_MAX = 100.0


def version(number: int) -> VersionId:
    return VersionId(number, 10 * number, f"c{number}")


def through(machine: StoringMachine, at: VersionId, now: float) -> None:
    """One version from its upload to its record."""
    assert machine.next(at, None, now) == Upload(at)
    machine.uploading(at)
    assert machine.next(at, None, now) is None
    machine.uploaded()
    assert machine.next(at, None, now) == Describe(at)
    machine.describing()
    assert machine.next(at, None, now) is None
    machine.described()
    assert machine.next(at, None, now) == LogStored(at)
    machine.recorded(at, now)


def test_each_version_is_uploaded_described_and_recorded() -> None:
    machine = StoringMachine(LAG_S_MAX)
    assert machine.next(EMPTY, None, 0.0) is None, "a new state has nothing to store"
    through(machine, version(1), 1.0)
    assert not machine.is_behind
    assert machine.next(version(1), version(1), 2.0) is None
    through(machine, version(2), 3.0)


def test_a_slow_store_leaves_versions_out_and_the_lag_counts_from_the_first_that_waits() -> None:
    machine = StoringMachine(LAG_S_MAX)
    assert machine.next(version(1), None, 10.0) == Upload(version(1))
    machine.uploading(version(1))
    assert machine.next(version(3), None, 50.0) is None
    assert machine.lag_s(60.0) == 50.0
    assert not machine.is_late(110.0) and machine.is_late(110.5)
    machine.uploaded()
    machine.describing()
    machine.described()
    machine.recorded(version(3), 120.0)
    assert machine.is_behind and machine.lag_s(120.0) == 0.0, "version 3 waits since then at the latest"
    assert machine.next(version(3), version(1), 120.0) == Upload(version(3))


def test_faults_are_tried_again_later_and_later_with_the_last_version_of_then() -> None:
    machine, now, waits = StoringMachine(LAG_S_MAX), 0.0, list[float]()
    for number in range(1, 12):
        assert machine.next(version(number), None, now) == Upload(version(number))
        machine.uploading(version(number))
        machine.failed(now)
        assert machine.next(version(number), None, machine.again_at - 0.001) is None
        waits.append(machine.again_at - now)
        now = machine.again_at
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0] and waits[-1] == RETRY_SECONDS_MAX
    through(machine, version(12), now)
    assert machine.failures == 0 and machine.again_at == 0.0
    assert machine.lag_s(now) == 0.0


def test_faults_keep_the_lag() -> None:
    machine = StoringMachine(LAG_S_MAX)
    for now in (0.0, 10.0, 20.0):
        assert machine.next(version(1), None, now) == Upload(version(1))
        machine.uploading(version(1))
        machine.failed(now)
    assert machine.lag_s(30.0) == 30.0


def test_after_a_recovery_nothing_is_under_way_and_it_is_tried_at_once() -> None:
    machine = StoringMachine(LAG_S_MAX)
    machine.next(version(1), None, 0.0)
    machine.uploading(version(1))
    machine.failed(0.0)
    machine.recovered()
    assert machine.next(version(1), None, 0.0) == Upload(version(1))
    assert machine.lag_s(5.0) == 5.0, "how long it waits does not begin anew"


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(["checkpoint", "answer", "fail", "recover", "wait"]), max_size=60))
def test_what_is_recorded_was_complete_and_only_grows(events: list[str]) -> None:
    machine, complete, stored, now = StoringMachine(LAG_S_MAX), EMPTY, None, 0.0
    for event in events:
        now += 1.0
        match machine.next(complete, stored, now):
            case Upload(at):
                assert at == complete
                machine.uploading(at)
            case Describe(at):
                machine.describing()
            case LogStored(at):
                assert at <= complete and (stored is None or stored < at)
                stored = at
                machine.recorded(complete, now)
        match event:
            case "checkpoint":
                complete = version(complete.version + 1)
            case "answer" if isinstance(machine.phase, Uploading):
                machine.uploaded()
            case "answer" if isinstance(machine.phase, Describing):
                machine.described()
            case "fail" if not isinstance(machine.phase, NoUpload):
                machine.failed(now)
            case "recover":
                machine.recovered()
        machine.next(complete, stored, now)
        assert machine.is_behind == (complete not in (EMPTY, stored))


MISTAKES: list[tuple[str, dict[str, object]]] = [
    ("the last complete one is", {"phase": Uploading(version(3))}),
    ("the last complete one is", {"phase": Described(EMPTY)}),
    ("nothing has failed", {"again_at": 1.0}),
]


@pytest.mark.parametrize(("said", "fields"), MISTAKES)
def test_a_state_that_cannot_be_is_noticed(said: str, fields: dict[str, object]) -> None:
    machine = StoringMachine(LAG_S_MAX)
    machine.check(version(2))
    for name, value in fields.items():
        setattr(machine, name, value)
    with pytest.raises(AssertionError, match=said):
        machine.next(version(2), None, 0.0)
