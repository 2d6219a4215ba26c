"""The checksum of the record set: it shows whether all committed records are there, which no checksum of one record can
show.

A changed bit in LMDB's own pages (in a key, an offset or a separator) hides records, or makes a search miss them. So
the description holds a checksum of the records of every complete version: the sum, modulo 2**64, of one 64-bit mark per
record. A fold updates it at the cost of the changes alone, because a sum can be updated in any order. `open` computes
it again from all records and compares: this costs one lookup per record, and reads only the trailers of the values,
except that it reads records in parts completely.
"""

from __future__ import annotations

from xxhash import xxh3_64_intdigest

from storage import record_parts, records
from storage.description import RECORDS
from storage.environments import Reader

MODULUS = 1 << 64


def record_mark(full_key: bytes, stored: records.Octets) -> int:
    """The mark of one record: a hash of its key in the committed environment and of its trailer, which is a checksum of
    the value."""
    return xxh3_64_intdigest(full_key, int.from_bytes(stored[-records.TRAILER_BYTES :]))


def checksum_of(reader: Reader) -> int:
    """The checksum of all committed records. Raises ChecksumMismatch where a record that the walk meets is not found by
    its key."""
    total = 0
    for full_key, stored in reader.items(RECORDS):
        found = reader.get(full_key)
        if found is None or len(found) != len(stored):
            raise records.ChecksumMismatch
        total += record_mark(full_key, record_parts.read_whole(reader, full_key, stored))
    return total % MODULUS
