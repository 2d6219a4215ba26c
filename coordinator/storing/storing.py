"""Carries out the uploads of one run to the checkpoint store, in the background.

    a version is complete -> its owners upload -> the manifest -> the record in the step log -> what no version needs is deleted

machine.py decides when each part is due. Everything but the record happens in threads and workers beside the loop. A fault of the store is told
and tried again; it never ends a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from base.fault import Fault
from base.logger import Logger
from base.short_text import short_text
from base.term import Term
from base.version import VersionId
from coordinator.background_work import BackgroundWork
from coordinator.core import Core
from coordinator.loop_part import LoopPart, Recovered
from coordinator.measures import SettledStep
from coordinator.specification import PipelineSpec
from coordinator.starting.workers.found_databases import ExpectedDatabases
from coordinator.starting.workers.usable_versions import restorable
from coordinator.status import StatusBoard
from coordinator.storing.collecting import Collector
from coordinator.storing.last_stored import LastStored
from coordinator.storing.machine import Describe, LogStored, StoringAction, StoringMachine, Upload
from coordinator.storing.manifest import (
    MANIFEST_FORMAT,
    Manifest,
    UploadName,
    manifest_name,
    prefix_of,
    root_of,
    write_manifest,
)
from coordinator.storing.store_shown import StoreShown
from engine.resident.crew import Crew
from engine.resident.messages import VersionStored
from engine.resident.roster import RECOVERABLE
from faults.points import reached
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.layout_records import Ownership
from io_kafka.step_log.records import CheckpointStored
from storage.errors import CorruptFile, CorruptRecord, NoDatabase
from storage.remote.errors import StoreDenied, StoreFault
from storage.remote.objects_protocol import ObjectStore

_log = Logger("coordinator.storing.storing")

STOP_SECONDS_MAX = 60.0
"""How long a run that is to end waits for its last checkpoint to be stored. On the usual disks of a cloud this is time for some GB."""


DAMAGED = (NoDatabase, CorruptRecord, CorruptFile)
"""Faults of a worker's database that a restore from the checkpoint store repairs."""


@dataclass(frozen=True)
class _Description:
    """The manifest of an upload. `writing`: it goes to the store in the background, and its digest is the result."""

    manifest: Manifest
    writing: BackgroundWork[str]


@dataclass(frozen=True)
class _UploadUnderWay:
    """The upload that is under way. `placed`: the owners of the version. `name`: of its manifest. `answers`: of the owners, when all have
    uploaded."""

    version: VersionId
    placed: Ownership
    name: str
    answers: Mapping[int, VersionStored] | None = None
    description: _Description | None = None


