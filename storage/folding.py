"""Laying one layer over the committed records, piece by piece, with the way back; and going that way.

The undo of version v+1 is itself a layer: laid over v+1 it gives v. It holds the old record of every key that v+1
changed, and a tombstone for every key that v+1 brought. So folding and going back are one function, at the cost of
the changes alone.

Why in pieces, a transaction each: LMDB writes a changed page to another place, and what it freed is free for the transactions that follow.
So a fold in one transaction needs room for all that it changes twice, beside undo; in pieces, for a piece.
"""

from __future__ import annotations

from collections.abc import Iterable

from storage import keys, records
from storage.description import RECORDS, UNDO
from storage.environments import Reader, Writer
from storage.errors import CorruptRecord
from storage.seal import mark

PIECE_BYTES_MAX = 4 << 20
"""Of records handled at a time; one may exceed it. Smaller pieces sync more often, larger ones let the file grow."""


def lay_over(
    writer: Writer, layer: Iterable[tuple[bytes, memoryview | bytes]], place: str, *, undo: bool
) -> tuple[dict[int, int], int]:
    """Applies a layer's records, each verified first, to the committed ones. `undo`: keeps the way back.
    Gives the change of live bytes by table, and of the seal. Raises CorruptRecord; the caller's transaction aborts then."""
    grown: dict[int, int] = {}
    seal = 0
    for key, stored in layer:
        _verify(key, stored, place)
        view = writer.get(RECORDS + key)
        old = None if view is None else bytes(view)  # the view dies with the next change
        if old == stored or (old is None and records.is_tombstone(stored)):
            continue
        if undo:
            writer.put(UNDO + key, records.tombstone(key) if old is None else old)
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


def lay_piece(writer: Writer, layer: Reader, start: bytes, place: str) -> tuple[dict[int, int], int, bytes | None]:
    """Applies the layer's next records, from the key `start` on. Gives what `lay_over` does, and where to go on, or None at the end."""
    batch, following = _batch(writer, layer, start, b"")
    return *lay_over(writer, batch, place, undo=True), following


def lay_back(writer: Writer, place: str) -> tuple[dict[int, int], bool]:
    """Applies a piece of the undo, and deletes it. Gives the change of live bytes by table, and whether there is more."""
    batch, following = _batch(writer, writer, UNDO, UNDO)
    copied = [(key, bytes(stored)) for key, stored in batch]  # the views die with the next change
    grown, _ = lay_over(writer, copied, place, undo=False)
    for key, _ in copied:
        writer.delete(UNDO + key)
    return grown, following is not None


def verify_undo(reader: Reader, place: str) -> None:
    """Raises CorruptRecord where the undo does not lead back."""
    for spaced, stored in reader.items(UNDO):
        _verify(spaced[len(UNDO) :], stored, place)


def _batch(
    writer: Writer, layer: Reader, start: bytes, prefix: bytes
) -> tuple[list[tuple[bytes, memoryview]], bytes | None]:
    """The next records of a layer, whose keys begin with `prefix` there, and where to go on. What they will replace counts as well:
    it becomes undo, or is freed."""
    batch: list[tuple[bytes, memoryview]] = []
    size = 0
    for spaced, stored in layer.items_from(start, prefix):
        if size >= PIECE_BYTES_MAX:
            return batch, spaced
        key = spaced[len(prefix) :]
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
