"""The two-version database of one worker. It is safe against a crash at any instruction.

Guarantees. `versions` are v, or v and v+1, and each of them is complete. `open` makes one of them the state and
discards the other. What steps write afterwards belongs to v+1, and a crash loses it. `freeze` and `fold` complete v+1
without stopping the steps. A write with an epoch lower than the stored one is rejected (StaleEpoch).

    steps --> working --freeze--> frozen --fold--> committed: the records of the last version, an undo log to the one
              no sync             no sync          before it, and a description that says which layers count; synced

A fold takes several transactions (folding.py says why). Until the last of them the committed records are a mixture of v
and v+1, and the undo log leads back to v. A reader of v alone therefore looks through the undo log. A reader of all
layers needs no undo log, because the frozen layer hides the difference.

Why three layers: a checkpoint must not stop the steps, and its cost must depend on what has changed, not on the size of
the state. Why the description is a record of the committed environment: what `open`, `freeze` and `fold` change in it
is then atomic and fenced. The other layers are plain folders, which count only while the description names them. The
name of a layer is never used again, so a late write or removal by a fenced process affects its own layer only.

Locks are acquired in one order: working before committed. `transaction` and `freeze` hold the lock of the working
layer's writer; `fence`, `open`, `freeze` and `fold` hold that of the committed environment. A reader takes its snapshot
of the committed environment first. The description in this snapshot names the other two layers. Each of them either
stays readable, or has been removed, and then the reader starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from base.slots import SlotSet
from base.version import EMPTY, VersionId
from faults.points import reached
from storage import committed, durable, environments, folding, keys, record_parts, records
from storage import description as described
from storage.committed import COMMITTED
from storage.description import RECORDS, UNDO, Description, MergeProgress
from storage.environments import Environment, Gone, Reader, Writer
from storage.errors import (
    CheckpointPending,
    NoDatabase,
    NotOpen,
    OtherFormat,
    StaleEpoch,
    UnknownVersion,
    WrongDatabase,
)
from storage.identity import DatabaseFacts, Identity
from storage.layer_folders import COMPACT, disk_bytes, remove_layers, with_working
from storage.new_database import new_database
from storage.pins import Pin
from storage.record_parts import PartedLayer
from storage.rollback import Done, Rolled, phase_of, roll_back_piece, verify_record_set
from storage.transaction import Layer, Transaction
from storage.undo import UndoLayer

__all__ = ["EMPTY", "Database", "FencedState", "Identity", "Statistics", "Transaction", "VersionId"]

T = TypeVar("T")

LAYER_RETRIES_MAX = 16
"""Each retry means that a whole freeze, fold or open has completed in the meantime."""


@dataclass(frozen=True)
class Statistics:
    """The sizes of a database. `disk_bytes` is the size of the files, by layer. `table_bytes` is the size of the live
    keys and values of the last complete version, by table."""

    version: VersionId
    disk_bytes: dict[str, int]
    table_bytes: dict[int, int]


@dataclass(frozen=True)
class FencedState:
    """What `fence` has found. `versions` are those that the database can open. `number` identifies this call of `fence`
    in a later `open`."""

    versions: tuple[VersionId, ...]
    number: int


@dataclass(frozen=True)
class FrozenRecords:
    """What `freeze` has set aside: the changes that lead from the version `since` to the version `to`. `items`: (key, stored record or
    tombstone), each verified, in the order of the keys, with storage's own records. It raises CorruptRecord."""

    since: VersionId
    to: VersionId
    items: Iterator[tuple[bytes, memoryview]]


