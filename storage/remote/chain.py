"""The chain of a worker's state: the packs that together are a version of it.

    base parts 0..n at version b, then one delta for each checkpoint b+1..v; later packs replace and delete records of the earlier ones

A chain is plain data, which whoever keeps the list of checkpoints stores beside its own. Two chains of a worker may share packs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from base.version import VersionId
from storage.identity import Identity
from storage.remote.pack import Kind, PackHeader


class Pack(BaseModel):
    """One object. `to`: the version that it leads to. `bytes` and `digest` (xxh3_128 in hexadecimal) are those of the object, and
    `raw_bytes` those of its keys and stored records before compression."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: Kind
    to: VersionId
    bytes: int
    raw_bytes: int
    digest: str


class Chain(BaseModel):
    """The packs of `version`, in the order in which they count. `format`: of the database (storage/description.py). `seal`: the checksum of
    the record set of this version. `table_bytes`: live bytes by table. `to_json` and `of_json` are its stored form."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: VersionId
    format: int
    seal: int
    table_bytes: dict[int, int]
    packs: tuple[Pack, ...]

    @model_validator(mode="after")
    def check(self) -> Self:
        """Proves what holds between the fields. Raises ValueError, which pydantic turns into ValidationError."""
        tos = [pack.to for pack in self.deltas]
        if not self.bases or self.packs != self.bases + self.deltas:
            raise ValueError("a chain begins with its base")
        if len({pack.to for pack in self.bases}) != 1:
            raise ValueError("the parts of a base lead to one version")
        if [self.base_version, *tos] != sorted({self.base_version, *tos}):
            raise ValueError("the versions of a chain ascend")
        if self.packs[-1].to != self.version:
            raise ValueError("the last pack leads to the version of the chain")
        return self

    @property
    def bases(self) -> tuple[Pack, ...]:
        """The parts of the base."""
        return tuple(pack for pack in self.packs if pack.kind == "base")

    @property
    def deltas(self) -> tuple[Pack, ...]:
        """The deltas since the base."""
        return tuple(pack for pack in self.packs if pack.kind == "delta")

    @property
    def base_version(self) -> VersionId:
        """The version of the base."""
        return self.packs[0].to

    @property
    def live_bytes(self) -> int:
        """The bytes of the keys and values of the version, in all tables."""
        return sum(self.table_bytes.values())

    @property
    def delta_bytes(self) -> int:
        """Before compression, of the deltas since the base."""
        return sum(pack.raw_bytes for pack in self.deltas)

    def to_json(self) -> str:
        """The stored form."""
        return self.model_dump_json()

    @classmethod
    def of_json(cls, text: str | bytes) -> Chain:
        """The reverse of `to_json`. Raises pydantic.ValidationError."""
        return cls.model_validate_json(text)


def headers_of(chain: Chain, identity: Identity) -> Iterator[tuple[Pack, PackHeader]]:
    """Each pack of the chain of this database, in order, with the header that it has."""
    for part, packed in enumerate(chain.bases):
        yield packed, PackHeader(identity, "base", packed.to, part=part)
    at = chain.base_version
    for packed in chain.deltas:
        yield packed, PackHeader(identity, "delta", packed.to, since=at)
        at = packed.to
