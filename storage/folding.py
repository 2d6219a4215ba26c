"""Merging a layer into the committed records, piece by piece, with an undo log (undo.py); and rolling back, which is
merging the undo log. A layer is merged when all its records are.

Both walk twice over what they merge, and cost as much as the changes alone. The first walk removes the records that are
to be deleted or replaced. The second walk writes the new records into the space that this has freed.

Why in pieces, each of which is one transaction: LMDB writes a changed page to another place, and pages that a
transaction frees are usable only by later transactions. So a fold in one transaction would need twice the space of
all that it changes, beside the undo log. In pieces it needs that space only for one piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from storage import keys, record_parts, records, undo
from storage.description import RECORDS, UNDO, MergeProgress
from storage.environments import Reader, Writer
from storage.errors import CorruptRecord
from storage.record_set import MODULUS, record_mark

Record = tuple[bytes, memoryview | bytes]  # a key, and what is stored under it
Sized = tuple[Record, int]  # a record, and the bytes that it takes to handle it; 0 means that there is nothing to do

PIECE_BYTES_MAX = 4 << 20
"""The bytes of records that one transaction handles. The last record may exceed it. Smaller pieces would sync more
often, and larger ones would let the file grow."""
PIECE_BYTES_MIN = 1 << 18
PIECE_SHARE = 16
"""A piece is the live state divided by this, between the two bounds. If pieces of a small state were as large as those
of a large one, most of its file would be free space for pieces."""
PIECE_RECORDS_MAX = 1 << 14
"""The number of records that one transaction walks over. This takes about 10 ms, in which no other process can write."""


def put_first(writer: Writer, stored: Mapping[bytes, bytes]) -> int:
    """Writes the first records of a new database. Returns the checksum of the record set."""
    committed = CommittedRecords(writer, 0)
    for key, value in stored.items():
        committed.put(key, value)
    return committed.checksum_change % MODULUS


def merge_piece(
    writer: Writer, layer: Reader, progress: MergeProgress, layer_name: str, live_bytes: int
) -> tuple[MergeProgress, bool]:
    """Merges the layer's next records. The first walk removes what they delete or replace, and the second one writes
    them. Errors call the layer `layer_name`. `live_bytes` is the size of the version before. Returns the progress after this
    piece, and whether the merge has ended. Raises CorruptRecord, at which the caller's transaction aborts."""
    size = max(live_bytes, sum(progress.table_bytes.values()))  # a state may grow much in one checkpoint
    committed = CommittedRecords(writer, size if live_bytes else 0)
    left = layer.items_from(bytes.fromhex(progress.next_key), b"")
    sized = committed.find_absent(left, layer_name) if progress.cleared else committed.obsolete(left)
    batch, next_key = _batch(sized, size)
    for key, stored in batch:
        if progress.cleared:
            committed.put(key, stored)
            if not undo.contains(writer, key):
                undo.put(writer, key, None, committed.part_bytes)
        else:
            undo.put(writer, key, committed.remove(key), committed.part_bytes)
    checksum = (progress.record_set_checksum + committed.checksum_change) % MODULUS
    sizes = add_sizes(progress.table_bytes, committed.size_changes)
    after = replace(progress, table_bytes=sizes, record_set_checksum=checksum)
    if next_key is not None:
        return replace(after, next_key=next_key.hex()), False
    if progress.cleared:
        return after, True
    return replace(after, next_key="", cleared=True), False


def clear_for_undo(writer: Writer, next_key: bytes, live_bytes: int) -> tuple[dict[int, int], bytes | None]:
    """The first walk of a rollback: removes the next records that the undo log deletes or replaces. It may start again
    from the first key at any time. Returns the change of live bytes by table, and the key at which to go on, or None at
    the end."""
    committed = CommittedRecords(writer, live_bytes)
    left = ((full_key[len(UNDO) :], entry) for full_key, entry in writer.items_from(UNDO + next_key, UNDO))
    batch, following = _batch(((record, committed.size(record[0])) for record in left), live_bytes)
    for key, _ in batch:
        committed.discard(key)
    return committed.size_changes, following


