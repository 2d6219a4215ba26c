"""A view of up to three layers as one ordered map, and the changes of one step to the uppermost layer.

    put, delete -> changes of this transaction (in memory)
                   working      \\
                   frozen        > snapshots, taken when the transaction began
                   committed    /

A lookup returns the uppermost record, and a tombstone hides the records below it. Changes are collected until the
transaction ends, and then written in the order of their keys: sorted writes are twice as fast, and no view that was
handed out is overwritten by a later change, as would happen inside an LMDB write transaction. So every memoryview is
valid until the transaction ends, and no longer.
"""

from __future__ import annotations

import heapq
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from base.ranges import Range
from base.slots import NO_SLOTS, SlotSet
from storage import keys, records
from storage.environments import Environment, Reader, Writer
from storage.errors import CorruptRecord
from storage.pins import Pin, pinned_below

T = TypeVar("T")
Rank = int
Check = Literal["always", "once"]
"""When a record's checksum is verified; "once" means once per process, environment and key."""


@dataclass(frozen=True)
class Layer:
    """One snapshot. `key_space` is the prefix of all its keys in the environment, and may be empty. `name` is what errors
    call the layer."""

    environment: Environment
    reader: Reader
    key_space: bytes
    name: str

    def find(self, key: bytes, check: Check) -> memoryview | None:
        """The stored record under a key, verified; or None."""
        stored = self.reader.get(self.key_space + key)
        return None if stored is None else self.decode(key, stored, check)

    def find_many(self, wanted: Sequence[bytes], check: Check) -> dict[bytes, memoryview]:
        """The stored records of those sorted keys that this layer has, verified."""
        cut = len(self.key_space)
        found = self.reader.get_many([self.key_space + key for key in wanted] if cut else wanted)
        if cut:
            found = {key[cut:]: stored for key, stored in found.items()}
        return {key: self.decode(key, stored, check) for key, stored in found.items()}

    def items(self, prefix: bytes, check: Check) -> Iterator[tuple[bytes, memoryview]]:
        """All (key, stored record) whose key has the prefix, in the order of the keys, without storage's own records."""
        cut = len(self.key_space)
        for full_key, stored in self.reader.items(self.key_space + prefix):
            key = full_key[cut:]
            if key.startswith(keys.RESERVED):
                return
            yield key, self.decode(key, stored, check)

    def keys(self, prefix: bytes) -> Iterator[tuple[bytes, bool]]:
        """All (key, whether its record is a tombstone) whose key has the prefix, in the order of the keys, without storage's own records. No
        record is verified."""
        cut = len(self.key_space)
        for full_key, stored in self.reader.items(self.key_space + prefix):
            key = full_key[cut:]
            if key.startswith(keys.RESERVED):
                return
            yield key, records.is_tombstone(stored)

    def has_value(self, key: bytes) -> bool:
        """Whether this layer has a record under a key that is no tombstone."""
        stored = self.reader.get(self.key_space + key)
        return stored is not None and not records.is_tombstone(stored)

    def decode(self, key: bytes, stored: memoryview, check: Check) -> memoryview:
        """The record, from what this layer stores under its key. Raises CorruptRecord."""
        if check == "once" and key in self.environment.verified:
            return stored
        try:
            records.verify(key, stored)
        except records.ChecksumMismatch:
            raise CorruptRecord(self.name, key) from None
        if check == "once":
            self.environment.remember_verified(key)
        return stored


class CutNumber(NamedTuple):
    """The number of a cut: the number of the term that orders it, and its batch, which counts from 1 in each term."""

    term: int
    batch: int


class _HiddenSlots:
    """The slots whose records are copies that no cut has taken over. Scans skip them."""

    def __init__(self, slots: SlotSet) -> None:
        self._edges = [edge for span in slots.ranges for edge in span]

    def has(self, key: bytes) -> bool:
        if not self._edges:  # as in nearly every step
            return False
        return keys.key_table(key) >= keys.TABLE_FIRST and self.free_from(slot := keys.key_slot(key)) != slot

    def free_from(self, slot: int) -> int:
        """The slot itself, or if it is one of these the end of its range."""
        place = bisect_right(self._edges, slot)
        return self._edges[place] if place % 2 else slot


