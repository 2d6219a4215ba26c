"""Laying one layer over the committed records, piece by piece, with the way back (undo.py); and going that way, which is
laying the undo. So folding and going back are one function, at the cost of the changes alone.

Why in pieces, a transaction each: LMDB writes a changed page to another place, and what it freed is free for the transactions that follow.
So a fold in one transaction needs room for all that it changes twice, beside undo; in pieces, for a piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from storage import keys, records, undo
from storage.description import RECORDS, UNDO, Laid
from storage.environments import Reader, Writer
from storage.errors import CorruptRecord
from storage.seal import MODULUS, mark

Record = tuple[bytes, memoryview | bytes]  # a key, and what is stored under it

PIECE_BYTES_MAX = 4 << 20
"""Of records handled in a transaction; one may exceed it. Smaller pieces sync more often, larger ones let the file grow."""
PIECE_BYTES_MIN = 1 << 18
PIECE_SHARE = 16
"""A piece is this fraction (one in so many) of the live state, that a small state's file is not mostly room for pieces."""
PIECE_RECORDS_MAX = 1 << 14
"""Of records walked over in a transaction: some 10 ms, in which nobody else can write."""


def lay_piece(writer: Writer, layer: Reader, laid: Laid, place: str) -> tuple[Laid, bool]:
    """Applies the layer's next records: all deletions, then the rest, which takes the room of what was deleted. (What a transaction frees
    can be used by the second one after it; between a full piece of deletions and the rest there is one that finds no more of them.)
    Gives what is laid then, and whether that is all. Raises CorruptRecord; the caller's transaction aborts then."""
    batch, following = _batch(writer, _left(layer, laid, place), laid.table_bytes)
    grown, seal = _lay(writer, batch, place, keep=True)
    after = replace(laid, table_bytes=add_sizes(laid.table_bytes, grown), seal=(laid.seal + seal) % MODULUS)
    if following is not None:
        return replace(after, following=following.hex()), False
    if laid.deleted:
        return after, True
    return replace(after, following="", deleted=True), False


def _left(layer: Reader, laid: Laid, place: str) -> Iterator[tuple[Record, bool]]:
    """The layer's records from where the rest begins, and whether each is to be laid now."""
    for key, stored in layer.items_from(bytes.fromhex(laid.following), b""):
        wanted = records.is_tombstone(stored) != laid.deleted
        if laid.deleted and not wanted:
            _verify(key, stored, place)  # a record whose length was damaged looks like a deletion
        yield (key, stored), wanted


def lay_back(writer: Writer, place: str, live: dict[int, int]) -> tuple[dict[int, int], bool]:
    """Applies a piece of the undo, and deletes it. Gives the change of live bytes by table, and whether there is more."""
    batch, following = _batch(writer, ((record, True) for record in undo.items(writer, place)), live)
    grown, _ = _lay(writer, batch, place, keep=False)
    for key, _ in batch:
        writer.delete(UNDO + key)
    return grown, following is not None


def _lay(writer: Writer, batch: Iterable[Record], place: str, *, keep: bool) -> tuple[dict[int, int], int]:
    """Applies records, each verified first, to the committed ones. `keep`: the way back."""
    grown: dict[int, int] = {}
    seal = 0
    for key, stored in batch:
        _verify(key, stored, place)
        view = writer.get(RECORDS + key)
        old = None if view is None else bytes(view)  # the view dies with the next change
        if old == stored or (old is None and records.is_tombstone(stored)):
            continue
        if keep:
            undo.keep(writer, key, old)
        if old is not None:
            seal -= mark(RECORDS + key, old)
        if records.is_tombstone(stored):
            writer.delete(RECORDS + key)
        else:
            seal += mark(RECORDS + key, stored)
            writer.put(RECORDS + key, stored)
        if not key.startswith(keys.RESERVED):
            table = keys.key_table(key)
            grown[table] = grown.get(table, 0) + records.live_bytes(key, stored) - records.live_bytes(key, old)
    return grown, seal


def _batch(
    writer: Writer, layer: Iterable[tuple[Record, bool]], live: dict[int, int]
) -> tuple[list[Record], bytes | None]:
    """The next wanted records of a layer, and the key at which to go on. What they will replace counts as well: it becomes undo, or is freed."""
    batch: list[Record] = []
    size, size_max = 0, min(PIECE_BYTES_MAX, max(PIECE_BYTES_MIN, sum(live.values()) // PIECE_SHARE))
    for walked, ((key, stored), wanted) in enumerate(layer):
        if size >= size_max or walked >= PIECE_RECORDS_MAX:
            return batch, key
        if wanted:
            batch.append((key, stored))
            size += len(key) + len(stored) + len(writer.get(RECORDS + key) or b"")
    return batch, None


def _verify(key: bytes, stored: memoryview | bytes, place: str) -> None:
    try:
        records.verify(key, stored)
    except records.ChecksumMismatch:
        raise CorruptRecord(place, key) from None


def add_sizes(sizes: dict[int, int], grown: dict[int, int]) -> dict[int, int]:
    """Live bytes by table after a change; tables without records are left out."""
    total = {table: sizes.get(table, 0) + grown.get(table, 0) for table in sizes.keys() | grown.keys()}
    return {table: size for table, size in total.items() if size}
