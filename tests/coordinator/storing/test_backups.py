"""Backups in a store in which others have put something, or from which something has gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from base.term import Term
from coordinator.storing import backups
from coordinator.storing.backups import BadBackup, object_of, read_backup
from coordinator.storing.collecting import collect
from coordinator.storing.manifest import DamagedManifest, backups_of, read_manifest
from io_kafka.step_log.records import Refresh
from io_kafka.step_log.state import StepLogState
from storage.remote.errors import DamagedPack, ObjectMissing
from tests.coordinator.storing.test_collecting import TERM, chain, described, names, pack
from tests.memory_store import MemoryStore


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "-a", "\u00fc", "a b", "x" * 101, "a\n"])
def test_names_that_no_backup_has(name: str) -> None:
    with pytest.raises(BadBackup, match="no name of a backup"):
        object_of("p", name)


def test_what_others_put_beside_backups_is_none_and_keeps_no_garbage() -> None:
    store = MemoryStore()
    for name in ("README", ".nfs0001", "sub/z.json", "\u00fc.json"):
        store.write(f"{backups_of('p')}/{name}", [b"not a manifest"])
    old = pack(store, 1, base=True)
    record, manifest = described(store, chain(pack(store, 3, base=True)))
    assert backups.backups(store, "p") == []
    assert collect(store, record, manifest, TERM).deleted == 1 and old.name not in names(store)


def with_text(manifest: dict[str, Any]) -> None:
    manifest["chains"]["0"] = "no chain"


def without_chains(manifest: dict[str, Any]) -> None:
    manifest["chains"] = {}


def of_another(manifest: dict[str, Any]) -> None:
    manifest["pipeline"] = "q"


@pytest.mark.parametrize(
    ("change", "says"),
    [(with_text, "cannot be read"), (without_chains, "all workers"), (of_another, "is one of pipeline q")],
)
def test_a_manifest_that_was_changed_is_told_and_can_be_deleted(
    change: Callable[[dict[str, Any]], None], says: str
) -> None:
    store = MemoryStore()
    described(store, chain(pack(store, 1, base=True)), name=object_of("p", "a"))
    plain = json.loads(store.objects[object_of("p", "a")])
    change(plain)
    store.write(object_of("p", "a"), [json.dumps(plain).encode()])
    with pytest.raises(DamagedManifest, match=says) as caught:
        read_backup(store, "p", "a")
    assert "`stepwell backup delete a`" in str(caught.value.what_to_do)
    ((told, manifest),) = backups.backups(store, "p")
    assert manifest is None and says in told.problem
    backups.delete(store, "p", "a")
    assert backups.backups(store, "p") == []


def test_a_backup_of_a_version_that_is_not_whole_is_not_made() -> None:
    store = MemoryStore()
    base = pack(store, 1, base=True)
    record, _ = described(store, chain(base))
    store.write(base.name, [b"other"])
    with pytest.raises(DamagedPack, match="it has 5 bytes, and had 1"):
        backups.create(store, "p", "a", record)
    store.delete([base.name])
    with pytest.raises(ObjectMissing, match=base.name):
        backups.create(store, "p", "a", record)
    assert backups.backups(store, "p") == []


def test_no_version_is_restored_while_a_full_refresh_is_to_be_completed() -> None:
    """The log would refuse the record, as one that no run of the pipeline has written."""
    _, manifest = described(MemoryStore(), chain(pack(MemoryStore(), 0, base=True)))
    log = StepLogState("steps")
    assert backups.why_not_reached(manifest, log, "log", {}) == []
    begun = replace(log, refresh=Refresh(epoch=2, generation=1, topics=(), tombstones=(), ends=()))
    (told,) = backups.why_not_reached(manifest, begun, "log", {})
    assert "a full refresh has begun generation 1" in told


def test_a_version_that_is_to_be_restored_outlives_its_backup() -> None:
    """Until a later version is stored. Then what it alone needs goes."""
    store = MemoryStore()
    record, manifest = described(store, chain(pack(store, 1, base=True)))
    backups.create(store, "p", "a", record)
    name, digest = backups.kept_for_next_run(store, manifest, Term(4, 0))
    backups.delete(store, "p", "a")
    assert read_manifest(store, name, digest) == manifest
    later, now = described(store, chain(pack(store, 2, Term(5, 0), base=True)), Term(5, 0))
    collect(store, later, now, Term(5, 0))
    assert name not in names(store) and later.manifest in names(store)
