"""A pack: sorted records of one worker as one object. It is written and read in one pass, with little memory.

    header   magic, format, length, JSON of PackHeader, xxh3_64 of all that
    block    mark B, counts and lengths, xxh3_64 of the content before compression, xxh3_64 of these fields; the content, compressed
    ...
    end      mark E, records and bytes of all blocks, xxh3_64 of these fields; nothing follows

The content of a block is its records: the length of the key, the length of the stored form (storage/records.py), the key, the stored form. The
lengths of a block have a checksum of their own, so that a damaged one makes no reader ask for the memory that it names. A pack that a crash
has cut off has no end mark.

Keys ascend strictly. A *base* has no tombstones; a *delta* has those of the checkpoint that froze it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import pyarrow as pa
from xxhash import xxh3_64_digest

from base.version import VersionId
from storage import description
from storage.identity import Identity

Record = tuple[bytes, bytes | memoryview]
"""A key, and the stored form of its record."""

Kind = Literal["base", "delta"]

MAGIC = b"SWPACK\r\n"  # a transfer that converts the ends of lines changes it
FORMAT = 1
CODEC, LEVEL = "zstd", 1
BLOCK_BYTES = 1 << 20
"""A block ends with the record that fills it. So memory is bounded by this and the largest record, and a larger block compresses no better."""
HEADER_BYTES_MAX = 64 << 10
"""The largest number of bytes of a header's JSON, which has a few hundred bytes and the name of the pipeline."""

PREFIX = struct.Struct(">8sHI")  # magic, format, bytes of the JSON
FRAME = struct.Struct(">cQQQ8s")  # mark, records, bytes of the content, bytes compressed, xxh3_64 of the content
RECORD = struct.Struct(">HI")  # bytes of the key, bytes of the stored form
CHECK_BYTES = 8
BLOCK_MARK, END_MARK = b"B", b"E"
END_BYTES = FRAME.size + CHECK_BYTES


@dataclass(frozen=True)
class PackHeader:
    """What a pack is. `to`: the version that it leads to; `since`: for a delta, the version that it starts from. `part` counts the packs of
    one base from 0; a delta is one pack."""

    identity: Identity
    kind: Kind
    to: VersionId
    since: VersionId | None = None
    part: int = 0
    database_format: int = description.FORMAT

    def __post_init__(self) -> None:
        assert (self.since is None) == (self.kind == "base"), self

    def __str__(self) -> str:
        since = "" if self.since is None else f" since {self.since}"
        return f"{self.kind} part {self.part} to {self.to}{since} of {self.identity}"


@dataclass(frozen=True)
class Block:
    """A block as it is written: its fields, and its compressed content. `raw_bytes`: of the keys and the stored forms."""

    records: int
    raw_bytes: int
    fields: bytes
    content: bytes

    @property
    def packed_bytes(self) -> int:
        """The bytes of the block in its pack."""
        return len(self.fields) + len(self.content)


@dataclass
class Totals:
    """The sums over a pack, or over as much of it as was written or read. `raw_bytes`: of the keys and the stored forms."""

    records: int = 0
    raw_bytes: int = 0


def blocks(items: Iterable[Record]) -> Iterator[Block]:
    """The blocks of these records, whose keys ascend."""
    codec = pa.Codec(CODEC, LEVEL)
    texts: list[bytes | memoryview] = []
    size = records = 0
    for key, stored in items:
        texts += (RECORD.pack(len(key), len(stored)), key, stored)
        size += RECORD.size + len(key) + len(stored)
        records += 1
        if size >= BLOCK_BYTES:
            yield _block(codec, b"".join(texts), records)
            texts.clear()
            size = records = 0
    if records:
        yield _block(codec, b"".join(texts), records)


def pieces(header: PackHeader, content: Iterable[Block], totals: Totals) -> Iterator[bytes]:
    """The bytes of a pack. It counts into `totals`, which are those of the pack in the end."""
    yield encode_header(header)
    for block in content:
        totals.records += block.records
        totals.raw_bytes += block.raw_bytes
        yield block.fields
        yield block.content
    yield _with_check(FRAME.pack(END_MARK, totals.records, totals.raw_bytes, 0, bytes(CHECK_BYTES)))


def encode_header(header: PackHeader) -> bytes:
    """The first bytes of a pack."""
    text = json.dumps(asdict(header), sort_keys=True).encode()
    assert len(text) <= HEADER_BYTES_MAX, f"a header of {len(text)} bytes"
    return _with_check(PREFIX.pack(MAGIC, FORMAT, len(text)) + text)


def _block(codec: pa.Codec, content: bytes, records: int) -> Block:
    compressed: bytes = codec.compress(content, asbytes=True)
    fields = FRAME.pack(BLOCK_MARK, records, len(content), len(compressed), xxh3_64_digest(content))
    return Block(records, len(content) - records * RECORD.size, _with_check(fields), compressed)


def _with_check(fields: bytes) -> bytes:
    return fields + xxh3_64_digest(fields)