class Transaction:
    """A transaction of `Database.transaction`, `read` or `read_committed`. One thread may use it, and only inside the
    `with`."""

    def __init__(self, layers: tuple[Layer, ...], *, writable: bool, pins: tuple[Pin, ...] = ()) -> None:
        self._layers = layers  # uppermost first
        self._writable = writable
        self._pins = pins
        self._writes: dict[bytes, bytes] = {}  # key -> the record to store
        self._hidden = _HiddenSlots(self.get_hidden())

    def get(self, key: bytes, *, immutable: bool = False) -> memoryview | None:
        """The value of a key, without a copy; or None. With `immutable`, the value of this key never changes, so it is
        verified only once. Raises CorruptRecord."""
        changed = self._writes.get(key)
        stored = self._find(key, _check(immutable)) if changed is None else memoryview(changed)
        return None if stored is None or records.is_tombstone(stored) else records.value_of(stored)

    def get_many(self, wanted: Sequence[bytes], *, immutable: bool = False) -> list[memoryview | None]:
        """The values of the sorted keys `wanted`, in their order; None for each that is absent. Raises
        CorruptRecord."""
        found: dict[bytes, memoryview] = {key: memoryview(self._writes[key]) for key in wanted if key in self._writes}
        for layer in self._layers:
            missing = [key for key in wanted if key not in found] if found else wanted
            if missing:
                found.update(layer.find_many(missing, _check(immutable)))
        return [
            None if (stored := found.get(key)) is None or records.is_tombstone(stored) else records.value_of(stored)
            for key in wanted
        ]

    def scan(self, prefix: bytes, *, immutable: bool = False) -> Iterator[tuple[bytes, memoryview]]:
        """All (key, value) whose key begins with `prefix`, in the order of the keys. The scan does not see changes that
        are made after it began. Raises CorruptRecord."""
        for key, stored in self._merge(prefix, _check(immutable)):
            yield key, records.value_of(stored)

    def keys(self, prefix: bytes) -> Iterator[bytes]:
        """The keys that `scan` gives. The values are neither read nor verified."""
        return (key for key in self._all_keys(prefix) if not self._hidden.has(key))

    def hidden_keys(self, slots: SlotSet) -> Iterator[bytes]:
        """The keys of the copies of these slots, which are among those that `get_hidden` gives."""
        chosen = _HiddenSlots(slots)
        return (key for key in self._all_keys(b"") if chosen.has(key))

    def free_from(self, slot: int) -> int:
        """The lowest slot from this one on that is not hidden."""
        return self._hidden.free_from(slot)

    def pinned_below(self, table: int, span: Range | None = None) -> int:
        """Returns the number below which runs of a table are pinned; see pins.py."""
        return pinned_below(self._pins, table, span) if self._pins else 0

    def put(self, key: bytes, value: records.Octets) -> None:
        """Sets the value of a key."""
        assert self._writable, "put in a transaction that only reads"
        assert 0 < len(key) <= keys.KEY_BYTES_MAX, f"a key of {len(key)} bytes"
        assert not key.startswith(keys.RESERVED), f"key {key.hex()} is storage's own"
        self._writes[key] = records.encode(key, value)

    def put_many(self, items: Iterable[tuple[bytes, records.Octets]]) -> None:
        """Sets the values of several keys."""
        for key, value in items:
            self.put(key, value)

    def delete(self, key: bytes) -> None:
        """Deletes a key. It is no error if the key is absent."""
        assert self._writable, "delete in a transaction that only reads"
        assert not key.startswith(keys.RESERVED), f"key {key.hex()} is storage's own"
        self._writes[key] = records.tombstone(key)

    def get_step(self) -> int:
        """The number of the next step to apply."""
        value = self.get(keys.STEP_KEY)
        return 0 if value is None else int.from_bytes(value)

    def set_step(self, step: int) -> None:
        """Sets the number of the next step to apply."""
        assert self._writable, "set_step in a transaction that only reads"
        self._writes[keys.STEP_KEY] = records.encode(keys.STEP_KEY, step.to_bytes(8))

    def get_owned(self) -> SlotSet:
        """The slots of which this database has the state."""
        value = self.get(keys.OWNED_KEY)
        assert value is not None, "a database without the record of its slots"
        return SlotSet.from_bytes(value)

    def set_owned(self, owned: SlotSet) -> None:
        """Sets the slots of which this database has the state. Their rows have to be there when the transaction ends, and no others."""
        assert self._writable, "set_owned in a transaction that only reads"
        self._writes[keys.OWNED_KEY] = records.encode(keys.OWNED_KEY, owned.to_bytes())

    def get_hidden(self) -> SlotSet:
        """The slots of which this database has copies. Scans do not show them, because nobody has taken them over yet."""
        value = self.get(keys.HIDDEN_KEY)
        return NO_SLOTS if value is None else SlotSet.from_bytes(value)

    def set_hidden(self, hidden: SlotSet) -> None:
        """Sets the slots whose records scans do not show. None of them is owned when the transaction ends."""
        assert self._writable, "set_hidden in a transaction that only reads"
        self._writes[keys.HIDDEN_KEY] = records.encode(keys.HIDDEN_KEY, hidden.to_bytes())
        self._hidden = _HiddenSlots(hidden)

    def get_in_error(self) -> frozenset[str]:
        """The names of the views that have no answer in this state, because an expression raises for some of their rows."""
        value = self.get(keys.IN_ERROR_KEY)
        return frozenset() if value is None else frozenset(json.loads(bytes(value)))

    def set_in_error(self, views: frozenset[str]) -> None:
        """Sets the names of the views that have no answer."""
        assert self._writable, "set_in_error in a transaction that only reads"
        self._writes[keys.IN_ERROR_KEY] = records.encode(keys.IN_ERROR_KEY, json.dumps(sorted(views)).encode())

    def get_cut(self) -> CutNumber:
        """The number of the last cut; (0, 0) before the first one."""
        value = self.get(keys.CUT_KEY)
        return CutNumber(0, 0) if value is None else CutNumber(int.from_bytes(value[:8]), int.from_bytes(value[8:]))

    def set_cut(self, number: CutNumber) -> None:
        """Sets the number of the last cut. It only grows."""
        assert self._writable, "set_cut in a transaction that only reads"
        assert number > self.get_cut(), f"cut {number} after {self.get_cut()}"
        value = number.term.to_bytes(8) + number.batch.to_bytes(8)
        self._writes[keys.CUT_KEY] = records.encode(keys.CUT_KEY, value)

    def flush(self, writer: Writer) -> None:
        """Writes the changes to the working layer, in the order of their keys. Only `Database` calls this. A tombstone
        that hides nothing is not stored, so that a record that is created and deleted between two checkpoints leaves
        nothing behind."""
        puts = []
        for key in sorted(self._writes):
            stored = self._writes[key]
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

    def _merge(self, prefix: bytes, check: Check) -> Iterator[tuple[bytes, memoryview]]:
        """Yields what `_merge_all` yields, without what is hidden."""
        return (item for item in self._merge_all(prefix, check) if not self._hidden.has(item[0]))

    def _merge_all(self, prefix: bytes, check: Check) -> Iterator[tuple[bytes, memoryview]]:
        """The uppermost stored record of each key, without tombstones, in the order of the keys."""
        last: bytes | None = None
        for key, _, stored in heapq.merge(*self._streams(prefix, check)):
            if key != last and not records.is_tombstone(stored):
                yield key, stored
            last = key

    def _streams(self, prefix: bytes, check: Check) -> list[Iterator[tuple[bytes, Rank, memoryview]]]:
        """One ordered stream for each layer. Each stream has its own rank, so the merge never compares values."""
        changes = [(key, memoryview(self._writes[key])) for key in self._written_keys(prefix)]
        layers = [changes, *(layer.items(prefix, check) for layer in self._layers)]
        return [_with_rank(rank, stream) for rank, stream in enumerate(layers)]

    def _all_keys(self, prefix: bytes) -> Iterator[bytes]:
        """Each key whose uppermost record is no tombstone, in the order of the keys."""
        changes = [(key, records.is_tombstone(self._writes[key])) for key in self._written_keys(prefix)]
        layers = [changes, *(layer.keys(prefix) for layer in self._layers)]
        last: bytes | None = None
        for key, _, is_tombstone in heapq.merge(*(_with_rank(rank, stream) for rank, stream in enumerate(layers))):
            if key != last and not is_tombstone:
                yield key
            last = key

    def _written_keys(self, prefix: bytes) -> list[bytes]:
        return sorted(key for key in self._writes if key.startswith(prefix) and not key.startswith(keys.RESERVED))


def _check(immutable: bool) -> Check:
    return "once" if immutable else "always"


def _with_rank(rank: Rank, items: Iterable[tuple[bytes, T]]) -> Iterator[tuple[bytes, Rank, T]]:
    for key, what in items:
        yield key, rank, what
