"""The checkpoint store: what workers put there, and what they take back."""

from __future__ import annotations

from base.version import VersionId
from engine.resident.messages.message import Answer, BackgroundOrder


class VersionStored(Answer):
    """The store has the worker's state of the version. `chain` says where, as JSON (storage/remote/chain.py). `bytes`: that were written for
    it."""

    chain: str
    bytes: int


class StoreVersion(BackgroundOrder[VersionStored]):
    """Uploads the worker's state of a complete version, beside the steps. `former`: the chain of the version that was stored before, which the
    new one may go on from. `prefix`: with which the names of new objects begin. `VersionStored` or `Failed` answers."""

    version: VersionId
    former: str | None
    prefix: str


class DatabaseRestored(Answer):
    """The database is there, at the version of the chain."""


class RestoreDatabase(BackgroundOrder[DatabaseRestored]):
    """Makes the worker's database of what the store has. `version`: the one that is wanted. A database of the worker that is there is removed,
    unless the coordinator `trusts` it and it can open the version. The worker has no database open. `DatabaseRestored` or `Failed` answers."""

    version: VersionId
    chain: str
    trusts: bool
