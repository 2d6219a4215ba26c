"""Whether all committed records are there, which no checksum of a record can tell.

A changed bit in LMDB's own pages (in a key, an offset, a separator) hides records, or lets a search go past them. So the description
holds a seal of every complete version: the sum of a mark of each record. A fold keeps it up at the cost of the changes, and `open` takes
it anew, at the cost of the number of records: of the values it reads the trailers alone, but of those in parts all.
"""

from __future__ import annotations

from xxhash import xxh3_64_intdigest

from storage import parts, records
from storage.description import RECORDS
from storage.environments import Reader

MODULUS = 1 << 64


def record_mark(key: bytes, stored: records.Octets) -> int:
    """Of one record, under its key in the committed environment. The trailer stands for the value."""
    return xxh3_64_intdigest(key, int.from_bytes(stored[-records.TRAILER_BYTES :]))


def checksum_of(reader: Reader) -> int:
    """Of all committed records. Raises ChecksumMismatch where one that the walk meets is not found by its key."""
    total = 0
    for key, stored in reader.items(RECORDS):
        found = reader.get(key)
        if found is None or len(found) != len(stored):
            raise records.ChecksumMismatch
        total += record_mark(key, parts.whole(reader, key, stored))
    return total % MODULUS
