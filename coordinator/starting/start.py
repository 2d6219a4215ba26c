"""The start of a run: everything between its claim and its first step.

    claim of the next epoch -> circuit and layout as recorded -> topics as recorded -> tasks register with what their hosts hold
                            -> numbers given by that (binding.py) -> databases created the first time
                            -> databases fenced -> versions of all workers, intersected -> the latest one opened everywhere
                            -> their slots compared with the log's -> databases that no version needs removed -> workers connected

The coordinator looks at no database itself, because the hosts of the workers have them.

Guarantees: no database is touched before the claim is committed. State is used only with the circuit, the layout, the topics and the step
log that it was made with. The version that is opened holds no step whose output is not committed. In it, each slot has one owner, the one that
the step log says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
import xxhash

from base.slots import SlotSet, why_no_partition
from base.version import EMPTY, VersionId
from coordinator.core import NoCommonVersion, common_version
from coordinator.revisions.leaves import difference_text as changed_property
from coordinator.revisions.leaves import leaves_of
from coordinator.specification import PipelineSpec
from coordinator.starting.binding import (
    Bound,
    Missing,
    Offer,
    Rules,
    Standing,
    bind,
    judge,
    leftover_databases,
    replaced_databases,
)
from coordinator.starting.circuit_file import StateOwner
from coordinator.starting.errors import (
    CircuitChanged,
    DatabaseMissing,
    StateLost,
    TopicChanged,
)
from coordinator.starting.layouts import completion_records, first_layout, owners_by_version
from coordinator.starting.leaves import check_leaves
from coordinator.starting.refresh import refuse_foreign_messages
from coordinator.starting.schemas import register_schemas
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan_stages
from engine.errors import TaskLost
from engine.model.circuit import Circuit
from engine.operators.facts import RunFacts
from engine.resident.crew import Crew
from engine.resident.messages import NewDatabase
from engine.run.tasks import TaskSetup
from faults.points import reached
from io_kafka.clients.topics import TopicFacts, Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.formats.table import options_of_outputs
from io_kafka.step_log.records import CircuitRecord, TopicIdentity
from io_kafka.step_log.state import StepLogState
from storage.host_folder import database_folder
from storage.identity import FoundDatabase

_log = structlog.get_logger("coordinator.starting.start")


def prepare(
    spec: PipelineSpec, writer: PipelineWriter, topics: Topics, log_id: str
) -> tuple[TaskSetup, tuple[TopicIdentity, ...]]:
    """Checks circuit, layout and topics, and records or creates what is missing. It runs after the claim and touches no database. `log_id` is
    the topic id of the step log, which is part of the identity of the databases."""
    check_project(spec, writer.state)
    leaves = leaves_of(spec, writer.epoch)
    if writer.state.layout is None:
        circuit = CircuitRecord.of(writer.epoch, spec.circuit.fingerprint, spec.circuit.to_json())
        writer.append([circuit, leaves, first_layout(spec.wanted, writer.epoch)])
    elif writer.state.leaves is None:
        writer.append([leaves])
    write_owner(spec, writer.state)
    facts = _topics(spec, topics, writer, log_id)
    identities = tuple(
        TopicIdentity(topic=f.name, id=f.topic_id, partitions=f.partitions) for _, f in sorted(facts.items())
    )
    setup = TaskSetup(
        plan=plan_stages(spec.circuit),
        kafka=spec.kafka,
        tables={source.table.handle: source.table for source in spec.inputs},
        state_location=spec.state_location,
        facts=RunFacts(
            append_only=append_only_inputs(spec.circuit),
            partitions={output.handle: facts[output.topic].partitions for output in spec.outputs},
            schema_ids=register_schemas(spec),
        ),
    )
    return setup, identities


def write_owner(spec: PipelineSpec, state: StepLogState) -> None:
    """Writes `circuit.json`, when the log has the layout."""
    folders = tuple(database_folder(*member) for member in state.current_layout.placed.births.items())
    owner = StateOwner(spec.name, spec.circuit.fingerprint, spec.circuit.to_json(), folders)
    owner.write(spec.storage, spec.kafka.outside.pid())


@dataclass(frozen=True)
class Found:
    """What the start has found out of the databases. `offers`: what all tasks have reported."""

    rules: Rules
    offers: Sequence[Offer]
    bound: Bound


def bind_workers(crew: Crew, spec: PipelineSpec, state: StepLogState, log_id: str) -> Found:
    """Waits for the tasks, gives every worker a task whose host holds its database, removes databases of older generations, and creates those
    that are missing at the first start.

    If a database is missing later, more tasks are started, one at a time, because one of them may come to a host that was not asked yet. Raises
    StateLost if none does before the deadline of registration, and at once in local mode, where all tasks see the same folder."""
    rules = rules_of(spec, state, log_id)
    crew.recruiting.wait_for_candidates()
    final = not spec.state_location.on_cluster
    while True:
        offers = _offers(crew)
        for task in crew.recruiting.candidates:
            registered = task.registered
            refuse_other_log(spec, rules, registered.host, registered.folder, task.databases or ())
        outcome = bind(offers, rules, final=final)
        if isinstance(outcome, Bound):
            break
        if final:
            raise _lost(outcome, crew, spec)
        final = not crew.recruiting.wait_for_another()
    databases = {number: rules.database(number, birth) for number, birth in outcome.births.items()}
    crew.bind(outcome.workers, databases)
    for number, hosts in outcome.copies.items():
        _log.warning("other hosts have copies of a database; they are left alone", worker=number, folders=hosts)
    _remove_replaced(crew, offers, outcome, rules)
    owned = state.current_layout.placed.owned
    crew.create({number: NewDatabase(owned[number], EMPTY) for number in sorted(outcome.created)})
    return Found(rules, offers, outcome)


def rules_of(spec: PipelineSpec, state: StepLogState, log_id: str) -> Rules:
    """What the step log says of the databases."""
    return Rules(
        pipeline=spec.name,
        log_id=log_id,
        generation=state.generation,
        owners=owners_by_version(state),
        is_fresh=not state.checkpoints and state.intent is None and state.first == 0,
        complete=max(state.checkpoints, default=None),
        pending=state.intent,
        accepts_older=not spec.state_location.on_cluster,
    )


def _offers(crew: Crew) -> list[Offer]:
    """Tasks of one host have the same name of its folder, and the same path."""
    return [
        Offer(task.serial, task.registered.folder_name, task.databases)
        for task in crew.recruiting.candidates
        if task.databases is not None
    ]


def _remove_replaced(crew: Crew, offers: Sequence[Offer], bound: Bound, rules: Rules) -> None:
    """One worker of each host removes the databases of older generations. Right after a full refresh it also looks for what a run that was
    killed has begun to remove."""
    found = replaced_databases(offers, rules)
    first = _first_of_host(offers, bound)
    crew.remove({first[host]: found.get(host, ()) for host in first if rules.is_after_reset or host in found})


def _first_of_host(offers: Sequence[Offer], bound: Bound) -> dict[str, int]:
    """One worker of each host."""
    host_of = {offer.serial: offer.host for offer in offers}
    return {host_of[serial]: number for number, serial in sorted(bound.workers.items(), reverse=True)}


def remove_left(crew: Crew, found: Found, epoch: int) -> None:
    """After a version was opened: one worker of each host removes the databases that no version needs any more. They belonged to workers that
    have left, or that a rescale had made before it was interrupted."""
    databases = leftover_databases(found.offers, found.rules, found.bound.births, epoch)
    first = _first_of_host(found.offers, found.bound)
    crew.remove({first[host]: databases[host] for host in databases if host in first})


def refuse_other_log(
    spec: PipelineSpec, rules: Rules, host: str, folder: str, databases: Iterable[FoundDatabase]
) -> None:
    """Raises StateLost if a database of this pipeline was created under another step log, and this log has no checkpoints. Then the old log was
    lost."""
    for found in databases:
        if found.worker in rules.numbers and judge(found, rules) is Standing.OTHER_LOG:
            raise StateLost(
                f"the database in {folder}/{found.worker:04d} (host {host}) belongs to another step log than the topic {spec.log_topic}, "
                "which was deleted and created again.",
                "Restore that topic, or retract all output and rebuild it with `stepwell run --full-refresh`.",
            )


def _lost(missing: Missing, crew: Crew, spec: PipelineSpec) -> DatabaseMissing:
    """The fault of a run that has found no database for a worker. `missing.numbers` has the hosts that hold it and have too few task slots."""
    number, busy = min(missing.numbers.items())
    hosts = {task.registered.folder_name: task.registered for task in crew.recruiting.candidates}
    if busy:
        shown = ", ".join(sorted({hosts[name].host for name in busy}))
        return DatabaseMissing(
            f"the database of worker {number} is on host {shown}, and Spark has started too few tasks there.",
            "Give Spark's executors on that host as many task slots as it has workers, and run again. Nothing is lost.",
        )
    asked = sorted({(registered.folder, registered.host) for registered in hosts.values()})
    folders = ", ".join(f"{folder}/{number:04d} (host {host})" for folder, host in asked)
    if spec.state_location.on_cluster:
        return DatabaseMissing(
            f"worker {number} has no database with the last checkpoint of the step log in {folders}.",
            "If another host holds it, start an executor there, or raise stepwell.worker.register until it has started. If it is lost, restore "
            "the folder, or rebuild the state with `stepwell run --full-refresh`.",
        )
    return DatabaseMissing(
        f"worker {number} has no database in {folders}, and the step log has checkpoints.",
        "Restore the storage folder, or rebuild the state with `stepwell run --full-refresh`.",
    )


def open_latest(crew: Crew, state: StepLogState, found: Found) -> tuple[VersionId, Mapping[int, SlotSet]]:
    """Fences every database, and opens the latest version that all workers have and that has no other owners. Returns it, and the slots that
    each worker owns in it.

    Raises StateLost if the step log does not reach that version: no version may hold a step whose output is not committed (invariant 6). Raises
    NoCommonVersion, or TaskLost if the databases must be bound again."""
    fenced = crew.fence()
    reached("recovery.versions")
    owners, bound = found.rules.owners, found.bound
    versions = _usable({worker: held.versions for worker, held in fenced.items()}, owners, bound.births)
    try:
        version = common_version(versions)
    except NoCommonVersion as fault:
        # The run before may have opened a checkpoint in some databases after their hosts had reported them, and before the fence.
        changed = sorted(worker for worker, held in fenced.items() if set(held.versions) != bound.versions[worker])
        if changed:
            raise TaskLost(
                f"the database of worker {changed[0]} has changed since its host reported it: {fault}"
            ) from fault
        raise
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
    owned = crew.open(version, fenced)
    reached("recovery.opened")
    check_owned(version, owned, state)
    return version, owned


def _usable(
    held: Mapping[int, tuple[VersionId, ...]],
    owners: Mapping[VersionId, Mapping[int, str]],
    births: Mapping[int, str],
) -> dict[int, tuple[VersionId, ...]]:
    """The versions of each worker that the log knows and that have these owners. If none of them is common to all, also those that it does not
    know, such as a backup's."""
    known = {worker: tuple(v for v in versions if owners.get(v) == births) for worker, versions in held.items()}
    if set.intersection(*map(set, known.values())):
        return known
    return {worker: tuple(v for v in versions if owners.get(v, births) == births) for worker, versions in held.items()}


