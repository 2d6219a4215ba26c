"""The faults of the checkpoint store. Each names the object, or the worker and its version, and says what to do next."""

from __future__ import annotations

from base.version import VersionId
from storage.errors import StorageError

RESTORE_ANOTHER = "Keep a copy of the object, then restore an older checkpoint, or rebuild the state with `stepwell run --full-refresh`."


class StoreError(StorageError):
    """A fault of what the checkpoint store holds."""


class ObjectMissing(StoreError):
    """The store has no object of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The checkpoint store has no object {name}.",
            "Check the setting of the store, and that nothing else deletes its objects.",
        )
        self.name = name


class PackError(StoreError):
    """An object or a spooled file cannot be used. `name` is its name."""

    def __init__(self, name: str, message: str, what_to_do: str) -> None:
        super().__init__(message, what_to_do)
        self.name = name


class DamagedPack(PackError):
    """The bytes are not those that were written."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, f"The pack {name} is damaged: {reason}.", RESTORE_ANOTHER)


class ForeignPack(PackError):
    """The pack is whole, and it is another one than was expected under its name."""

    def __init__(self, name: str, expected: object, found: object) -> None:
        super().__init__(
            name,
            f"The pack {name} is {found}, but {expected} is expected.",
            "Perhaps objects were exchanged, or two pipelines share one store. " + RESTORE_ANOTHER,
        )


class OtherPackFormat(PackError):
    """The pack, or the chain, was written by another version of Stepwell."""

    def __init__(self, name: str, found: int, known: int) -> None:
        super().__init__(
            name,
            f"The pack {name} is in format {found}; this version of Stepwell reads only format {known}.",
            "Run the version of Stepwell that wrote it, or rebuild the state with `stepwell run --full-refresh`.",
        )


class DamagedStore(StoreError):
    """All packs of a version are whole, and together they are not its records."""

    def __init__(self, worker: int, version: VersionId, reason: str) -> None:
        super().__init__(
            f"The checkpoint store does not have the state of worker {worker} at {version}: {reason}.",
            "Restore an older checkpoint, or rebuild the state with `stepwell run --full-refresh`.",
        )
