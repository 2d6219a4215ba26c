"""What must hold of the databases of a world, at every commit of one of them and when the log says something of them."""

from __future__ import annotations

from collections.abc import Iterator

from storage.keys import key_slot
from tests.simulator.batch_answer import Sums
from tests.simulator.circuit import slot, state_key, state_value
from tests.simulator.claims import Claims
from tests.simulator.disk import Disk, Environment, Records
from tests.simulator.oracle_of_layouts import LayoutOracle
from tests.simulator.oracle_of_steps import StepOracle
from tests.simulator.oracle_of_store import StoreOracle
from tests.simulator.scheduler import Process
from tests.simulator.stored_databases import (
    COMMITTED,
    DESCRIPTION,
    OWNED,
    RECORDS,
    STAGED,
    STATE,
    STEP,
    TOMBSTONE_BYTES,
    TRAILER_BYTES,
    UNDO,
    Description,
    Place,
    Version,
    databases,
    description,
    is_in,
    live,
    number_of,
    ranges_of,
    unpacked,
)


class DatabaseOracle:
    """The databases that disks hold. `fenced`: the term that a database was fenced with last, by its place. `opened`: where a database was
    opened in a term. `numbers`: under which number a database was opened."""

    def __init__(
        self,
        claims: Claims,
        steps: StepOracle,
        layouts: LayoutOracle,
        store: StoreOracle | None,
        seen: dict[str, int],
    ) -> None:
        self._claims, self._steps, self._layouts, self._store, self._seen = claims, steps, layouts, store, seen
        self.term = (-1, 0)
        self.fenced: dict[Place, tuple[int, int]] = {}
        self._removed: set[Place] = set()  # and no other database was fenced there since
        self.opened: dict[tuple[tuple[int, int], str], tuple[Place, int]] = {}
        self.numbers: dict[tuple[tuple[int, int], str], int] = {}

    # What the log says

    def check_boundary(self, version: Version, writer: Process, disk: Disk) -> None:
        """No step is under way: every worker's state is at the step of the checkpoint. A coordinator that died may have asked long ago."""
        assert version[1] <= self._steps.written, f"{version} is intended, and {self._steps.written} steps are written"
        for folder, environment in self._owning(disk) if writer.alive else ():
            at = self._step_of(folder, environment, disk)
            assert at in (None, version[1]), (
                f"{version} is intended, and the state of {'/'.join(folder)} is at step {at}"
            )

    def check_unstaged(self, writer: Process, disk: Disk) -> None:
        """A checkpoint that begins while no change of the layout is under way has no copies of the last one."""
        for folder, environment in self._owning(disk) if writer.alive and not self._layouts.changing else ():
            self._check_no_copies(folder, environment, disk)

    def check_not_beyond(self, step: int, disk: Disk) -> None:
        """A step is divided again over less input, so no state has more than the steps before it."""
        for folder, environment in live(disk):
            at = self._step_of(folder, environment, disk)
            assert at is None or at <= step, (
                f"step {step} is divided again, and the state of {'/'.join(folder)} is at {at}"
            )

    def check_all_have_run(self, step: int, writer: Process, disk: Disk) -> None:
        """A step is written when every worker has it in its state, perhaps with the next one."""
        for folder, environment in self._owning(disk) if writer.alive else ():
            if description(environment.now.records).boot != disk.boot_at(folder):
                continue  # its host has crashed, after the worker had sent what the step gave
            at = self._step_of(folder, environment, disk)
            assert at in (step + 1, step + 2), f"step {step} is written, and the state of {'/'.join(folder)} is at {at}"

    def check_recorded(
        self, worker: int, birth: str, spans: list[tuple[int, int]], version: Version, disk: Disk
    ) -> None:
        """The databases say the same as the record of a checkpoint that is complete."""
        for place, environment in databases(disk):
            stored = environment.durable.records
            if number_of(place) != worker or DESCRIPTION not in stored:
                continue
            found = description(stored)
            if found.birth == birth and found.versions[-1] == version and not found.merging:
                owned = ranges_of(stored[RECORDS + OWNED])
                assert owned == sorted(spans), f"{place} owns {owned} at {version}, and {spans} are recorded"

    def holds(self, worker: int, birth: str, version: Version, disk: Disk) -> bool:
        """Whether some host has the version durably in the database of this worker."""
        for place, environment in databases(disk):
            if number_of(place) == worker and DESCRIPTION in environment.durable.records:
                found = description(environment.durable.records)
                if found.birth == birth and version in found.versions:
                    return True
        return False

    def check_cleared(self, disk: Disk) -> None:
        """The last checkpoint has no table of a node that the revision in force lacks. A copy of slots that was on its way when the tables went
        does not count: nobody sees it, and the cut that moves the slots removes what their source lacks."""
        assert self._layouts.complete is not None
        for place, environment in databases(disk):
            found = description(environment.now.records)
            if found.versions[-1] != self._layouts.complete or found.merging:
                continue
            records = {key[1:]: value for key, value in environment.now.records.items() if key[:1] == RECORDS}
            staged = ranges_of(records.get(STAGED, bytes(TRAILER_BYTES)))
            tables = {key[:2] for key in records if key[:1] != b"\xff" and not is_in(key_slot(key), staged)}
            numbers = {(int.from_bytes(table) - 16) // 8 for table in tables}
            assert numbers <= self._steps.revisions.numbers, (
                f"{place} has tables of {numbers - self._steps.revisions.numbers}"
            )

    # Commits

    def committed(self, environment: Environment, before: Records, process: Process, disk: Disk) -> None:
        """A database's environment has a new state."""
        folder = environment.folder.place
        if folder[-1] == COMMITTED and DESCRIPTION not in environment.now.records:
            return  # of a draft that is filled
        if folder[-1] == COMMITTED:
            self._described(folder, environment, before, process)
            if "workers" in folder and not folder[-2].startswith("."):
                self.check_shared(disk)
            return
        found = disk.find((*folder[:-1], COMMITTED))
        if isinstance(found, Environment):
            now = description(found.now.records)
            if folder[-1] in (now.working, now.frozen):
                self._check_term(folder[:-1], process, environment)
                assert process.term >= now.term, f"{process.name} of term {process.term} wrote {environment.folder}"
            if folder[-1] == now.working and now.term[0] == self._claims.epoch:
                self._check_working(found, now, disk)

    def renamed(self, place: Place, process: Process) -> None:
        """A folder has another name, so it is about to be removed, or was a draft. A late run may make a database under the old name again, and
        that one is its own."""
        self._removed.add(place)
        fenced = self.fenced.pop(place, process.term)
        assert process.term >= fenced, (
            f"{process.name} of term {process.term} removes {place}, which {fenced} has fenced"
        )

    def gone(self, disk: Disk, place: Place) -> None:
        """All below this place is about to be lost, or replaced by an older copy."""
        assert self._store is not None
        for found, environment in databases(disk):
            if found[: len(place)] == place and DESCRIPTION in environment.durable.records:
                present = description(environment.durable.records)
                self._store.lost |= {(number_of(found), present.birth, version) for version in present.versions}
        for fenced in [each for each in self.fenced if each[: len(place)] == place]:
            del self.fenced[fenced]
            self._removed.add(fenced)

    def _check_term(self, place: Place, process: Process, environment: Environment) -> None:
        fenced = self.fenced.get(place, process.term)
        assert process.term >= fenced, (
            f"{process.name} of term {process.term} wrote {environment.folder}, which {fenced} has fenced"
        )

    def _check_working(self, environment: Environment, now: Description, disk: Disk) -> None:
        """The state after a step that was run just now, perhaps ahead of the output of the step before."""
        folder = environment.folder.place
        step = self._step_of(folder, environment, disk)
        assert step is not None
        assert step <= len(self._steps.divided), f"{environment.folder} has run step {step - 1}, which is not divided"
        assert step <= self._steps.written + 2, (
            f"{environment.folder} is at step {step}, and {self._steps.written} steps are written"
        )
        self._seen["ahead"] += step > self._steps.written + 1
        sums = dict(self._steps.sums[min(step, self._steps.written)])
        for ahead in range(self._steps.written, step):
            for key, number, weight in self._steps.input_of(ahead):
                count, total = sums.get(key, (0, 0))
                sums[key] = count + weight, total + number * weight
        state: Records = {}
        for layer in reversed(self._layers(folder, environment, now, disk)):
            state.update((key, value) for key, value in layer.items() if key[:2] == STATE or key in (OWNED, STAGED))
        kept = {key: value for key, value in state.items() if len(value) != TOMBSTONE_BYTES}
        self._compare(kept, {k: v for k, v in sums.items() if v != (0, 0)}, number_of(folder), f"step {step}")

    def _described(self, folder: tuple[str, ...], environment: Environment, before: Records, process: Process) -> None:
        now = description(environment.now.records)
        former = description(before) if DESCRIPTION in before else None
        assert former is None or now.term >= former.term, f"the term of {environment.folder} falls"
        assert former is None or process.term >= former.term, (
            f"{process.name} of term {process.term} changed {environment.folder} of term {former.term}"
        )
        assert 1 <= len(now.versions) <= 2
        for version in (*now.versions, *(() if now.freezing is None else (now.freezing,))):
            assert version[1] <= self._steps.written, (
                f"{environment.folder}: {version} holds a step that is not written"
            )
        assert now.freezing is None or now.freezing in self._layouts.intended, (
            f"{now.freezing} is frozen and was not intended"
        )
        worker = number_of(folder)
        # A late worker may sync what it finds.
        if former is not None and former != now and not folder[-2].startswith("."):
            self._check_term(folder[:-1], process, environment)
        if former is None and environment.synced:
            self._check_created(now, worker, process)
        if self._store is not None and not now.merging:
            records = environment.now.records
            self._store.has(now.database, now.versions[-1], {k[1:]: v for k, v in records.items() if k[:1] == RECORDS})
            if not environment.synced:
                self._store.restored(now.database, now.versions[-1])
        if former is not None and now.working is None and now.layers > former.layers:
            self.fenced[folder[:-1]] = process.term
            self._removed.discard(folder[:-1])
        if former is not None and now.opened > former.opened:
            # A suspended worker goes on with a file that was removed, and nobody looks at that any more.
            is_fenced = folder[:-1] in self._removed or self.fenced.get(folder[:-1]) == process.term
            assert is_fenced, f"{process.name} opens {environment.folder} without a fence"
            self._check_opened(now, folder[:-1], worker, process)
        self._check_content(environment.now.records, now, worker)

    def _check_created(self, now: Description, worker: int, process: Process) -> None:
        """A zombie may create a database too, and nobody will ever bind it."""
        if process.term[0] != self._claims.epoch:
            return
        self._seen["created"] += 1
        if now.birth != "0":
            assert self._layouts.changing, f"{process.name} makes worker {worker} without a change of the layout"
            known = {b for owners in self._layouts.owners.values() for w, (b, _) in owners.items() if w == worker}
            assert now.birth not in known, f"{process.name} makes worker {worker} a second time, as {now.birth}"
            return
        assert self._layouts.complete is None, (
            f"{process.name} creates the database of worker {worker} after {self._layouts.complete}"
        )
        holders = self._layouts.reported[process.term].get(worker, set())
        assert not holders, f"{process.name} creates the database of worker {worker}, which {holders} held"

    def _check_opened(self, now: Description, place: Place, worker: int, process: Process) -> None:
        """One database for each number, and one number for each database."""
        assert now.worker == worker, f"{place} holds the database of worker {now.worker}"
        first = self.opened.setdefault((process.term, now.database), (place, now.opened))
        assert first == (place, now.opened), f"worker {worker} opens {place} in term {process.term}, after {first}"
        self.term = max(self.term, process.term)
        if self._store is not None and process.term == self.term:
            self._store.opened(now.versions[-1])
        number = self.numbers.setdefault((process.term, now.database), worker)
        assert number == worker, f"{now.database} is open under {number} and {worker} in term {process.term}"
        if process.term[0] == self._claims.epoch and self._layouts.complete is not None:
            assert now.versions[-1][0] > 0, (
                f"{process.name} begins with an empty {place} after {self._layouts.complete}"
            )

    def _check_content(self, stored: Records, now: Description, worker: int) -> None:
        kept = tuple(RECORDS + prefix for prefix in (STATE, OWNED, STAGED))
        state = {key[1:]: value for key, value in stored.items() if key.startswith(kept)}
        if not now.merging:
            self._check_state(state, now.versions[-1], worker)
        if now.merging or len(now.versions) == 2:
            for spaced, value in stored.items():
                if spaced.startswith(tuple(UNDO + prefix for prefix in (STATE, OWNED, STAGED))):
                    state[spaced[1:]] = value if len(value) == TOMBSTONE_BYTES else unpacked(value)
            self._check_state({k: v for k, v in state.items() if len(v) != TOMBSTONE_BYTES}, now.versions[0], worker)

    def _check_state(self, state: Records, version: Version, worker: int) -> None:
        self._compare(state, self._steps.sums[version[1]], worker, f"version {version}")

    def _compare(self, state: Records, sums: Sums, worker: int, what: str) -> None:
        owned, staged = ranges_of(state[OWNED]), ranges_of(state.get(STAGED, bytes(TRAILER_BYTES)))
        assert not any(a < d and c < b for a, b in owned for c, d in staged), (
            f"worker {worker} has copies of its own slots"
        )
        self._seen["staged"] += bool(staged)
        expected = {state_key(k): state_value(*v) for k, v in sums.items() if is_in(slot(k), owned)}
        found = {
            key: value[:-TRAILER_BYTES]
            for key, value in state.items()
            if key[:2] == STATE and not is_in(key_slot(key), staged)
        }
        assert found == expected, f"worker {worker}, {what}: {found} is not {expected}"

    def check_shared(self, disk: Disk) -> None:
        """Some version that is not older than the last complete one has all its owners; before there is one, there is nothing to lose. Where
        several hosts have a database of one worker, it is enough if one of them has the version."""
        if self._layouts.complete is None:
            return
        held: dict[tuple[int, str], set[Version]] = {}
        if self._store is not None and self._store.can_restore:
            return  # what it has is checked whenever an object changes
        for place, environment in databases(disk):
            found = description(environment.now.records)
            held.setdefault((number_of(place), found.birth), set()).update(found.versions)
        for version, owners in self._layouts.owners.items():
            is_whole = all(version in held.get((worker, birth), ()) for worker, (birth, _) in owners.items())
            if is_whole and version[0] >= self._layouts.complete[0]:
                return
        raise AssertionError(f"no version since {self._layouts.complete} has all its owners: {held}")

    def check_settled(self, disk: Disk) -> None:
        """After a run that nothing has disturbed: the databases of the layout hold no copies, and there are no others. On a cluster there may be
        one on a host to which no task has come since."""
        assert self._layouts.layout is not None and not self._layouts.changing
        expected = {(worker, birth) for worker, (birth, _) in self._layouts.layout.items()}
        for place, environment in live(disk):
            present = description(environment.now.records)
            if (number_of(place), present.birth) in expected:
                self._check_no_copies(place, environment, disk)
        if len(disk.parts) > 1:
            return
        found = {
            (number_of(place), description(environment.now.records).birth) for place, environment in databases(disk)
        }
        assert found == expected, f"the databases are {sorted(found)}, and the layout's {sorted(expected)}"

    # What a database holds

    def _check_no_copies(self, folder: Place, environment: Environment, disk: Disk) -> None:
        stored = self._stored(folder, environment, STAGED, disk)
        staged = [] if stored is None else ranges_of(stored)
        assert not staged, f"{'/'.join(folder)} has copies of {staged}, and no change is under way"

    def _owning(self, disk: Disk) -> Iterator[tuple[Place, Environment]]:
        """The databases that own slots now. A worker that has just been made, or that is about to leave, need not be where all others are."""
        for folder, environment in live(disk):
            present = description(environment.now.records)
            if present.term != self.term or (present.term, present.database) not in self.opened:
                continue
            stored = self._stored(folder, environment, OWNED, disk)
            if stored is not None and ranges_of(stored):
                yield folder, environment

    def _step_of(self, folder: tuple[str, ...], environment: Environment, disk: Disk) -> int | None:
        """The next step of a worker's state; None if the database is not open in the present epoch, or if its host has crashed since."""
        present = description(environment.now.records)
        if present.working is None or present.term[0] != self._claims.epoch or present.boot != disk.boot_at(folder):
            return None
        stored = self._stored(folder, environment, STEP, disk)
        return 0 if stored is None else int.from_bytes(stored[:-TRAILER_BYTES])

    def _stored(self, folder: Place, environment: Environment, key: bytes, disk: Disk) -> bytes | None:
        """The record of a key in the uppermost layer that has one; None if no layer has."""
        layers = self._layers(folder, environment, description(environment.now.records), disk)
        return next((layer[key] for layer in layers if key in layer), None)

    def _layers(
        self, folder: tuple[str, ...], environment: Environment, present: Description, disk: Disk
    ) -> list[Records]:
        """Uppermost first."""
        named = [disk.find((*folder[:-1], name)) for name in (present.working, present.frozen) if name is not None]
        layers = [found.now.records for found in named if isinstance(found, Environment)]
        records = environment.now.records
        return [*layers, {key[1:]: value for key, value in records.items() if key[:1] == RECORDS}]
