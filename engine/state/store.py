"""What the engine needs of a database: ordered bytes within one transaction.

`storage.Transaction` is one implementation. `DictStore` is another, for circuits that run without a database (tests,
and the baseline of the benchmark). Keys begin with (table, slot); `storage/keys.py` builds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Store(Protocol):
    """A transaction. A view that `get` returns is valid until the transaction ends."""

    def get(self, key: bytes, *, immutable: bool = False) -> memoryview | None: ...

    def put(self, key: bytes, value: bytes | memoryview) -> None: ...

    def delete(self, key: bytes) -> None: ...

    def keys(self, prefix: bytes) -> Iterator[bytes]: ...


class DictStore:
    """A store in memory."""

    def __init__(self) -> None:
        self.records: dict[bytes, bytes] = {}

    def get(self, key: bytes, *, immutable: bool = False) -> memoryview | None:
        value = self.records.get(key)
        return None if value is None else memoryview(value)

    def put(self, key: bytes, value: bytes | memoryview) -> None:
        self.records[key] = bytes(value)

    def delete(self, key: bytes) -> None:
        self.records.pop(key, None)

    def keys(self, prefix: bytes) -> Iterator[bytes]:
        return iter(sorted(key for key in self.records if key.startswith(prefix)))
