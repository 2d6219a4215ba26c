"""The faults that storage reports. Each names the database and says what to do next."""

from __future__ import annotations

from pathlib import Path

from base.fault import ExitCode, Fault
from storage.identity import Identity


class StorageError(Fault):
    """A fault of a worker's database, or of the disk under it."""

    exit_code = ExitCode.STATE


class NoDatabase(StorageError):
    def __init__(self, path: Path) -> None:
        super().__init__(
            f"There is no database in {path}.",
            "Check the `storage` setting of the project; if the state is really gone, rebuild it with "
            "`stepwell run --full-refresh`.",
        )


class DatabaseExists(StorageError):
    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is not empty, so no new database is made there.", "Move it away, or choose another folder."
        )


class WrongDatabase(StorageError):
    """The folder holds the database of another pipeline, worker or layout."""

    def __init__(self, path: Path, expected: object, found: object) -> None:
        super().__init__(
            f"The database in {path} is {found}, but {expected} is expected.",
            "Two projects may share one storage folder, or folders were exchanged: give each project a `storage` folder of its own.",
        )


class UnknownVersion(StorageError):
    def __init__(self, path: Path, asked: object, present: object) -> None:
        super().__init__(f"The database in {path} cannot open {asked}: it holds {present}.", "Choose one of these.")


class StaleEpoch(StorageError):
    """The fence: a coordinator with a higher epoch owns the database. The run that gets this error must stop, not retry."""

    def __init__(self, path: Path, epoch: int, stored: int) -> None:
        super().__init__(
            f"Epoch {epoch} no longer owns the database in {path}: epoch {stored} has opened it.",
            "Another `stepwell run` has taken over; this one has to end.",
        )
        self.epoch = epoch
        self.stored = stored


class NotOpen(StorageError):
    """`open` of this epoch is missing, or another `open` has replaced it. Recovery starts again."""

    def __init__(self, path: Path, epoch: int, reason: str) -> None:
        super().__init__(
            f"The database in {path} is not open in epoch {epoch}: {reason}.", "The coordinator has to open it again."
        )


class CheckpointPending(StorageError):
    def __init__(self, path: Path, pending: object, asked: object) -> None:
        super().__init__(
            f"The database in {path} still has to fold {pending} before it can freeze {asked}.", "Call fold() first."
        )


class CorruptRecord(StorageError):
    """A checksum does not match. Nothing was changed; the place is named as exactly as it is known."""

    def __init__(self, place: str, key: bytes) -> None:
        super().__init__(
            f"A record of {place} does not match its checksum: key {describe_key(key)}. The disk or the memory is "
            "failing, or the file was written by something else.",
            "Keep a copy of the folder, then rebuild the state with `stepwell run --full-refresh`.",
        )
        self.key = key


class CorruptFile(StorageError):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"The file of the database in {path} cannot be read: {reason}.",
            "Keep a copy of the folder, then rebuild the state with `stepwell run --full-refresh`.",
        )


class OtherFormat(CorruptFile):
    """`owner`: the pipeline and worker whose database it is. Every format holds it in the same place."""

    def __init__(self, path: Path, owner: Identity, found: int, known: int) -> None:
        self.owner = owner
        StorageError.__init__(
            self,
            f"The database in {path} is in format {found}; this version of Stepwell reads format {known} alone.",
            "Run the version that wrote it, or rebuild the state with `stepwell run --full-refresh`.",
        )


class StorageFull(StorageError):
    """The disk is full, or fails to write. The last complete version is intact."""

    def __init__(self, path: Path, reason: str, free_bytes: int | None) -> None:
        free = "" if free_bytes is None else f", {free_bytes} bytes are free there"
        super().__init__(
            f"The database in {path} could not be written: {reason}{free}. The last checkpoint is intact.",
            "Free space on that disk (or look at its health), then run again: it goes on from the checkpoint.",
        )


class WriterBlocked(StorageError):
    """Another process holds the writer's lock past the deadline."""

    def __init__(self, path: Path, holder: str, waited_seconds: float) -> None:
        super().__init__(
            f"{path} is being written by {holder}, which did not give way within {waited_seconds:g} s.",
            "If it is a stopped or hung process of Stepwell, kill it (`kill -9 PID`) and run again; "
            "nothing is lost by that.",
        )


class ForkedWhileOpen(StorageError):
    def __init__(self, path: Path) -> None:
        super().__init__(
            f"This process was forked while its parent was using {path}; LMDB cannot be opened again on "
            "this side of the fork.",
            "Fork before using storage, or start a new interpreter (`spawn`).",
        )


def describe_key(key: bytes) -> str:
    """A key as people can read it: table, shard, and the rest in hexadecimal."""
    if len(key) < 4:
        return key.hex()
    return f"table {int.from_bytes(key[:2])} shard {int.from_bytes(key[2:4])} {key[4:].hex()}"
