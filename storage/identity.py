"""The identity of a database, and what is known of a database that was found: values that storage and its callers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from base.version import VersionId

FIRST_BIRTH = "0"
"""The birth of the workers of a new state. A worker that a rescale makes has a birth of its own, which distinguishes its database
from all others that ever had its number."""


@dataclass(frozen=True)
class Identity:
    """The identity of a database. `database` is a UUID that is chosen when the database is created."""

    pipeline: str
    worker: int
    database: str


class NamedDatabase(NamedTuple):
    """The database that a worker is to have. `birth`: that of the worker. `uuid`: that of its identity."""

    birth: str
    uuid: str


class UnneededDatabase(NamedTuple):
    """A database of a host that no run will ever open again. `birth`: that of its worker. `identity`: None if it cannot be read."""

    worker: int
    birth: str
    identity: Identity | None


@dataclass(frozen=True)
class DatabaseFacts:
    """What a database says of itself to any process. `versions`: the complete ones, ascending. `disk_bytes`: of the committed records."""

    identity: Identity
    versions: tuple[VersionId, ...]
    disk_bytes: int


@dataclass(frozen=True)
class FoundDatabase:
    """A database that a process has found in a folder. `worker` and `birth` are what the folder's name says.

    `identity` is None if the description cannot be read; `fault` then says why. Both are set if another version of Stepwell wrote the database:
    its identity can be read, and its `versions` cannot. `disk_bytes`: of the committed records; 0 if they cannot be read."""

    worker: int
    identity: Identity | None
    versions: tuple[VersionId, ...]
    disk_bytes: int
    fault: str | None = None
    birth: str = FIRST_BIRTH
