"""The start of a run: everything between its claim and its first step.

    claim of the next epoch -> project as recorded            -> topics as recorded -> tasks register with what their hosts hold
                            -> numbers given by that (binding.py) -> databases created the first time
                            -> databases fenced -> versions of all workers, intersected -> the latest one opened everywhere
                            -> their slots compared with the log's -> databases that no version needs removed -> workers connected

The coordinator looks at no database itself, because the hosts of the workers have them.

Guarantees: no database is touched before the claim is committed. State is used only with the project, the layout, the topics and the step
log that it was made with. The version that is opened holds no step whose output is not committed. In it, each slot has one owner, the one that
the step log says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from base.common_version import NoCommonVersion, common_version
from base.slots import SlotSet, why_no_partition
from base.version import EMPTY, VersionId
from coordinator.revisions.document import Revision
from coordinator.specification import PipelineSpec
from coordinator.starting.binding import Bound, Unbound, bind
from coordinator.starting.circuit_file import StateOwner
from coordinator.starting.errors import DatabaseMissing, StateLost, TopicChanged
from coordinator.starting.expected_databases import expected_databases, refuse_other_log
from coordinator.starting.in_force import first_revision
from coordinator.starting.layouts import completion_records
from coordinator.starting.reach import why_not_replayed
from coordinator.starting.same_topics import refuse_lost_log, settled_topics
from coordinator.starting.schemas import register_schemas
from coordinator.starting.shrinking import companions_of, offers_of, shrink_of
from coordinator.starting.standings import ExpectedDatabases, Offer, leftover_databases, replaced_databases
from engine.analysis.marking import Marks
from engine.analysis.release import Revisions
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan_stages
from engine.errors import TaskLost
from engine.model.numbers import NumberedCircuit
from engine.operators.facts import RunFacts
from engine.resident.crew import Crew
from engine.resident.messages import NewDatabase
from engine.run.program_document import Outputs
from engine.run.tasks import TaskSetup
from faults.points import reached
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.records import TopicIdentity
from io_kafka.step_log.state import StepLogState
from storage.host_folder import database_folder

_log = structlog.get_logger("coordinator.starting.start")

RESTORE_AFTER_SECONDS = 5.0
"""How long a start on a cluster waits for one more host that may have a missing database, before it is restored from the checkpoint store. An
executor that is only slower than the others has registered by then; a download of more than some GB takes longer."""


def prepare(
    spec: PipelineSpec, writer: PipelineWriter, topics: Topics, log_id: str, revision: Revision | None
) -> tuple[TaskSetup, tuple[TopicIdentity, ...]]:
    """Checks the topics, and records or creates what is missing. It runs after the claim, and touches no database. `log_id`: the topic id of
    the step log, which is part of the identity of the databases. `revision`: the one in force, which is that of the project."""
    revision = revision or first_revision(spec, writer, topics)
    if writer.state.revisions.phase is None:  # else the last checkpoint may have the views of another one
        document = revision.document
        write_owner(spec, document.numbered, writer.state, marks=spec.marks, made_with=document.made_with)
    try:
        identities, outputs = settled_outputs(spec, topics, writer.state.topics)
    except TopicChanged:
        refuse_lost_log(spec, writer, log_id)
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


def settled_outputs(
    spec: PipelineSpec, topics: Topics, known: Mapping[str, TopicIdentity]
) -> tuple[tuple[TopicIdentity, ...], Outputs]:
    """The identities of all topics of the project, and what workers have to know of the outputs. See `settled_topics`."""
    facts = settled_topics(spec, topics, known)
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
    marks: Marks,
    made_with: Revisions,
) -> None:
    """Writes `circuit.json`, when the log has the layout. `until`, `marks`, `made_with`: see StateOwner."""
    folders = tuple(database_folder(*member) for member in state.current_layout.placed.births.items())
    owner = StateOwner(
        spec.name,
        plan.circuit.fingerprint,
        plan.circuit.to_json(),
        plan.numbers,
        folders,
        until=until,
        marks=marks,
        made_with=made_with,
    )
    owner.write(spec.storage, spec.kafka.outside.pid())


@dataclass(frozen=True)
class StartFindings:
    """What the start has found out of the databases. `offers`: what all tasks have reported. `companions`: see shrinking.py."""

    expected: ExpectedDatabases
    offers: Sequence[Offer]
    bound: Bound
    companions: frozenset[int]


def bind_workers(
    crew: Crew,
    spec: PipelineSpec,
    state: StepLogState,
    log_id: str,
    *,
    distrusted: frozenset[int],
    restore: Callable[[Crew, Bound], None],
) -> StartFindings:
    """Waits for the tasks, gives every worker a task whose host holds its database, removes databases of older generations, and creates those
    that are missing at the first start.

    If a database is missing later, more tasks are started, one at a time, because one of them may come to a host that was not asked yet. With a
    checkpoint store the database is restored if none does soon. Raises StateLost if none does before the deadline of registration, and at once
    in local mode, where all tasks see the same folder. `restore`: restores the databases that are named."""
    expected = expected_databases(spec, state, log_id, distrusted)
    shrink = shrink_of(crew, spec, expected)
    crew.recruiting.wait_for_candidates(shrink)
    final = restores = not spec.state_location.on_cluster
    while True:
        offers = offers_of(crew.recruiting.candidates, expected.avoided)
        for task in crew.recruiting.candidates:
            registered = task.registered
            refuse_other_log(spec, expected, registered.host, registered.folder, task.databases or ())
        outcome = bind(offers, expected, final=final, restores=restores)
        if isinstance(outcome, Bound):
            break
        if final and shrink is not None and crew.recruiting.accompany(shrink.companions()):
            crew.recruiting.wait_for_companions()
            shrink = None  # once is enough, or never
            continue  # there are tasks enough, and too few on the hosts that have the databases
        if final:
            raise _database_missing(outcome, crew, spec)
        if expected.restorable is not None and not restores:
            restores = not crew.recruiting.wait_for_another(RESTORE_AFTER_SECONDS)
        else:
            final = not crew.recruiting.wait_for_another()
    databases = {number: expected.database(number, birth) for number, birth in outcome.births.items()}
    companions = companions_of(crew, outcome)
    crew.bind(outcome.workers, databases)
    for number, hosts in outcome.copies.items():
        _log.warning("other hosts have copies of a database; they are left alone", worker=number, folders=hosts)
    _remove_replaced(crew, offers, outcome, expected)
    if outcome.restored:
        restore(crew, outcome)
    owned = state.current_layout.placed.owned
    crew.create({number: NewDatabase(owned[number], EMPTY) for number in sorted(outcome.created)})
    return StartFindings(expected, offers, outcome, companions)


def _remove_replaced(crew: Crew, offers: Sequence[Offer], bound: Bound, expected: ExpectedDatabases) -> None:
    """One worker of each host removes the databases of older generations. Right after a full refresh it also looks for what a run that was
    killed has begun to remove."""
    found = replaced_databases(offers, expected)
    first = _first_of_host(offers, bound)
    crew.remove({first[host]: found.get(host, ()) for host in first if expected.is_after_reset or host in found})


def _first_of_host(offers: Sequence[Offer], bound: Bound) -> dict[str, int]:
    """One worker of each host."""
    host_of = {offer.serial: offer.host for offer in offers}
    return {host_of[serial]: number for number, serial in sorted(bound.workers.items(), reverse=True)}


def remove_left(crew: Crew, found: StartFindings, epoch: int) -> None:
    """After a version was opened: one worker of each host removes the databases that no version needs any more. They belonged to workers that
    have left, or that a rescale had made before it was interrupted."""
    databases = leftover_databases(found.offers, found.expected, found.bound.births, epoch)
    first = _first_of_host(found.offers, found.bound)
    crew.remove({first[host]: databases[host] for host in databases if host in first})


def _database_missing(missing: Unbound, crew: Crew, spec: PipelineSpec) -> DatabaseMissing:
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


def open_latest(crew: Crew, state: StepLogState, found: StartFindings) -> tuple[VersionId, Mapping[int, SlotSet]]:
    """Fences every database, and opens the latest version that all workers have and that has no other owners. Returns it, and the slots that
    each worker owns in it.

    Raises StateLost if the step log does not reach that version: no version may hold a step whose output is not committed (invariant 6). Raises
    NoCommonVersion, or TaskLost if the databases must be bound again."""
    fenced = crew.fence()
    reached("recovery.versions")
    owners, bound = found.expected.owners, found.bound
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
    reason = why_not_replayed(version.step, state)
    if reason is not None:
        raise StateLost(
            f"the databases are at step {version.step}, and {reason}.",
            "The step log lost records, or belongs to another pipeline: restore it, or run with --full-refresh."
            if version.step > state.steps
            else "An old copy of the storage folder was put back: restore a later one, or run with --full-refresh.",
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
    stored = state.stored.placed if state.stored is not None and state.stored.version == version else None
    recorded = state.placed.get(version, layout.placed if version == EMPTY else stored)
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
        writer.log.append(completion_records(version, writer.state, writer.epoch, is_moved=True))


def first_needed_step(version: VersionId, checkpoints: Iterable[VersionId], kept: Iterable[VersionId]) -> int:
    """The first step that a later attempt of this run can replay, after `version` was opened. `checkpoints`: the complete ones. On another host
    the next attempt may find a copy of a database that is not further than the last of them. `kept`: those of the checkpoint
    store to which a lost disk is restored."""
    return min([version.step, max(checkpoints, default=EMPTY).step, *(stored.step for stored in kept)])
