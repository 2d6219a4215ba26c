"""The orders about the checkpoint store. Both are carried out beside the others: an upload beside steps, and a restore before there is a
database."""

from __future__ import annotations

from dataclasses import dataclass

from engine.resident.messages import DatabaseRestored, RestoreDatabase, StoreVersion, VersionStored
from engine.resident.storing import StoreAccess
from engine.resident.worker.handlers import Job, carries_out


@dataclass(frozen=True, kw_only=True)
class StoreOrders:
    store: StoreAccess

    @carries_out
    def upload(self, order: StoreVersion) -> Job[VersionStored]:
        return lambda: (self.store.store(order), ())

    @carries_out
    def restore(self, order: RestoreDatabase) -> Job[DatabaseRestored]:
        return lambda: (self.store.restore(order), ())
