"""The revision in force: the project that the state belongs to, as the step log and the topic of plan documents have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coordinator.revisions.document import PlanDocument, Revision, document_of
from coordinator.specification import PipelineSpec
from coordinator.starting.errors import StateLost
from coordinator.starting.layouts import first_layout
from engine.analysis.numbering import numbers_of
from engine.run.plan_document import BadDocument
from io_kafka.clients.plan_topic import ensure_plan_topic, read_plan
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.plans import digest_of
from io_kafka.step_log.records import Record, RevisionRecord
from io_kafka.step_log.revision_state import Detached, Filling, Switching
from io_kafka.step_log.state import StepLogState


def revision_in_force(kafka: KafkaSettings, plan_topic: str, state: StepLogState) -> Revision | None:
    """None if no step can have run, and if the log is of format 2, which has no plan documents. Raises PlanMissing
    and StateLost."""
    record = state.revision
    if record is None or state.layout is None:  # after a full refresh the log has the number of the last revision
        return None
    return _read(kafka, plan_topic, record.number, record.plan)


def revision_to_come(kafka: KafkaSettings, plan_topic: str, state: StepLogState) -> Revision | None:
    """The one to which the transition under way leads. None if there is no transition, and if it can turn no more, because output of its switch
    is written, or because it was aborted. Raises PlanMissing and StateLost."""
    phase = state.revisions.phase
    if not isinstance(phase, Filling | Detached | Switching):
        return None
    return _read(kafka, plan_topic, phase.intent.number, phase.intent.plan)


def _read(kafka: KafkaSettings, plan_topic: str, number: int, plan: str) -> Revision:
    text = read_plan(kafka, plan_topic, plan)
    try:
        return Revision(number, document_of(text))
    except BadDocument as error:
        raise StateLost(
            f"topic {plan_topic!r}: the plan document {plan} of revision {number} cannot be read: {error}.",
            "If a newer Stepwell has written it, run that one. Otherwise rebuild the state with `stepwell run --full-refresh`.",
        ) from error


def first_revision(spec: PipelineSpec, writer: PipelineWriter, topics: Topics) -> Revision:
    """Records the project as the revision of a new state, together with the first layout; or as that of a state whose log is of format 2. In
    such a state the number of each node is its index."""
    if writer.state.layout is None:
        layout = first_layout(spec.wanted, writer.epoch)
        return _record(spec, numbers_of(spec.circuit), writer, topics, step=0, more=[layout])
    return _record(spec, tuple(range(len(spec.circuit.nodes))), writer, topics, step=0)


def next_revision(spec: PipelineSpec, numbers: tuple[int, ...], writer: PipelineWriter, topics: Topics) -> Revision:
    """Records the project as the revision that continues the state from the next step on. The last checkpoint has all steps."""
    return _record(spec, numbers, writer, topics, step=writer.state.steps)


def _record(
    spec: PipelineSpec,
    numbers: tuple[int, ...],
    writer: PipelineWriter,
    topics: Topics,
    *,
    step: int,
    more: Sequence[Record] = (),
) -> Revision:
    """`more`: records of the same transaction."""
    document = replace(PlanDocument.of(spec, numbers), marks=spec.marks, fingerprint_of_files=spec.fingerprint_of_files)
    document.check()
    text, before = document.text, writer.state.revision
    number = 1 if before is None else before.number + 1
    record = RevisionRecord(epoch=writer.epoch, number=number, plan=digest_of(text), step=step)
    ensure_plan_topic(topics, spec.plan_topic, spec.replication)
    writer.append_with_plans([record, *more], spec.plan_topic, [text])
    return Revision(number, document)
