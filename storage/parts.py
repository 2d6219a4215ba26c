"""Large records of the committed environment, in parts.

LMDB lays a record into pages side by side, and takes single pages out of the room that a former one left. So a new one of the same size
no longer fits there, and goes to the end of the file: where a state is a few records, each replaced between two checkpoints, the file
grew to twice what is in it. Parts find room. They cost a copy when the record is read, so a record that is a small share of the state
stays whole, and is read where it lies.

    space, key                  the stored record; or its head, 7 bytes: its length (a record has 8 or more, a tombstone 4)
    PARTS, space, key, number   what the head stands for, from 0 on
"""

from __future__ import annotations

from dataclasses import dataclass

from storage import records
from storage.environments import Reader, Writer
from storage.errors import CorruptRecord
from storage.transaction import Check, Layer

PARTS = b"p"  # a space of the committed environment
HEAD_BYTES = 7
NUMBER_BYTES = 2
PART_BYTES_MIN = (64 << 10) - 16
"""With LMDB's header 16 of its pages; smaller parts cost more calls than they save room."""
PART_SHARE = 16
"""A part is this fraction of the live state (one in so many): what lies free between parts is of that order."""


def part_bytes(live_bytes: int) -> int | None:
    """How large a part of a record is in a state of that size; None: records stay whole. In an empty one nothing has been replaced yet."""
    return max(PART_BYTES_MIN, live_bytes // PART_SHARE) if live_bytes else None


def put(writer: Writer, spaced: bytes, stored: bytes | memoryview, part_bytes: int | None) -> None:
    delete(writer, spaced)
    if part_bytes is None or len(stored) <= part_bytes:
        writer.put(spaced, stored)
        return
    writer.put(spaced, len(stored).to_bytes(HEAD_BYTES))
    view = memoryview(stored)
    for number, start in enumerate(range(0, len(view), part_bytes)):
        writer.put(_key(spaced, number), view[start : start + part_bytes])


def delete(writer: Writer, spaced: bytes) -> None:
    """No error if it is absent."""
    stored = writer.get(spaced)
    if stored is not None:
        if len(stored) == HEAD_BYTES:  # found by walking, for one may be lost
            length_of_key = len(_key(spaced, 0))
            for key in [key for key, _ in writer.items(PARTS + spaced) if len(key) == length_of_key]:
                writer.delete(key)
        writer.delete(spaced)


def delete_all(writer: Writer, space: bytes) -> bool:
    """Empties a space. Gives whether something was there."""
    was_there = next(writer.items(space), None) is not None
    writer.delete_all(space)
    writer.delete_all(PARTS + space)
    return was_there


def get(reader: Reader, spaced: bytes) -> bytes | memoryview | None:
    """The stored record. Raises ChecksumMismatch."""
    stored = reader.get(spaced)
    return None if stored is None else whole(reader, spaced, stored)


def length(stored: bytes | memoryview) -> int:
    """Bytes of the record of which this stands under its key."""
    return int.from_bytes(stored) if len(stored) == HEAD_BYTES else len(stored)


def whole(reader: Reader, spaced: bytes, stored: memoryview) -> bytes | memoryview:
    """The record of which `stored` stands under its key. Raises ChecksumMismatch where a part is missing; the checksum of the
    whole tells of every other damage."""
    if len(stored) != HEAD_BYTES:
        return stored
    left, parts = length(stored), list[memoryview]()
    while left > 0:
        part = reader.get(_key(spaced, len(parts)))
        if not part:
            raise records.ChecksumMismatch
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


@dataclass(frozen=True)
class PartedLayer(Layer):
    """The committed records as the lowest layer."""

    def opened(self, key: bytes, stored: memoryview, check: Check) -> memoryview:
        """With "never" perhaps a head: that tells a tombstone from a record, and no more."""
        if check == "never":
            return stored
        try:
            record = memoryview(whole(self.reader, self.space + key, stored))
        except records.ChecksumMismatch:
            raise CorruptRecord(self.place, key) from None
        return super().opened(key, record, check)


def _key(spaced: bytes, number: int) -> bytes:
    return PARTS + spaced + number.to_bytes(NUMBER_BYTES)
