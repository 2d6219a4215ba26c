"""What a database says of itself: one record of the committed environment, so that all of it changes in one
transaction.

versions    (v,) or (v, v+1): the complete ones. Records are those of the last; undo leads back to the first.
laid        how much of a fold is done: records are a mixture then, and undo leads back to the last version; or nothing.
working     the layer that steps write, or nothing: it counts only on the boot it was made on, in the epoch stored here.
frozen      the layer that waits to be folded, and the version that it completes; or nothing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from base.version import VersionId
from storage import records
from storage.environments import Reader, Writer
from storage.identity import Identity

FORMAT = 3  # 1: undo was not compressed; 2: all records were whole
DESCRIPTION_KEY = b"m"  # spaces of the committed environment: m description, r records, u undo
RECORDS = b"r"
UNDO = b"u"


@dataclass(frozen=True)
class Laid:
    """How much of a frozen layer is among the records. `following`: the key at which the rest begins, hexadecimal; of what is to make room
    for it, or, when that is done (`cleared`), of what it brings. `table_bytes` and `seal`: of the records as they are."""

    following: str
    table_bytes: dict[int, int]
    seal: int
    cleared: bool = False


@dataclass(frozen=True)
class Description:
    identity: Identity
    epoch: int  # never falls
    versions: tuple[VersionId, ...]  # one, or two whose numbers follow each other
    layers_made: int = 0  # gives every layer a name of its own, for ever
    opened: int = 0  # the layers_made of the last `open`: tells handles of an earlier one
    boot: str = ""  # boot id of the machine at the last `open`: files without sync outlive no reboot
    working: str | None = None
    frozen: str | None = None
    freezing: VersionId | None = None  # set exactly where `frozen` is
    laid: Laid | None = None  # outlives the frozen layer: `open` takes it back
    table_bytes: dict[int, int] = field(default_factory=dict)  # live bytes of the last version
    seals: tuple[int, ...] = (0,)  # of each version, seal.py; 0 is that of no records

    @property
    def last(self) -> VersionId:
        return self.versions[-1]

    def check(self) -> None:
        """Proves what holds between the fields; called before it is written and after it is read."""
        assert 1 <= len(self.versions) <= 2, self.versions
        assert len(self.versions) == 1 or self.versions[0].version + 1 == self.versions[1].version, self.versions
        assert (self.frozen is None) == (self.freezing is None), self
        assert self.freezing is None or self.freezing.version == self.last.version + 1, self
        assert self.working is not None or self.frozen is None, self
        assert self.laid is None or len(self.versions) == 1, self
        assert self.opened <= self.layers_made, self
        assert len(self.seals) == len(self.versions), self
        assert all(size > 0 for size in self.table_bytes.values()), self.table_bytes


class FormatUnknown(Exception):
    """Who knows the place turns it into `OtherFormat`."""

    def __init__(self, owner: Identity, found: int) -> None:
        super().__init__(owner, found)
        self.owner = owner
        self.found = found


def load(reader: Reader) -> Description:
    """Raises ChecksumMismatch where the record is missing or damaged, FormatUnknown."""
    stored = reader.get(DESCRIPTION_KEY)
    if stored is None:
        raise records.ChecksumMismatch
    records.verify(DESCRIPTION_KEY, stored)
    plain: dict[str, Any] = json.loads(bytes(records.value_of(stored)))
    plain["identity"] = Identity(**plain["identity"])  # stands so in every format
    if (found := plain.pop("format")) != FORMAT:
        raise FormatUnknown(plain["identity"], found)
    plain["versions"] = tuple(VersionId(**version) for version in plain["versions"])
    plain["freezing"] = plain["freezing"] and VersionId(**plain["freezing"])
    plain["table_bytes"] = _sizes(plain["table_bytes"])
    laid = plain["laid"]
    plain["laid"] = laid and Laid(**{**laid, "table_bytes": _sizes(laid["table_bytes"])})
    plain["seals"] = tuple(plain["seals"])
    description = Description(**plain)
    description.check()
    return description


def save(writer: Writer, description: Description) -> None:
    description.check()
    text = json.dumps({"format": FORMAT, **asdict(description)}, sort_keys=True).encode()
    writer.put(DESCRIPTION_KEY, records.encode(DESCRIPTION_KEY, text))


def _sizes(plain: dict[str, int]) -> dict[int, int]:
    return {int(table): size for table, size in plain.items()}
