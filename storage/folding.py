"""Laying one layer over the committed records, piece by piece, with the way back (undo.py); and going that way, which is laying the undo.
Both in two walks, at the cost of the changes alone: what is deleted or replaced leaves the records, then the rest takes its room.

Why in pieces, a transaction each: LMDB writes a changed page to another place, and what it freed is free for the transactions that follow.
So a fold in one transaction needs room for all that it changes twice, beside undo; in pieces, for a piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from storage import keys, parts, records, undo
from storage.description import RECORDS, UNDO, MergeProgress
from storage.environments import Reader, Writer
from storage.errors import CorruptRecord
from storage.record_set import MODULUS, record_mark

Record = tuple[bytes, memoryview | bytes]  # a key, and what is stored under it
Sized = tuple[Record, int]  # and the bytes that it takes to handle it; 0: nothing is to be done

PIECE_BYTES_MAX = 4 << 20
"""Of records handled in a transaction; one may exceed it. Smaller pieces sync more often, larger ones let the file grow."""
PIECE_BYTES_MIN = 1 << 18
PIECE_SHARE = 16
"""A piece is this fraction (one in so many) of the live state, that a small state's file is not mostly room for pieces."""
PIECE_RECORDS_MAX = 1 << 14
"""Of records walked over in a transaction: some 10 ms, in which nobody else can write."""


def merge_piece(
    writer: Writer, layer: Reader, progress: MergeProgress, place: str, live_bytes: int
) -> tuple[MergeProgress, bool]:
    """Applies the layer's next records: first what it deletes or replaces leaves the records, then the rest takes the room.
    `live_bytes`: of the version before. Gives what is laid then, and whether that is all. Raises CorruptRecord; the caller's transaction
    aborts then."""
    size = max(live_bytes, sum(progress.table_bytes.values()))  # a state may grow much in one checkpoint
    committed = _CommittedRecords(writer, size if live_bytes else 0)
    left = layer.items_from(bytes.fromhex(progress.next_key), b"")
    sized = committed.missing(left, place) if progress.cleared else committed.in_the_way(left)
    batch, next_key = _batch(sized, size)
    for key, stored in batch:
        if progress.cleared:
            committed.put(key, stored)
            if not undo.keeps(writer, key):
                undo.keep(writer, key, None, committed.part_bytes)
        else:
            undo.keep(writer, key, committed.remove(key), committed.part_bytes)
    checksum = (progress.record_set_checksum + committed.checksum_change) % MODULUS
    sizes = add_sizes(progress.table_bytes, committed.grown)
    after = replace(progress, table_bytes=sizes, record_set_checksum=checksum)
    if next_key is not None:
        return replace(after, next_key=next_key.hex()), False
    if progress.cleared:
        return after, True
    return replace(after, next_key="", cleared=True), False


def clear_for_undo(writer: Writer, next_key: bytes, live_bytes: int) -> tuple[dict[int, int], bytes | None]:
    """Before `undo_piece`: a piece of what the undo deletes or replaces leaves the records. It may be begun anew. Gives the change of live
    bytes by table, and the key at which to go on."""
    committed = _CommittedRecords(writer, live_bytes)
    left = ((spaced[len(UNDO) :], kept) for spaced, kept in writer.items_from(UNDO + next_key, UNDO))
    batch, next_following = _batch(((record, committed.size(record[0])) for record in left), live_bytes)
    for key, _ in batch:
        committed.discard(key)
    return committed.grown, next_following


def undo_piece(writer: Writer, place: str, live_bytes: int) -> tuple[dict[int, int], bool]:
    """Applies a piece of the undo, and deletes it. Gives the change of live bytes by table, and whether there is more."""
    committed = _CommittedRecords(writer, live_bytes)
    batch, next_key = _batch(((record, len(record[1])) for record in undo.items(writer, place)), live_bytes)
    for key, former in batch:
        if not records.is_tombstone(former):
            committed.put(key, former)
        undo.forget(writer, key)
    return committed.grown, next_key is not None


class _CommittedRecords:
    """The committed ones within a transaction, and by how much it has changed their live bytes by table, and their seal."""

    def __init__(self, writer: Writer, live_bytes: int) -> None:
        self.part_bytes = parts.part_bytes(live_bytes)
        self.grown: dict[int, int] = {}
        self.checksum_change = 0
        self._writer = writer

    def in_the_way(self, layer: Iterable[Record]) -> Iterator[Sized]:
        """Which of them a layer deletes or replaces."""
        for key, stored in layer:
            size = self.size(key)
            is_there = size == len(key) + len(stored) and self._get(key) == stored
            yield (key, stored), 0 if is_there else size

    def missing(self, layer: Iterable[Record], place: str) -> Iterator[Sized]:
        """Which of a layer's records are not among them yet. Each is verified: one whose length was damaged looks like a deletion."""
        for key, stored in layer:
            try:
                records.verify(key, stored)
            except records.ChecksumMismatch:
                raise CorruptRecord(place, key) from None
            is_there = records.is_tombstone(stored) or self._writer.get(RECORDS + key) is not None
            yield (key, stored), 0 if is_there else len(key) + len(stored)

    def put(self, key: bytes, stored: bytes | memoryview) -> None:
        """One that is not there."""
        parts.put(self._writer, RECORDS + key, stored, self.part_bytes)
        self.checksum_change += record_mark(RECORDS + key, stored)
        self._count(key, records.live_bytes(key, stored))

    def remove(self, key: bytes) -> bytes | None:
        """Deletes it. Gives the stored record, if it was there."""
        view = self._get(key)
        if view is None:
            return None
        stored = bytes(view)  # the view dies with the next change
        self.checksum_change -= record_mark(RECORDS + key, stored)
        self._count(key, -records.live_bytes(key, stored))
        parts.delete(self._writer, RECORDS + key)
        return stored

    def discard(self, key: bytes) -> None:
        """As `take`, of a record that is there, but without reading it, for it may be damaged; the seal is not kept up."""
        self._count(key, records.TRAILER_BYTES - self.size(key))
        parts.delete(self._writer, RECORDS + key)

    def size(self, key: bytes) -> int:
        """Bytes of the key and what is stored under it; 0 where nothing is."""
        stored = self._writer.get(RECORDS + key)
        return 0 if stored is None else len(key) + parts.length(stored)

    def _get(self, key: bytes) -> bytes | memoryview | None:
        try:
            return parts.get(self._writer, RECORDS + key)
        except records.ChecksumMismatch:
            raise CorruptRecord("the committed records", key) from None

    def _count(self, key: bytes, more: int) -> None:
        if not key.startswith(keys.RESERVED):
            table = keys.key_table(key)
            self.grown[table] = self.grown.get(table, 0) + more


def _batch(sized: Iterable[Sized], live_bytes: int) -> tuple[list[Record], bytes | None]:
    """The next records that cost something, and the key at which to go on."""
    batch: list[Record] = []
    size, size_max = 0, min(PIECE_BYTES_MAX, max(PIECE_BYTES_MIN, live_bytes // PIECE_SHARE))
    for walked, (record, handled_bytes) in enumerate(sized):
        if size >= size_max or walked >= PIECE_RECORDS_MAX:
            return batch, record[0]
        if handled_bytes:
            batch.append(record)
            size += handled_bytes
    return batch, None


def add_sizes(sizes: dict[int, int], grown: dict[int, int]) -> dict[int, int]:
    """Live bytes by table after a change; tables without records are left out."""
    total = {table: sizes.get(table, 0) + grown.get(table, 0) for table in sizes.keys() | grown.keys()}
    return {table: size for table, size in total.items() if size}
