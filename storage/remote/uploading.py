"""Storing a version of a worker: as the deltas that lead to it, or as a new base.

Deltas cost as much as was frozen. But a restore reads them all, so when they have more bytes than the live state, a base takes their place.
A base is at most as large as the deltas since the one before it, so all bases but the first together cost no more than the deltas.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from base.version import VersionId
from faults.points import reached
from storage import description, folding, keys, record_set, records
from storage.errors import CorruptFile, WrongDatabase
from storage.identity import Identity
from storage.remote import pack, spool
from storage.remote.chain import Chain, Pack
from storage.remote.errors import PackError
from storage.remote.objects_protocol import ObjectStore
from storage.remote.pack import Block, PackHeader, Record, Totals
from storage.remote.snapshot import VersionSnapshot, records_at
from storage.remote.spool import SpooledDelta
from storage.remote.unpacking import PackReader, pieces_of

PACK_BYTES_MAX = 64 << 20
"""The largest number of bytes in a part of a base. A failed transfer of more would cost too much to repeat. The last block may exceed it."""
DELTA_BYTES_MIN = 1 << 20
"""The deltas since a base may have so many bytes however small the state is. Otherwise a tiny state would be uploaded whole each time."""
DELTAS_MAX = 512
"""The deltas since a base. A restore asks for each of them, which takes about 20 ms, and whoever keeps the chain has 200 bytes for each."""


def upload(
    store: ObjectStore,
    path: Path,
    identity: Identity,
    version: VersionId,
    *,
    former: Chain | None,
    spool_folder: Path,
    prefix: str,
) -> Chain:
    """Stores a complete version of the database in `path`, and returns its chain. Steps and folds may go on.

    `former`: the chain of this worker that was stored last; it may share its packs with the new one. `spool_folder`: where `spool_frozen` has
    put the deltas since then. `prefix`: of the names of the new objects, which nobody else uses: it names the worker, the checkpoint and the
    term. If this raises, objects may be left that no chain names.

    Raises UnknownVersion if the database no longer has the version, WrongDatabase, CorruptRecord, CorruptFile, and what the store raises."""
    target = _Target(store, identity, version, prefix)
    with records_at(path, version) as snapshot:
        if snapshot.identity != identity:
            raise WrongDatabase(path, identity, snapshot.identity)
        seal, table_bytes = snapshot.seal, snapshot.table_bytes()
    if former is not None and former.format == description.FORMAT:
        if former.version == version and former.seal == seal:
            return former
        deltas = spool.path_between(spool.spooled_deltas(spool_folder, identity), former.version, version)
        raw_bytes = [delta.raw_bytes for delta in deltas or ()]
        if deltas and not is_due_for_base(former, raw_bytes, sum(table_bytes.values())):
            added = _upload_deltas(target, deltas)
            if added is not None:
                return _chain(version, seal, table_bytes, (*former.packs, *added))
    with records_at(path, version) as snapshot:
        return _upload_base(target, snapshot)


@dataclass(frozen=True)
class _Target:
    """Where a version goes."""

    store: ObjectStore
    identity: Identity
    version: VersionId
    prefix: str

    def write(self, name: str, header: PackHeader, content: Iterable[bytes], totals: Totals) -> Pack:
        """Writes one pack, whose bytes are `content`. `totals` are those of the pack when it was written."""
        written = self.store.write(name, _halfway(content, self.identity.worker))
        reached("pack.uploaded", self.identity.worker)
        return Pack(
            name=name, kind=header.kind, to=header.to, bytes=written.bytes, raw_bytes=totals.raw_bytes,
            digest=written.digest,
        )  # fmt: skip


def is_due_for_base(former: Chain, deltas_raw_bytes: Sequence[int], live_bytes: int) -> bool:
    """Whether an upload writes a base instead of these deltas, which come after the chain. `live_bytes`: of the state."""
    delta_bytes = former.delta_bytes + sum(deltas_raw_bytes)
    is_long = len(former.deltas) + len(deltas_raw_bytes) > DELTAS_MAX
    return is_long or delta_bytes > max(live_bytes, DELTA_BYTES_MIN)


def _upload_deltas(target: _Target, deltas: Sequence[SpooledDelta]) -> list[Pack] | None:
    """The packs of these deltas; None if a file is damaged or has gone."""
    packs = []
    for number, delta in enumerate(deltas):
        header = PackHeader(target.identity, "delta", delta.to, delta.since)
        totals = Totals()
        try:
            name = f"{target.prefix}-delta-{number:03d}"
            packs.append(target.write(name, header, _verify(delta.file, header, totals), totals))
        except (PackError, FileNotFoundError):
            return None
    return packs


def _verify(file: Path, header: PackHeader, totals: Totals) -> Iterator[bytes]:
    """The bytes of a spooled pack. Raises PackError before the last of them where they are damaged, so that no object is made of them."""
    passed: deque[bytes] = deque()

    def passing() -> Iterator[bytes]:
        for piece in pieces_of(file):
            passed.append(piece)
            yield piece

    reader = PackReader(str(file), passing())
    reader.expect(header)
    for _ in reader.records():
        while len(passed) > 1:
            yield passed.popleft()
    totals.records, totals.raw_bytes = reader.totals.records, reader.totals.raw_bytes
    yield from passed


def _upload_base(target: _Target, snapshot: VersionSnapshot) -> Chain:
    """All records of the version."""
    counted = _Counted()
    left = _Blocks(pack.blocks(counted.counting(snapshot.records())))
    packs: list[Pack] = []
    while not packs or left.has_more:
        header = PackHeader(target.identity, "base", target.version, part=len(packs))
        totals = Totals()
        name = f"{target.prefix}-base-{len(packs):03d}"
        packs.append(target.write(name, header, pack.pieces(header, left.take(PACK_BYTES_MAX), totals), totals))
    if counted.checksum % record_set.MODULUS != snapshot.seal:
        raise CorruptFile(snapshot.path, f"records of {target.version} are missing")
    return _chain(target.version, snapshot.seal, folding.add_sizes(counted.table_bytes, {}), packs)


def _chain(version: VersionId, seal: int, table_bytes: dict[int, int], packs: Iterable[Pack]) -> Chain:
    return Chain(version=version, format=description.FORMAT, seal=seal, table_bytes=table_bytes, packs=tuple(packs))


@dataclass
class _Counted:
    """What a walk over all records of a version says of it: the checksum of the record set, before the modulo, and the live bytes by table."""

    checksum: int = 0
    table_bytes: dict[int, int] = field(default_factory=dict)

    def counting(self, items: Iterable[Record]) -> Iterator[Record]:
        for key, stored in items:
            self.checksum += record_set.record_mark(description.RECORDS + key, stored)
            if not key.startswith(keys.RESERVED):
                table = keys.key_table(key)
                self.table_bytes[table] = self.table_bytes.get(table, 0) + records.live_bytes(key, stored)
            yield key, stored


class _Blocks:
    """Blocks that are divided among several packs."""

    def __init__(self, left: Iterator[Block]) -> None:
        self._left = left
        self._next = next(left, None)

    @property
    def has_more(self) -> bool:
        return self._next is not None

    def take(self, bytes_max: int) -> Iterator[Block]:
        """The next blocks, of so many bytes or up to a block more."""
        taken_bytes = 0
        while self._next is not None and taken_bytes < bytes_max:
            block, self._next = self._next, next(self._left, None)
            taken_bytes += block.packed_bytes
            yield block


def _halfway(content: Iterable[bytes], worker: int) -> Iterator[bytes]:
    for number, piece in enumerate(content):
        yield piece
        if number == 0:
            reached("pack.half", worker)
