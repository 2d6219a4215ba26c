"""What is deleted from the checkpoint store, and what never is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

import pytest

from base.term import Term
from base.version import VersionId
from coordinator.storing.collecting import Collector, collect, garbage, packs_of
from coordinator.storing.manifest import (
    DamagedManifest,
    Manifest,
    UploadName,
    backups_of,
    manifest_name,
    prefix_of,
    read_manifest,
    root_of,
    write_manifest,
)
from io_kafka.outside import REAL, Thread
from io_kafka.step_log.records import CheckpointStored
from storage import description
from storage.remote.chain import Chain, Pack
from storage.remote.errors import StoreFault
from storage.remote.objects_protocol import check_name
from tests.io_kafka.layouts import placed
from tests.memory_store import MemoryStore

ROOT = root_of("p", "log", 0)
TERM = Term(3, 1)


def version(number: int) -> VersionId:
    return VersionId(number, number, f"c{number}")


def pack(store: MemoryStore, number: int, term: Term = TERM, *, base: bool = False) -> Pack:
    kind = "base" if base else "delta"
    name = f"{prefix_of(ROOT, 0, '0', UploadName(version(number), term, 1))}-{kind}-000"
    written = store.write(name, [b"x"])
    return Pack(name=name, kind=kind, to=version(number), bytes=1, raw_bytes=1, digest=written.digest)


def chain(*packs: Pack) -> Chain:
    return Chain(version=packs[-1].to, format=description.FORMAT, seal=0, table_bytes={}, packs=packs)


def described(
    store: MemoryStore, made: Chain, term: Term = TERM, name: str | None = None
) -> tuple[CheckpointStored, Manifest]:
    manifest = Manifest(
        format=1, pipeline="p", log_id="log", generation=0, version=made.version, placed=placed(0),
        databases={0: "u"}, chains={0: made.to_json()},
    )  # fmt: skip
    where = name or manifest_name(ROOT, UploadName(made.version, term, 1))
    digest = write_manifest(store, where, manifest)
    record = CheckpointStored(epoch=3, version=made.version, placed=placed(0), manifest=where, digest=digest)
    return record, manifest


def names(store: MemoryStore) -> set[str]:
    return {found.name for found in store.list("p")}


def test_what_no_version_needs_goes_and_everything_else_stays() -> None:
    store = MemoryStore()
    old = chain(pack(store, 1, base=True), pack(store, 2))
    described(store, old)
    base = pack(store, 3, base=True)
    record, manifest = described(store, chain(base, pack(store, 5)))
    under_way = pack(store, 6).name
    of_later_term = pack(store, 4, Term(4, 0)).name
    of_earlier_term = pack(store, 4, Term(3, 0)).name
    foreign = f"{ROOT}/packs/notes.txt"
    store.write(foreign, [b"somebody's"])
    later_generation = f"{root_of('p', 'log', 1)}/packs/0000-b0/{version(1).version:08d}-c1-1.0-base-000"
    store.write(later_generation, [b"of a later generation"])
    other_log = f"{root_of('p', 'other', 0)}/packs/0000-b0/{version(1).version:08d}-c1-1.0-base-000"
    store.write(other_log, [b"of another step log"])
    kept = {record.manifest, *packs_of(manifest), under_way, of_later_term, foreign, later_generation, other_log}
    gone = names(store) - kept
    assert of_earlier_term in gone and set(packs_of(manifest)).isdisjoint(gone) and len(gone) == 4
    assert garbage(store, record, manifest, TERM, names(store)) == sorted(gone), "what a dry run shows"
    assert collect(store, record, manifest, TERM).deleted == 4
    assert names(store) == kept
    assert collect(store, record, manifest, TERM).deleted == 0


def test_a_full_refresh_leaves_the_former_generation_behind() -> None:
    store = MemoryStore()
    old = root_of("p", "log", 0)
    described(store, chain(pack(store, 9, base=True)))
    assert names(store) and all(name.startswith(old) for name in names(store))
    name = f"{root_of('p', 'log', 1)}/packs/0000-b0/00000001-c1-4.0-base-000"
    written = store.write(name, [b"x"])
    base = Pack(name=name, kind="base", to=version(1), bytes=1, raw_bytes=1, digest=written.digest)
    record, manifest = described(store, chain(base), name=f"{root_of('p', 'log', 1)}/manifests/00000001-c1-4.0.json")
    assert collect(store, record, manifest.model_copy(update={"generation": 1}), Term(4, 0)).deleted == 2
    assert names(store) == {name, record.manifest}


def test_a_backup_keeps_its_packs_until_it_is_deleted() -> None:
    store = MemoryStore()
    first = chain(pack(store, 1, base=True), pack(store, 2))
    backup = f"{backups_of('p')}/before-upgrade.json"
    described(store, first, name=backup)
    record, manifest = described(store, chain(pack(store, 3, base=True)))
    assert collect(store, record, manifest, TERM).deleted == 0
    store.delete([backup])
    assert collect(store, record, manifest, TERM).deleted == 2


def test_nothing_is_deleted_while_a_backup_cannot_be_read() -> None:
    """Nobody knows what it names."""
    store = MemoryStore()
    pack(store, 1, base=True)
    store.write(f"{backups_of('p')}/torn.json", [b'{"format": 1'])
    record, manifest = described(store, chain(pack(store, 3, base=True)))
    before = names(store)
    fault = collect(store, record, manifest, TERM).fault
    assert isinstance(fault, DamagedManifest) and "p/backups/torn.json" in str(fault)
    assert "`stepwell backup delete torn`" in str(fault.what_to_do)
    assert names(store) == before


def test_what_the_stored_version_needs_and_the_store_has_lost_is_told() -> None:
    """Also where a backup cannot be read, so that nothing is deleted."""
    store = MemoryStore()
    base, first, last = pack(store, 1, base=True), pack(store, 2), pack(store, 3)
    record, manifest = described(store, chain(base, first, last))
    assert collect(store, record, manifest, TERM).lost == ()
    store.write(first.name, [b"shorter" * 2])
    store.delete([base.name])
    store.write(f"{backups_of('p')}/torn.json", [b"{"])
    lost = collect(store, record, manifest, TERM).lost
    assert [(each.name, each.found_bytes) for each in lost] == [(base.name, None), (first.name, 14)]
    told = [str(each.fault(store)) for each in lost]
    assert f"has no object {base.name}" in told[0] and "it has 14 bytes, and had 1" in told[1]


@pytest.mark.parametrize("log_id", ["/WYcBQSCy5CTWbMMg5egQ", "J//cBQSCy5CTWbMMg5eg", "J+LWYcBQSCy5CTWbMMg5eg"])
def test_any_topic_id_is_one_folder(log_id: str) -> None:
    """As the client of Kafka writes them: in base 64, which has '/' and '+'."""
    root = root_of("p", log_id, 0)
    assert check_name(root).count("/") == 2
    assert root_of("p", log_id.replace("/", "+"), 0) != root or "/" not in log_id


def test_a_manifest_is_the_one_that_the_log_names() -> None:
    store = MemoryStore()
    record, manifest = described(store, chain(pack(store, 3, base=True)))
    assert read_manifest(store, record.manifest, record.digest) == manifest
    other, _ = described(store, chain(pack(store, 4, base=True)), name=record.manifest)
    with pytest.raises(DamagedManifest, match="not the one that the step log names"):
        read_manifest(store, record.manifest, record.digest)
    assert read_manifest(store, record.manifest, other.digest).version == version(4)
    store.write(record.manifest, [manifest.model_copy(update={"format": 9}).model_dump_json().encode()])
    with pytest.raises(DamagedManifest, match="has format 9, and this release reads format 1"):
        read_manifest(store, record.manifest, None)


class Threads:
    """Runs what it was given when the test says so."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def start(self, name: str, work: Callable[[], None]) -> Thread:
        assert name == "collect"
        self.due.append(work)
        return cast(Thread, None)

    def run(self) -> None:
        self.due.pop(0)()


