"""An object store in memory, as obvious as it can be, and what the tests of the checkpoint store share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from xxhash import xxh3_128_hexdigest

from base.version import VersionId
from storage.database import Database
from storage.remote import spool
from storage.remote.chain import Chain
from storage.remote.errors import ObjectMissing
from storage.remote.objects_protocol import ObjectInfo, Written
from storage.remote.uploading import upload
from tests.storage.helpers import ME

PIECE_BYTES = 1000
"""Of what is read, so that blocks and their fields lie across pieces."""


class MemoryStore:
    """`objects`: the bytes of each, by name. `written`: the names, in the order in which they were written."""

    root = "memory:"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.written: list[str] = []
        self.open = self.open_max = 0

    def write(self, name: str, pieces: Iterable[bytes]) -> Written:
        content = b"".join(pieces)
        self.objects[name] = content
        self.written.append(name)
        return Written(len(content), xxh3_128_hexdigest(content))

    def read(self, name: str) -> Iterator[bytes]:
        if name not in self.objects:
            raise ObjectMissing(self.root, name)
        content = self.objects[name]
        self.open += 1
        self.open_max = max(self.open, self.open_max)
        for place in range(0, len(content), PIECE_BYTES):
            yield content[place : place + PIECE_BYTES]
        self.open -= 1

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return (ObjectInfo(name, len(content)) for name, content in self.objects.items() if name.startswith(prefix))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.objects.pop(name, None)


def stored(
    store: MemoryStore,
    database: Database,
    version: VersionId,
    former: Chain | None,
    *,
    spool_folder: Path | None = None,
) -> Chain:
    """Uploads a version, and discards what the spool no longer has to keep."""
    folder = spool_of(database) if spool_folder is None else spool_folder
    prefix = f"packs/0000-b0/{version.version}-{version.checkpoint_id}-{database.epoch}"
    chain = upload(store, database.path, ME, version, former=former, spool_folder=folder, prefix=prefix)
    assert Chain.of_json(chain.to_json()) == chain
    spool.discard(folder, version)
    return chain


def spool_of(database: Database) -> Path:
    return database.path.with_name(f"{database.path.name}.spool")


def checkpoint(database: Database, version: int, step_next: int) -> VersionId:
    """Freezes, spools and folds."""
    made = VersionId(version, step_next, f"c{version}-{step_next}")
    database.freeze(made)
    assert spool.spool_frozen(database, spool_of(database)) is not None
    assert database.fold() == made
    return made
