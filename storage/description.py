"""The description of a database: which versions and layers exist, and which of them count.

It is one record of the committed environment, so all of it changes in one transaction, together with the records that
it describes.

versions            (v,) or (v, v+1): the complete versions. The committed records are those of the last one, and the
                    undo log leads back to the first one.
merge_progress      How far a fold has merged the frozen layer into the committed records, or nothing. While it is set,
                    the records are a mixture of two versions, and the undo log leads back to the last complete one.
working             The layer that steps write, or nothing. It counts only on the boot that made it and in the epoch
                    that is stored here.
frozen, freezing    The layer that waits to be folded, and the version that it completes; or nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from base.version import VersionId
from storage import records
from storage.environments import Reader, Writer
from storage.identity import Identity

FORMAT = 6
"""In format 1 the undo log was not compressed; in format 2 no record was stored in parts; in format 3 records lay in shards, whose number was
fixed, and a database did not say which of them it owned; in format 4 distinct values of nested types had another form; in format 5 texts in
sort keys ended otherwise."""

# Every key of the committed environment begins with the prefix of its key space: m description, r records, u undo log,
# p parts (record_parts.py).
DESCRIPTION_KEY = b"m"
RECORDS = b"r"
UNDO = b"u"


@dataclass(frozen=True)
class MergeProgress:
    """How much of a frozen layer has been merged into the committed records.

    A merge walks over the layer twice: first it removes the records that the layer deletes or replaces, and then
    (`cleared`) it writes the records that the layer brings. `next_key` is the key, in hexadecimal, at which the current
    walk continues. `table_bytes` and `record_set_checksum` are the live bytes, by table, and the checksum of the records
    as they are now."""

    next_key: str
    table_bytes: dict[int, int]
    record_set_checksum: int
    cleared: bool = False


@dataclass(frozen=True)
class Description:
    """The description of a database: the fields of the module's docstring, and those that identify owners and handles. `check` states what holds
    between them."""

    identity: Identity
    epoch: int
    """The epoch that owns the database. It never decreases."""
    versions: tuple[VersionId, ...]
    layers_made: int = 0
    """A counter of layers and fences. It gives each layer a name that is never used again."""
    opened: int = 0
    """The value of `layers_made` at the last `open`. It distinguishes handles of that `open` from handles of an earlier
    one."""
    boot: str = ""
    """The machine's boot id at the last `open`. Files that were never synced do not survive a reboot."""
    working: str | None = None
    frozen: str | None = None
    freezing: VersionId | None = None
    merge_progress: MergeProgress | None = None
    """The merge may outlive the frozen layer: then the next `open` rolls the merge back."""
    table_bytes: dict[int, int] = field(default_factory=dict)
    """Live bytes of the last version, by table."""
    record_set_checksums: tuple[int, ...] = (0,)
    """One for each version (record_set.py). The checksum of no records is 0."""

    @property
    def last(self) -> VersionId:
        return self.versions[-1]

    def check(self) -> None:
        """Proves what holds between the fields. It is called before a description is written and after it is read."""
        assert 1 <= len(self.versions) <= 2, self.versions
        assert len(self.versions) == 1 or self.versions[0].version + 1 == self.versions[1].version, self.versions
        assert (self.frozen is None) == (self.freezing is None), self
        assert self.freezing is None or self.freezing.version == self.last.version + 1, self
        assert self.working is not None or self.frozen is None, self
        assert self.merge_progress is None or len(self.versions) == 1, self
        assert self.opened <= self.layers_made, self
        assert len(self.record_set_checksums) == len(self.versions), self
        assert all(size > 0 for size in self.table_bytes.values()), self.table_bytes


class FormatUnknown(Exception):
    """The database is in another format. The caller knows its path, and raises `OtherFormat` instead."""

    def __init__(self, owner: Identity, found: int) -> None:
        super().__init__(owner, found)
        self.owner = owner
        self.found = found


# Names of the JSON form where they differ from the fields' names. Databases of this format hold them, so they stay.
_STORED_NAMES = {"merge_progress": "laid", "record_set_checksums": "seals"}
_STORED_PROGRESS_NAMES = {"next_key": "following", "record_set_checksum": "seal"}
_FIELD_NAMES = {stored: name for name, stored in _STORED_NAMES.items()}
_PROGRESS_FIELD_NAMES = {stored: name for name, stored in _STORED_PROGRESS_NAMES.items()}


def load(reader: Reader) -> Description:
    """Reads the description of a database. Raises ChecksumMismatch where the record is missing or damaged, and
    FormatUnknown."""
    stored = reader.get(DESCRIPTION_KEY)
    if stored is None:
        raise records.ChecksumMismatch
    records.verify(DESCRIPTION_KEY, stored)
    return decode(bytes(records.value_of(stored)))


def save(writer: Writer, description: Description) -> None:
    """Writes the description of a database."""
    writer.put(DESCRIPTION_KEY, records.encode(DESCRIPTION_KEY, encode(description)))


def encode(description: Description) -> bytes:
    """The JSON form that a database stores."""
    description.check()
    plain = {"format": FORMAT, **asdict(description)}
    if description.merge_progress is not None:
        plain["merge_progress"] = _rename(plain["merge_progress"], _STORED_PROGRESS_NAMES)
    return json.dumps(_rename(plain, _STORED_NAMES), sort_keys=True).encode()


@lru_cache(maxsize=64)  # each step reads it twice, and it changes with a checkpoint only; a process has a few databases
def decode(text: bytes) -> Description:
    """The reverse of `encode`. Raises FormatUnknown."""
    plain: dict[str, Any] = json.loads(text)
    plain["identity"] = Identity(**plain["identity"])  # it has this place in every format
    if (found := plain.pop("format")) != FORMAT:
        raise FormatUnknown(plain["identity"], found)
    plain = _rename(plain, _FIELD_NAMES)
    plain["versions"] = tuple(VersionId(**version) for version in plain["versions"])
    plain["freezing"] = plain["freezing"] and VersionId(**plain["freezing"])
    plain["table_bytes"] = _by_table(plain["table_bytes"])
    plain["merge_progress"] = plain["merge_progress"] and _progress(plain["merge_progress"])
    plain["record_set_checksums"] = tuple(plain["record_set_checksums"])
    description = Description(**plain)
    description.check()
    return description


def _progress(stored: dict[str, Any]) -> MergeProgress:
    plain = _rename(stored, _PROGRESS_FIELD_NAMES)
    plain["table_bytes"] = _by_table(plain["table_bytes"])
    return MergeProgress(**plain)


def _rename(plain: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in plain.items()}


def _by_table(plain: dict[str, int]) -> dict[int, int]:
    """Converts the names of a JSON object, which are always strings, to table numbers."""
    return {int(table): size for table, size in plain.items()}
