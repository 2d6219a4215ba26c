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

from storage import parts, records
from storage.description import UNDO
from storage.environments import Reader, Writer
from storage.errors import CorruptRecord
from storage.transaction import Check, Layer

CODEC = "zstd"  # level 1; lz4 is half as fast again and leaves 0.47
LENGTH_BYTES = 8  # stands before the compressed bytes: how many they were, or 0 where they are not compressed
PACKED_BYTES_MIN = 512  # less than this gains nothing worth 10 us


def keep(writer: Writer, key: bytes, former: bytes | None, part_bytes: int | None) -> None:
    """Notes what stood under a key before the fold: the stored record, unverified, or None."""
    spaced = UNDO + key
    kept = records.tombstone(spaced) if former is None else records.encode(spaced, _packed(former))
    parts.put(writer, spaced, kept, part_bytes)


def keeps(reader: Reader, key: bytes) -> bool:
    """Whether the way back has this key already."""
    return reader.get(UNDO + key) is not None


def forget(writer: Writer, key: bytes) -> None:
    parts.delete(writer, UNDO + key)


def items(reader: Reader, place: str) -> Iterator[tuple[bytes, bytes]]:
    """(key, former record or tombstone), in order of the keys. Raises CorruptRecord."""
    for spaced, kept in reader.items(UNDO):
        key = spaced[len(UNDO) :]
        yield key, _former(reader, key, kept, place)


def verify(reader: Reader, place: str) -> None:
    """Raises CorruptRecord where the undo does not lead back."""
    for _ in items(reader, place):
        pass


@dataclass(frozen=True)
class UndoLayer(Layer):
    """The undo as the layer above a half-laid version."""

    def opened(self, key: bytes, stored: memoryview, check: Check) -> memoryview:
        """With "never", as it is stored: that tells a tombstone from a record, and no more. Every other time it is verified, for what
        the environment remembers as verified are keys of the committed records."""
        return stored if check == "never" else memoryview(_former(self.reader, key, stored, self.place))


def _packed(former: bytes) -> bytes:
    if len(former) >= PACKED_BYTES_MIN:
        compressed: bytes = pa.compress(former, codec=CODEC, asbytes=True)
        if len(compressed) < len(former):
            return len(former).to_bytes(LENGTH_BYTES) + compressed
    return bytes(LENGTH_BYTES) + former


def _former(reader: Reader, key: bytes, stored: memoryview, place: str) -> bytes:
    """Its own checksum is verified, then the record's, which may have been damaged before the fold."""
    try:
        kept = memoryview(parts.whole(reader, UNDO + key, stored))
        records.verify(UNDO + key, kept)
        former = records.tombstone(key) if records.is_tombstone(kept) else _unpacked(records.value_of(kept))
        records.verify(key, former)
    except records.ChecksumMismatch:
        raise CorruptRecord(place, key) from None
    return former


def _unpacked(packed: memoryview) -> bytes:
    length, rest = int.from_bytes(packed[:LENGTH_BYTES]), packed[LENGTH_BYTES:]
    if not length:
        return bytes(rest)
    former: bytes = pa.decompress(rest, length, codec=CODEC, asbytes=True)
    return former
