"""How a record is stored: so that a changed bit is noticed, and a deletion differs from an empty value.

    value     value, then 8 bytes: xxh3_64 of the value, seeded with xxh3_64 of the key
    tombstone 4 bytes: the first half of xxh3_64 of the key (nothing else is shorter than 8 bytes)

The key goes in as a seed, not as a prefix, so that a large value is hashed where it lies, without a copy. A value
that is whole but stands under another's key is found as well. The trailer is behind the value, so an Arrow buffer
keeps its alignment.
"""

from __future__ import annotations

from xxhash import xxh3_64_digest, xxh3_64_intdigest

Octets = bytes | bytearray | memoryview

TRAILER_BYTES = 8
TOMBSTONE_BYTES = 4


class ChecksumMismatch(Exception):
    """The stored bytes are not those that were written. Who knows the place turns it into a `CorruptRecord`."""


def encode(key: bytes, value: Octets) -> bytes:
    return b"".join((value, _checksum(key, value)))


def tombstone(key: bytes) -> bytes:
    return xxh3_64_digest(key)[:TOMBSTONE_BYTES]


def verify(key: bytes, stored: Octets) -> None:
    """Raises ChecksumMismatch unless `stored` is what `encode` or `tombstone` gave for this key."""
    view = memoryview(stored)
    if len(view) == TOMBSTONE_BYTES:
        if view != tombstone(key):
            raise ChecksumMismatch
    elif len(view) < TRAILER_BYTES or view[-TRAILER_BYTES:] != _checksum(key, view[:-TRAILER_BYTES]):
        raise ChecksumMismatch


def is_tombstone(stored: memoryview | bytes) -> bool:
    return len(stored) == TOMBSTONE_BYTES


def value_of(stored: memoryview) -> memoryview:
    return stored[:-TRAILER_BYTES]


def live_bytes(key: bytes, stored: memoryview | bytes | None) -> int:
    """What a record counts in the statistics: its key and its value, without the trailer."""
    if stored is None or is_tombstone(stored):
        return 0
    return len(key) + len(stored) - TRAILER_BYTES


def _checksum(key: bytes, value: Octets) -> bytes:
    return xxh3_64_digest(value, xxh3_64_intdigest(key))
