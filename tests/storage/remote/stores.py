"""The object store in memory, which counts, and what the tests of the checkpoint store share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from base.version import VersionId
from storage.database import Database
from storage.remote import spool
from storage.remote.chain import Chain
from storage.remote.objects_protocol import WrittenObject
from storage.remote.uploading import upload
from tests import memory_store
from tests.storage.helpers import ME

PIECE_BYTES = 1000
"""Of what is read, so that blocks and their fields lie across pieces."""


class MemoryStore(memory_store.MemoryStore):
    """`written`: the names, in the order in which they were written. `open_max`: how many objects were read at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self.open = self.open_max = 0

    def write(self, name: str, pieces: Iterable[bytes]) -> WrittenObject:
        done = super().write(name, pieces)
        self.written.append(name)
        return done

    def read(self, name: str) -> Iterator[bytes]:
        (content,) = super().read(name)
        self.open += 1
        self.open_max = max(self.open, self.open_max)
        for place in range(0, len(content), PIECE_BYTES):
            yield content[place : place + PIECE_BYTES]
        self.open -= 1


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
