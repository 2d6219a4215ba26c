"""Whether there is room for what a rescale would move."""

from __future__ import annotations

from base.slots import SlotSet
from coordinator.rescale.disk_space import needed_bytes, why_no_disk_space
from coordinator.rescale.slot_moves import slot_moves
from engine.resident.crew import DiskUse
from tests.io_kafka.layouts import owned_by, target

ROOMS = {0: DiskUse("a", 4000, 10), 1: DiskUse("b", 1000, 10)}


def test_a_host_gets_the_share_of_each_source_that_moves_to_it() -> None:
    owned = owned_by(0, 1)
    moves = slot_moves(owned, target(0, 1, 2).owned)
    expected = sum(ROOMS[source].state_bytes * len(slots) // len(owned[source]) for (source, _), slots in moves.items())
    assert needed_bytes(moves, owned, ROOMS, {1: "b", 2: "b"}) == {"b": expected}
    assert expected > 1000


def test_what_goes_to_two_workers_of_one_host_counts_together() -> None:
    owned = {0: SlotSet(((0, 1 << 16),)), 1: SlotSet(()), 2: SlotSet(())}
    moves = {(0, 1): SlotSet(((0, 1 << 14),)), (0, 2): SlotSet(((1 << 14, 1 << 15),))}
    rooms = {0: DiskUse("a", 4000, 10)}
    assert needed_bytes(moves, owned, rooms, {1: "b", 2: "b"}) == {"b": 2000}
    assert needed_bytes(moves, owned, rooms, {1: "b", 2: "c"}) == {"b": 1000, "c": 1000}


def test_a_change_without_room_on_one_of_its_hosts_is_refused_with_the_numbers() -> None:
    names = {"a": "host one", "b": "host two"}
    assert why_no_disk_space({"a": 1000, "b": 2000}, {"a": 1000, "b": 2000}, names) is None
    fault = why_no_disk_space({"a": 1000, "b": 2_000_000}, {"a": 1000, "b": 1_999_999}, names)
    assert fault is not None and "about 2,000,000 bytes of state to host two, and 1,999,999 bytes are free" in str(
        fault
    )
    assert "Free some space" in fault.what_to_do