def undo_piece(writer: Writer, layer_name: str, live_bytes: int) -> tuple[dict[int, int], bool]:
    """The second walk of a rollback: restores the next records of the undo log, and deletes their entries. Returns the
    change of live bytes by table, and whether there is more. Raises CorruptRecord."""
    committed = CommittedRecords(writer, live_bytes)
    batch, following = _batch(((record, len(record[1])) for record in undo.items(writer, layer_name)), live_bytes)
    for key, former in batch:
        if not records.is_tombstone(former):
            committed.put(key, former)
        undo.delete(writer, key)
    return committed.size_changes, following is not None


class CommittedRecords:
    """The committed records within one transaction. `size_changes` says by how much it has changed their live bytes, by
    table. `checksum_change` says by how much it has changed their checksum (record_set.py), before the modulo."""

    def __init__(self, writer: Writer, live_bytes: int) -> None:
        self.part_bytes = record_parts.part_bytes(live_bytes)
        self.size_changes: dict[int, int] = {}
        self.checksum_change = 0
        self._writer = writer

    def obsolete(self, layer: Iterable[Record]) -> Iterator[Sized]:
        """The layer's records, each with the size of the committed record that it deletes or replaces."""
        for key, stored in layer:
            size = self.size(key)
            is_there = size == len(key) + len(stored) and self._get(key) == stored
            yield (key, stored), 0 if is_there else size

    def find_absent(self, layer: Iterable[Record], layer_name: str) -> Iterator[Sized]:
        """The layer's records, each with its size if it is still to be written. Each is verified, because a record
        whose length was damaged looks like a deletion."""
        for key, stored in layer:
            try:
                records.verify(key, stored)
            except records.ChecksumMismatch:
                raise CorruptRecord(layer_name, key) from None
            is_there = records.is_tombstone(stored) or self._writer.get(RECORDS + key) is not None
            yield (key, stored), 0 if is_there else len(key) + len(stored)

    def put(self, key: bytes, stored: bytes | memoryview) -> None:
        """Writes a record that is absent."""
        record_parts.put(self._writer, RECORDS + key, stored, self.part_bytes)
        self.checksum_change += record_mark(RECORDS + key, stored)
        self._count(key, records.live_bytes(key, stored))

    def remove(self, key: bytes) -> bytes | None:
        """Deletes a record. Returns what was stored, or None if it was absent."""
        view = self._get(key)
        if view is None:
            return None
        stored = bytes(view)  # the next change invalidates the view
        self.checksum_change -= record_mark(RECORDS + key, stored)
        self._count(key, -records.live_bytes(key, stored))
        record_parts.delete(self._writer, RECORDS + key)
        return stored

    def discard(self, key: bytes) -> None:
        """Deletes a record that is there without reading it, because it may be damaged. It does not update
        `checksum_change`."""
        self._count(key, records.TRAILER_BYTES - self.size(key))
        record_parts.delete(self._writer, RECORDS + key)

    def size(self, key: bytes) -> int:
        """Bytes of the key and of the record that is stored under it; 0 if there is none."""
        stored = self._writer.get(RECORDS + key)
        return 0 if stored is None else len(key) + record_parts.length(stored)

    def _get(self, key: bytes) -> bytes | memoryview | None:
        try:
            return record_parts.get(self._writer, RECORDS + key)
        except records.ChecksumMismatch:
            raise CorruptRecord("the committed records", key) from None

    def _count(self, key: bytes, more: int) -> None:
        if not key.startswith(keys.RESERVED):
            table = keys.key_table(key)
            self.size_changes[table] = self.size_changes.get(table, 0) + more


def _batch(sized: Iterable[Sized], live_bytes: int) -> tuple[list[Record], bytes | None]:
    """The records of the next piece that need work, and the key at which the piece after it begins, or None at the
    end."""
    batch: list[Record] = []
    size, size_max = 0, min(PIECE_BYTES_MAX, max(PIECE_BYTES_MIN, live_bytes // PIECE_SHARE))
    for walked, (record, handled_bytes) in enumerate(sized):
        if size >= size_max or walked >= PIECE_RECORDS_MAX:
            return batch, record[0]
        if handled_bytes:
            batch.append(record)
            size += handled_bytes
    return batch, None


def add_sizes(sizes: dict[int, int], changes: dict[int, int]) -> dict[int, int]:
    """Live bytes by table after a change. Tables without records are left out."""
    total = {table: sizes.get(table, 0) + changes.get(table, 0) for table in sizes.keys() | changes.keys()}
    return {table: size for table, size in total.items() if size}