class Storing(LoopPart):
    """The storing of checkpoints in one run. Without a store it does nothing."""

    def __init__(
        self, spec: PipelineSpec, writer: PipelineWriter, board: StatusBoard, wake: Callable[[], None]
    ) -> None:
        self._name, self._settings, self._outside = spec.name, spec.store, spec.kafka.outside
        self._writer, self._board, self._wake = writer, board, wake
        self.machine = StoringMachine(0.0 if spec.store is None else spec.store.lag_s_max)
        self._store: ObjectStore | None = None
        self._expected: ExpectedDatabases | None = None
        self._term: Term | None = None
        self._upload: _UploadUnderWay | None = None
        self._last_stored = LastStored(self._outside, wake)
        self._abandoned_writes: list[
            BackgroundWork[str]
        ] = []  # threads that write manifests of which nobody waits for the end
        self._collector = Collector(self._outside, wake)
        self._is_late = False
        self._end_deadline: float | None = None  # when a run that is to end no longer waits
        self._has_told = False  # that it has given up
        self._uploaded_bytes = self._attempts = self._refusals = 0
        self._fault = ""

    @property
    def store(self) -> ObjectStore:
        """Opened at its first use. Raises StoreFault."""
        assert self._settings is not None, "the pipeline has no store"
        if self._store is None:
            self._store = self._settings.place.open()
        return self._store

    def recovered(self, recovered: Recovered) -> None:
        self._expected, self._term = recovered.found.expected, recovered.term
        self._abandon_upload()
        self._last_stored.recovered()
        self.machine.recovered()
        self._show()

    # What the loop asks

    @property
    def can_restore(self) -> bool:
        """Whether a database that is lost or damaged can be made of what the store has."""
        return self._settings is not None and restorable(self._writer.state) is not None

    @property
    def version_steps_wait_for(self) -> VersionId | None:
        """The stored version, if the settings say that the steps wait for a store that is late: then the run does nothing that would make the
        version useless before a later one is stored."""
        stored = self._writer.state.stored
        return None if stored is None or self._settings is None or self._settings.late != "pause" else stored.version

    @property
    def versions_log_must_reach(self) -> tuple[VersionId, ...]:
        """The version to which a lost disk would be restored, and the one that is uploaded: as soon as it is stored, it takes its place. The log
        must have all steps since them."""
        if self._settings is None:
            return ()
        stored, upload = self._writer.state.stored, self._upload
        versions = (None if stored is None else stored.version, None if upload is None else upload.version)
        return tuple(version for version in versions if version is not None)

    @property
    def awaits_answers(self) -> bool:
        return self._upload is not None or self._last_stored.reading_since is not None

    @property
    def acts_in_background(self) -> bool:
        """Whether a thread is at work that writes to the store."""
        return self._collector.is_under_way or bool(self._writing())

    def _writing(self) -> list[BackgroundWork[str]]:
        """The threads that write manifests now."""
        description = None if self._upload is None else self._upload.description
        writing = self._abandoned_writes if description is None else [*self._abandoned_writes, description.writing]
        return [each for each in writing if not each.is_over]

    @property
    def blocks_steps(self) -> bool:
        """Whether no step may begin, because no checkpoint was stored for too long and the settings ask for that."""
        return self._is_late and self._settings is not None and self._settings.late == "pause"

    def blocks_end(self, *, may_give_up: bool) -> bool:
        """Whether a run must not end yet, because its last checkpoint is not stored, or because it looks whether the store still has it, or
        deletes what no version needs. The last two take a bounded time. The first does too, from the first call with `may_give_up` on."""
        if self._settings is None:
            return False
        now = self._outside.monotonic()
        if not self.machine.is_behind:
            reading_since = self._last_stored.reading_since
            if reading_since is not None and now < reading_since + STOP_SECONDS_MAX:
                return True
            return self._collector.is_under_way and now < self._collector.began_at + STOP_SECONDS_MAX
        if not may_give_up:
            return True
        if self._end_deadline is None:
            self._end_deadline = now + STOP_SECONDS_MAX
        if now < self._end_deadline:
            return True
        self._tell_of_end()
        return False

    def _tell_of_end(self) -> None:
        """Says once that the run ends without its last checkpoint in the store."""
        if self._has_told:
            return
        self._has_told = True
        _log.warning(
            "the run ends, and its last checkpoint is not in the store",
            seconds=round(STOP_SECONDS_MAX),
            fault=self._fault,
            what_to_do="the state is on the disks of the workers; run again when the store answers, before these disks go",
        )

    # The parts of an upload

    def note_step(self, step: SettledStep) -> None:
        """Nothing has to be noted: checkpoints are stored, and no steps."""

    def look(self, core: Core, crew: Crew) -> None:
        """Raises a fault of the crew or of a database, but none of the store."""
        if self._settings is None:
            return
        now, complete = self._outside.monotonic(), core.version
        self._collector.advance()
        self._heed_lost()
        try:
            self._report(crew)
            if self.machine.may_begin(now):
                self._knows_last_stored()
            action = self.machine.next(complete, self._last_stored.whole(self._writer.state.stored), now)
            if action is not None:
                self._do(action, complete, crew)
        except StoreFault as fault:
            self._give_up(fault, now)
        self._tell_of_lag(now)

    def _report(self, crew: Crew) -> None:
        """Reports what is over."""
        upload = self._upload
        if upload is None:
            return
        if upload.description is not None:
            if upload.description.writing.is_over:
                upload.description.writing.result()
                self.machine.described()
            return
        answers = self._poll(crew)
        if answers is None:
            return
        if missing := upload.placed.owners.keys() - answers.keys():
            raise StoreFault(f"Worker {min(missing)} has left while version {upload.version.version} was uploaded.")
        self._upload = replace(upload, answers=answers)
        self.machine.uploaded()

    def _poll(self, crew: Crew) -> dict[int, VersionStored] | None:
        """A fault of a worker's upload is one of the upload: the state itself was only read. But a database that is lost or damaged is restored.
        Otherwise a run without steps would try to upload it for ever."""
        try:
            return crew.store.poll_upload()
        except (*RECOVERABLE, StoreFault):
            raise
        except Fault as fault:
            if isinstance(fault, DAMAGED) and self.can_restore:
                raise
            raise StoreFault(f"The state could not be uploaded: {fault.message}", fault.what_to_do) from fault

    def _do(self, action: StoringAction, complete: VersionId, crew: Crew) -> None:
        match action:
            case Upload(version):
                self._begin(version, crew)
            case Describe():
                self._describe()
            case LogStored():
                self._record(complete)
            case _:
                assert_never(action)

    def _begin(self, version: VersionId, crew: Crew) -> None:
        assert self._expected is not None and self._term is not None
        placed = self._writer.state.placed[version]
        owners = placed.owners
        if not owners.keys() <= set(crew.numbers):
            raise StoreFault(f"Owners of version {version.version} have left.")
        if not self._knows_last_stored():
            return
        root = root_of(self._name, self._expected.log_id, self._expected.generation)
        self._attempts += 1
        name = UploadName(version, self._term, self._attempts)
        prefixes = {w: prefix_of(root, w, birth, name) for w, birth in owners.items()}
        crew.store.begin_upload(version, self._last_stored.chains(owners), prefixes)
        self._upload = _UploadUnderWay(version, placed, manifest_name(root, name))
        self.machine.uploading(version)

    def _knows_last_stored(self) -> bool:
        """Whether it is known what the next upload can rely on. Raises StoreFault if the store does not give it now."""
        stored, last = self._writer.state.stored, self._last_stored
        if stored is None or last.is_known(stored):
            return True
        if not last.read(lambda: self.store, stored):
            return False
        if last.fault or not self.machine.is_behind:
            self._fault = last.fault  # what an earlier look has met is over, if nothing is to be stored
        return True

    def _heed_lost(self) -> None:
        """If some of the version that was stored just now is gone already: a delta relies on objects that were there long before."""
        found, self._collector.lost = self._collector.lost, None
        if found is not None and found[1]:
            record, lost = found
            self._last_stored.note_lost(record, lost[0].fault(self.store))
            self._fault = self._last_stored.fault or self._fault

    def _describe(self) -> None:
        upload, expected, store = self._upload, self._expected, self.store
        assert upload is not None and upload.answers is not None and expected is not None
        owners = upload.placed.owners
        manifest = Manifest(
            format=MANIFEST_FORMAT,
            pipeline=self._name,
            log_id=expected.log_id,
            generation=expected.generation,
            version=upload.version,
            placed=upload.placed,
            databases={w: expected.identity(w, birth).database for w, birth in owners.items()},
            chains={w: answer.chain for w, answer in upload.answers.items()},
        )
        write = partial(write_manifest, store, upload.name, manifest)
        writing = BackgroundWork(self._outside, "manifest", write, self._wake)
        self._upload = replace(upload, description=_Description(manifest, writing))
        self.machine.describing()

    def _record(self, complete: VersionId) -> None:
        upload = self._upload
        assert upload is not None and upload.answers is not None and upload.description is not None
        manifest, writing = upload.description.manifest, upload.description.writing
        reached("manifest.written")
        record = CheckpointStored(
            epoch=self._writer.epoch,
            version=upload.version,
            placed=upload.placed,
            manifest=upload.name,
            digest=writing.result(),
        )
        self._writer.log.append([record])
        reached("stored.recorded")
        self._uploaded_bytes += sum(answer.bytes for answer in upload.answers.values())
        self._last_stored.stored(record, manifest)
        self._fault = ""
        self._upload = None
        self.machine.recorded(complete, self._outside.monotonic())
        assert self._term is not None
        self._collector.stored(self.store, record, manifest, self._term)

    # Faults, and what users see

    def _abandon_upload(self) -> None:
        """Waits no more for what is uploaded. A thread that writes its manifest goes on."""
        self._abandoned_writes, self._upload = self._writing(), None

    def _give_up(self, fault: StoreFault, now: float) -> None:
        self._abandon_upload()
        self.machine.failed(now)
        self._refusals += isinstance(fault, StoreDenied)
        text = short_text(fault)
        if text != self._fault:
            _log.warning("a checkpoint could not be stored; it is tried again", fault=text)
        self._fault = text

    def _tell_of_lag(self, now: float) -> None:
        """After all that `look` does, so the status has it too."""
        is_late = self.machine.is_late(now)
        if is_late != self._is_late:
            self._is_late = is_late
            if is_late:
                _log.warning(
                    "no checkpoint was stored for too long",
                    seconds=round(self.machine.lag_s(now)),
                    fault=self._fault or "the store has not answered yet",
                    steps="wait for the store" if self.blocks_steps else "go on; a lost disk costs what is not stored",
                )
            else:
                _log.info("the store has the last checkpoint again")
        self._show()

    def _show(self) -> None:
        if self._settings is None:
            return
        stored = self._writer.state.stored
        shown = StoreShown(
            place=self._settings.place.uri,
            version=None if stored is None else stored.version.version,
            step=None if stored is None else stored.version.step,
            lag_s=round(self.machine.lag_s(self._outside.monotonic()), 1),
            phase=self.machine.phase.shown,
            is_late=self._is_late,
            uploaded_bytes=self._uploaded_bytes,
            fault=self._fault,
            refusals=self._refusals,
        )
        self._board.update(store=shown.to_json())
