"""The stored form of a record. It makes a changed bit detectable, and a deletion distinct from an empty value.

    value     the value, then 8 bytes: xxh3_64 of the value, with xxh3_64 of the key as its seed
    tombstone 4 bytes: the first half of xxh3_64 of the key (every value takes 8 bytes or more)

The key enters as the seed and not as a prefix, so a large value is hashed in place, without a copy. A valid value under
another record's key is detected too. The trailer follows the value, so an Arrow buffer keeps its alignment.
"""

from __future__ import annotations

from xxhash import xxh3_64_digest, xxh3_64_intdigest

Octets = bytes | bytearray | memoryview

TRAILER_BYTES = 8
TOMBSTONE_BYTES = 4


class ChecksumMismatch(Exception):
    """The stored bytes are not those that were written. The caller knows the place, and raises `CorruptRecord`
    instead."""


def encode(key: bytes, value: Octets) -> bytes:
    """The stored form of a value."""
    return b"".join((value, _checksum(key, value)))


def tombstone(key: bytes) -> bytes:
    """The stored form of a deletion."""
    return xxh3_64_digest(key)[:TOMBSTONE_BYTES]


def verify(key: bytes, stored: Octets) -> None:
    """Raises ChecksumMismatch unless `stored` is what `encode` or `tombstone` returned for this key."""
    view = memoryview(stored)
    if len(view) == TOMBSTONE_BYTES:
        if view != tombstone(key):
            raise ChecksumMismatch
    elif len(view) < TRAILER_BYTES or view[-TRAILER_BYTES:] != _checksum(key, view[:-TRAILER_BYTES]):
        raise ChecksumMismatch


def is_tombstone(stored: memoryview | bytes) -> bool:
    """Whether a stored record is a deletion."""
    return len(stored) == TOMBSTONE_BYTES


def value_of(stored: memoryview) -> memoryview:
    """The value of a stored record that is no tombstone, without a copy."""
    return stored[:-TRAILER_BYTES]


def live_bytes(key: bytes, stored: memoryview | bytes | None) -> int:
    """The size of a record in the statistics: its key and its value, without the trailer; 0 for a deletion or
    nothing."""
    if stored is None or is_tombstone(stored):
        return 0
    return len(key) + len(stored) - TRAILER_BYTES


def _checksum(key: bytes, value: Octets) -> bytes:
    return xxh3_64_digest(value, xxh3_64_intdigest(key))
