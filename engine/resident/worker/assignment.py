"""What the coordinator has made of a task: a worker of a term."""

from __future__ import annotations

from dataclasses import dataclass

from base.term import Term
from engine.run.task_setup import TaskSetup
from storage.host_folder import HostFolder
from storage.identity import Identity


@dataclass(frozen=True, kw_only=True)
class WorkerAssignment:
    """Which worker a task is, and what its first step runs with. `folder`: that of the host, with the databases of all its workers. (What
    starts a task is an `Assignment`, when it is not known yet which worker the task becomes.)"""

    setup: TaskSetup
    term: Term
    token: str
    identity: Identity
    birth: str
    folder: HostFolder
