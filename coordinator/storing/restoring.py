"""How a start gets the state back from the checkpoint store.

The step log names the stored version and the digest of its manifest. The manifest says where the state of each owner is. The workers whose hosts
have no database of that version restore theirs; then it is opened as any other version.

If the layout has changed since that version, the start goes back to its owners, and the log says so: `layout_if_restored`.
"""

from __future__ import annotations

from collections.abc import Collection

from base.logger import Logger
from base.version import VersionId
from coordinator.starting.layouts import layout_of, layout_with, record_of
from coordinator.starting.workers.binding import Bound
from coordinator.storing.manifest import Manifest, read_manifest
from engine.resident.crew import Crew
from io_kafka.outside import Outside
from io_kafka.step_log.layout_records import LayoutRecord
from io_kafka.step_log.layout_rules import why_not_placed
from io_kafka.step_log.records import CheckpointStored
from io_kafka.step_log.state import StepLogState
from storage.remote.objects_protocol import ObjectStore
from storage.remote.retrying_store import RetryingStore

_log = Logger("coordinator.storing.restoring")


def restore_missing(
    crew: Crew,
    bound: Bound,
    stored: CheckpointStored,
    *,
    store: ObjectStore,
    outside: Outside,
    distrusted: Collection[int],
) -> None:
    """Has the workers of `bound.restored` make their databases of what the store has. `distrusted`: see ExpectedDatabases. Raises StoreFault,
    and TaskLost if a worker was lost. A store that breaks off is waited for (storage/remote/retrying_store.py)."""
    _log.info(
        "databases are restored from the store",
        workers=sorted(bound.restored),
        version=stored.version.version,
        step=stored.version.step,
    )
    manifest = manifest_of(stored, store, outside)
    chains = {worker: manifest.chains[worker] for worker in sorted(bound.restored)}
    crew.store.restore(stored.version, chains, distrusted)


def manifest_of(stored: CheckpointStored, store: ObjectStore, outside: Outside) -> Manifest:
    """The manifest that the step log names. A store that does not answer is waited for (storage/remote/retrying_store.py). Raises StoreFault."""
    patient = RetryingStore(store, monotonic=outside.monotonic, sleep=outside.sleep)
    return read_manifest(patient, stored.manifest, stored.digest)


def layout_if_restored(version: VersionId, state: StepLogState, epoch: int) -> LayoutRecord | None:
    """The layout that a start records after it has opened the stored version; None if the log says already that slots have these owners. A
    rescale that was under way is over then. The number of workers in the settings is acted on again."""
    stored = state.stored
    if stored is None or stored.version != version or why_not_placed(stored.placed, state.layout_ground) is None:
        return None
    before = layout_of(state.current_layout)
    layout = layout_with(stored.placed.owned, before.number + 1, before.policy)
    _log.warning(
        "the stored checkpoint is from before the last change of the layout; its workers have the slots again",
        version=version.version,
        workers=len(layout.members),
    )
    record = record_of(layout, stored.placed.births, epoch=epoch, asked=len(layout.members), outcome="restored")
    assert record.placed == stored.placed, f"{record.placed} and {stored.placed}"
    return record