def check_owned(version: VersionId, owned: Mapping[int, SlotSet], state: StepLogState) -> None:
    """Raises StateLost unless each slot has one owner, and the one that the step log says. It says nothing of a version that is older than its
    last checkpoints, such as a backup of the storage folder."""
    layout = state.current_layout
    recorded = state.placed.get(version, layout.placed if version == EMPTY else None)
    said = owned if recorded is None else recorded.owned
    for worker, slots in sorted(owned.items()):
        if said[worker] != slots:
            raise _not_bound_fault(version, f"worker {worker} owns {slots}, and the step log says {said[worker]}")
    if (why_not := why_no_partition(owned)) is not None:
        raise _not_bound_fault(version, why_not)


def _not_bound_fault(version: VersionId, what: str) -> StateLost:
    return StateLost(
        f"the databases at version {version.version} (step {version.step}) do not belong together: {what}.",
        "Restore the storage folder that belongs to this pipeline, or rebuild the state with `stepwell run --full-refresh`.",
    )


def record_completion(writer: PipelineWriter, version: VersionId) -> None:
    """Writes the completion of `version`, which was just opened everywhere, if the log has only its intent. Every worker had folded the
    version, and the run before ended before it could write that."""
    if writer.state.intent == version:
        writer.append(completion_records(version, writer.state, writer.epoch, is_moved=True))


