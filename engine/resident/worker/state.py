"""What a worker is and has at present. Its orders share this object, and only its own thread changes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from base.term import Term
from engine.analysis.filling import Program
from engine.model.placement import Placement
from engine.resident.programs import Programs
from engine.resident.states import StepState
from engine.resident.worker.assignment import WorkerAssignment
from engine.run.task_setup import TaskSetup
from storage.database import Database
from storage.host_folder import HostFolder
from storage.identity import Identity


@dataclass(kw_only=True)
class WorkerState:
    """What one worker is and has. Up to `host_folder` it stays as it was appointed.

    `step_state`: which step is next, and whether the worker runs. `programs`: those that it knows. `setup`: what its next step runs with.
    `placement`: by which the rows of the next step are sent; None before the worker has joined its peers. `database`: None while closed."""

    term: Term
    identity: Identity
    birth: str
    host_folder: HostFolder
    setup: TaskSetup
    programs: Programs
    step_state: StepState = field(default_factory=StepState)
    placement: Placement | None = None
    database: Database | None = None

    @classmethod
    def of(cls, worker_assignment: WorkerAssignment) -> WorkerState:
        """The state of a worker that has carried out no order."""
        setup = worker_assignment.setup
        return cls(
            term=worker_assignment.term,
            identity=worker_assignment.identity,
            birth=worker_assignment.birth,
            host_folder=worker_assignment.folder,
            setup=setup,
            programs=Programs(setup.revision, Program.of(setup.plan.circuit, setup.facts.numbers)),
        )

    @property
    def number(self) -> int:
        """The worker's number in the layout."""
        return self.identity.worker

    @property
    def folder(self) -> Path:
        """The folder of the database."""
        return self.host_folder.of_worker(self.number, self.birth)

    @property
    def open_database(self) -> Database:
        assert self.database is not None, "the database is not open"
        return self.database
