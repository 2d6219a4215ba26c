"""The spool of a worker: the deltas of its last checkpoints, as packs in a local folder, until the store has them.

    VVVVVVVVVVVV-DIGEST.pack        the delta that leads to a version of this number; the digest is that of the whole VersionId
    .VVVVVVVVVVVV-DIGEST.pack.eN    the draft of one, by a process of epoch N

A delta is written before its layer is folded, because the layer is removed then. Nothing is synced: what a crash of the machine has left of a
file is noticed when it is read, and then the whole state is uploaded instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from io import RawIOBase
from pathlib import Path

from xxhash import xxh3_128_hexdigest

from base.version import VersionId
from faults.points import reached
from storage import durable, environments
from storage.database import Database, FrozenRecords
from storage.errors import NotOpen
from storage.identity import Identity
from storage.remote import pack, unpacking
from storage.remote.errors import DamagedPack, PackError
from storage.remote.pack import PackHeader, Totals

_PACK = re.compile(r"(?P<version>\d{12})-[0-9a-f]{32}\.pack", re.ASCII)
_DRAFT = re.compile(r"\..+\.pack\.e(?P<epoch>\d+)", re.ASCII)


@dataclass(frozen=True)
class SpooledDelta:
    """A delta in the spool. `bytes`: of the file. `raw_bytes`: of its keys and stored records, before compression."""

    file: Path
    since: VersionId
    to: VersionId
    bytes: int
    raw_bytes: int


def spool_frozen(database: Database, folder: Path) -> SpooledDelta | None:
    """Writes what waits to be folded into the spool, if it is not there yet. None if nothing waits. The caller folds afterwards, also if this
    raises StorageFull, which leaves nothing in the spool. Raises StaleEpoch, NotOpen, CorruptRecord, StorageFull."""
    with database.frozen_records() as frozen:
        if frozen is None:
            return None
        header = PackHeader(database.identity, "delta", frozen.to, frozen.since)
        file = folder / _name(frozen.to)
        with environments.disk_faults(folder):
            known = _look_at(file, database.identity)
            if known is None or known.since != frozen.since:
                durable.make_folders(folder)
                _write(database, frozen, header, file)
                known = _look_at(file, database.identity)
        if known is None:
            raise DamagedPack(str(file), "it is not what was written just now")
        return known


def spooled_deltas(folder: Path, identity: Identity) -> tuple[SpooledDelta, ...]:
    """The deltas of this database that are here, by version. What a crash has left of one, and what is another database's, is left out. Raises
    OSError."""
    looked = (_look_at(file, identity) for file, _ in _files(folder))
    return tuple(sorted((found for found in looked if found is not None), key=lambda delta: delta.to))


def discard(folder: Path, stored: VersionId) -> None:
    """Deletes the deltas that lead to this version, which the store has, or to a version of the same or a lower number. Raises OSError."""
    for file, version in _files(folder):
        if version <= stored.version:
            file.unlink(missing_ok=True)


def clear(folder: Path) -> None:
    """Deletes all deltas. The next upload writes the whole state. Raises OSError."""
    for file, _ in _files(folder):
        file.unlink(missing_ok=True)


def spool_bytes(folder: Path) -> int:
    """Returns the bytes of all files in the spool. Raises OSError."""
    total = 0
    for file in folder.iterdir() if folder.exists() else ():
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def _name(to: VersionId) -> str:
    return f"{to.version:012d}-{xxh3_128_hexdigest(json.dumps(asdict(to), sort_keys=True).encode())}.pack"


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    """The files of deltas, each with the number of the version that it leads to."""
    for file in sorted(folder.iterdir()) if folder.exists() else ():
        named = _PACK.fullmatch(file.name)
        if named is not None:
            yield file, int(named["version"])


def _write(database: Database, frozen: FrozenRecords, header: PackHeader, file: Path) -> None:
    _remove_drafts(file.parent, database.epoch)
    draft = file.with_name(f".{file.name}.e{database.epoch}")
    try:
        with draft.open("wb", buffering=0) as target:
            for number, piece in enumerate(pack.pieces(header, pack.blocks(frozen.items), Totals())):
                _write_whole(target, piece)
                if number == 1:
                    reached("spool.half", database.identity.worker)
        draft.rename(file)
    except FileNotFoundError:
        raise NotOpen(database.path, database.epoch, f"another run has taken over the spool {file.parent}") from None
    except Exception:
        draft.unlink(missing_ok=True)
        raise


def _write_whole(target: RawIOBase, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[target.write(left) :]


def _remove_drafts(folder: Path, epoch: int) -> None:
    """Removes the drafts of this epoch and of earlier ones. Their writers were killed, or may not go on."""
    for file in folder.iterdir():
        named = _DRAFT.fullmatch(file.name)
        if named is not None and int(named["epoch"]) <= epoch:
            file.unlink(missing_ok=True)


def _look_at(file: Path, identity: Identity) -> SpooledDelta | None:
    """None if it is not there, if its ends are damaged, or if it is another database's."""
    try:
        size = file.stat().st_size
        header = unpacking.PackReader(str(file), unpacking.pieces_of(file)).header
        with file.open("rb") as source:
            source.seek(max(0, size - pack.END_BYTES))
            totals = unpacking.end_of(str(file), source.read())
    except (FileNotFoundError, PackError):
        return None
    if header.identity != identity or header.since is None or file.name != _name(header.to):
        return None
    return SpooledDelta(file, header.since, header.to, size, raw_bytes=totals.raw_bytes)


def path_between(deltas: Iterable[SpooledDelta], since: VersionId, to: VersionId) -> tuple[SpooledDelta, ...] | None:
    """The deltas that lead from one version to another without a gap; None if some are missing. A version can have been frozen several times,
    around crashes, so versions are compared as a whole."""
    by_version = {delta.to: delta for delta in deltas}
    found: list[SpooledDelta] = []
    at = to
    while at != since:
        delta = by_version.get(at)
        if delta is None or at.version <= since.version:
            return None
        found.append(delta)
        at = delta.since
    return tuple(reversed(found))