def first_needed_step(version: VersionId, checkpoints: Iterable[VersionId]) -> int:
    """The first step that a later attempt of this run can replay, after `version` was opened. `checkpoints`: the complete ones. On another host
    the next attempt may find a copy of a database that is not further than the last of them."""
    return min(version.step, max(checkpoints, default=EMPTY).step)


def check_project(spec: PipelineSpec, state: StepLogState) -> None:
    """Raises StateLost or CircuitChanged unless the state, if there is one, belongs to this project: its leaves and its circuit. The leaves are
    compared first, because a changed type of a column also changes the views above it."""
    refuse_former(state)
    if state.circuit is not None:
        check_leaves(spec, state)
        check_same_circuit(spec.circuit, state.circuit.fingerprint, state.circuit.text)


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
    """The views, tables and outputs that differ in their own node or in any node below it. Of outputs also what the properties say."""

    def named(nodes: list[dict[str, Any]]) -> dict[str, str]:
        digests: list[str] = []
        result: dict[str, str] = {}
        for node in nodes:
            text = json.dumps({**node, "inputs": [digests[i] for i in node["inputs"]]}, sort_keys=True)
            digests.append(xxhash.xxh3_128_hexdigest(text.encode()))
            if node["kind"] in ("View", "Output", "Source"):
                word = {"View": "view", "Output": "output", "Source": "source"}[node["kind"]]
                result[f"{word} {node.get('name') or node.get('handle')}"] = digests[-1]
        return result

    old, new = named(before), named(after)
    written, now = _written(before), _written(after)
    changed = [
        f"{name} ({'; '.join(_output_differences(written.get(name, {}), now.get(name, {}))) or 'changed'})"
        for name in new
        if name in old and old[name] != new[name]
    ]
    changed += [f"{name} (new)" for name in new if name not in old]
    changed += [f"{name} (gone)" for name in old if name not in new]
    return changed or ["the way Spark plans it (another version of Spark or of Stepwell)"]


