"""The identity of a database: a value that its description, its errors and its callers share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    """`database`: a UUID, given when the database is created."""

    pipeline: str
    worker: int
    database: str
