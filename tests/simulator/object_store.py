"""The checkpoint store of a world: objects in memory, on the other side of a network.

Every call is a point, and so is every piece of an object. What can go wrong is drawn when a call begins: it never arrives, its answer is lost,
it takes long, it breaks off in the middle, or a write arrives when its caller has given up. The store may also be away for a while. An object
appears whole or not at all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from xxhash import xxh3_128_hexdigest

from storage.remote.errors import ObjectMissing, StoreUnreachable
from storage.remote.objects_protocol import ObjectInfo, WrittenObject, check_name

ROOT = "sim:store"

SLOW_SECONDS = (0.05, 0.5, 3.0)
LATE_POINTS = (5, 40, 200)
"""After how many points a write arrives whose caller has given up."""

PIECES_MAX = 3
"""Of an object that is read: each of them is a point."""


class Net(Protocol):
    """What lies between processes and the store: the world."""

    rng: random.Random

    def point(self, place: str) -> None: ...
    def pass_time(self, seconds: float) -> None: ...
    def fate(self, place: str, fates: Sequence[str]) -> str | None: ...
    def alarm(self, points: int, action: Callable[[], None]) -> None: ...
    def store_changed(self, name: str) -> None: ...


class SimStore:
    """As storage.remote.objects_protocol.ObjectStore. `objects`: what is there, for the oracle too. `is_away`: nothing answers."""

    root = ROOT

    def __init__(self, net: Net) -> None:
        self._net = net
        self.objects: dict[str, bytes] = {}
        self.is_away = False

    def write(self, name: str, pieces: Iterable[bytes]) -> WrittenObject:
        fate = self._begin("write", ("write fails", "write arrives late", "answer of a write lost", "slow"))
        content = bytearray()
        for piece in pieces:
            self._net.point("piece of an object")
            content += piece
        whole = bytes(content)
        if fate == "write arrives late":
            self._net.alarm(self._net.rng.choice(LATE_POINTS), lambda: self._put(name, whole))
        if fate in ("write fails", "write arrives late"):
            raise self._unreachable("write", name)
        self._check_there("write")
        self._net.point("object written")
        self._put(name, whole)
        self._net.point("object written, answered")
        if fate == "answer of a write lost":
            raise self._unreachable("write", name)
        return WrittenObject(len(whole), xxh3_128_hexdigest(whole))

    def _put(self, name: str, content: bytes) -> None:
        self.objects[check_name(name)] = content
        self._net.store_changed(name)

    def read(self, name: str) -> Iterator[bytes]:
        fate = self._begin("read", ("read fails", "read breaks off", "slow"))
        if fate == "read fails":
            raise self._unreachable("read", name)
        if name not in self.objects:
            raise ObjectMissing(self.root, name)
        content = self.objects[name]
        size = max(1, -(-len(content) // PIECES_MAX))
        for first in range(0, len(content), size):
            self._check_there("read")
            yield content[first : first + size]
            if fate == "read breaks off":
                raise self._unreachable("read", name)
            self._net.point("piece of an object")

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        if self._begin("list", ("list fails", "slow")) == "list fails":
            raise self._unreachable("list", prefix)
        folder = f"{prefix}/" if prefix else ""
        return iter([ObjectInfo(name, len(o)) for name, o in sorted(self.objects.items()) if name.startswith(folder)])

    def delete(self, names: Iterable[str]) -> None:
        fate = self._begin("delete", ("delete fails", "delete breaks off", "slow"))
        if fate == "delete fails":
            raise self._unreachable("delete", "objects")
        for name in names:
            self._check_there("delete")
            self.objects.pop(name, None)
            self._net.store_changed(name)
            self._net.point("object deleted")
            if fate == "delete breaks off":
                raise self._unreachable("delete", name)

    def _begin(self, what: str, fates: Sequence[str]) -> str | None:
        self._net.point(f"store {what}")
        self._check_there(what)
        fate = self._net.fate("store", fates)
        if fate == "slow":
            self._net.pass_time(self._net.rng.choice(SLOW_SECONDS))
        return fate

    def _check_there(self, what: str) -> None:
        if self.is_away:
            raise self._unreachable(what, "anything")

    def _unreachable(self, what: str, name: str) -> StoreUnreachable:
        return StoreUnreachable(self.root, f"{what} {name}", "the dice say so")
