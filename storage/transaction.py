"""A view of up to three layers as one ordered map, and the changes of one step to the top one.

    put, delete -> changes of this transaction (in memory)
                   working      \\
                   frozen        > snapshots, taken when the transaction began
                   committed    /

A lookup takes the uppermost record; a tombstone hides what is below. Changes are kept aside until the end and then
written in order of their keys: sorted writes are twice as fast, and no view that was handed out is disturbed by a
later change, as it would be inside an LMDB write transaction. So every memoryview is valid until the transaction
ends, and not longer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from storage import keys, records
from storage.environments import Environment, Reader, Writer
from storage.errors import CorruptRecord

Rank = int
Check = Literal["always", "once", "never"]  # when a record's checksum is verified; once: a process, environment and key


@dataclass(frozen=True)
class Layer:
    """One snapshot. `space` is what stands before every key in this environment; `place` is for people."""

    environment: Environment
    reader: Reader
    space: bytes
    place: str

    def find(self, key: bytes, check: Check) -> memoryview | None:
        """The stored record, verified."""
        stored = self.reader.get(self.space + key)
        return None if stored is None else self.opened(key, stored, check)

    def find_many(self, wanted: Sequence[bytes], check: Check) -> dict[bytes, memoryview]:
        cut = len(self.space)
        found = self.reader.get_many([self.space + key for key in wanted] if cut else wanted)
        if cut:
            found = {key[cut:]: stored for key, stored in found.items()}
        return {key: self.opened(key, stored, check) for key, stored in found.items()}

    def items(self, prefix: bytes, check: Check) -> Iterator[tuple[bytes, memoryview]]:
        cut = len(self.space)
        for spaced, stored in self.reader.items(self.space + prefix):
            key = spaced[cut:]
            if key.startswith(keys.RESERVED):
                return
            yield key, self.opened(key, stored, check)

    def has_value(self, key: bytes) -> bool:
        stored = self.reader.get(self.space + key)
        return stored is not None and not records.is_tombstone(stored)

    def opened(self, key: bytes, stored: memoryview, check: Check) -> memoryview:
        """The record, from what this layer stores of it. Raises CorruptRecord."""
        if check == "never" or (check == "once" and key in self.environment.verified):
            return stored
        try:
            records.verify(key, stored)
        except records.ChecksumMismatch:
            raise CorruptRecord(self.place, key) from None
        if check == "once":
            self.environment.remember_verified(key)
        return stored


class Transaction:
    """Made by `Database.transaction`, `read` and `read_committed`. For one thread, and only inside the `with`."""

    def __init__(self, layers: tuple[Layer, ...], *, writable: bool) -> None:
        self._layers = layers  # uppermost first
        self._writable = writable
        self._changes: dict[bytes, bytes] = {}  # key -> the record to store

    def get(self, key: bytes, *, immutable: bool = False) -> memoryview | None:
        """The value, without a copy. `immutable`: this key's value never changes, so it is verified once, not every
        time. Raises CorruptRecord."""
        changed = self._changes.get(key)
        stored = self._find(key, _check(immutable)) if changed is None else memoryview(changed)
        return None if stored is None or records.is_tombstone(stored) else records.value_of(stored)

    def get_many(self, wanted: Sequence[bytes], *, immutable: bool = False) -> list[memoryview | None]:
        """The values of sorted keys, in their order. Raises CorruptRecord."""
        found: dict[bytes, memoryview] = {key: memoryview(self._changes[key]) for key in wanted if key in self._changes}
        for layer in self._layers:
            missing = [key for key in wanted if key not in found] if found else wanted
            if missing:
                found.update(layer.find_many(missing, _check(immutable)))
        return [
            None if (stored := found.get(key)) is None or records.is_tombstone(stored) else records.value_of(stored)
            for key in wanted
        ]

    def scan(self, prefix: bytes, *, immutable: bool = False) -> Iterator[tuple[bytes, memoryview]]:
        """All (key, value) whose key begins with `prefix`, in order of the keys; changes made after the scan began
        are not seen. Raises CorruptRecord."""
        for key, stored in self._merged(prefix, _check(immutable)):
            yield key, records.value_of(stored)

    def keys(self, prefix: bytes) -> Iterator[bytes]:
        """As `scan`, without reading the values, which are not verified."""
        for key, _ in self._merged(prefix, "never"):
            yield key

    def put(self, key: bytes, value: records.Octets) -> None:
        assert self._writable, "put in a transaction that only reads"
        assert 0 < len(key) <= keys.KEY_BYTES_MAX, f"a key of {len(key)} bytes"
        assert not key.startswith(keys.RESERVED), f"key {key.hex()} is storage's own"
        self._changes[key] = records.encode(key, value)

    def put_many(self, items: Iterable[tuple[bytes, records.Octets]]) -> None:
        for key, value in items:
            self.put(key, value)

    def delete(self, key: bytes) -> None:
        """No error if it is absent."""
        assert self._writable, "delete in a transaction that only reads"
        assert not key.startswith(keys.RESERVED), f"key {key.hex()} is storage's own"
        self._changes[key] = records.tombstone(key)

    def get_step(self) -> int:
        """The number of the next step to apply."""
        value = self.get(keys.STEP_KEY)
        return 0 if value is None else int.from_bytes(value)

    def set_step(self, step: int) -> None:
        assert self._writable, "set_step in a transaction that only reads"
        self._changes[keys.STEP_KEY] = records.encode(keys.STEP_KEY, step.to_bytes(8))

    def write_changes(self, writer: Writer) -> None:
        """For `Database` alone: hands the changes to the working layer, in order. A tombstone with nothing below to
        hide is not stored, so that what is made and deleted between two checkpoints leaves nothing behind."""
        puts = []
        for key in sorted(self._changes):
            stored = self._changes[key]
            if records.is_tombstone(stored) and not any(layer.has_value(key) for layer in self._layers[1:]):
                writer.delete(key)
            else:
                puts.append((key, stored))
        writer.put_many(puts)

    def _find(self, key: bytes, check: Check) -> memoryview | None:
        for layer in self._layers:
            stored = layer.find(key, check)
            if stored is not None:
                return stored
        return None

    def _merged(self, prefix: bytes, check: Check) -> Iterator[tuple[bytes, memoryview]]:
        """The stored records that are in force, in order of their keys."""
        last: bytes | None = None
        for key, _, stored in heapq.merge(*self._streams(prefix, check)):
            if key != last and not records.is_tombstone(stored):
                yield key, stored
            last = key

    def _streams(self, prefix: bytes, check: Check) -> list[Iterator[tuple[bytes, Rank, memoryview]]]:
        """One ordered stream a layer. No two share a rank, so the merge never compares values."""
        changed = sorted(key for key in self._changes if key.startswith(prefix) and not key.startswith(keys.RESERVED))
        changes = [(key, 0, memoryview(self._changes[key])) for key in changed]
        streams = [iter(changes)] if changes else []
        for rank, layer in enumerate(self._layers, start=1):
            streams.append(_ranked(rank, layer.items(prefix, check)))
        return streams


def _check(immutable: bool) -> Check:
    return "once" if immutable else "always"


def _ranked(rank: Rank, items: Iterator[tuple[bytes, memoryview]]) -> Iterator[tuple[bytes, Rank, memoryview]]:
    for key, stored in items:
        yield key, rank, stored
