"""What is recorded of the revision in force, with which the project's files are compared."""

from __future__ import annotations

from dataclasses import dataclass

from base.fault import ExitCode, Fault
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.facts import PlanFacts


class NothingRecorded(Fault):
    """There is no revision with which a project could be compared."""

    exit_code = ExitCode.STATE


def nothing_to_keep(pipeline: str) -> NothingRecorded:
    """The refusal to run a recorded project where none is."""
    return NothingRecorded(
        f"{pipeline} has no recorded project that could be run.", "`stepwell run` begins with that of the files."
    )


@dataclass(frozen=True)
class RecordedProject:
    """`number`: that of the revision, from 1 on. `under_way`: the number of the revision to which a transition leads; None without one."""

    number: int
    document: PlanDocument
    facts: PlanFacts
    under_way: int | None
