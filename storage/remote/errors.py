"""The faults of the checkpoint store. Each names the root of the store and, as far as there is one, the object.

Their fields are texts, so that a fault can travel from a worker to the coordinator. None of them has credentials in its text: a root with
credentials is refused before it is used (uri.py).
"""

from __future__ import annotations

from base.fault import ExitCode, Fault
from base.version import VersionId

FORMS = (
    "file:///PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX "
    "or hdfs://HOST:PORT/PATH"
)


class StoreFault(Fault):
    """A fault of the checkpoint store, of the way to it, or of what it holds."""

    exit_code = ExitCode.STATE


class FaultAtRoot(StoreFault):
    """A fault of a store. `root` is its URI."""

    def __init__(self, root: str, message: str, what_to_do: str) -> None:
        super().__init__(message, what_to_do)
        self.root = root


class BadStoreUri(FaultAtRoot):
    """The URI is none of a store, or names a bucket that does not exist."""

    exit_code = ExitCode.PROJECT

    def __init__(self, root: str, reason: str, what_to_do: str = f"Write {FORMS}.") -> None:
        super().__init__(root, f"The checkpoint store {root} cannot be used: {reason}.", what_to_do)
        self.reason = reason


class StoreUnreachable(FaultAtRoot):
    """The store gives no answer, or one that says that it cannot now. The same operation may be tried again."""

    def __init__(self, root: str, operation: str, reason: str) -> None:
        super().__init__(
            root,
            f"The checkpoint store {root} could not {operation}: {reason}.",
            "Check that the store is up and can be reached from this host. `stepwell doctor` tries it.",
        )


class StoreDenied(FaultAtRoot):
    """The store refuses the operation: the credentials are wrong, or a right is missing. Trying again does not help. `right`: write, read, list
    or delete, whichever is missing; to write and to delete, an object's size has to be read too."""

    def __init__(self, root: str, operation: str, reason: str, what_to_do: str, *, right: str) -> None:
        super().__init__(root, f"The checkpoint store {root} refuses to {operation}: {reason}.", what_to_do)
        self.right = right


class ObjectMissing(FaultAtRoot):
    """There is no object of this name. `name` is relative to the root."""

    def __init__(self, root: str, name: str) -> None:
        super().__init__(
            root,
            f"The checkpoint store {root} has no object {name}.",
            "Check that `stepwell.store` names the store of this pipeline, and that nothing else deletes objects there.",
        )
        self.name = name


class StoreFull(FaultAtRoot):
    """The store has no room left, or a quota of it is used up. Nothing was replaced."""

    def __init__(self, root: str, operation: str, reason: str) -> None:
        super().__init__(
            root,
            f"The checkpoint store {root} has no room to {operation}: {reason}.",
            "Free some space there, or raise the quota.",
        )


RESTORE_ANOTHER = "Keep a copy of the object, then restore an older checkpoint, or rebuild the state with `stepwell run --full-refresh`."


class PackError(StoreFault):
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


class DamagedStore(StoreFault):
    """All packs of a version are whole, and together they are not its records."""

    def __init__(self, worker: int, version: VersionId, reason: str) -> None:
        super().__init__(
            f"The checkpoint store does not have the state of worker {worker} at {version}: {reason}.",
            "Restore an older checkpoint, or rebuild the state with `stepwell run --full-refresh`.",
        )
