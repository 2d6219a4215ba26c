"""Makes a copy: topics, objects, the rows of batch tables, and in the end the record that counts.

    step log -> objects -> manifest -> claim -> rows of batch tables -> one transaction: plan document, record

Guarantees: the pipeline of the copy is as new as before until the last transaction is committed, and then it has the whole state. A copy that
was broken off is made again. The source is only read. The claim decides between two that make the same copy, and between a copy and a run: a
state is copied into a log with claims alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.cloning.errors import CopyRefused
from coordinator.cloning.objects import Known, copy_objects
from coordinator.cloning.source import CopySource
from coordinator.cloning.state import CopyPlace, copied_document, copied_state, record_of_copy
from coordinator.cloning.tables import TableCopies
from coordinator.topic_names import log_topic_of, plan_topic_of
from faults.points import reached
from io_kafka.clients.plan_topic import ensure_plan_topic
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import ensure_step_log
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.rules import why_not_new
from storage.remote.objects_protocol import ObjectStore


@dataclass(frozen=True, kw_only=True)
class CopyTarget:
    """The pipeline that is to begin with a copy, and where its topics and its objects are. `replication`: of topics that are made."""

    pipeline: str
    kafka: KafkaSettings
    topics: Topics
    store: ObjectStore
    replication: int


def make_copy(source: CopySource, target: CopyTarget, claim: Callable[[int], PipelineWriter], known: Known) -> None:
    """`claim`: claims the pipeline of the copy with an epoch above the given one. `known`: what was copied before. Raises CopyRefused if that
    pipeline was started meanwhile, ObjectMissing if the version was replaced meanwhile, what `claim` raises, and faults of Kafka and of the
    store."""
    log_topic, plan_topic = log_topic_of(target.pipeline), plan_topic_of(target.pipeline)
    place = CopyPlace(target.pipeline, ensure_step_log(target.topics, log_topic).topic_id)
    ensure_plan_topic(target.topics, plan_topic, target.replication)
    reached("clone.topics")
    manifest = copy_objects(source, place, target.store, known)
    writer = claim(source.epoch)
    try:
        reached("clone.claimed")
        if (reason := why_not_new(writer.state)) is not None:
            raise CopyRefused(
                f"pipeline {target.pipeline} was started while it was copied: {reason}.",
                "Give the copy another name, or remove that pipeline with its topics, and repeat the command.",
            )
        tables = TableCopies(target.kafka, target.topics, target.pipeline, target.replication)
        loads = tables.make(source, writer.epoch)
        document = copied_document(source, loads)
        state = copied_state(source, log_topic, document.text, loads, manifest=manifest, epoch=writer.epoch)
        own = writer.state.claim
        assert own is not None
        writer.append_with_plans([record_of_copy(state, own)], plan_topic, [document.text])
        reached("clone.recorded")
        writer.log.record_end()
    finally:
        writer.log.close()