class Database:
    """A handle of a database: its path, the number of the term that opened it (`epoch`, see base/term.py), and its identity. It holds no file
    and no lock, it survives a fork, and it is cheap to make."""

    def __init__(self, path: Path, identity: Identity, epoch: int, opened: int) -> None:
        self.path = path
        self.identity = identity
        self.epoch = epoch
        self._opened = opened  # a later `open` ends this handle, even one of the same epoch
        self.pins: tuple[Pin, ...] = ()
        """For this handle's transactions. Replaced as a whole."""

    @staticmethod
    def create(path: Path, identity: Identity, epoch: int, owned: SlotSet, base: VersionId = EMPTY) -> None:
        """Creates a database with the version `base`, which is empty but for the records of its step and of the slots that
        it owns. It is durable on return. After a crash it exists completely or not at all. Raises DatabaseExists,
        StorageFull."""
        with ExitStack() as stack:
            folder = stack.enter_context(new_database(path.resolve(), epoch))
            made = stack.enter_context(environments.open_environment(folder, synced=True))
            with made.write(epoch) as writer:
                first = {keys.OWNED_KEY: owned.to_bytes(), keys.STEP_KEY: base.step.to_bytes(8)}
                checksum = folding.put_first(writer, {key: records.encode(key, value) for key, value in first.items()})
                described.save(writer, Description(identity, epoch, (base,), record_set_checksums=(checksum,)))
        reached("create.done", identity.worker)

    @staticmethod
    def versions(path: Path) -> tuple[VersionId, ...]:
        """The complete versions: one or two, ascending. Any process may ask, whether the database is open or not."""
        return committed.read_description(path.resolve()).versions

    @staticmethod
    def identity_of(path: Path) -> Identity:
        """The identity of the database, whatever its format. Any process may ask, whether the database is open or
        not."""
        try:
            return committed.read_description(path.resolve()).identity
        except OtherFormat as other:
            return other.owner

    @staticmethod
    def facts(path: Path) -> DatabaseFacts:
        """What the database says of itself. Any process may ask, whether it is open or not. Raises OtherFormat and what `versions` raises."""
        path = path.resolve()
        present = committed.read_description(path)
        return DatabaseFacts(present.identity, present.versions, disk_bytes(path / COMMITTED))

    @staticmethod
    def fence(path: Path, *, epoch: int, identity: Identity) -> FencedState:
        """Comes before `open`: durably ends every worker, fold and coordinator that may still change the database,
        and says which versions it can open. The coordinator fences all databases before it chooses a version. Otherwise a
        coordinator that has been replaced could open one version in some databases, while its successor, which has
        looked at all of them, opens another one in the rest; then the workers would have no version in common. Raises
        StaleEpoch, WrongDatabase, WriterBlocked, StorageFull, CorruptRecord."""
        path = path.resolve()
        with _in_folder(path), committed.begin_write(path, epoch) as writer:
            old = committed.load(path, writer)
            _check_owner(path, old, identity, epoch)
            # A process that was killed may have given a rewritten file this name without making that durable. From now on this run writes to it.
            durable.sync(path)
            number = old.layers_made + 1
            unopened = replace(old, epoch=epoch, layers_made=number, working=None, frozen=None, freezing=None)
            described.save(writer, unopened)
        return FencedState(old.versions, number)

    @staticmethod
    def open(path: Path, version: VersionId, *, epoch: int, identity: Identity, fenced: int | None = None) -> Database:
        """Durably makes `version` the only one, discards what was not completed, and admits the worker of `epoch`.

        `fenced`: the number that `fence` returned. With it, the database is opened at most once after that fence: a
        worker that comes later finds it open and changes nothing, because steps may have run in the meantime.
        Raises NotOpen where the database has been fenced again, StaleEpoch, UnknownVersion, WrongDatabase,
        WriterBlocked, StorageFull, CorruptRecord, CorruptFile."""
        path = path.resolve()
        reached("open.before", identity.worker)
        new: Description | None = None
        rolled: Rolled | None = None
        while new is None:
            with _in_folder(path), committed.begin_write(path, epoch) as writer:
                old = committed.load(path, writer)
                _check_owner(path, old, identity, epoch)
                if fenced is not None and old.layers_made != fenced:
                    # What the earlier attempt has committed may not be on the disk yet. This commit syncs it.
                    described.save(writer, old)
                    return _known_handle(path, old, identity, epoch, fenced)
                piece = _open_piece(path, writer, old, version, epoch=epoch, rolled=rolled)
                if isinstance(piece, Rolled):
                    rolled = piece
                    described.save(writer, rolled.description)
                else:
                    new = piece
                    described.save(writer, new)
                    reached("open.undone", identity.worker)
        # A `create` that was killed may have made these folders without syncing them.
        for folder in (path.parent, path.parent.parent):
            durable.sync(folder)
        reached("open.done", identity.worker)
        return Database(path, identity, epoch, new.opened)

    @staticmethod
    def attach(path: Path, *, epoch: int, identity: Identity) -> Database:
        """A handle of a database that is open, for a worker. Raises StaleEpoch, NotOpen, WrongDatabase, NoDatabase."""
        path = path.resolve()
        present = committed.read_description(path)
        _check_owner(path, present, identity, epoch)
        database = Database(path, identity, epoch, present.opened)
        database._check_open(present)
        return database

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """The write transaction of the working layer; only one runs at a time. It commits when the body ends, and
        changes nothing if the body raises. Raises StaleEpoch, NotOpen, WriterBlocked, StorageFull."""
        with ExitStack() as stack:
            writer, layers = self._retry(stack, self._enter_writing)
            transaction = Transaction(layers, writable=True, pins=self.pins)
            yield transaction
            transaction.flush(writer)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A snapshot of the present state: the working layer over the frozen one over the committed records."""
        with ExitStack() as stack:
            yield Transaction(self._retry(stack, self._enter_layers), writable=False)

    @staticmethod
    @contextmanager
    def read_committed(path: Path) -> Iterator[tuple[VersionId, Transaction]]:
        """A snapshot of the last complete version alone. Any process may read it, while steps run."""
        path = path.resolve()
        with committed.open_committed(path) as environment, environment.read() as reader:
            present = committed.load(path, reader)
            layers = [_committed_layer(path, environment, reader, present)]
            if present.merge_progress is not None:
                layers.insert(0, UndoLayer(environment, reader, UNDO, f"the undo log in {path}"))
            yield present.last, Transaction(tuple(layers), writable=False)

    @staticmethod
    def owned_by_version(path: Path) -> dict[VersionId, SlotSet]:
        """The slots that the database owns in each complete version, ascending. Any process may ask, whether the database is open or not. Raises
        NoDatabase, CorruptFile, CorruptRecord."""
        path = path.resolve()
        with committed.open_committed(path) as environment, environment.read() as reader:
            present = committed.load(path, reader)
            last = _committed_layer(path, environment, reader, present)
            to_former = UndoLayer(environment, reader, UNDO, f"the undo log in {path}")
            found: dict[VersionId, SlotSet] = {}
            for version in present.versions:
                is_last = version == present.last and present.merge_progress is None
                layers = (last,) if is_last else (to_former, last)
                found[version] = Transaction(layers, writable=False).get_owned()
            return found

    def freeze(self, version: VersionId) -> None:
        """At a step boundary: what was written since the last version becomes `version`, which waits to be folded. The
        next step writes a new layer at once. A second call with the same version does nothing. Raises CheckpointPending
        while another version waits to be folded, and what `transaction` raises."""
        with _in_folder(self.path), ExitStack() as stack:
            _, layers = self._retry(stack, self._enter_writing)  # keeps steps from writing in the meantime
            step = Transaction(layers, writable=False).get_step()
            writer = stack.enter_context(committed.begin_write(self.path, self.epoch))
            old = committed.load(self.path, writer)
            self._check_open(old)
            if version in (old.freezing, old.last):
                return
            if old.freezing is not None:
                raise CheckpointPending(self.path, old.freezing, version)
            assert version.version == old.last.version + 1, f"{version} does not follow {old.last}"
            assert version.step == step, f"{version} is frozen before step {step}"
            described.save(writer, with_working(self.path, replace(old, frozen=old.working, freezing=version)))
            reached("freeze.inside", self.identity.worker)
        reached("freeze.done", self.identity.worker)

    def fold(self) -> VersionId:
        """Completes the frozen version, durably: from then on it and the version before it can be opened. Any process
        or thread may fold, while steps run. Without a frozen layer it does nothing. Returns the last complete version.

        Each piece is committed, and a later call continues where an earlier one stopped. Before the first piece it
        drops the undo log of the version before, because a freeze comes only when every worker has the last version.
        Raises StaleEpoch, NotOpen, CorruptRecord, WriterBlocked, StorageFull."""
        while True:
            with _in_folder(self.path), committed.begin_write(self.path, self.epoch) as writer:
                old = committed.load(self.path, writer)
                self._check_open(old)
                new = self._fold_piece(writer, old)
                # It is saved even if nothing has changed: what a killed fold has committed may not be on the disk yet,
                # and this commit syncs it.
                described.save(writer, new)
                if old.frozen is not None and new.frozen is None:
                    reached("fold.inside", self.identity.worker)
            if new.frozen is None:
                break
            reached("fold.piece", self.identity.worker)
        if old.frozen is not None:
            reached("fold.synced", self.identity.worker)
            environments.remove(self.path / old.frozen)
            reached("fold.done", self.identity.worker)
        return new.last

    def _fold_piece(self, writer: Writer, old: Description) -> Description:
        """One transaction of a fold: it drops the former undo log, or starts the merge, or merges the next piece."""
        if old.frozen is None or old.freezing is None:
            return old
        if old.merge_progress is None:
            single = replace(old, versions=(old.last,), record_set_checksums=old.record_set_checksums[-1:])
            if record_parts.delete_all(writer, UNDO):
                return single  # the merge waits: pages that a transaction frees are usable from the second one after it
            return replace(single, merge_progress=MergeProgress("", old.table_bytes, old.record_set_checksums[-1]))
        folder = self.path / old.frozen
        layer_name = f"the frozen layer {folder} ({old.freezing})"
        try:
            with environments.open_environment(folder, synced=False) as frozen, frozen.read() as reader:
                progress, done = folding.merge_piece(
                    writer, reader, old.merge_progress, layer_name, sum(old.table_bytes.values())
                )
        except Gone:
            raise NotOpen(self.path, self.epoch, "its frozen layer has been removed by another `open`") from None
        if not done:
            return replace(old, merge_progress=progress)
        return replace(
            old, versions=(old.last, old.freezing), frozen=None, freezing=None, merge_progress=None,
            table_bytes=progress.table_bytes,
            record_set_checksums=(old.record_set_checksums[-1], progress.record_set_checksum),
        )  # fmt: skip

    @contextmanager
    def frozen_records(self) -> Iterator[FrozenRecords | None]:
        """What waits to be folded; None if nothing does. It stays as it is until the last piece of the fold. Raises StaleEpoch, NotOpen."""
        with ExitStack() as stack:
            present = committed.read_description(self.path)
            self._check_open(present)
            if present.frozen is None or present.freezing is None:
                yield None
                return
            try:
                own = stack.enter_context(environments.open_environment(self.path / present.frozen, synced=False))
                reader = stack.enter_context(own.read())
            except Gone:
                raise NotOpen(self.path, self.epoch, "its frozen layer was folded or removed meanwhile") from None
            layer_name = f"the frozen layer {own.folder} ({present.freezing})"
            layer = Layer(own, reader, b"", layer_name)
            items = ((key, layer.decode(key, stored, "always")) for key, stored in reader.items(b""))
            yield FrozenRecords(present.last, present.freezing, items)

    def compact(self, is_wanted: Callable[[], bool] = lambda: True) -> bool:
        """Shrinks the file if much of it is free, beside the steps. Returns whether it did (committed.py). One thread at
        a time may do so. It gives up as soon as `is_wanted` says no. Raises StaleEpoch, NotOpen, WriterBlocked, CorruptRecord."""
        with _in_folder(self.path):
            name = f"{COMPACT}{self._opened}"
            worker, check = self.identity.worker, self._check_open
            return committed.compact(self.path, name, worker, self.epoch, check=check, is_wanted=is_wanted)

    def statistics(self) -> Statistics:
        with committed.open_committed(self.path) as environment, environment.read() as reader:
            present = committed.load(self.path, reader)
        layers = {COMMITTED: COMMITTED, "frozen": present.frozen, "working": present.working}
        sizes = {layer: disk_bytes(self.path / folder) for layer, folder in layers.items() if folder is not None}
        return Statistics(present.last, sizes, present.table_bytes)

    @staticmethod
    def close(path: Path) -> None:
        """Closes this process's environments of one database, each when its last user is done. Handles reopen them."""
        environments.retire_except(path.resolve())

    @staticmethod
    def close_all() -> None:
        """Closes every environment of this process, for tests alone, which open more of them than an address space holds. Handles reopen
        them."""
        environments.close_all()

    def _check_open(self, present: Description) -> None:
        _check_owner(self.path, present, self.identity, self.epoch)
        if present.epoch < self.epoch or present.working is None:
            raise NotOpen(self.path, self.epoch, f"its last `open` was in epoch {present.epoch}")
        if present.boot != boot_id():
            raise NotOpen(self.path, self.epoch, "the machine has been restarted since")
        if present.opened != self._opened:
            raise NotOpen(self.path, self.epoch, "it has been opened again since this handle was made")

    def _enter_layers(self, stack: ExitStack) -> tuple[Layer, ...]:
        """Consistent snapshots of all layers, uppermost first. Raises Gone where a layer was removed in the
        meantime."""
        environment = stack.enter_context(committed.open_committed(self.path))
        reader = stack.enter_context(environment.read())
        present = committed.load(self.path, reader)
        self._check_open(present)
        names = [name for name in (present.working, present.frozen) if name is not None]
        environments.retire_except(self.path, frozenset(self.path / name for name in (COMMITTED, *names)))
        layers = []
        for name in names:
            own = stack.enter_context(environments.open_environment(self.path / name, synced=False))
            layer_name = f"the layer {self.path / name} (after {present.last})"
            layers.append(Layer(own, stack.enter_context(own.read()), b"", layer_name))
        return (*layers, _committed_layer(self.path, environment, reader, present))

    def _enter_writing(self, stack: ExitStack) -> tuple[Writer, tuple[Layer, ...]]:
        """The working layer's writer, and the layers. Raises Gone if another layer has become the working one in the
        meantime."""
        present = committed.read_description(self.path)
        self._check_open(present)
        assert present.working is not None
        working = stack.enter_context(environments.open_environment(self.path / present.working, synced=False))
        writer = stack.enter_context(working.write(self.epoch))
        layers = self._enter_layers(stack)
        if layers[0].environment is not working:
            raise Gone(working.folder)  # it is frozen now; it may still exist
        return writer, layers

    def _retry(self, stack: ExitStack, enter: Callable[[ExitStack], T]) -> T:
        """Enters a consistent set of layers into `stack`. It starts again when one of them has been replaced in
        between."""
        for _ in range(LAYER_RETRIES_MAX):
            with ExitStack() as attempt:
                try:
                    entered = enter(attempt)
                except Gone:
                    continue
                stack.push(attempt.pop_all())
                return entered
        raise NotOpen(self.path, self.epoch, "its layers are missing, or replaced faster than they can be read")


