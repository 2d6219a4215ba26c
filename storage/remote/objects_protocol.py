"""What the checkpoint store is to those who use it: named objects, written whole.

Guarantees of every store:
- An object appears whole or not at all, and replaces one of its name. A write that has failed leaves what was there, or the new object whole: if
  the last answer of a store is lost, nobody knows which. If this process ends or fails in the middle of a write, there may be none. The same
  holds on `hdfs://`, where a moment lies between the old object and the new one.
- `write` returns when the object outlives a crash of this machine, and others read it.
- What `list` says includes every object whose `write` had returned before.

A name is a path below the root, with `/` between its parts: `packs/0001-a/7`. Parts that begin with `.part-` are the store's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

PIECE_BYTES_MAX = 1 << 20
"""The largest number of bytes in a piece that `read` gives: large enough that a piece costs nothing, small enough for many readers beside each
other."""


@dataclass(frozen=True)
class WrittenObject:
    """What a store has written. `digest`: xxh3_128 in hexadecimal of all `bytes` bytes of the object."""

    bytes: int
    digest: str


@dataclass(frozen=True)
class ObjectInfo:
    """What a listing says of an object. `name` is relative to the root. `bytes`: the object's size."""

    name: str
    bytes: int


class ObjectStore(Protocol):
    """The objects below one root. May be used by several threads at once. Every method raises StoreFault (errors.py)."""

    @property
    def root(self) -> str:
        """The store's URI, for texts."""
        ...

    def write(self, name: str, pieces: Iterable[bytes]) -> WrittenObject:
        """Writes the object whole. If `pieces` raises, there is no object, and the exception is raised again."""
        ...

    def read(self, name: str) -> Iterator[bytes]:
        """The object's bytes in pieces of at most PIECE_BYTES_MAX. Raises ObjectMissing, with the first piece. An object that ends early
        raises StoreUnreachable."""
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """All objects below the folder `prefix`, in no order; empty if there is no such folder. An empty prefix means the root."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Deletes the objects. It is no error if one is missing. Folders that are empty then may go too."""
        ...


def check_name(name: str) -> str:
    """The name itself. A name that could leave the root, or mean another object, is a bug in Stepwell."""
    parts = name.split("/")
    assert all(part not in ("", ".", "..") and not part.startswith(PARTIAL) for part in parts), name
    return name


PARTIAL = ".part-"
"""Begins the name of a file that is not an object yet."""
