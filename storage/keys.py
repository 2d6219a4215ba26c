"""Keys of records: (table, slot, suffix), ordered so that each range of slots of a table is one range of keys.

Both numbers are unsigned 16-bit big-endian integers, so the order of the bytes is the order of the numbers. Table 0xFFFF
belongs to storage itself, and scans do not show it.
"""

from __future__ import annotations

TABLE_MAX = 0xFFFE
"""Table 0xFFFF is RESERVED."""

SLOT_MAX = 0xFFFF

KEY_BYTES_MAX = 507
"""LMDB's limit is 511, and the committed environment adds at most four bytes to a key."""

PREFIX_BYTES = 4
"""The bytes of the table and the slot, with which a key begins."""

RESERVED = b"\xff\xff"

STEP_KEY = RESERVED + b"step"
"""The key of the number of the next step to apply. It is versioned like any other record."""

CUT_KEY = RESERVED + b"cut"
"""The key of the number of the last cut that the database has done."""

OWNED_KEY = RESERVED + b"owned"
"""The key of the slots of which the database has the state, as SlotSet.to_bytes gives them."""

IN_ERROR_KEY = RESERVED + b"in_error"
"""The key of names as JSON; see Transaction.get_in_error."""

HIDDEN_KEY = RESERVED + b"staged"
"""The key of the slots of which the database has copies that nobody sees, in the form of OWNED_KEY."""

TABLE_FIRST = 16
"""The records of tables from this one on belong to slots, and move with them. Tables below are a worker's own, and stay."""


def table_prefix(table: int) -> bytes:
    """The prefix of all keys of a table."""
    assert 0 <= table <= TABLE_MAX, f"table {table}"
    return table.to_bytes(2)


def slot_prefix(table: int, slot: int) -> bytes:
    """The prefix of all keys of one slot of a table."""
    assert 0 <= slot <= SLOT_MAX, f"slot {slot}"
    return table_prefix(table) + slot.to_bytes(2)


def record_key(table: int, slot: int, suffix: bytes) -> bytes:
    """The key of a record."""
    key = slot_prefix(table, slot) + suffix
    assert len(key) <= KEY_BYTES_MAX, f"a key of {len(key)} bytes; the limit is {KEY_BYTES_MAX}"
    return key


def key_table(key: bytes) -> int:
    """The table of a record's key."""
    return int.from_bytes(key[:2])


def key_slot(key: bytes) -> int:
    """The slot of a record's key."""
    return int.from_bytes(key[2:4])
