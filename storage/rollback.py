"""The way of the committed records back to one of the versions that a database can open, and the proof that they are there.

A rollback takes several transactions, each of which is a piece:

    Verify --> ClearRecords(from the first key) --> ClearRecords(from the next key) ... --> RestoreRecords ... --> Done

A crash between two of them leaves a database that can open this version alone, and the next `open` goes on. A description does not say how far
the two walks are (folding.py), so an `open` that finds one of them begins with the first walk again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from base.version import VersionId
from storage import folding, records, undo
from storage.description import Description, MergeProgress
from storage.environments import Reader, Writer
from storage.errors import CorruptFile
from storage.record_set import checksum_of


@dataclass(frozen=True)
class Verify:
    """The undo log is to be proved intact. Until then the later version can be opened too."""


@dataclass(frozen=True)
class ClearRecords:
    """The first walk is to remove the records that the undo log deletes or replaces, from this key on."""

    next_key: bytes


@dataclass(frozen=True)
class RestoreRecords:
    """The second walk is to restore the records that the undo log still has."""


@dataclass(frozen=True)
class Done:
    """The records are those of the version."""


Due = Verify | ClearRecords | RestoreRecords
Phase = Due | Done


@dataclass(frozen=True)
class Rolled:
    """What one transaction of a rollback leaves: the description, and the phase of the next transaction."""

    description: Description
    phase: Phase


def phase_of(present: Description, version: VersionId, before: Rolled | None) -> Phase:
    """The phase of a rollback to `version`. `before`: what the last transaction of this `open` has left. If the description differs now,
    another `open` has run, and the rollback begins again."""
    if before is not None and before.description == present:
        return before.phase
    if version != present.last:
        return Verify()
    return Done() if present.merge_progress is None else ClearRecords(b"")


def roll_back_piece(
    path: Path, writer: Writer, old: Description, version: VersionId, *, epoch: int, phase: Due
) -> Rolled:
    """One transaction of the rollback to `version`. No process may use a layer in the meantime. Raises CorruptRecord."""
    layer_name = f"the undo log of {path} (back to {version})"
    unopened = replace(old, epoch=epoch, working=None, frozen=None, freezing=None)
    next_phase: Phase
    match phase:
        case Verify():
            undo.verify(writer, layer_name)
            progress = MergeProgress("", old.table_bytes, 0)
            checksums = old.record_set_checksums[:1]
            verified = replace(unopened, versions=(version,), record_set_checksums=checksums, merge_progress=progress)
            return Rolled(verified, ClearRecords(b""))
        case ClearRecords(next_key):
            size_changes, following = folding.clear_for_undo(writer, next_key, _live_bytes(old))
            next_phase = RestoreRecords() if following is None else ClearRecords(following)
        case RestoreRecords():
            size_changes, has_more = folding.undo_piece(writer, layer_name, _live_bytes(old))
            next_phase = RestoreRecords() if has_more else Done()
        case _:
            assert_never(phase)
    assert old.merge_progress is not None, "a walk over records that are those of a version"
    sizes = folding.add_sizes(old.merge_progress.table_bytes, size_changes)
    if isinstance(next_phase, Done):
        return Rolled(replace(unopened, merge_progress=None, table_bytes=sizes), next_phase)
    return Rolled(replace(unopened, merge_progress=replace(old.merge_progress, table_bytes=sizes)), next_phase)


def _live_bytes(present: Description) -> int:
    """The larger one of the sizes before and after what is rolled back."""
    sizes_now = present.merge_progress.table_bytes if present.merge_progress else {}
    return max(sum(present.table_bytes.values()), sum(sizes_now.values()))


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
