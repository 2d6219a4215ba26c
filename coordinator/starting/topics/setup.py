"""The project as its workers get it, with its topics as they are: what a start checks, records or creates before it starts workers.

Guarantee: it runs after the claim, and touches no database. State is used only with the topics and the step log that it was made with.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.revisions.document import Revision
from coordinator.specification import PipelineSpec
from coordinator.starting.errors import TopicChanged
from coordinator.starting.project.in_force import first_revision
from coordinator.starting.topics.lost_on_the_way import name_way_out
from coordinator.starting.topics.same_topics import refuse_lost_log, resolved_topics
from coordinator.starting.topics.schemas import register_schemas
from coordinator.starting.workers.circuit_file import StateOwner
from engine.analysis.marking import Marks
from engine.analysis.release import ImplementationVersions
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan_stages
from engine.model.numbers import NumberedCircuit
from engine.operators.facts import RunFacts
from engine.run.program_document import Outputs
from engine.run.task_setup import TaskSetup
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.errors import UnknownTopic
from io_kafka.step_log.records import TopicIdentity
from io_kafka.step_log.state import StepLogState
from storage.host_folder import database_folder


def prepare(
    spec: PipelineSpec, writer: PipelineWriter, topics: Topics, log_id: str, revision: Revision | None
) -> tuple[TaskSetup, tuple[TopicIdentity, ...]]:
    """Checks the topics, and records or creates what is missing. It runs after the claim, and touches no database. `log_id`: the topic id of
    the step log, which is part of the identity of the databases. `revision`: the one in force, which is that of the project."""
    revision = revision or first_revision(spec, writer, topics)
    if writer.state.revisions.phase is None:  # else the last checkpoint may have the views of another one
        document = revision.document
        write_owner(
            spec,
            document.numbered,
            writer.state,
            since=writer.state.revisions.first_with_views_of(revision.number),
            marks=spec.marks,
            made_with=document.made_with,
        )
    try:
        identities, outputs = resolved_outputs(spec, topics, writer.state.topics)
    except TopicChanged as fault:
        refuse_lost_log(spec, writer, log_id)
        name_way_out(fault, spec, topics, writer.state, numbers=revision.document.numbers)
        raise
    except UnknownTopic as fault:
        name_way_out(fault, spec, topics, writer.state, numbers=revision.document.numbers)
        raise
    setup = TaskSetup(
        plan=plan_stages(spec.circuit),
        kafka=spec.kafka,
        tables={source.table.handle: source.table for source in spec.inputs},
        state_location=spec.state_location,
        facts=RunFacts(
            numbers=revision.document.numbers,
            append_only=append_only_inputs(spec.circuit),
            partitions=outputs.partitions,
            schema_ids=outputs.schema_ids,
        ),
        revision=revision.number,
        registry_auth=spec.registry_auth,
        store=None if spec.store is None else spec.store.place,
    )
    return setup, identities


def resolved_outputs(
    spec: PipelineSpec, topics: Topics, known: Mapping[str, TopicIdentity]
) -> tuple[tuple[TopicIdentity, ...], Outputs]:
    """The identities of all topics of the project, and what workers have to know of the outputs. See `resolved_topics`."""
    facts = resolved_topics(spec, topics, known)
    identities = tuple(fact.identity for _, fact in sorted(facts.items()))
    partitions = {output.handle: facts[output.topic].partitions for output in spec.outputs}
    of_sources = {source.table.handle: tuple(source.table.topics) for source in spec.inputs}
    return identities, Outputs(topics=of_sources, partitions=partitions, schema_ids=register_schemas(spec))


def write_owner(
    spec: PipelineSpec,
    plan: NumberedCircuit,
    state: StepLogState,
    until: int | None = None,
    *,
    since: int,
    marks: Marks,
    made_with: ImplementationVersions,
) -> None:
    """Writes `circuit.json`, when the log has the layout. `until`, `since`, `marks`, `made_with`: see StateOwner."""
    folders = tuple(database_folder(*member) for member in state.current_layout.placed.births.items())
    owner = StateOwner(
        spec.name,
        plan.circuit.fingerprint,
        plan.circuit.to_json(),
        plan.numbers,
        folders,
        until=until,
        since=since,
        marks=marks,
        made_with=made_with,
    )
    owner.write(spec.storage, spec.kafka.outside.pid())
