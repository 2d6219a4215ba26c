"""Which version a run opens, by what hosts have reported of the databases and what the fence finds in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from base.common_version import NoCommonVersion
from base.slots import SlotSet
from base.version import EMPTY, VersionId
from coordinator.starting.errors import CircuitChanged, StateLost
from coordinator.starting.project.same_circuit import check_same_circuit
from coordinator.starting.workers.bind_workers import StartFindings
from coordinator.starting.workers.binding import Bound
from coordinator.starting.workers.found_databases import ExpectedDatabases
from coordinator.starting.workers.opening import open_latest
from engine.errors import TaskLost
from engine.model.circuit import Circuit, Node, View
from engine.model.node import Expression
from engine.model.rows import Map, Source, Union
from io_kafka.step_log.numbered import Numbered
from io_kafka.step_log.state import StepLogState
from storage.database import FencedState
from tests.io_kafka.layouts import layout, owned_by

BIRTHS = {0: "0", 1: "0"}
V1, V2 = (VersionId(n, 10 * n, f"c{n}") for n in (1, 2))
OTHER_V1 = VersionId(1, 10, "other")


class FencedCrew:
    """A crew whose databases hold `versions`."""

    def __init__(self, *versions: tuple[VersionId, ...]) -> None:
        self.found = {worker: FencedState(held, 7) for worker, held in enumerate(versions)}
        self.opened: VersionId | None = None

    def fence(self) -> dict[int, FencedState]:
        return self.found

    def open(self, version: VersionId, fenced: Mapping[int, FencedState]) -> dict[int, SlotSet]:
        assert fenced is self.found
        self.opened = version
        return owned_by(0, 1)


def opened(
    crew: Any, *reported: tuple[VersionId, ...], first: int = 0, steps: int = 100, replayed_from: int = 0
) -> VersionId:
    records: Any = [None] * (steps - first)
    log = {"step_records": Numbered(first, records), "layout": layout(), "replayed_from": replayed_from}
    state = StepLogState("log", **log)
    expected = ExpectedDatabases("p", "log", 0, {EMPTY: BIRTHS}, True, None, None, accepts_older=False)
    versions = {worker: frozenset(held) for worker, held in enumerate(reported)}
    found = StartFindings(expected, (), Bound({0: 0, 1: 1}, BIRTHS, frozenset(), {}, versions), frozenset())
    version, owned = open_latest(crew, state, found)
    assert crew.opened == version and owned == owned_by(0, 1)
    return version


def test_the_latest_common_version_is_opened() -> None:
    held = ((EMPTY, V1), (V1, V2))
    assert opened(FencedCrew(*held), *held) == V1
    assert opened(FencedCrew((V1, V2), (V1, V2)), (V1,), (V1, V2)) == V2  # a fold has ended since


def test_a_database_that_has_changed_since_it_was_reported_is_bound_again() -> None:
    """The run before has opened a checkpoint after the report of a host. So another copy may be the one that is needed."""
    crew = FencedCrew((EMPTY,), (V1,))
    with pytest.raises(TaskLost, match=r"worker 1 has changed since its host reported it.*worker 0: 0 .*worker 1: 1 "):
        opened(crew, (EMPTY,), (EMPTY, V1))
    assert crew.opened is None


def test_databases_without_a_common_version_end_the_run() -> None:
    crew = FencedCrew((V1,), (OTHER_V1,))
    with pytest.raises(NoCommonVersion):
        opened(crew, (V1,), (OTHER_V1,))
    assert crew.opened is None


@pytest.mark.parametrize(("first", "steps"), [(0, 9), (11, 100)])
def test_a_version_that_the_step_log_does_not_reach_is_not_opened(first: int, steps: int) -> None:
    crew = FencedCrew((V1,), (V1,))
    with pytest.raises(StateLost):
        opened(crew, (V1,), (V1,), first=first, steps=steps)
    assert crew.opened is None


def test_a_version_whose_steps_would_read_deleted_loads_is_not_opened() -> None:
    """V1 is taken before step 10."""
    crew = FencedCrew((V1,), (V1,))
    with pytest.raises(StateLost, match="steps before step 11 read batch tables whose rows are deleted"):
        opened(crew, (V1,), (V1,), replayed_from=11)
    assert crew.opened is None
    assert opened(crew, (V1,), (V1,), replayed_from=10) == V1


def test_what_differs_is_found_in_a_circuit_whose_parts_are_used_many_times() -> None:
    """Each node is joined with itself, so there are 2 ** 60 ways from the last one to the source."""

    def circuit(predicate: Expression | None) -> Circuit:
        types, column = (pa.int64(),), Expression("c0", pa.int64(), 0)
        nodes: list[Node] = [Source((), types, "in")]
        for _ in range(60):
            nodes.append(Union((len(nodes) - 1, len(nodes) - 1), types))
        nodes.append(Map((0,), types, predicate, (column,)))
        nodes += [View((60,), types, "deep", ("c",), False), View((61,), types, "flat", ("c",), False)]
        return Circuit(tuple(nodes))

    recorded = circuit(None)
    with pytest.raises(CircuitChanged, match=r"what differs: view flat \(changed\)\."):
        check_same_circuit(circuit(Expression("c0 > 0", pa.bool_())), recorded.fingerprint, recorded.to_json())
