"""The faults of the checkpoint store. Each names the root of the store and, as far as there is one, the object.

Their fields are texts, so that a fault can travel from a worker to the coordinator. None of them has credentials in its text: a root with
credentials is refused before it is used (uri.py).
"""

from __future__ import annotations

from base.fault import ExitCode, Fault

FORMS = (
    "file:///PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX "
    "or hdfs://HOST:PORT/PATH"
)


class StoreFault(Fault):
    """A fault of the checkpoint store, or of the way to it. `root` is the store's URI."""

    exit_code = ExitCode.STATE

    def __init__(self, root: str, message: str, what_to_do: str) -> None:
        super().__init__(message, what_to_do)
        self.root = root


class BadStoreUri(StoreFault):
    """The URI is none of a store, or names a bucket that does not exist."""

    exit_code = ExitCode.PROJECT

    def __init__(self, root: str, reason: str, what_to_do: str = f"Write {FORMS}.") -> None:
        super().__init__(root, f"The checkpoint store {root} cannot be used: {reason}.", what_to_do)
        self.reason = reason


class StoreUnreachable(StoreFault):
    """The store gives no answer, or one that says that it cannot now. The same operation may be tried again."""

    def __init__(self, root: str, operation: str, reason: str) -> None:
        super().__init__(
            root,
            f"The checkpoint store {root} could not {operation}: {reason}.",
            "Check that the store is up and can be reached from this host. `stepwell doctor` tries it.",
        )


class StoreDenied(StoreFault):
    """The store refuses the operation: the credentials are wrong, or a right is missing. Trying again does not help. `right`: write, read, list
    or delete, whichever is missing; to write and to delete, an object's size has to be read too."""

    def __init__(self, root: str, operation: str, reason: str, what_to_do: str, *, right: str) -> None:
        super().__init__(root, f"The checkpoint store {root} refuses to {operation}: {reason}.", what_to_do)
        self.right = right


class ObjectMissing(StoreFault):
    """There is no object of this name. `name` is relative to the root."""

    def __init__(self, root: str, name: str) -> None:
        super().__init__(
            root,
            f"The checkpoint store {root} has no object {name}.",
            "Check that `stepwell.store` names the store of this pipeline, and that nothing else deletes objects there.",
        )
        self.name = name


class StoreFull(StoreFault):
    """The store has no room left, or a quota of it is used up. Nothing was replaced."""

    def __init__(self, root: str, operation: str, reason: str) -> None:
        super().__init__(
            root,
            f"The checkpoint store {root} has no room to {operation}: {reason}.",
            "Free some space there, or raise the quota.",
        )
