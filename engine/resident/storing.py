"""What one worker does with the checkpoint store.

    a fold: what it is about to merge goes into the spool first -> Store: what is new of a version is uploaded, beside the steps
    Restore: the database is made of what the store has

The spool is a local folder, so a slow store keeps no fold waiting. It is bounded: when it has as much as the state itself, it is emptied, and
the next upload writes the whole state, which costs no more.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import structlog

from base.version import VersionId
from engine.errors import StaleTask
from engine.resident.messages import Restore, Restored, Store, Stored
from storage import durable
from storage.database import Database
from storage.errors import StorageFull
from storage.host_folder import RESTORED_SUFFIX, HostFolder
from storage.identity import FoundDatabase, Identity
from storage.remote import spool
from storage.remote.chain import Chain
from storage.remote.objects_protocol import ObjectStore
from storage.remote.patience import PatientStore
from storage.remote.place import StorePlace
from storage.remote.restoring import restore
from storage.remote.uploading import upload

_log = structlog.get_logger("engine.resident.worker")

SPOOL_BYTES_MIN = 64 << 20
"""The spool of a small state may have so many bytes. Emptying it costs an upload of the whole state."""


@dataclass(frozen=True)
class StoreAccess:
    """`place`: None if the pipeline has no store. `epoch`: the number of the worker's term."""

    place: StorePlace | None
    folder: HostFolder
    identity: Identity
    birth: str
    epoch: int

    @cached_property
    def _store(self) -> ObjectStore:
        assert self.place is not None, "the pipeline has no store"
        return self.place.open()

    @property
    def _spool(self) -> Path:
        return self.folder.spool_of_worker(self.identity.worker, self.birth)

    @property
    def _database(self) -> Path:
        return self.folder.of_worker(self.identity.worker, self.birth)

    def spool_frozen(self, database: Database) -> None:
        """Before a fold, in its thread. Without a store it does nothing. If the disk is full, the spool is emptied, and the fold goes on. Raises
        what the fold would raise."""
        if self.place is None:
            return
        try:
            spool.spool_frozen(database, self._spool)
            live_bytes = sum(database.statistics().table_bytes.values())
            if spool.spool_bytes(self._spool) > max(SPOOL_BYTES_MIN, live_bytes):
                spool.clear(self._spool)
        except StorageFull as fault:
            _log.warning(
                "the disk is full, so the next upload to the checkpoint store has the whole state",
                worker=self.identity.worker,
                fault=str(fault),
            )
            spool.clear(self._spool)

    def store(self, order: Store) -> Stored:
        """In a thread of its own, beside the steps. Raises StoreFault and StorageError."""
        former = None if order.former is None else Chain.of_json(order.former)
        if former is not None:
            spool.discard(self._spool, former.version)
        chain = upload(
            self._store,
            self._database,
            self.identity,
            order.version,
            former=former,
            spool_folder=self._spool,
            prefix=order.prefix,
        )
        known = set() if former is None else {pack.name for pack in former.packs}
        new = [pack for pack in chain.packs if pack.name not in known]
        return Stored(
            chain=chain.to_json(),
            bytes=sum(pack.bytes for pack in new),
            base_bytes=sum(pack.bytes for pack in new if pack.kind == "base"),
        )

    def restore(self, order: Restore) -> Restored:
        """A database that is there goes only when the new one is whole, unless the disk has no room for both. Raises StoreFault and
        StorageError, and StaleTask if another run makes the database at the same time."""
        if self._can_open(order.version, trusts=order.trusts):
            return Restored()
        spool.clear(self._spool)
        chain, beside = Chain.of_json(order.chain), self._database.with_name(f".{self._database.name}{RESTORED_SUFFIX}")
        try:
            self._make(chain, beside)
        except StorageFull:
            self._remove()
            self._make(chain, beside)
        self._remove()
        try:
            beside.rename(self._database)
        except OSError as fault:
            raise StaleTask(
                f"worker {self.identity.worker} was to restore its database, and another run has made one: {fault}"
            ) from fault
        durable.sync(self._database.parent)
        return Restored()

    def _make(self, chain: Chain, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)  # left by a process that was killed
        restore(PatientStore(self._store), chain, path, self.identity, self.epoch)
        Database.close(path)

    def _remove(self) -> None:
        """No run will ever open the database that is there."""
        for found in self._found():
            Database.close(self._database)
            self.folder.remove(self.identity.worker, self.birth, found.identity)

    def _found(self) -> list[FoundDatabase]:
        """The worker's database; none if it is not there."""
        me = (self.identity.worker, self.birth)
        return [each for each in self.folder.look() if (each.worker, each.birth) == me]

    def _can_open(self, version: VersionId, *, trusts: bool) -> bool:
        """Whether the database is there already."""
        for found in self._found():
            if trusts and found.identity == self.identity and version in found.versions:
                return True
            _log.warning(
                "a database is replaced by what the checkpoint store has",
                worker=self.identity.worker,
                folder=str(self._database),
                versions=[str(v) for v in found.versions],
                fault=found.fault,
            )
        return False
