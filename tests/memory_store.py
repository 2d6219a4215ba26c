"""An object store in memory, for tests of what uses one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xxhash import xxh3_128_hexdigest

from storage.remote.errors import ObjectMissing
from storage.remote.objects_protocol import ObjectInfo, WrittenObject


class MemoryStore:
    root = "memory:"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def write(self, name: str, pieces: Iterable[bytes]) -> WrittenObject:
        content = b"".join(pieces)
        self.objects[name] = content
        return WrittenObject(len(content), xxh3_128_hexdigest(content))

    def read(self, name: str) -> Iterator[bytes]:
        if name not in self.objects:
            raise ObjectMissing(self.root, name)
        yield self.objects[name]

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for name in sorted(self.objects):
            if name.startswith(prefix.rstrip("/") + "/"):
                yield ObjectInfo(name, len(self.objects[name]))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.objects.pop(name, None)
