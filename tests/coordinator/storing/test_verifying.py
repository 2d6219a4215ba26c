"""Objects of versions that are read to their ends: each kind of damage is found and named, and each object is read once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.storing.manifest import Manifest
from coordinator.storing.verifying import Verifying
from storage.remote.chain import Chain
from storage.remote.errors import ObjectMissing, StoreUnreachable
from tests.coordinator.storing.test_collecting import placed
from tests.memory_store import MemoryStore
from tests.storage.helpers import ME, fresh, step
from tests.storage.remote.stores import checkpoint, stored


def manifest_of(chain: Chain) -> Manifest:
    return Manifest(
        format=1, pipeline=ME.pipeline, log_id="log", generation=0, version=chain.version, placed=placed(0),
        databases={0: ME.database}, chains={0: chain.to_json()},
    )  # fmt: skip


@pytest.fixture
def versions(tmp_path: Path) -> tuple[MemoryStore, list[Chain]]:
    """Two versions: a base, and the base with a delta."""
    store, database = MemoryStore(), fresh(tmp_path / "database")
    step(database, {f"{number:03}": bytes([number]) * 60 for number in range(200)})
    first = stored(store, database, checkpoint(database, 1, 1), None)
    step(database, {"new": b"1"}, deletes=("004",))
    second = stored(store, database, checkpoint(database, 2, 2), first)
    assert [pack.kind for pack in second.packs] == ["base", "delta"]
    return store, [first, second]


def test_versions_that_are_whole_are_read_once(
    versions: tuple[MemoryStore, list[Chain]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, chains = versions
    read, names = MemoryStore.read, list[str]()
    monkeypatch.setattr(MemoryStore, "read", lambda store, name: names.append(name) or read(store, name))
    verifying = Verifying(store)
    assert [verifying.verify(manifest_of(chain)) for chain in chains] == [[], []]
    assert names == [pack.name for pack in chains[1].packs]
    assert verifying.read_bytes == sum(pack.bytes for pack in chains[1].packs)


def test_a_changed_byte_is_found_wherever_it_is(versions: tuple[MemoryStore, list[Chain]]) -> None:
    store, (first, second) = versions
    for pack in second.packs:
        whole = store.objects[pack.name]
        for place in range(0, len(whole), max(1, len(whole) // 40)):
            store.objects[pack.name] = whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
            verifying = Verifying(store)
            faults = verifying.verify(manifest_of(second))
            assert [pack.name in fault.message for fault in faults] == [True], (place, faults)
            assert verifying.verify(manifest_of(first)) == (faults if pack.kind == "base" else [])
        store.objects[pack.name] = whole
    assert Verifying(store).verify(manifest_of(second)) == []


def test_what_is_missing_short_or_of_another_state_is_told_of_each_object(
    versions: tuple[MemoryStore, list[Chain]],
) -> None:
    store, (_, second) = versions
    base, delta = second.packs
    store.objects[delta.name] = store.objects[base.name]
    del store.objects[base.name]
    missing, other = Verifying(store).verify(manifest_of(second))
    assert isinstance(missing, ObjectMissing) and base.name in missing.message
    assert delta.name in other.message and "base" in other.message
    store.objects[delta.name] = store.objects[delta.name][:-1]
    _, short = Verifying(store).verify(manifest_of(second))
    assert delta.name in short.message


def test_a_store_that_cannot_be_reached_says_nothing_of_its_objects(
    versions: tuple[MemoryStore, list[Chain]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, (first, _) = versions

    def read(store: MemoryStore, name: str) -> Iterator[bytes]:
        raise StoreUnreachable(store.root, "read", "no route")

    monkeypatch.setattr(MemoryStore, "read", read)
    with pytest.raises(StoreUnreachable):
        Verifying(store).verify(manifest_of(first))
