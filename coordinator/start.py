"""The start of a run: everything between its claim and its first step.

    claim of the next epoch -> circuit and layout as recorded -> databases exist (created the first time) -> topics as recorded
                            -> databases fenced -> versions of all workers, intersected -> the latest one opened everywhere

Guarantees: no database is touched before the claim is committed. State is used only with the circuit, the layout, the topics and the step
log that it was made with. The version that is opened holds no step whose output is not committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from base.term import Term
from base.version import VersionId
from coordinator.circuit_file import StateOwner
from coordinator.core import common_version
from coordinator.errors import CircuitChanged, LayoutChanged, StateLost, TopicChanged, WorkersUnknown
from coordinator.refresh import refuse_foreign_messages, remove_older_databases
from coordinator.specification import PipelineSpec
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan
from engine.model.circuit import Circuit
from engine.model.placement import Placement
from engine.resident.crew import Crew
from engine.run.tasks import TaskSetup
from faults.points import reached
from io_kafka.clients.topics import TopicFacts, Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.records import CheckpointComplete, CircuitRecord, LayoutRecord, TopicIdentity
from io_kafka.step_log.state import StepLogState
from storage.database import Database
from storage.errors import DatabaseExists
from storage.identity import Identity

_log = structlog.get_logger("coordinator.start")


def prepare(
    spec: PipelineSpec, writer: PipelineWriter, topics: Topics, log_id: str
) -> tuple[TaskSetup, tuple[TopicIdentity, ...]]:
    """Checks circuit, layout, databases and topics, and creates those that are missing. It runs after the claim and opens no database.
    `log_id` is the topic id of the step log, which is part of the identity of the databases."""
    check_circuit(spec.circuit, writer.state)
    workers = workers_of(spec, writer.state)
    if writer.state.layout is None:
        circuit = CircuitRecord(
            epoch=writer.epoch, fingerprint=spec.circuit.fingerprint, circuit=spec.circuit.to_json()
        )
        layout = LayoutRecord(epoch=writer.epoch, number=0, workers=workers, shards=spec.shards)
        writer.append([circuit, layout])
    _make_databases(spec, workers, writer, log_id)
    owner = StateOwner(spec.name, spec.circuit.fingerprint, spec.circuit.to_json(), workers, spec.shards)
    owner.write(spec.storage, spec.kafka.outside.pid())
    facts = _topics(spec, topics, writer)
    identities = tuple(
        TopicIdentity(topic=f.name, id=f.topic_id, partitions=f.partitions) for _, f in sorted(facts.items())
    )
    setup = TaskSetup(
        plan=plan(spec.circuit),
        placement=Placement.even(workers, spec.shards),
        kafka=spec.kafka,
        tables={source.table.handle: source.table for source in spec.inputs},
        partitions={output.handle: facts[output.topic].partitions for output in spec.outputs},
        input_partitions={name: facts[name].partitions for name in spec.input_topics},
        pipeline=spec.name,
        databases=tuple((spec.database_folder(w), _uuid(log_id, writer.state.generation, w)) for w in range(workers)),
        append_only=append_only_inputs(spec.circuit),
    )
    return setup, identities


def open_latest(crew: Crew, state: StepLogState) -> VersionId:
    """Fences every database, and opens the latest version that all workers have. Raises StateLost if the step log does not reach that
    version: no version may hold a step whose output is not committed (invariant 6)."""
    fenced = crew.fence()
    reached("recovery.versions")
    version = common_version({worker: found.versions for worker, found in fenced.items()})
    if version.step > state.steps:
        raise StateLost(
            f"the databases are at step {version.step}, the step log ends before step {state.steps}.",
            "The step log lost records, or belongs to another pipeline: restore it, or run with --full-refresh.",
        )
    if version.step < state.first:
        raise StateLost(
            f"the databases are at step {version.step}, and the step log begins at step {state.first}.",
            "An old copy of the storage folder was put back: restore a later one, or run with --full-refresh.",
        )
    reached("recovery.chosen")
    crew.open(version, fenced)
    reached("recovery.opened")
    return version


def record_completion(writer: PipelineWriter, version: VersionId) -> None:
    """Writes the completion of `version`, which was just opened everywhere, if the log has only its intent. Every worker had folded the
    version, and the run before ended before it could write that."""
    if writer.state.intent == version:
        writer.append([CheckpointComplete(epoch=writer.epoch, version=version)])


def check_circuit(circuit: Circuit, state: StepLogState) -> None:
    """Raises CircuitChanged unless `circuit` is the one that the state belongs to."""
    if state.circuit is not None:
        check_same_circuit(circuit, state.circuit.fingerprint, state.circuit.circuit)


def check_same_circuit(circuit: Circuit, fingerprint: str, recorded: str) -> None:
    """Raises CircuitChanged, which names what differs, unless `circuit` has this fingerprint. `recorded` is the recorded circuit's JSON."""
    if fingerprint == circuit.fingerprint:
        return
    changed = _changed_views(json.loads(recorded), json.loads(circuit.to_json()))
    raise CircuitChanged(
        f"the project is not the one that the state belongs to; what differs: {', '.join(changed)}.",
        "Restore the previous definitions, or rebuild the state with `stepwell run --full-refresh`.",
    )


