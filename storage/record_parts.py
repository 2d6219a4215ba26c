"""Large records of the committed environment are stored in parts.

LMDB stores a large record in adjacent pages, but it takes single pages out of the gaps that deleted records have left.
So a new record of the same size no longer fits into such a gap, and goes to the end of the file. Where a state consists
of a few records, each of which is replaced between two checkpoints, the file grew to twice the size of its content.
Parts fit into gaps. A record in parts costs a copy when it is read, so a record that is a small share of the state
stays whole, and is read in place.

    prefix, key                  the stored record; or a head of 7 bytes, which is the record's length (a record itself
                                 has 8 bytes or more, and a tombstone has 4)
    PARTS, prefix, key, number   the parts of the record that the head stands for, numbered from 0

A *full key* is the prefix of a key space (RECORDS or UNDO) and a record's key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from storage import keys, records
from storage.environments import Reader, Writer
from storage.errors import CorruptRecord
from storage.transaction import Check, Layer

PARTS = b"p"  # the prefix of a key space of the committed environment
HEAD_BYTES = 7
NUMBER_BYTES = 2
PART_BYTES_MIN = (64 << 10) - 16
"""With LMDB's header this fills 16 pages. Smaller parts would cost more in calls than they save in space."""
PART_SHARE = 16
"""A part is the live state divided by this, or PART_BYTES_MIN. The free space between parts is of the same order."""


def part_bytes(live_bytes: int) -> int | None:
    """The size of a part in a state of `live_bytes`. None: records stay whole, because in an empty state nothing has
    been replaced yet."""
    return max(PART_BYTES_MIN, live_bytes // PART_SHARE) if live_bytes else None


def put(writer: Writer, full_key: bytes, stored: bytes | memoryview, part_bytes: int | None) -> None:
    """Stores a record under a full key, in parts if it is larger than `part_bytes`. It replaces the record that was
    there."""
    delete(writer, full_key)
    if part_bytes is None or len(stored) <= part_bytes:
        writer.put(full_key, stored)
        return
    writer.put(full_key, len(stored).to_bytes(HEAD_BYTES))
    view = memoryview(stored)
    for number, start in enumerate(range(0, len(view), part_bytes)):
        writer.put(_key(full_key, number), view[start : start + part_bytes])


def delete(writer: Writer, full_key: bytes) -> None:
    """Deletes a record and its parts. It is no error if the record is absent."""
    stored = writer.get(full_key)
    if stored is not None:
        if len(stored) == HEAD_BYTES:  # a scan finds them even if one is lost
            length_of_key = len(_key(full_key, 0))
            for key in [key for key, _ in writer.items(PARTS + full_key) if len(key) == length_of_key]:
                writer.delete(key)
        writer.delete(full_key)


def delete_all(writer: Writer, prefix: bytes) -> bool:
    """Empties the key space of `prefix`. Returns whether it held anything."""
    was_there = next(writer.items(prefix), None) is not None
    writer.delete_all(prefix)
    writer.delete_all(PARTS + prefix)
    return was_there


def get(reader: Reader, full_key: bytes) -> bytes | memoryview | None:
    """The stored record, or None. Raises ChecksumMismatch where a part is missing."""
    stored = reader.get(full_key)
    return None if stored is None else read_whole(reader, full_key, stored)


def length(stored: bytes | memoryview) -> int:
    """The length of a record, from what is stored under its full key: the record itself or its head."""
    return int.from_bytes(stored) if len(stored) == HEAD_BYTES else len(stored)


def read_whole(reader: Reader, full_key: bytes, stored: memoryview) -> bytes | memoryview:
    """The whole record, from what is stored under its full key: the record itself or its head. Raises ChecksumMismatch
    where a part is missing. The record's own checksum, which the caller verifies, detects all other damage."""
    if len(stored) != HEAD_BYTES:
        return stored
    left, parts = length(stored), list[memoryview]()
    while left > 0:
        part = reader.get(_key(full_key, len(parts)))
        if not part:
            raise records.ChecksumMismatch
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


@dataclass(frozen=True)
class PartedLayer(Layer):
    """The committed records as the lowest layer."""

    def keys(self, prefix: bytes) -> Iterator[tuple[bytes, bool]]:
        """A fold deletes a record where the layer above has a tombstone, so there are none here, and the records, which are most of the state,
        are not touched. Every step lists the keys of each trace."""
        for full_key in self.reader.keys(self.key_space + prefix):
            key = full_key[len(self.key_space) :]
            if key.startswith(keys.RESERVED):
                return
            yield key, False

    def decode(self, key: bytes, stored: memoryview, check: Check) -> memoryview:
        try:
            record = memoryview(read_whole(self.reader, self.key_space + key, stored))
        except records.ChecksumMismatch:
            raise CorruptRecord(self.name, key) from None
        return super().decode(key, record, check)


def _key(full_key: bytes, number: int) -> bytes:
    return PARTS + full_key + number.to_bytes(NUMBER_BYTES)
