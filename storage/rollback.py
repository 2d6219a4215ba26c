"""The way of the committed records back to one of the versions that a database can open, and the proof that they are there.

A rollback takes several transactions. A crash between two of them leaves a database that can open this version alone, and the next `open` goes
on.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from base.version import VersionId
from storage import folding, records, undo
from storage.description import Description, MergeProgress
from storage.environments import Reader, Writer
from storage.errors import CorruptFile
from storage.record_set import checksum_of


def roll_back_piece(
    path: Path, writer: Writer, old: Description, version: VersionId, *, epoch: int, next_key: bytes | None
) -> tuple[Description, bytes | None] | None:
    """One transaction of the rollback to `version`. The first one proves that the undo log is intact; each later one
    rolls a piece back. No process may use a layer in the meantime.

    `next_key`: the key at which the walk that clears records goes on; None when it has ended, and records are to be
    restored. Returns the description after this transaction and the next `next_key`; or None where the records are
    those of `version` already."""
    place = f"the undo log of {path} (back to {version})"
    sizes_now = old.merge_progress.table_bytes if old.merge_progress else {}
    live_bytes = max(sum(old.table_bytes.values()), sum(sizes_now.values()))
    unopened = replace(old, epoch=epoch, working=None, frozen=None, freezing=None)
    if version != old.last:
        undo.verify(writer, place)
        progress = MergeProgress("", old.table_bytes, 0)
        checksums = old.record_set_checksums[:1]
        return replace(unopened, versions=(version,), record_set_checksums=checksums, merge_progress=progress), b""
    if old.merge_progress is None:
        return None
    has_more = True
    if next_key is None:
        size_changes, has_more = folding.undo_piece(writer, place, live_bytes)
    else:
        size_changes, next_key = folding.clear_for_undo(writer, next_key, live_bytes)
    sizes = folding.add_sizes(old.merge_progress.table_bytes, size_changes)
    if has_more:
        return replace(unopened, merge_progress=replace(old.merge_progress, table_bytes=sizes)), next_key
    return replace(unopened, merge_progress=None, table_bytes=sizes), None


def verify_record_set(path: Path, reader: Reader, present: Description, version: VersionId) -> int:
    """The checksum of the committed records, which should be those of `version`. Raises CorruptFile where some are
    missing."""
    expected = present.record_set_checksums[present.versions.index(version)]
    try:
        found = checksum_of(reader)
    except records.ChecksumMismatch:
        found = -1
    if found != expected:
        raise CorruptFile(path, f"records of {version} are missing, or are not found by their keys")
    return found
