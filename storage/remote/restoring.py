"""Making a worker's database again from its chain.

    packs, each verified -- merged by key: the latest counts --> a draft of the database, in bounded transactions --> renamed

The draft gets its name only if every pack is the object that its chain names, and if the records' checksum is the one that the version had.
After a crash there is a whole database or none. Restoring takes the memory of one block for each pack that is merged. A longer chain is
applied in several passes, each of which merges some deltas and applies them to the records so far.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain as chained
from pathlib import Path

from faults.points import reached
from storage import description as described
from storage import durable, environments, folding, record_set, records
from storage.description import Description
from storage.environments import DATA_FILE, Environment
from storage.identity import Identity
from storage.new_database import new_database
from storage.remote.chain import Chain, Pack, headers_of
from storage.remote.errors import DamagedPack, DamagedStore, OtherPackFormat
from storage.remote.objects_protocol import ObjectStore, WrittenObject
from storage.remote.pack import PackHeader
from storage.remote.unpacking import PackReader

TRANSACTION_BYTES_MAX = 16 << 20
"""About how many bytes of records one transaction writes. LMDB holds the pages of a transaction in memory."""
SYNC_BYTES = 64 << 20
"""The file is synced after so many, so that no queue of unwritten pages grows that would keep every other write of the disk waiting."""
MERGED_MAX = 32
"""Packs that are read at the same time, each of which takes about 3 MB."""


def restore(store: ObjectStore, chain: Chain, path: Path, identity: Identity, epoch: int) -> None:
    """Makes the database of `identity` in `path`, at the version of the chain. It is durable on return, and is then fenced and opened like any
    other.

    Raises DatabaseExists if the folder is there, ObjectMissing, DamagedPack, ForeignPack, OtherPackFormat or DamagedStore where the store does
    not have that version, StorageFull, and what the store raises. Then nothing is left."""
    if chain.format != described.FORMAT:
        raise OtherPackFormat(chain.packs[0].name, chain.format, described.FORMAT)
    with ExitStack() as stack:
        folder = stack.enter_context(new_database(path.resolve(), epoch, synced=False))
        environment = stack.enter_context(environments.open_environment(folder, synced=False))
        filling = _Filling(environment, epoch, identity.worker, chain.live_bytes)
        for number, streams in enumerate(_passes(store, chain, identity)):
            filling.apply(_merge(streams), has_former=number > 0)
        if filling.checksum != chain.seal or filling.table_bytes != chain.table_bytes:
            raise DamagedStore(identity.worker, chain.version, "its packs do not add up to its records")
        with environment.write(epoch) as writer:
            seals = (filling.checksum,)
            sizes = filling.table_bytes
            made = Description(identity, epoch, (chain.version,), table_bytes=sizes, record_set_checksums=seals)
            described.save(writer, made)
    reached("restore.done", identity.worker)


class _Filling:
    """The records of the new database so far, with their live bytes by table and their checksum."""

    def __init__(self, environment: Environment, epoch: int, worker: int, live_bytes: int) -> None:
        self.checksum = 0
        self.table_bytes: dict[int, int] = {}
        self._environment = environment
        self._epoch = epoch
        self._worker = worker
        self._live_bytes = live_bytes
        self._unsynced_bytes = 0

    def apply(self, items: Iterator[tuple[bytes, memoryview]], *, has_former: bool) -> None:
        """Writes these records over those that are there, if there are any, and deletes where there is a tombstone."""
        while self._apply_some(items, has_former):
            reached("restore.half", self._worker)
            if self._unsynced_bytes >= SYNC_BYTES:
                with environments.disk_faults(self._environment.folder):
                    durable.sync(self._environment.folder / DATA_FILE)
                self._unsynced_bytes = 0

    def _apply_some(self, items: Iterator[tuple[bytes, memoryview]], has_former: bool) -> bool:
        """One transaction. Returns whether it wrote anything."""
        size = 0
        with self._environment.write(self._epoch) as writer:
            there = folding.CommittedRecords(writer, self._live_bytes)
            for key, stored in items:
                if has_former:
                    there.remove(key)
                if not records.is_tombstone(stored):
                    there.put(key, stored)
                size += len(key) + len(stored)
                if size >= TRANSACTION_BYTES_MAX:
                    break
        self.checksum = (self.checksum + there.checksum_change) % record_set.MODULUS
        self.table_bytes = folding.add_sizes(self.table_bytes, there.size_changes)
        self._unsynced_bytes += size
        return size > 0


Stream = Iterator[tuple[bytes, memoryview]]


def _passes(store: ObjectStore, chain: Chain, identity: Identity) -> Iterator[list[Stream]]:
    """The streams of each pass, from the one that counts most to the one that counts least. The parts of the base are one stream, because their
    keys ascend."""
    streams_of = [(packed.kind, records_of(store, packed, header)) for packed, header in headers_of(chain, identity)]
    streams: list[Stream] = [chained.from_iterable(stream for kind, stream in streams_of if kind == "base")]
    for kind, stream in streams_of:
        if kind == "base":
            continue
        if len(streams) == MERGED_MAX:
            yield streams[::-1]
            streams = []
        streams.append(stream)
    yield streams[::-1]


def records_of(store: ObjectStore, packed: Pack, header: PackHeader) -> Stream:
    """The records of a pack, each verified, in the order of their keys. Raises ObjectMissing, OtherPackFormat, ForeignPack if its header is
    another one, and DamagedPack, which may come only after the last record, if it is not the object that the chain names."""
    reader = PackReader(packed.name, store.read(packed.name))
    reader.expect(header)
    yield from reader.records()
    if reader.read() != WrittenObject(packed.bytes, packed.digest):
        raise DamagedPack(packed.name, "it is not the object that was stored under this name")


def _merge(streams: Sequence[Stream]) -> Stream:
    """The record of each key in the first stream that has one, in the order of the keys."""
    last: bytes | None = None
    for key, _, stored in heapq.merge(*(_with_rank(rank, stream) for rank, stream in enumerate(streams))):
        if key != last:
            yield key, stored
        last = key


def _with_rank(rank: int, stream: Iterable[tuple[bytes, memoryview]]) -> Iterator[tuple[bytes, int, memoryview]]:
    for key, stored in stream:
        yield key, rank, stored
