"""Reading a pack (pack.py). Whatever is wrong with it is noticed before its last record was given, or right after that.

So a caller that has not met the end of `records` must not use what it got: a restore is discarded then.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from xxhash import xxh3_64_digest, xxh3_128

from base.version import VersionId
from storage import description, records
from storage.identity import Identity
from storage.remote import pack
from storage.remote.errors import DamagedPack, ForeignPack, OtherPackFormat
from storage.remote.objects_protocol import WrittenObject
from storage.remote.pack import PackHeader, Totals

PIECE_BYTES = 1 << 20
"""The number of bytes of a file that are read at once. Fewer would cost more calls."""


class _Frame(NamedTuple):
    mark: bytes
    records: int
    content_bytes: int
    compressed_bytes: int
    checksum: bytes


class PackReader:
    """A pack that is being read. The header is read at once; faults call the pack `name`.

    Raises DamagedPack, OtherPackFormat, and what `pieces` raises."""

    def __init__(self, name: str, pieces: Iterable[bytes]) -> None:
        self.name = name
        self.totals = Totals()
        self._source = _Source(name, pieces)
        self.header = self._read_header()

    def expect(self, header: PackHeader) -> None:
        """Raises ForeignPack unless this is the header."""
        if self.header != header:
            raise ForeignPack(self.name, header, self.header)

    def records(self) -> Iterator[tuple[bytes, memoryview]]:
        """The records, each verified, in the order of their keys. It is called once. Raises DamagedPack."""
        codec = pa.Codec(pack.CODEC, pack.LEVEL)
        last = b""  # no key is empty
        while (frame := self._read_frame()).mark != pack.END_MARK:
            content = self._read_content(codec, frame)
            place = 0
            for _ in range(frame.records):
                key, stored, place = self._record_at(content, place)
                if key <= last:
                    raise DamagedPack(self.name, f"key {key.hex()} follows {last.hex()}")
                last = key
                yield key, stored
            if place != len(content):
                raise DamagedPack(self.name, "a block is longer than its records")
            self.totals.records += frame.records
            self.totals.raw_bytes += len(content) - frame.records * pack.RECORD.size
        if (frame.records, frame.content_bytes) != (self.totals.records, self.totals.raw_bytes):
            raise DamagedPack(self.name, f"it has {self.totals.records} of {frame.records} records")
        self._source.finish()

    def read(self) -> WrittenObject:
        """What was read so far."""
        return self._source.read()

    def _read_header(self) -> PackHeader:
        prefix = self._source.take(pack.PREFIX.size)
        magic, found, length = pack.PREFIX.unpack(prefix)
        if magic != pack.MAGIC:
            raise DamagedPack(self.name, "it does not begin as a pack does")
        if found != pack.FORMAT:
            raise OtherPackFormat(self.name, found, pack.FORMAT)
        if length > pack.HEADER_BYTES_MAX:
            raise DamagedPack(self.name, "its header is too long")
        text = self._source.take(length)
        self._check(b"".join((prefix, text)), "its header")
        try:
            header = _to_header(json.loads(bytes(text)))
        except (ValueError, TypeError, KeyError) as fault:
            raise DamagedPack(self.name, f"its header has another form ({fault})") from None
        if header.database_format != description.FORMAT:
            raise OtherPackFormat(self.name, header.database_format, description.FORMAT)
        return header

    def _read_frame(self) -> _Frame:
        fields = bytes(self._source.take(pack.FRAME.size))
        self._check(fields, "the fields of a block")
        frame = _Frame(*pack.FRAME.unpack(fields))
        if frame.mark not in (pack.BLOCK_MARK, pack.END_MARK):
            raise DamagedPack(self.name, f"a block with the mark {frame.mark!r}")
        return frame

    def _read_content(self, codec: pa.Codec, frame: _Frame) -> memoryview:
        compressed = self._source.take(frame.compressed_bytes)
        try:
            # Arrow's buffers are of signed bytes, and views of different formats are never equal.
            content = memoryview(codec.decompress(compressed, frame.content_bytes)).cast("B")
        except (OSError, pa.ArrowException) as fault:
            raise DamagedPack(self.name, f"a block cannot be decompressed ({fault})") from None
        if xxh3_64_digest(content) != frame.checksum:
            raise DamagedPack(self.name, "a block does not match its checksum")
        return content

    def _record_at(self, content: memoryview, place: int) -> tuple[bytes, memoryview, int]:
        """The record at this place of a block, and the place of the next one."""
        try:
            key_bytes, stored_bytes = pack.RECORD.unpack_from(content, place)
        except struct.error:
            raise DamagedPack(self.name, "a block is shorter than its records") from None
        start = place + pack.RECORD.size
        middle = start + key_bytes
        key, stored = bytes(content[start:middle]), content[middle : middle + stored_bytes]
        if len(stored) != stored_bytes:
            raise DamagedPack(self.name, "a block is shorter than its records")
        try:
            records.verify(key, stored)
        except records.ChecksumMismatch:
            raise DamagedPack(self.name, f"the record of key {key.hex()} does not match its checksum") from None
        return key, stored, middle + stored_bytes

    def _check(self, fields: bytes, what: str) -> None:
        if self._source.take(pack.CHECK_BYTES) != xxh3_64_digest(fields):
            raise DamagedPack(self.name, f"{what} do not match their checksum")


def end_of(name: str, last: bytes) -> Totals:
    """The counts in the end mark, which are the last END_BYTES of a pack. Raises DamagedPack."""
    fields, check = last[: pack.FRAME.size], last[pack.FRAME.size :]
    if len(last) != pack.END_BYTES or check != xxh3_64_digest(fields) or not fields.startswith(pack.END_MARK):
        raise DamagedPack(name, "it has no end mark")
    frame = _Frame(*pack.FRAME.unpack(fields))
    return Totals(frame.records, frame.content_bytes)


def pieces_of(file: Path) -> Iterator[bytes]:
    """The bytes of a file. Raises OSError."""
    with file.open("rb", buffering=0) as source:
        while piece := source.read(PIECE_BYTES):
            yield piece


class _Source:
    """The bytes of a pack, as many at a time as the reader asks for."""

    def __init__(self, name: str, pieces: Iterable[bytes]) -> None:
        self._name = name
        self._pieces = iter(pieces)
        self._piece = memoryview(b"")
        self._digest = xxh3_128()
        self._bytes = 0

    def take(self, count: int) -> bytes | memoryview:
        """The next `count` bytes. Raises DamagedPack if there are fewer."""
        if count <= len(self._piece):
            taken, self._piece = self._piece[:count], self._piece[count:]
            return taken
        parts, missing = [self._piece], count - len(self._piece)
        while missing:
            if not self._next():
                raise DamagedPack(self._name, "it ends too early")
            parts.append(self._piece[:missing])
            self._piece = self._piece[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    def finish(self) -> None:
        """Raises DamagedPack if there are more bytes."""
        while not self._piece:
            if not self._next():
                return
        raise DamagedPack(self._name, "something follows its end")

    def read(self) -> WrittenObject:
        return WrittenObject(self._bytes, self._digest.hexdigest())

    def _next(self) -> bool:
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._digest.update(piece)
        self._bytes += len(piece)
        self._piece = memoryview(piece)
        return True


def _to_header(plain: dict[str, object]) -> PackHeader:
    fields: dict[str, object] = dict(plain)
    for name in ("to", "since"):
        version = fields[name]
        fields[name] = version if version is None else VersionId(**version)  # type: ignore[arg-type]
    fields["identity"] = Identity(**fields["identity"])  # type: ignore[arg-type]
    return PackHeader(**fields)  # type: ignore[arg-type]
