"""The faults that storage reports. Each names the database and says what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from base.fault import ExitCode, Fault
from base.term import Term
from storage.identity import Identity


class StorageError(Fault):
    """A fault of a worker's database, or of the disk under it. `worker`: whose it is, where the coordinator is told of it."""

    exit_code = ExitCode.STATE
    worker: int | None = None


class NoDatabase(StorageError):
    def __init__(self, path: Path) -> None:
        super().__init__(
            f"There is no database in {path}.",
            "Check the `storage` setting of the project. If the state is really gone, rebuild it with "
            "`stepwell run --full-refresh`.",
        )


class DatabaseExists(StorageError):
    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is not empty, so no database can be created there.", "Move it away, or choose another folder."
        )


class WrongDatabase(StorageError):
    """The folder holds the database of another pipeline, worker or layout."""

    def __init__(self, path: Path, expected: object, found: object) -> None:
        super().__init__(
            f"The database in {path} is {found}, but {expected} is expected.",
            "Perhaps two projects share one storage folder, or folders were exchanged. Give each project its own "
            "`storage` folder.",
        )


class UnknownVersion(StorageError):
    def __init__(self, path: Path, asked: object, present: object) -> None:
        super().__init__(
            f"The database in {path} cannot open {asked}: it has {present}.", "Choose one of the versions that it has."
        )


class StaleEpoch(StorageError):
    """The fence: the database belongs to a higher epoch. The run that gets this error must stop; it must not retry."""

    def __init__(self, path: Path, epoch: int, stored: int) -> None:
        super().__init__(
            f"Term {Term.of(epoch)} no longer owns the database in {path}: term {Term.of(stored)} has fenced it.",
            "Another `stepwell run` has taken over this pipeline, so this one must end.",
        )
        self.epoch = epoch
        self.stored = stored


class NotOpen(StorageError):
    """The database was not opened in this epoch, or it has been opened again since. Recovery starts again."""

    def __init__(self, path: Path, epoch: int, reason: str) -> None:
        super().__init__(
            f"The database in {path} is not open in term {Term.of(epoch)}: {reason}.",
            "The coordinator must open it again.",
        )


class CheckpointPending(StorageError):
    """A frozen version has not been folded yet."""

    def __init__(self, path: Path, pending: object, asked: object) -> None:
        super().__init__(
            f"The database in {path} must fold {pending} before it can freeze {asked}.", "Call fold() first."
        )


class CorruptRecord(StorageError):
    """A checksum does not match. Nothing was changed. `layer_name` names the layer, the version and the path as far as they
    are known."""

    def __init__(self, layer_name: str, key: bytes) -> None:
        super().__init__(
            f"A record of {layer_name} does not match its checksum: key {describe_key(key)}. The disk or the memory is "
            "failing, or another program has written to the file.",
            "Keep a copy of the folder, then rebuild the state with `stepwell run --full-refresh`.",
        )
        self.key = key


class CorruptFile(StorageError):
    """LMDB cannot read the file, or records are missing from it."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"The file of the database in {path} cannot be read: {reason}.",
            "Keep a copy of the folder, then rebuild the state with `stepwell run --full-refresh`.",
        )


class OtherFormat(CorruptFile):
    """The database was written by another version of Stepwell. `owner`: its identity, which every format stores in the
    same place."""

    def __init__(self, path: Path, owner: Identity, found: int, known: int) -> None:
        self.owner = owner
        StorageError.__init__(
            self,
            f"The database in {path} is in format {found}; this version of Stepwell reads only format {known}.",
            "Run the version of Stepwell that wrote it, or rebuild the state with `stepwell run --full-refresh`.",
        )


@dataclass(frozen=True)
class DiskRoom:
    """What is free on a disk. `files`: how many more files it can have; None if it has no limit of its own."""

    bytes: int
    files: int | None

    @property
    def text(self) -> str:
        return f"{self.bytes} bytes are" if self.files != 0 else f"{self.bytes} bytes, and no inodes for files, are"


class StorageFull(StorageError):
    """The disk is full, or a write to it has failed. The last complete version is intact."""

    def __init__(self, path: Path, reason: str, room: DiskRoom | None) -> None:
        free = "" if room is None else f" ({room.text} free on that disk)"
        super().__init__(
            f"The database in {path} could not be written: {reason}{free}. The last checkpoint is intact.",
            "Free some space on that disk, or check its health. Then run again: the run continues from the checkpoint.",
        )


class WriterBlocked(StorageError):
    """Another process has held the writer's lock beyond the deadline."""

    def __init__(self, path: Path, holder: str, waited_seconds: float) -> None:
        super().__init__(
            f"{path} is locked for writing by {holder}, which has not released it within {waited_seconds:g} s.",
            "If it is a stopped or hung process of Stepwell, kill it (`kill -9 PID`) and run again. "
            "This loses no data.",
        )


class ForkedWhileOpen(StorageError):
    """A forked child uses an environment that was in use in its parent at the time of the fork."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"This process was forked while its parent was using {path}. LMDB cannot open it again in the "
            "forked process.",
            "Fork before storage is used, or start a new interpreter (`spawn`).",
        )


def describe_key(key: bytes) -> str:
    """A key in readable form: table, shard, and the rest in hexadecimal."""
    if len(key) < 4:
        return key.hex()
    return f"table {int.from_bytes(key[:2])} shard {int.from_bytes(key[2:4])} {key[4:].hex()}"
