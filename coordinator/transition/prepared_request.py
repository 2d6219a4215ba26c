"""From a request to apply a project to what is recorded when the transition begins, or to the reason why it cannot begin."""

from __future__ import annotations

from dataclasses import dataclass, replace

from coordinator.revisions.choices import ChoiceRefused
from coordinator.revisions.chosen_comparison import compare
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.facts import PlanFacts
from coordinator.revisions.loads import chosen_tables, tables_to_load, with_loads
from coordinator.revisions.planned import planned_of
from coordinator.revisions.requests import ApplyRequest, TransitionRefused
from coordinator.revisions.topic_facts import facts_of_topics, topics_of_project
from coordinator.specification import PipelineSpec
from coordinator.starting.topics.batch_tables import TableRows
from coordinator.starting.topics.schemas import refused_schemas, register_schemas
from coordinator.transition.disk_space import DiskSpace
from coordinator.transition.loading import load_beside_steps
from coordinator.transition.plan import TransitionPlan, plan_transition
from coordinator.transition.reread_starts import Rereads, rereads_of
from engine.analysis.history_inputs import CannotFill
from engine.model.numbers import TooManyNodes
from io_kafka.clients.topics import Topics
from io_kafka.step_log.records import TableRecord
from io_kafka.step_log.revision_records import Choices
from io_kafka.step_log.value import LogValue


@dataclass(frozen=True)
class Prepared:
    """What was asked for, ready to be recorded. `reload`, `tables`: see Choices and RevisionIntent."""

    request: ApplyRequest
    plan: TransitionPlan
    rereads: Rereads
    reload: tuple[str, ...]
    tables: tuple[TableRecord, ...]

    def refuse_lost(self, before: PlanDocument, lost: frozenset[str]) -> None:
        """Raises TransitionRefused if the transition would read lost topics again, or take back what is in one of them. `before`: of the
        revision in force. `lost`: of its topics."""
        for name in sorted(lost & {where.topic for where in self.rereads.starts}):
            raise TransitionRefused(
                f"messages of topic {name} would have to be read again, and it was deleted or created again.",
                "Give the output another topic, or rebuild the state with `stepwell run --full-refresh`.",
            )
        for output in before.outputs:
            if output.topic in lost and output.handle in self.plan.facts.taken_back:
                raise TransitionRefused(
                    f"nothing can be taken back from topic {output.topic}, which was deleted or created again.",
                    f"Apply the change without `--retract {output.handle}`.",
                )


def prepare(
    request: ApplyRequest,
    before: PlanDocument,
    log: LogValue,
    topics: Topics,
    disk_space: DiskSpace,
    *,
    table_rows: TableRows | None,
) -> Prepared:
    """The preparation may run in the background: `log` is what the step log said when it was asked for. `before`: of the revision in force.
    `disk_space`: on the disks then. Nothing of the pipeline is changed, but schemas of new outputs may be registered, and batch tables are
    loaded into topics that nothing names yet, which may take minutes. Raises TransitionRefused, UnknownTable, and faults of Kafka, of
    registries and of `table_rows`."""
    reload = chosen_tables(request.chosen.reload, request.spec.inputs)
    request = replace(request, spec=_with_loads(request.spec, before, reload))
    now = PlanDocument.of(request.spec, tuple(range(len(request.spec.circuit.nodes))))
    assert log.revision is not None
    try:
        facts = _facts(before, request.spec, log, topics)
        facts = replace(facts, refused_schemas=refused_schemas(before, now, request.spec.registry_auth))
        comparison = compare(before, now, facts, request.chosen, number=log.revision.number)
    except ChoiceRefused as fault:
        raise TransitionRefused(fault.message, fault.what_to_do) from fault
    found = planned_of(comparison)
    if found.refusals:
        first = found.refusals[0]
        more = f" ({len(found.refusals) - 1} more)" if len(found.refusals) > 1 else ""
        raise TransitionRefused(f"{first.subject}: {first.reason}{more}.", f"{first.way_out}.", planned=found.to_json())
    try:
        plan = plan_transition(comparison)
        rereads = rereads_of(comparison, plan.again, topics)
    except (CannotFill, TooManyNodes) as fault:
        raise TransitionRefused(
            f"what a view was, or is to be, cannot be made again: {fault}.",
            "Give the output another topic, or rebuild the state with `stepwell run --full-refresh`.",
            planned=found.to_json(),
        ) from fault
    disk_space.check(plan.fed_nodes)
    register_schemas(request.spec)
    to_load = tables_to_load(request.spec.inputs, before.inputs)
    tables = load_beside_steps(request.spec, to_load, log.epoch, topics, table_rows)
    return Prepared(request, plan, rereads, reload, tables)


def _with_loads(spec: PipelineSpec, before: PlanDocument, reload: tuple[str, ...]) -> PipelineSpec:
    return replace(spec, inputs=with_loads(spec.inputs, before.inputs, reload, spec.kafka.outside.new_id()))


def choices_of(request: ApplyRequest, reload: tuple[str, ...]) -> Choices:
    """Returns the choices of a request as they are recorded. `reload`: the handles of the tables that are loaded again."""
    chosen = request.chosen.normal()
    return Choices(
        hold=request.hold,
        from_now=chosen.from_now,
        append_from_now=chosen.append_from_now,
        retract=chosen.retract,
        reload=reload,
        gradual=chosen.gradual,
    )


def _facts(before: PlanDocument, spec: PipelineSpec, log: LogValue, topics: Topics) -> PlanFacts:
    there = topics.names()
    known = (topics_of_project(before, there) | topics_of_project(spec, there)) & there
    return facts_of_topics(log, topics, known, own=frozenset({spec.log_topic, spec.plan_topic}))