@pytest.fixture
def threads() -> Threads:
    return Threads()


def collector_of(threads: Threads, woken: list[str]) -> Collector:
    return Collector(replace(REAL, start_thread=threads.start, monotonic=lambda: 7.0), lambda: woken.append("woken"))


def test_a_version_that_is_stored_meanwhile_has_its_turn(threads: Threads) -> None:
    store, woken = MemoryStore(), list[str]()
    collector = collector_of(threads, woken)
    for number in (1, 2, 3):
        record, manifest = described(store, chain(pack(store, number, base=True)))
        collector.stored(store, record, manifest, TERM)
    assert len(threads.due) == 1, "one at a time"
    threads.run()
    assert woken and collector.is_under_way, "the end of a run waits for what was stored meanwhile"
    collector.advance()
    threads.run()
    collector.advance()
    assert not collector.is_under_way and not threads.due
    assert names(store) == {record.manifest, *packs_of(manifest)}


def out_of_reach(names: Iterable[str]) -> None:
    raise StoreFault("the store does not answer")


def test_a_fault_of_the_store_ends_a_deletion_and_not_the_run(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, woken = MemoryStore(), list[str]()
    collector = collector_of(threads, woken)
    pack(store, 1)
    record, manifest = described(store, chain(pack(store, 2, base=True)))
    monkeypatch.setattr(store, "delete", out_of_reach)
    collector.stored(store, record, manifest, TERM)
    threads.run()
    collector.advance()
    assert woken and not collector.is_under_way
