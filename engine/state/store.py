"""What the engine needs of a database: ordered bytes within one transaction.

`storage.Transaction` is one implementation. `DictStore` is another, for circuits that run without a database (tests,
and the baseline of the benchmark). Keys begin with (table, slot); `storage/keys.py` builds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from base.ranges import Range
from storage.pins import Pin, pinned_below


class Store(Protocol):
    """A transaction. A view that `get` returns is valid until the transaction ends."""

    def get(self, key: bytes, *, immutable: bool = False) -> memoryview | None: ...

    def put(self, key: bytes, value: bytes | memoryview) -> None: ...

    def delete(self, key: bytes) -> None: ...

    def keys(self, prefix: bytes) -> Iterator[bytes]: ...

    def free_from(self, slot: int) -> int:
        """The lowest slot from `slot` on under which records may be stored, or 65,536: the others have copies that nobody sees."""
        ...

    def pinned_below(self, table: int, span: Range | None = None) -> int:
        """In buckets that reach into this range of slots, the runs of a table with lower numbers stay as they are: no merge takes them in.
        Without a range: in any bucket. No new run of the table gets a lower number than that."""
        ...


class DictStore:
    """A store in memory."""

    def __init__(self) -> None:
        self.records: dict[bytes, bytes] = {}
        self.pins: tuple[Pin, ...] = ()

    def get(self, key: bytes, *, immutable: bool = False) -> memoryview | None:
        value = self.records.get(key)
        return None if value is None else memoryview(value)

    def put(self, key: bytes, value: bytes | memoryview) -> None:
        self.records[key] = bytes(value)

    def delete(self, key: bytes) -> None:
        self.records.pop(key, None)

    def keys(self, prefix: bytes) -> Iterator[bytes]:
        return iter(sorted(key for key in self.records if key.startswith(prefix)))

    def pinned_below(self, table: int, span: Range | None = None) -> int:
        return pinned_below(self.pins, table, span)

    def free_from(self, slot: int) -> int:
        return slot
