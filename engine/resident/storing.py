"""What one worker does with the checkpoint store.

    a fold: what it is about to merge goes into the spool first -> StoreVersion: what is new of a version is uploaded, beside the steps
    RestoreDatabase: the database is made of what the store has

The spool is a local folder, so a slow store keeps no fold waiting. It is bounded: when it has as much as the state itself, it is emptied, and
the next upload writes the whole state, which costs no more.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from base.logger import Logger
from base.version import VersionId
from engine.errors import StaleTask
from engine.resident.messages import DatabaseRestored, RestoreDatabase, StoreVersion, VersionStored
from io_kafka.outside import Outside
from storage import committed, durable
from storage.database import Database
from storage.environments import Gone
from storage.errors import (
    CorruptFile,
    CorruptRecord,
    DatabaseExists,
    NoDatabase,
    OtherFormat,
    StaleEpoch,
    StorageFull,
)
from storage.host_folder import HostFolder
from storage.identity import FoundDatabase, Identity, UnneededDatabase
from storage.remote import spool
from storage.remote.chain import Chain
from storage.remote.objects_protocol import ObjectStore
from storage.remote.place import StorePlace
from storage.remote.restoring import restore
from storage.remote.retrying_store import RetryingStore
from storage.remote.uploading import is_due_for_base, upload

_log = Logger("engine.resident.worker")

SPOOL_BYTES_MIN = 64 << 20
"""The spool of a small state may have so many bytes. Emptying it costs an upload of the whole state."""


@dataclass
class StoreAccess:
    """One worker's way to the checkpoint store. `place`: None if the pipeline has no store. `epoch`: the number of the worker's term."""

    place: StorePlace | None
    folder: HostFolder
    identity: Identity
    birth: str
    epoch: int
    outside: Outside
    _last: Chain | None = field(default=None, init=False)
    """The version that this worker has uploaded last, or was told of."""

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
            live_bytes = sum(database.statistics().table_bytes.values())
            if self._is_base_next(database, live_bytes):
                spool.clear(self._spool)
                return
            spool.spool_frozen(database, self._spool)
            if spool.spool_bytes(self._spool) > max(SPOOL_BYTES_MIN, live_bytes):
                spool.clear(self._spool)
        except StorageFull as fault:
            _log.warning(
                "the disk is full, so the next upload to the checkpoint store has the whole state",
                worker=self.identity.worker,
                fault=str(fault),
            )
            spool.clear(self._spool)

    def _is_base_next(self, database: Database, live_bytes: int) -> bool:
        """Whether the next upload writes the whole state in any case, so that compressing what is frozen would be in vain."""
        last = self._last
        if last is None:
            return False
        with database.frozen_records() as frozen:
            raw_bytes = 0 if frozen is None else sum(len(key) + len(stored) for key, stored in frozen.items)
        return is_due_for_base(last, (raw_bytes,), live_bytes)

    def store(self, order: StoreVersion) -> VersionStored:
        """Uploads a version, in a thread of its own, beside the steps. Raises StoreFault and StorageError."""
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
        self._last = chain
        known = set() if former is None else {pack.name for pack in former.packs}
        new = [pack for pack in chain.packs if pack.name not in known]
        return VersionStored(chain=chain.to_json(), bytes=sum(pack.bytes for pack in new))

    def restore(self, order: RestoreDatabase) -> DatabaseRestored:
        """A database that is there goes only when the new one is whole, unless the disk has no room for both. Raises StoreFault and
        StorageError, StaleTask if another run makes the database at the same time, and StaleEpoch if one has it."""
        if self._can_open(order.version, trusts=order.trusts):
            return DatabaseRestored()
        worker = self.identity.worker
        spool.clear(self._spool)
        self.folder.remove_restored(worker, self.birth, self.epoch)  # left by a process that was killed
        chain, beside = Chain.of_json(order.chain), self.folder.restored_of_worker(worker, self.birth, self.epoch)
        try:
            try:
                self._make(chain, beside)
            except StorageFull:
                self._remove()
                self._make(chain, beside)
            self._remove()
            self._put_in_place(beside)
        except StaleEpoch:
            self.folder.remove_restored(worker, self.birth, self.epoch)
            raise
        except (DatabaseExists, Gone, FileNotFoundError) as fault:
            # The other run removes the draft of this one before it makes its own.
            self.folder.remove_restored(worker, self.birth, self.epoch)
            raise StaleTask(f"worker {worker} was to restore its database, and another run does so: {fault}") from fault
        return DatabaseRestored()

    def _make(self, chain: Chain, path: Path) -> None:
        """A store that breaks off is waited for."""
        patient = RetryingStore(self._store, monotonic=self.outside.monotonic, sleep=self.outside.sleep)
        restore(patient, chain, path, self.identity, self.epoch)
        Database.close(path)

    def _put_in_place(self, beside: Path) -> None:
        """Raises DatabaseExists if another run has made one."""
        try:
            beside.rename(self._database)
        except OSError as fault:
            if self._database.exists():
                raise DatabaseExists(self._database) from fault
            raise
        durable.sync(self._database.parent)

    def _can_open(self, version: VersionId, *, trusts: bool) -> bool:
        """Whether the database is there already."""
        for found in self._find():
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

    def _find(self) -> list[FoundDatabase]:
        """The worker's database; none if it is not there."""
        me = (self.identity.worker, self.birth)
        return [each for each in self.folder.look() if (each.worker, each.birth) == me]

    def _remove(self) -> None:
        """The database that is there, which no run will ever open. It is removed under the writer's lock, so that a run that has taken over
        keeps what it has fenced. Raises StaleEpoch if one has."""
        for found in self._find():
            Database.close(self._database)
            with ExitStack() as stack:
                try:
                    writer = stack.enter_context(committed.begin_write(self._database, self.epoch))
                    present = committed.load(self._database, writer)
                except (NoDatabase, OtherFormat, CorruptFile, CorruptRecord):
                    pass  # no run can have opened it
                else:
                    if present.epoch > self.epoch:
                        raise StaleEpoch(self._database, self.epoch, present.epoch)
                self.folder.remove(UnneededDatabase(self.identity.worker, self.birth, found.identity))
