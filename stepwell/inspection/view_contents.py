"""What the databases of this host say about the kept views, as of the last checkpoint.

Guarantees: all views of one reading belong to one checkpoint, which is the same on every worker. Nothing is written and no database is fenced,
so the databases can be read with and without a running service. State of another circuit is never read.

The committed layers of the databases are read, each in one transaction. While a checkpoint is being folded, the workers have different versions
for a moment. In this case all are read again.

Which databases count: those whose owned slots, at one version, are all slots once. `circuit.json` names the workers of the last settled layout.
While the layout changes, others may own slots, and a run that goes on after a crash removes the databases of those that own none any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from base.slots import why_no_partition
from base.version import VersionId
from coordinator.starting.project.same_circuit import check_same_circuit
from coordinator.starting.workers.circuit_file import StateOwner, read_owner
from engine.analysis.marking import marked_circuit
from engine.analysis.release import computed_otherwise, freeze
from engine.analysis.stages import plan_stages
from engine.model.circuit import Circuit
from engine.run.contents import WorkerContents, read_views
from stepwell.errors import StepwellError
from stepwell.inspection.query_errors import NoState
from stepwell.project.loading import Project
from storage.errors import NoDatabase
from storage.host_folder import HostFolder

FOLD_SECONDS_MAX = 30.0
"""The time for the workers to reach the same version. A fold takes well under a second if states are small, and seconds if they are large."""

LOOK_SECONDS = 0.05

ReadViews = Callable[[Sequence[str]], tuple[VersionId, list[pa.Table]]]
"""Reads the content of the named views, all at the version that is returned with them. A row of weight n occurs n times."""


@dataclass(frozen=True)
class StateHere:
    """The state of a project on this host, of which it is known that it belongs to the project's circuit. `circuit`: as the state has been
    computed. `numbers`: of its nodes."""

    project: Project
    circuit: Circuit
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, project: Project, circuit: Circuit) -> StateHere:
        """`circuit`: that of the files. Raises NoState if there is no state, and CircuitChanged if it belongs to another circuit."""
        owner = read_owner(project.state_folder)
        if owner is None:
            raise _no_state(project)
        circuit = _as_in_force(circuit, owner)
        check_same_circuit(circuit, owner.fingerprint, owner.circuit)
        return cls(project, freeze(circuit, computed_otherwise(circuit, owner.made_with)), owner.numbers)

    def read(self, names: Sequence[str]) -> tuple[VersionId, list[pa.Table]]:
        """See ReadViews. Raises NoState, StorageError and DataError."""
        try:
            return read_contents(self.project.state_folder, self.project.databases, self.circuit, self.numbers, names)
        except NoDatabase as gone:
            raise _without_database(self.project, gone) from None


def _as_in_force(circuit: Circuit, owner: StateOwner) -> Circuit:
    """The circuit of the files with the marks that its views have in the state."""
    return marked_circuit(circuit, {view: marks for view, marks in owner.marks.items() if view in circuit.views})


def _without_database(project: Project, gone: NoDatabase) -> StepwellError | NoDatabase:
    """What to say of a database that a run has promised and that is not there."""
    if project.settings.stepwell.store is not None:
        return _no_state(project)
    if project.databases.names():
        return gone
    return NoState(
        f"no database is in {project.state_folder} yet: the last run ended before it had made one",
        "`stepwell run` makes the state. If there was one, `stepwell run` says what is missing.",
    )


def _no_state(project: Project) -> NoState:
    store, folder = project.settings.stepwell.store, project.state_folder
    if store is None:
        return NoState(f"there is no state in {folder}", "`stepwell run` makes it.")
    return NoState(
        f"there is no state in {folder}, or not all of it. A query does not read the checkpoint store, {store}.",
        "`stepwell run` makes the state of what the store has, or of the input if it has nothing.",
    )


def read_contents(
    folder: Path, databases: HostFolder, circuit: Circuit, numbers: tuple[int, ...], names: Sequence[str]
) -> tuple[VersionId, list[pa.Table]]:
    """The views' content from all workers. `folder`: the project's, which names them. `numbers`: of the circuit's nodes. Raises NoDatabase if
    one of them is gone and the others do not own all slots, and NoState if the workers do not reach the same version in time."""
    planned = plan_stages(circuit)
    read = partial(read_views, plan=planned, numbers=numbers, names=names, checks_errors=True)
    deadline = time.monotonic() + FOLD_SECONDS_MAX
    before: set[VersionId] | None = None
    while True:
        found, gone = _readable(folder, databases, read)
        for version in sorted({part.version for part in found.values()}, reverse=True):
            parts = [part for part in found.values() if part.version == version]
            if why_no_partition({i: part.owned for i, part in enumerate(parts)}) is None:
                _check_revision(folder, version)
                return version, [pa.concat_tables(part.tables[i] for part in parts) for i in range(len(names))]
        versions = {part.version for part in found.values()}
        if gone is not None and (time.monotonic() > deadline or (len(versions) < 2 and versions == before)):
            raise gone  # no fold is under way that would make the others whole
        before = versions
        if time.monotonic() > deadline:
            shown = ", ".join(f"worker {worker}: step {part.version.step}" for worker, part in found.items())
            raise NoState(
                f"the workers stand at different checkpoints ({shown}): the last run ended while one was made",
                "`stepwell run` brings them together again; `stepwell run --available-now` does, and ends.",
            )
        time.sleep(LOOK_SECONDS)


def _check_revision(folder: Path, version: VersionId) -> None:
    """Raises NoState if the version has the views of another project than `circuit.json` says: a transition has come between, forwards or
    back."""
    owner = read_owner(folder)
    if owner is not None and owner.until is not None and version.step > owner.until:
        raise NoState(
            f"the state at step {version.step} is that of the next revision, which began with step {owner.until}, and the last run ended before "
            "it could say so",
            "`stepwell run` goes on with it; `stepwell run --available-now` does, and ends.",
        )
    if owner is not None and version.step < owner.since:
        raise NoState(
            f"the state at step {version.step} is that of a former revision, because the last run went back to it and ended before it had come "
            f"to step {owner.since} again",
            "`stepwell run` goes on with it; `stepwell run --available-now` does, and ends.",
        )


def _readable(
    folder: Path, databases: HostFolder, read: Callable[[Path], WorkerContents]
) -> tuple[dict[str, WorkerContents], NoDatabase | None]:
    """What each worker's database holds, and the fault of one that `circuit.json` names and that is not there."""
    found: dict[str, WorkerContents] = {}
    gone: NoDatabase | None = None
    for name in sorted({*databases.names(), *_members(folder)}):
        try:
            found[name] = read(databases.databases / name)
        except NoDatabase as fault:
            if name in _members(folder):  # it has not left meanwhile
                gone = fault
    return found, gone


def _members(folder: Path) -> tuple[str, ...]:
    owner = read_owner(folder)
    return () if owner is None else owner.databases