@contextmanager
def _in_folder(path: Path) -> Iterator[None]:
    """Turns the file system's errors into storage's. A run that has taken over may remove the database of a worker that a
    change of the layout has just made: then it is gone."""
    try:
        with environments.disk_faults(path):
            yield
    except FileNotFoundError as fault:
        if path.exists():
            raise
        raise NoDatabase(path) from fault


def _open_piece(
    path: Path, writer: Writer, old: Description, version: VersionId, *, epoch: int, rolled: Rolled | None
) -> Rolled | Description:
    """One transaction of an `open`: it rolls a piece back, or gives the description of the open database when the records are those of the
    version. `rolled`: what the transaction before has left; None in the first one."""
    if version not in old.versions:
        raise UnknownVersion(path, version, old.versions)
    if old.working is None:
        remove_layers(path)  # no process uses a layer any more, and the rollback may need the disk space
    phase = phase_of(old, version, rolled)
    if not isinstance(phase, Done):
        return roll_back_piece(path, writer, old, version, epoch=epoch, phase=phase)
    checksum = verify_record_set(path, writer, old, version)
    record_parts.delete_all(writer, UNDO)
    remove_layers(path)
    new = with_working(path, replace(
        old, epoch=epoch, versions=(version,), boot=boot_id(), frozen=None, freezing=None,
        record_set_checksums=(checksum,),
    ))  # fmt: skip
    return replace(new, opened=new.layers_made)


def _known_handle(path: Path, present: Description, identity: Identity, epoch: int, fenced: int) -> Database:
    """The handle that an earlier attempt to open the database after this fence has made."""
    if present.epoch != epoch or present.opened <= fenced or present.working is None:
        raise NotOpen(path, epoch, "it has been fenced again since")
    return Database(path, identity, epoch, present.opened)


def _check_owner(path: Path, present: Description, identity: Identity, epoch: int) -> None:
    if present.identity != identity:
        raise WrongDatabase(path, identity, present.identity)
    if present.epoch > epoch:
        raise StaleEpoch(path, epoch, present.epoch)


def _committed_layer(path: Path, environment: Environment, reader: Reader, present: Description) -> Layer:
    return PartedLayer(environment, reader, RECORDS, f"database {present.identity.database} in {path} ({present.last})")


@cache
def boot_id() -> str:
    """The machine's boot id. A file that was never synced is trusted only on the boot that wrote it. Two machines, and
    two boots of one machine, have different ones; containers of one machine share it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
