"""Mutations of the checkpoint store: see sabotage.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from xxhash import xxh3_128_hexdigest

from coordinator.running import recovery
from coordinator.starting.workers import binding
from coordinator.storing import collecting, restoring, storing
from storage.remote import restoring as making
from storage.remote import spool, uploading
from storage.remote.chain import Chain
from storage.remote.errors import StoreFault
from storage.remote.objects_protocol import WrittenObject
from tests.simulator.breaking import Mutation, broken
from tests.simulator.weather import ACTIVE, BENIGN


@contextmanager
def stored_before_its_manifest_is_written() -> Iterator[None]:
    real_write, real_record = storing.write_manifest, storing.Storing._record
    late: list[tuple[Any, ...]] = []

    def write(store: Any, name: str, manifest: Any) -> str:
        late.append((store, name, manifest))
        return xxh3_128_hexdigest(manifest.model_dump_json().encode())

    def record(self: Any, complete: Any) -> None:
        real_record(self, complete)
        while late:
            real_write(*late.pop())

    with broken(storing, "write_manifest", write), broken(storing.Storing, "_record", record):
        yield


@contextmanager
def faults_of_an_upload_not_heeded() -> Iterator[None]:
    """The worker goes on as if the object were there."""
    real = uploading._Target.write

    class Careless:
        def __init__(self, store: Any) -> None:
            self._store = store

        def write(self, name: str, pieces: Any) -> WrittenObject:
            content = b"".join(pieces)
            try:
                return self._store.write(name, [content])  # type: ignore[no-any-return]
            except StoreFault:
                return WrittenObject(len(content), xxh3_128_hexdigest(content))

    def write(self: Any, *rest: Any) -> Any:
        return real(replace(self, store=Careless(self.store)), *rest)

    with broken(uploading._Target, "write", write):
        yield


@contextmanager
def a_delta_left_out() -> Iterator[None]:
    """Of several that lead from the stored version to the next one, only the last is uploaded."""
    real = spool.path_between

    def between(deltas: Any, since: Any, to: Any) -> Any:
        found = real(deltas, since, to)
        return found[-1:] if found else found

    with broken(spool, "path_between", between), broken(Chain, "check", lambda self: self):
        yield


@contextmanager
def objects_of_an_upload_deleted() -> Iterator[None]:
    """Also those with the number of a later version."""

    def is_over(name: str, record: Any, term: Any) -> bool:
        return collecting._NAMED.fullmatch(name.rpartition("/")[2]) is not None

    with broken(collecting, "_is_over", is_over):
        yield


@contextmanager
def objects_of_the_stored_version_deleted() -> Iterator[None]:
    real = collecting.packs_of

    def packs_of(manifest: Any) -> Any:
        return list(real(manifest))[:-1]

    with broken(collecting, "packs_of", packs_of):
        yield


@contextmanager
def objects_of_backups_deleted() -> Iterator[None]:
    with broken(collecting, "backup_objects", lambda store, pipeline: []):
        yield


@contextmanager
def an_older_manifest_restored() -> Iterator[None]:
    """The first that was read."""
    real, first = restoring.read_manifest, list[Any]()

    def read(store: Any, name: str, digest: str | None) -> Any:
        first.append(real(store, name, digest))
        return first[0]

    with broken(restoring, "read_manifest", read):
        yield


@contextmanager
def the_last_delta_not_restored() -> Iterator[None]:
    """Nobody looks whether the records are those of the version."""
    real, filling = making._passes, making._Filling

    def passes(store: Any, chain: Chain, identity: Any) -> Any:
        fewer = chain.model_copy(update={"packs": chain.packs[:-1] if chain.deltas else chain.packs})
        return real(store, fewer, identity)

    class Careless(int):
        def __ne__(self, other: object) -> bool:
            return False

        __hash__ = int.__hash__

    class Filling(filling):  # type: ignore[misc, valid-type]
        def apply(self, items: Any, *, has_former: bool) -> None:
            super().apply(items, has_former=has_former)
            self.checksum = Careless(self.checksum)

    with broken(making, "_passes", passes), broken(making, "_Filling", Filling):
        yield


@contextmanager
def steps_since_the_stored_version_forgotten() -> Iterator[None]:
    with broken(storing.Storing, "versions_log_must_reach", ()):
        yield


@contextmanager
def databases_of_a_later_version_kept() -> Iterator[None]:
    """Some workers go back to the stored version, and the others do not."""
    with broken(binding, "_has", lambda copy, birth, version: copy.birth == birth):
        yield


@contextmanager
def layout_not_gone_back() -> Iterator[None]:
    with broken(recovery, "layout_if_restored", lambda version, state, epoch: None):
        yield


@contextmanager
def steps_do_not_wait_for_the_store() -> Iterator[None]:
    with broken(storing.Storing, "blocks_steps", False):
        yield


@contextmanager
def a_run_that_ends_before_its_last_checkpoint_is_stored() -> Iterator[None]:
    with broken(storing.Storing, "blocks_end", lambda self, *, may_give_up: False):
        yield


STORE: tuple[Mutation, ...] = (
    stored_before_its_manifest_is_written,
    faults_of_an_upload_not_heeded,
    a_delta_left_out,
    objects_of_an_upload_deleted,
    objects_of_the_stored_version_deleted,
    objects_of_backups_deleted,
    an_older_manifest_restored,
    the_last_delta_not_restored,
    steps_since_the_stored_version_forgotten,
    databases_of_a_later_version_kept,
    layout_not_gone_back,
    steps_do_not_wait_for_the_store,
    a_run_that_ends_before_its_last_checkpoint_is_stored,
)

_QUIET: dict[str, Any] = {
    "client": 0.0,
    "network": 0.0,
    "task": 0.0,
    "crash_point": 0.0,
    "crash_targets": (),
    "crash_places": (),
    "messages": 40,
    "points": 3000,
    "checkpoint_s": 0.01,
    "store": "continue",
    "lag_s": 1000.0,
    "store_faults": 0.02,
    "weights": {**BENIGN, **ACTIVE, "kill a worker": 0.2, "lose a disk": 0.4, "lose databases": 0.4, "backup": 0.3},
}
"""Much is stored, and lost."""

_AWAY = {**_QUIET, "weights": {**_QUIET["weights"], "store away": 1.0, "layout": 3.0}}
"""The store is often behind."""

STORE_WEATHER: Mapping[str, dict[str, Any]] = {
    **{mutation.__name__: _QUIET for mutation in STORE},
    "a_delta_left_out": _AWAY,
    "faults_of_an_upload_not_heeded": {**_QUIET, "store_faults": 0.1},
    "steps_since_the_stored_version_forgotten": _AWAY,
    "databases_of_a_later_version_kept": _AWAY,
    "layout_not_gone_back": _AWAY,
    "steps_do_not_wait_for_the_store": {**_AWAY, "store": "pause", "lag_s": 0.05},
}
"""Most worlds lose little, and half of them have no store."""
