"""A complete version of a database as its stored records, while steps and folds go on.

The records of the last version are the committed ones. Those of the version before it, and of the last one while a fold is merging, are the
committed ones seen through the undo log (storage/undo.py). A reader holds one snapshot of LMDB, so pages that folds free meanwhile are not
reused before it ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from base.version import VersionId
from storage import committed, folding, keys, record_parts, records, undo
from storage.description import RECORDS, Description
from storage.environments import Reader
from storage.errors import CorruptRecord, UnknownVersion
from storage.identity import Identity
from storage.remote.pack import Record


@dataclass(frozen=True)
class VersionSnapshot:
    """One version. `seal`: the checksum of its record set, as the database has it. It is usable inside `records_at` only."""

    path: Path
    identity: Identity
    version: VersionId
    seal: int
    _reader: Reader
    _present: Description

    def records(self) -> Iterator[Record]:
        """(key, stored record), each verified, in the order of the keys, with storage's own records. Raises CorruptRecord."""
        if not self._is_behind_undo:
            yield from self._committed_records()
            return
        former = ((key, 0, stored) for key, stored in undo.items(self._reader, self._place_of_undo))
        newer = ((key, 1, stored) for key, stored in self._committed_records())
        last: bytes | None = None
        for key, _, stored in heapq.merge(former, newer):
            if key != last and not records.is_tombstone(stored):
                yield key, stored
            last = key

    def table_bytes(self) -> dict[int, int]:
        """The live bytes of the version, by table. It costs a walk over the undo log where the version is behind that. Raises CorruptRecord."""
        merging = self._present.merge_progress
        sizes = self._present.table_bytes if merging is None else merging.table_bytes
        if not self._is_behind_undo:
            return sizes
        changes: dict[int, int] = {}
        for key, former in undo.items(self._reader, self._place_of_undo):
            if not key.startswith(keys.RESERVED):
                table = keys.key_table(key)
                change = records.live_bytes(key, former) - self._committed_bytes(key)
                changes[table] = changes.get(table, 0) + change
        return folding.add_sizes(sizes, changes)

    @property
    def _is_behind_undo(self) -> bool:
        return self.version != self._present.last or self._present.merge_progress is not None

    @property
    def _place_of_undo(self) -> str:
        return f"the undo log of {self.path} (back to {self.version})"

    def _committed_records(self) -> Iterator[Record]:
        for full_key, found in self._reader.items(RECORDS):
            key = full_key[len(RECORDS) :]
            try:
                stored = record_parts.read_whole(self._reader, full_key, found)
                records.verify(key, stored)
            except records.ChecksumMismatch:
                raise CorruptRecord(f"database {self.identity.database} in {self.path}", key) from None
            yield key, stored

    def _committed_bytes(self, key: bytes) -> int:
        stored = self._reader.get(RECORDS + key)
        return 0 if stored is None else len(key) + record_parts.length(stored) - records.TRAILER_BYTES


@contextmanager
def records_at(path: Path, version: VersionId) -> Iterator[VersionSnapshot]:
    """A complete version of the database in `path`. Any process may read it. Raises UnknownVersion where the database does not have it, or
    does not have it any more, NoDatabase, OtherFormat, CorruptFile, CorruptRecord."""
    path = path.resolve()
    with committed.open_committed(path) as environment, environment.read() as reader:
        present = committed.load(path, reader)
        if version not in present.versions:
            raise UnknownVersion(path, version, present.versions)
        seal = present.record_set_checksums[present.versions.index(version)]
        yield VersionSnapshot(path, present.identity, version, seal, _reader=reader, _present=present)
