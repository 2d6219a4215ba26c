"""What the checkpoint store needs of an object store: whole objects under names, which are never changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from storage.remote.errors import ObjectMissing

__all__ = ["ObjectInfo", "ObjectMissing", "ObjectStore", "Written"]


@dataclass(frozen=True)
class Written:
    """What was written: the size of the object, and xxh3_128 of all its bytes in hexadecimal."""

    bytes: int
    digest: str


@dataclass(frozen=True)
class ObjectInfo:
    """An object that is there, and its size."""

    name: str
    bytes: int


class ObjectStore(Protocol):
    """Names are relative to the root of the store, and their parts are separated by slashes."""

    def write(self, name: str, pieces: Iterable[bytes]) -> Written:
        """Writes an object, which appears as a whole or not at all: not if `pieces` raises, either. It replaces one of this name."""

    def read(self, name: str) -> Iterator[bytes]:
        """The bytes of an object, in pieces of bounded size. Raises ObjectMissing."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """The objects whose names begin with `prefix`."""

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects. It is no error if one is absent."""