def _written(nodes: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """How each output is written, by the names of its properties. The JSON form leaves out what has its default."""
    found: dict[str, dict[str, str]] = {}
    for node in nodes:
        if node["kind"] == "Output":
            found[f"output {node['handle']}"] = {
                "mode": node["mode"],
                "key": ", ".join(node["names"][column] for column in node["key"]),
                "format": node.get("format", "json"),
                "key.format": node.get("key_format") or "",
                **{option.name: node.get(option.recorded, option.usual) for option in options_of_outputs()},
                "columns": ", ".join(node["names"]),
            }
    return found


def _output_differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [changed_property(name, before[name], now[name]) for name in before if before[name] != now[name]]


def refuse_former(state: StepLogState) -> None:
    """Raises StateLost if the state was made by a version of Stepwell with another format of the step log."""
    if state.is_former:
        raise StateLost(
            f"the step log {state.topic} has the records of a former version of Stepwell, whose state this version cannot open.",
            "Run that version, or rebuild the state with `stepwell run --full-refresh`.",
        )


def _topics(spec: PipelineSpec, topics: Topics, writer: PipelineWriter, log_id: str) -> dict[str, TopicFacts]:
    """The facts of all input, output and dead-letter topics. Missing output topics are created. Raises TopicChanged unless each topic is the
    one that was recorded.

    An output topic that was not recorded and that holds messages is refused too. The messages belong to another program, or they are the
    output of a lost step log, which would be written a second time. If a database on this host shows that the log was lost, StateLost says
    so."""
    facts = topics.describe(spec.input_topics)
    try:
        refuse_foreign_messages({output.topic for output in spec.outputs} - writer.state.topics.keys(), topics)
    except TopicChanged:
        writer.confirm()
        own = spec.state_location.on_host(None)
        if own is not None:
            rules = rules_of(spec, writer.state, log_id)
            refuse_other_log(spec, rules, spec.kafka.outside.hostname(), str(own.databases), own.look())
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
