"""Whose database it is: a value that its description, its errors and its users share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    """`database`: a UUID. It is given when the database is created."""

    pipeline: str
    worker: int
    database: str
