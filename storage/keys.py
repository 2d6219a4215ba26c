"""Keys of records: (table, shard, suffix), in an order that keeps every shard of a table in one range.

Both numbers are unsigned, 16 bits, big-endian, so that the order of bytes is the order of numbers and a shard moves
as one range whatever the layout. Table 0xFFFF is storage's own and invisible to scans.
"""

from __future__ import annotations

from typing import NamedTuple

TABLE_MAX = 0xFFFE  # 0xFFFF is RESERVED
SHARD_MAX = 0xFFFF
KEY_BYTES_MAX = 507  # LMDB's limit is 511; the committed environment puts four bytes around a key, at most
PREFIX_BYTES = 4

RESERVED = b"\xff\xff"
STEP_KEY = RESERVED + b"step"  # the number of the next step to apply; it is versioned like any record


class ParsedKey(NamedTuple):
    table: int
    shard: int
    suffix: bytes


def table_prefix(table: int) -> bytes:
    """What all keys of a table begin with."""
    assert 0 <= table <= TABLE_MAX, f"table {table}"
    return table.to_bytes(2)


def shard_prefix(table: int, shard: int) -> bytes:
    """What all keys of one shard of a table begin with."""
    assert 0 <= shard <= SHARD_MAX, f"shard {shard}"
    return table_prefix(table) + shard.to_bytes(2)


def record_key(table: int, shard: int, suffix: bytes) -> bytes:
    key = shard_prefix(table, shard) + suffix
    assert len(key) <= KEY_BYTES_MAX, f"a key of {len(key)} bytes; the limit is {KEY_BYTES_MAX}"
    return key


def parse_key(key: bytes) -> ParsedKey:
    assert len(key) >= PREFIX_BYTES, f"not a record's key: {key.hex()}"
    return ParsedKey(int.from_bytes(key[:2]), int.from_bytes(key[2:4]), key[4:])


def key_table(key: bytes) -> int:
    return int.from_bytes(key[:2])


def key_shard(key: bytes) -> int:
    return int.from_bytes(key[2:4])
