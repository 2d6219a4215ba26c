"""What the commands of the layout read before they show or change anything: from the service, the step log, the last run and the disks.

The functions that need the step log or the engine import them themselves, because a request to a service needs neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepwell.errors import StepwellError
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient, NotRunning, ServiceSilent

if TYPE_CHECKING:
    from engine.model.layout import Policy, PolicyName
    from io_kafka.step_log.layout_records import LayoutRecord
    from io_kafka.step_log.state import StepLogState


@dataclass(frozen=True)
class RecordedLayout:
    """The layout in a step log."""

    record: LayoutRecord
    log: StepLogState


@dataclass(frozen=True)
class Told:
    """What the service and the last run have reported about themselves."""

    status: dict[str, Any] | None
    """What the service answers; None if none runs, or if it does not answer."""
    last_run: dict[str, Any] | None
    """The last status of the last run; None if there was no run on this host."""

    @property
    def state_bytes(self) -> int | None:
        """The size of all state; None if neither has told it."""
        for told in (self.status, self.last_run):
            if told is not None and told.get("worker_bytes"):
                sizes: dict[str, int] = told["worker_bytes"]
                return sum(sizes.values())
        return None

    @property
    def measured(self) -> dict[str, dict[str, float]]:
        """What was measured of changes, by mode."""
        found: dict[str, dict[str, float]] = {}
        for told in (self.last_run, self.status):
            found |= {} if told is None else told.get("layout", {}).get("measured", {})
        return found


def status_of(project: Project) -> dict[str, Any] | None:
    """The service's status; None if none runs. Raises ServiceSilent."""
    try:
        return ControlClient(project.state_folder).status()
    except NotRunning:
        return None


def status_if_it_answers(project: Project) -> dict[str, Any] | None:
    """The service's status; None if none runs, or if it does not answer."""
    try:
        return status_of(project)
    except ServiceSilent:
        return None


def last_run_of(project: Project) -> dict[str, Any] | None:
    """The last status of the last run on this host; None if there was none."""
    return ControlClient(project.state_folder).last_run()


def read_layout(project: Project) -> RecordedLayout:
    """Reads the step log. Raises StepwellError if the pipeline has never run."""
    from stepwell.commands.steps import read_log

    log = read_log(project)
    if log.layout is None:
        raise StepwellError(
            f"pipeline {project.name} has no layout yet.", "Its first run makes it: `stepwell run --workers N`."
        )
    return RecordedLayout(log.layout, log)


def chosen_policy(project: Project, name: PolicyName | None) -> Policy | None:
    """The policy of this name with the project's numbers; None without a name, which keeps the policy of the layout."""
    from stepwell.planning.sharding import policies_of

    return None if name is None else policies_of(project.settings.stepwell)[name]


def free_bytes(project: Project, status: dict[str, Any] | None) -> dict[str, int]:
    """Returns the free bytes of the disks under the databases, by host. Those of a cluster are known only while a service runs."""
    if not project.on_cluster:
        return {"this host": project.databases.free_bytes()}
    return {} if status is None else {worker["host"]: worker["free_bytes"] for worker in status["workers"]}
