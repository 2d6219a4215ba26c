"""Deletes the objects of the checkpoint store that no version needs any more.

Guarantees: an object stays if the stored version's manifest or that of a backup names it. Only the run that holds the pipeline deletes, after
its record of the stored version was accepted. It deletes nothing of a later term, so a run that has lost the pipeline without knowing it takes
nothing from its successor; and nothing of its own that it is uploading.

    an object                                        it is
    ---------------------------------------------    -------
    named by the stored version or by a backup       kept
    of an earlier generation                         deleted: a full refresh has begun another one
    of a later generation, or of another step log    kept
    with the number of a version above the stored    kept: of an upload that is under way, perhaps of another run
    with a later term                                kept
    with a name that says neither                    kept, because somebody else has put it there
    any other                                        deleted

A backup that is made at the same time reads the record of the stored version first and writes its manifest then. So it looks again whether the
objects are still there (backups.py).

What is listed for that says too whether the store has lost an object that the stored version needs. Later versions would rely on it, and nobody
would notice before a disk is lost. So the run stores all of the state again (storing.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from base.logger import Logger
from base.short_text import short_text
from base.term import Term
from coordinator.background_work import BackgroundWork
from coordinator.storing.manifest import Manifest, backup_objects, log_root_of, read_manifest
from coordinator.storing.presence import Lost, lost_of, packs_in, sizes_below
from faults.points import reached
from io_kafka.outside import Outside
from io_kafka.step_log.records import CheckpointStored
from storage.remote.errors import StoreFault
from storage.remote.objects_protocol import ObjectStore

_log = Logger("coordinator.storing.collecting")

DELETED_AT_ONCE = 1000
"""Objects of one request, as S3 allows. A run that is killed between two leaves the rest to the next one."""

_NAMED = re.compile(r"(?P<version>\d{8,})-(?P<checkpoint>[^-/]+)-(?P<epoch>\d+)\.(?P<attempt>\d+)(?:[.-][^/]*)?")


class Collector:
    """Deletes in the background, for one stored version after the other.

    A version that is stored while the objects of the one before it are being deleted waits for its turn; of several that wait, the last one has
    the same to delete. A run that is to end waits for it (Storing.blocks_end): otherwise the objects would stay until the next run stores.
    `began_at`: when it last had nothing to do before. `lost`: see Collected; of the last version that was looked at."""

    def __init__(self, outside: Outside, wake: Callable[[], None]) -> None:
        self._outside, self._wake = outside, wake
        self._due: Callable[[], Collected] | None = None
        self._deleting: BackgroundWork[Collected] | None = None
        self.began_at = 0.0
        self.lost: tuple[CheckpointStored, tuple[Lost, ...]] | None = None

    @property
    def is_under_way(self) -> bool:
        return self._due is not None or self._deleting is not None

    def stored(self, store: ObjectStore, record: CheckpointStored, manifest: Manifest, term: Term) -> None:
        """The run holds the pipeline: its record was accepted just now. The parameters are those of `collect`."""
        if not self.is_under_way:
            self.began_at = self._outside.monotonic()
        self._due = partial(collect, store, record, manifest, term)
        self.advance()

    def advance(self) -> None:
        """Called between the actions of the loop. A fault is logged, and the next stored version tries again."""
        if self._deleting is not None and self._deleting.is_over:
            over, self._deleting = self._deleting, None
            try:
                collected = over.result()
            except StoreFault as fault:
                self._tell(fault)
            else:
                self.lost = (collected.record, collected.lost)
                if collected.fault is not None:
                    self._tell(collected.fault)
        if self._deleting is None and self._due is not None:
            due, self._due = self._due, None
            self._deleting = BackgroundWork(self._outside, "collect", due, self._wake)

    @staticmethod
    def _tell(fault: StoreFault) -> None:
        _log.warning("objects that no version needs could not be deleted; it is tried again", fault=short_text(fault))


@dataclass(frozen=True)
class Collected:
    """`deleted`: the number of objects. `lost`: those that the stored version needs and that the store does not have. `fault`: which has ended
    the deletion."""

    record: CheckpointStored
    lost: tuple[Lost, ...]
    deleted: int = 0
    fault: StoreFault | None = None


def collect(store: ObjectStore, record: CheckpointStored, manifest: Manifest, term: Term) -> Collected:
    """Deletes what is not needed. `record`, `manifest`: of the stored version. `term`: of the run that holds the pipeline. Raises StoreFault if
    the store cannot be listed."""
    sizes = sizes_below(store, log_root_of(manifest.pipeline, manifest.log_id))
    lost = tuple(lost_of(manifest, sizes))
    try:
        return Collected(record, lost, _delete(store, garbage(store, record, manifest, term, sizes)))
    except StoreFault as fault:
        return Collected(record, lost, fault=fault)


def _delete(store: ObjectStore, names: list[str]) -> int:
    for first in range(0, len(names), DELETED_AT_ONCE):
        store.delete(names[first : first + DELETED_AT_ONCE])
        reached("collect.half")
    if names:
        _log.info("objects deleted that no version needs", objects=len(names))
    return len(names)


def garbage(
    store: ObjectStore, record: CheckpointStored, manifest: Manifest, term: Term, every: Iterable[str]
) -> list[str]:
    """The names of the objects that `collect` would delete, in order. `every`: of all objects under the step log. Raises StoreFault: a manifest
    of a backup that cannot be read may name anything, so nothing is deleted then."""
    needed = {record.manifest, *packs_of(manifest)}
    for backup in backup_objects(store, manifest.pipeline):
        needed.update(packs_of(read_manifest(store, backup, None)))
    above = log_root_of(manifest.pipeline, manifest.log_id)
    return sorted(
        name
        for name in every
        if name not in needed and _may_go(name, _generation_of(name, above), manifest.generation, record, term)
    )


def _generation_of(name: str, above: str) -> int | None:
    """Returns the generation of an object below the folder of a step log; None if its folder is no generation's."""
    text = name[len(above) + 1 :].partition("/")[0]
    return int(text) if text.isdecimal() else None


def _may_go(name: str, generation: int | None, present: int, record: CheckpointStored, term: Term) -> bool:
    """`present`: the generation of the stored version. A full refresh leaves the ones before it behind."""
    if generation is None or generation > present:
        return False
    return generation < present or _is_over(name, record, term)


def _is_over(name: str, record: CheckpointStored, term: Term) -> bool:
    named = _NAMED.fullmatch(name.rpartition("/")[2])
    if named is None or int(named["version"]) > record.version.version:
        return False
    return Term(int(named["epoch"]), int(named["attempt"])).number <= term.number


def packs_of(manifest: Manifest) -> Iterable[str]:
    """The names of all objects with the state of a version."""
    return (pack.name for pack in packs_in(manifest))
