"""The identity of a database: a value that its description, its errors and its callers share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    """The identity of a database. `database` is a UUID that is chosen when the database is created."""

    pipeline: str
    worker: int
    database: str