def _changed_views(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[str]:
    """The views, tables and outputs that differ in their own node or in any node below it."""

    def named(nodes: list[dict[str, Any]]) -> dict[str, str]:
        whole: list[str] = []
        result: dict[str, str] = {}
        for node in nodes:
            text = json.dumps({**node, "inputs": [whole[i] for i in node["inputs"]]}, sort_keys=True)
            whole.append(text)
            if node["kind"] in ("View", "Output", "Source"):
                word = {"View": "view", "Output": "output", "Source": "source"}[node["kind"]]
                result[f"{word} {node.get('name') or node.get('handle')}"] = text
        return result

    old, new = named(before), named(after)
    changed = [f"{name} (changed)" for name in new if name in old and old[name] != new[name]]
    changed += [f"{name} (new)" for name in new if name not in old]
    changed += [f"{name} (gone)" for name in old if name not in new]
    return changed or ["the way Spark plans it (another version of Spark or of Stepwell)"]


def workers_of(spec: PipelineSpec, state: StepLogState) -> int:
    """The number of workers of the run: that of the state, or for a new state the one that the run asks for. Raises LayoutChanged if the run
    asks for another layout than that of the state, and WorkersUnknown if nothing says how many there are to be."""
    layout = state.layout
    if layout is None:
        asked = spec.workers if spec.workers is not None else spec.workers_default
        if asked is None:
            raise WorkersUnknown(
                "the number of workers of a new pipeline on a cluster must be set: the driver's cores say nothing about the executors'.",
                "Set stepwell.workers, or run with --workers N. Each worker needs one task slot.",
            )
        return asked
    asked = layout.workers if spec.workers is None else spec.workers
    if (layout.workers, layout.shards) != (asked, spec.shards):
        raise LayoutChanged(
            f"the state was made with {layout.workers} workers and {layout.shards} shards, and this run asks for "
            f"{asked} and {spec.shards}.",
            f"Run with --workers {layout.workers}; changing the layout of a state is not supported yet.",
        )
    return layout.workers


def _uuid(log_id: str, generation: int, worker: int) -> str:
    return f"{log_id}/{generation}/{worker}"


def _make_databases(spec: PipelineSpec, workers: int, writer: PipelineWriter, log_id: str) -> None:
    """Creates the databases at the first start, and after a crash during the first start. A database that is missing later was lost: raises
    StateLost."""
    fresh = not writer.state.checkpoints and writer.state.first == 0
    generation = writer.state.generation

    def identity(worker: int) -> Identity:
        return Identity(spec.name, worker, _uuid(log_id, generation, worker))

    if fresh and generation:
        remove_older_databases(spec, workers, identity)
    for worker in range(workers):
        folder = spec.database_folder(worker)
        if folder.exists() and any(folder.iterdir()):
            if fresh:
                _refuse_if_of_another_log(spec, folder, log_id)
            continue
        if not fresh:
            raise StateLost(
                f"worker {worker} has no database in {folder}, and the step log has checkpoints.",
                "Restore the storage folder, or rebuild the state with `stepwell run --full-refresh`.",
            )
        with suppress(DatabaseExists):  # an older run that slept was faster; `take` tells whether it is this pipeline's
            Database.create(folder, identity(worker), Term(writer.epoch, 0).number)
        _log.info("database created", worker=worker, folder=str(folder))


def _refuse_if_of_another_log(spec: PipelineSpec, folder: Path, log_id: str) -> None:
    """Raises StateLost if the database was created under another step log. Called only while the log has no checkpoints. A
    database of another log then means that the old log was lost."""
    owner = Database.owner(folder)
    if owner.pipeline == spec.name and not owner.database.startswith(f"{log_id}/"):
        raise StateLost(
            f"the database in {folder} belongs to another step log than the topic {spec.log_topic}, which was deleted and created again.",
            "Restore that topic, or retract all output and rebuild it with `stepwell run --full-refresh`.",
        )


def _topics(spec: PipelineSpec, topics: Topics, writer: PipelineWriter) -> dict[str, TopicFacts]:
    """The facts of all input, output and dead-letter topics. Missing output topics are created. Raises TopicChanged unless each topic is the
    one that was recorded.

    An output topic that was not recorded and that holds messages is refused too. The messages belong to another program, or they are the
    output of a lost step log, which would be written a second time."""
    facts = topics.describe(spec.input_topics)
    try:
        refuse_foreign_messages({output.topic for output in spec.outputs} - writer.state.topics.keys(), topics)
    except TopicChanged:
        writer.confirm()
        raise
    for output in spec.outputs:
        config = {"cleanup.policy": "compact"} if output.compacted else {}
        facts[output.topic] = topics.ensure(output.topic, output.partitions, config, replication=spec.replication)
    for name in spec.dead_letter_topics.values():
        facts[name] = topics.ensure(name, 1, replication=spec.replication)
    check_topics(spec, facts, writer.state.topics)
    return facts


def check_topics(spec: PipelineSpec, facts: Mapping[str, TopicFacts], known: Mapping[str, TopicIdentity]) -> None:
    """Raises TopicChanged if a topic is not the one that is `known` under its name. Topics that are not known pass."""
    outputs = {output.topic for output in spec.outputs}
    for name, fact in facts.items():
        _check_topic(name, fact, known.get(name), is_output=name in outputs)


def _check_topic(name: str, fact: TopicFacts, known: TopicIdentity | None, *, is_output: bool) -> None:
    if known is None:
        return
    if known.id != fact.topic_id:
        raise TopicChanged(
            f"topic {name} was deleted and created again (id {known.id} before, {fact.topic_id} now).",
            "The messages that were read from it or written to it are gone: rebuild with `stepwell run --full-refresh`.",
        )
    if is_output and known.partitions != fact.partitions:
        raise TopicChanged(
            f"output topic {name} had {known.partitions} partitions and has {fact.partitions} now; keys would change their partition.",
            "Name another topic for the view and rebuild with `stepwell run --full-refresh`.",
        )
