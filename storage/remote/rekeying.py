"""Copies a pack for another database: the same records under another identity.

    header of the identity before | blocks | end        the object that the chain names, verified whole
    header of the identity after  | blocks | end        the copy, whose blocks are those bytes

Guarantees: there is a copy only if every byte of the pack was the one that was stored. The blocks have their own checksums and say nothing of
the identity, so nothing is decompressed. It takes the memory of two pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from xxhash import xxh3_128

from storage.identity import Identity
from storage.remote.chain import Pack
from storage.remote.errors import DamagedPack
from storage.remote.objects_protocol import ObjectStore, WrittenObject
from storage.remote.pack import CHECK_BYTES, HEADER_BYTES_MAX, PREFIX, PackHeader, encode_header
from storage.remote.unpacking import PackReader


def copy_pack(
    source: ObjectStore, packed: Pack, header: PackHeader, identity: Identity, into: tuple[ObjectStore, str]
) -> Pack:
    """Writes the pack for the database of `identity` under the name in `into`. `header`: the one that it has. Raises ObjectMissing, DamagedPack,
    ForeignPack or OtherPackFormat where `source` does not have that pack, and what the stores raise. Then there is no copy."""
    target, name = into
    written = target.write(name, _rekey(packed, header, identity, source.read(packed.name)))
    return packed.model_copy(update={"name": name, "bytes": written.bytes, "digest": written.digest})


def _rekey(packed: Pack, header: PackHeader, identity: Identity, pieces: Iterator[bytes]) -> Iterator[bytes]:
    read = _Digested(pieces)
    left = iter(read)
    head = _head(left)
    PackReader(packed.name, [head]).expect(header)
    yield encode_header(replace(header, identity=identity))
    last = head[_header_bytes(head) :]
    for piece in left:
        yield last
        last = piece
    if read.written != WrittenObject(packed.bytes, packed.digest):  # before the last piece, so no object is made of it
        raise DamagedPack(packed.name, "it is not the object that was stored under this name")
    yield last


def _head(pieces: Iterator[bytes]) -> bytes:
    """The first pieces, with the whole header if there is one."""
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= min(_header_bytes(head), PREFIX.size + HEADER_BYTES_MAX + CHECK_BYTES):
            break
    return head


def _header_bytes(head: bytes) -> int:
    """Returns the length in bytes of the header that begins with `head`. While its prefix is not complete, it is the length of the prefix."""
    if len(head) < PREFIX.size:
        return PREFIX.size
    return int(PREFIX.size + PREFIX.unpack_from(head)[2] + CHECK_BYTES)


class _Digested:
    """Passes pieces on. `written`: what has passed."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces, self._digest, self._bytes = pieces, xxh3_128(), 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._digest.update(piece)
            self._bytes += len(piece)
            yield piece

    @property
    def written(self) -> WrittenObject:
        return WrittenObject(self._bytes, self._digest.hexdigest())
