"""The way back: the records of the version before that a fold has replaced, in a space of their own beside the records.

    a key that the fold changed or deleted    its former record, compressed, with a checksum of its own
    a key that the fold brought               a tombstone

Laid over the later version, as a layer, it gives the former one. Compressed, because it is written at every checkpoint and
hardly ever read, and because records are columns of numbers in order: 0.31 of their size in a state of sums and counts, at
565 MB/s. So two versions need little more room than one, and a fold writes and syncs less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from storage import records
from storage.description import UNDO
from storage.environments import Reader, Writer
from storage.errors import CorruptRecord
from storage.transaction import Check, Layer

CODEC = "zstd"  # level 1; lz4 is half as fast again and leaves 0.47
LENGTH_BYTES = 8  # before the compressed bytes: how many they were


def keep(writer: Writer, key: bytes, former: bytes | None) -> None:
    """Notes what stood under a key before the fold. `former`: the stored record, or None."""
    kept = records.tombstone(key) if former is None else records.encode(key, _packed(former))
    writer.put(UNDO + key, kept)


def items(reader: Reader, place: str) -> Iterator[tuple[bytes, bytes]]:
    """(key, former record or tombstone), in order of the keys. Raises CorruptRecord."""
    for spaced, kept in reader.items(UNDO):
        key = spaced[len(UNDO) :]
        yield key, _former(key, kept, place)


def verify(reader: Reader, place: str) -> None:
    """Raises CorruptRecord where the undo does not lead back."""
    for spaced, kept in reader.items(UNDO):
        _verify(spaced[len(UNDO) :], kept, place)


@dataclass(frozen=True)
class UndoLayer(Layer):
    """The undo as the layer above a half-laid version."""

    def opened(self, key: bytes, stored: memoryview, check: Check) -> memoryview:
        # Never verified once alone: the record below, under the same key, may be another.
        return stored if check == "never" else memoryview(_former(key, stored, self.place))


def _packed(former: bytes) -> bytes:
    compressed: bytes = pa.compress(former, codec=CODEC, asbytes=True)
    return len(former).to_bytes(LENGTH_BYTES) + compressed


def _former(key: bytes, kept: memoryview, place: str) -> bytes:
    _verify(key, kept, place)
    if records.is_tombstone(kept):
        return bytes(kept)
    packed = records.value_of(kept)
    length = int.from_bytes(packed[:LENGTH_BYTES])
    former: bytes = pa.decompress(packed[LENGTH_BYTES:], length, codec=CODEC, asbytes=True)
    return former


def _verify(key: bytes, kept: memoryview, place: str) -> None:
    try:
        records.verify(key, kept)
    except records.ChecksumMismatch:
        raise CorruptRecord(place, key) from None
