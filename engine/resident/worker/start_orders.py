"""The orders of a start: from the databases of the host to a worker that has its database open and knows its peers.

[Remove, Create] -> FenceDatabase -> OpenDatabase(version) -> [Enter(step)] -> JoinPeers(members)
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from engine.resident.copies import SlotCopier
from engine.resident.folds import Folds
from engine.resident.mesh import Mesh
from engine.resident.messages import (
    Create,
    Created,
    DatabaseFenced,
    DatabaseOpened,
    Enter,
    Entered,
    FenceDatabase,
    JoinPeers,
    OpenDatabase,
    PeersJoined,
    Remove,
    Removed,
)
from engine.resident.worker.handlers import carries_out
from engine.resident.worker.state import WorkerState
from io_kafka.outside import Outside
from storage.database import Database
from storage.errors import DatabaseExists


@dataclass(frozen=True, kw_only=True)
class StartOrders:
    """The orders by which a worker gets its database and its peers. `copier` and `folds` are reset when the database is opened."""

    state: WorkerState
    mesh: Mesh
    copier: SlotCopier
    folds: Folds
    outside: Outside

    @carries_out
    def remove(self, order: Remove) -> Removed:
        folder = self.state.host_folder
        folder.finish_removals()
        return Removed(workers=tuple(each.worker for each in order.databases if folder.remove(each)))

    @carries_out
    def create(self, order: Create) -> Created:
        # A worker of an older run may have been faster; the fence tells whose database it is.
        with suppress(DatabaseExists):
            Database.create(
                self.state.folder, self.state.identity, self.state.term.number, order.new.owned, order.new.base
            )
        return Created()

    @carries_out
    def fence(self, order: FenceDatabase) -> DatabaseFenced:
        found = Database.fence(self.state.folder, epoch=self.state.term.number, identity=self.state.identity)
        return DatabaseFenced(versions=found.versions, number=found.number)

    @carries_out
    def open(self, order: OpenDatabase) -> DatabaseOpened:
        state = self.state
        database = state.database = Database.open(
            state.folder, order.version, epoch=state.term.number, identity=state.identity, fenced=order.fenced
        )
        self.copier.discard(database)
        self.folds.restart()
        state.step_state.start(order.version.step)
        self.outside.freeze_memory()
        with database.read() as stored:
            owned = stored.get_owned()
        return DatabaseOpened(
            step=order.version.step,
            owned=owned,
            state_bytes=sum(database.statistics().table_bytes.values()),
            free_bytes=state.host_folder.free_bytes(),
        )

    @carries_out
    def enter(self, order: Enter) -> Entered:
        self.state.step_state.enter(order.step)
        with self.state.open_database.transaction() as transaction:
            transaction.set_step(order.step)
        return Entered(step=order.step)

    @carries_out
    def join(self, order: JoinPeers) -> PeersJoined:
        self.mesh.join(self.state.number, order.members)
        self.state.placement = order.placement
        return PeersJoined()
