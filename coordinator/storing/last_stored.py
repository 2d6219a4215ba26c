"""The last stored version, as far as the next upload relies on it: its manifest, and whether the store still has all that it names.

A delta is uploaded against the objects of the stored version. So before the first upload of a run its manifest is read, beside the steps. If
that, or an object that it names, is lost or damaged, the workers upload all of their state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from base.logger import Logger
from base.short_text import short_text
from base.version import VersionId
from coordinator.background_work import BackgroundWork
from coordinator.storing.manifest import DamagedManifest, Manifest
from coordinator.storing.presence import read_whole
from io_kafka.outside import Outside
from io_kafka.step_log.records import CheckpointStored
from storage.remote.errors import DamagedPack, ObjectMissing, StoreFault
from storage.remote.objects_protocol import ObjectStore

_log = Logger("coordinator.storing.last_stored")

REPAIRS_MAX = 3
"""How often a run stores all of the state again because the store has lost objects. Whoever deletes them does it again, and each time costs an
upload of the whole state; after that the run only says so."""


class LastStored:
    """The last stored version, as far as the next upload of one run relies on it. `fault`: why the next upload cannot rely on it; empty if it
    can, or if that is not known."""

    def __init__(self, outside: Outside, wake: Callable[[], None]) -> None:
        self._outside, self._wake = outside, wake
        self.fault = ""
        # With the manifest that the log names, or None if that, or an object that it names, cannot be used.
        self._known: tuple[CheckpointStored, Manifest | None] | None = None
        self._reading: tuple[CheckpointStored, BackgroundWork[Manifest]] | None = None
        self._reading_began_at = 0.0
        self._repairs = 0

    @property
    def reading_since(self) -> float | None:
        """When the manifest began to be read; None if none is being read."""
        return None if self._reading is None else self._reading_began_at

    def recovered(self) -> None:
        """Nobody waits any more for what is being read."""
        self._reading = None

    def is_known(self, stored: CheckpointStored) -> bool:
        """Whether it was read, or has been stored by this run."""
        return self._known is not None and self._known[0] == stored

    def read(self, store: Callable[[], ObjectStore], stored: CheckpointStored) -> bool:
        """Reads the manifest in the background. Returns whether that is over. Raises StoreFault if the store does not give it now."""
        if self._reading is None or self._reading[0] != stored:
            reading = BackgroundWork(self._outside, "manifest", partial(read_whole, store(), stored), self._wake)
            self._reading, self._reading_began_at = (stored, reading), self._outside.monotonic()
        if not self._reading[1].is_over:
            return False
        over, self._reading = self._reading[1], None
        try:
            self.stored(stored, over.result())
        except (DamagedManifest, ObjectMissing, DamagedPack) as fault:
            self._lose(stored, fault)
        return True

    def stored(self, record: CheckpointStored, manifest: Manifest) -> None:
        """The version is stored, and is whole."""
        self._known, self.fault = (record, manifest), ""

    def note_lost(self, record: CheckpointStored, fault: StoreFault) -> None:
        """The store has lost an object of this version, on which a delta may rely that was stored since."""
        if not self.is_known(record):
            return
        if self._repairs < REPAIRS_MAX:
            self._repairs += 1
            self._lose(record, fault)
        else:
            self.fault = f"it loses objects again and again: {short_text(fault)}"

    def _lose(self, stored: CheckpointStored, fault: StoreFault) -> None:
        self._known, self.fault = (stored, None), short_text(fault)
        _log.warning("the store has lost some of the stored version; all state is uploaded", fault=self.fault)

    def whole(self, stored: CheckpointStored | None) -> VersionId | None:
        """Returns the stored version; None if the store is known to have lost some of it. Then it is stored again, although nothing has
        changed."""
        return None if stored is None or self._known == (stored, None) else stored.version

    def chains(self, owners: Mapping[int, str]) -> dict[int, str]:
        """The chains to go on with, of the workers that are still the same. `owners`: the births of those that upload. Without a chain a worker
        uploads everything."""
        manifest = None if self._known is None else self._known[1]
        if manifest is None:
            return {}
        same = {w for w, birth in manifest.placed.births.items() if owners.get(w) == birth}
        return {worker: chain for worker, chain in manifest.chains.items() if worker in same}
