"""`stepwell run --hand-over`: a new service takes the pipeline from the one that runs on this host, which stops at a checkpoint.

    Spark, plan -> would this run begin? -> the old service stops at a checkpoint -> claim, recover, run

Everything that takes long, or that can be refused, comes before the old service is asked. So the pause is the time of its last checkpoint and of
a start without Spark, and a new release or a new project that cannot go on leaves the old one running.
"""

from __future__ import annotations

from base.on_change import OnChange
from coordinator.revisions.choices import Chosen
from coordinator.specification import PipelineSpec
from coordinator.starting.project.beginning import beginning
from coordinator.starting.project.in_force import revision_in_force, revision_to_come
from coordinator.starting.project.same_project import numbers_if_continued
from io_kafka.step_log.state import StepLogState
from stepwell.commands.common import note
from stepwell.errors import StepwellError
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient, NotRunning

STOP_SECONDS_MAX = 300.0
"""The time for the old service to run its last steps and to make its checkpoint. One of an earlier release also stores it."""


def take_from_running(
    project: Project, spec: PipelineSpec, log: StepLogState, on_change: OnChange, chosen: Chosen
) -> None:
    """Has the service that runs on this host stop, if there is one and this run could take its place. `log`: the step log now.
    Raises what would end this run, and then the old service goes on; and StepwellError if it does not end."""
    client = ControlClient(project.state_folder)
    try:
        before = client.status()
    except NotRunning:
        note("no service runs on this host that could hand over: this run begins as any other")
        return
    refuse_what_cannot_begin(spec, log, on_change, chosen)
    endpoint = client.endpoint()
    note(f"process {endpoint.pid} hands over at step {before['step']}")
    client.hand_over()
    try:
        ended = client.wait_for_end(endpoint, STOP_SECONDS_MAX)
    except KeyboardInterrupt:
        note(f"process {endpoint.pid} was asked to stop already: it ends at a checkpoint, and no service runs then")
        raise
    if ended is not None and ended["error"] is not None:
        note(
            f"process {endpoint.pid} has ended with an error, and this run goes on from its last checkpoint: {ended['error']}"
        )


def refuse_what_cannot_begin(spec: PipelineSpec, log: StepLogState, on_change: OnChange, chosen: Chosen) -> None:
    """Raises what a start would raise after its claim, because of the project, of the state on this host, or of this release."""
    revision = revision_in_force(spec.kafka, spec.plan_topic, log)
    to_come = revision_to_come(spec.kafka, spec.plan_topic, log)
    begins = beginning(spec, revision, log, on_change, chosen, to_come=to_come)
    if not begins.is_recorded:
        numbers_if_continued(begins.spec, log, revision, may_continue=True)
    if spec.on_cluster:
        return
    for found in spec.state_location.here.look():
        if found.fault is not None:
            raise StepwellError(
                f"the database of worker {found.worker} cannot be opened by this release: {found.fault}",
                "The running service was left alone.",
            )
