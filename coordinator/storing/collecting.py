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
objects are still there (stepwell/inspection/backups.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import structlog

from base.term import Term
from coordinator.storing.manifest import Manifest, backups_of, log_root_of, read_manifest
from faults.points import reached
from io_kafka.step_log.records import CheckpointStored
from storage.remote.chain import Chain
from storage.remote.objects_protocol import ObjectStore

_log = structlog.get_logger("coordinator.storing.collecting")

DELETED_AT_ONCE = 1000
"""Objects of one request, as S3 allows. A run that is killed between two leaves the rest to the next one."""

_NAMED = re.compile(r"(?P<version>\d{8,})-(?P<checkpoint>[^-/]+)-(?P<epoch>\d+)\.(?P<attempt>\d+)(?:[.-][^/]*)?")


def collect(store: ObjectStore, record: CheckpointStored, manifest: Manifest, term: Term) -> int:
    """Deletes what is not needed. `record`, `manifest`: of the stored version. `term`: of the run that holds the pipeline. Returns how many
    objects were deleted. Raises StoreFault."""
    names = garbage(store, record, manifest, term)
    for first in range(0, len(names), DELETED_AT_ONCE):
        store.delete(names[first : first + DELETED_AT_ONCE])
        reached("collect.half")
    if names:
        _log.info("objects deleted that no version needs", objects=len(names))
    return len(names)


def garbage(store: ObjectStore, record: CheckpointStored, manifest: Manifest, term: Term) -> list[str]:
    """The names of the objects that `collect` would delete, in order. Raises StoreFault: a manifest of a backup that cannot be read may name
    anything, so nothing is deleted then."""
    needed = {record.manifest, *packs_of(manifest)}
    for backup in store.list(backups_of(manifest.pipeline)):
        needed.update(packs_of(read_manifest(store, backup.name, None)))
    above = log_root_of(manifest.pipeline, manifest.log_id)
    every = (found.name for found in store.list(above))
    return sorted(
        name
        for name in every
        if name not in needed and _may_go(name, _generation_of(name, above), manifest.generation, record, term)
    )


def _generation_of(name: str, above: str) -> int | None:
    """Of an object below the folder of a step log; None if its folder is no generation's."""
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
    for text in manifest.chains.values():
        yield from (pack.name for pack in Chain.of_json(text).packs)
