"""The pipeline that is copied, as it was before the step at which one of its stored versions lies. All of this is only read.

The manifest of a version says where its state is. What it does not say is in the step log of its pipeline: where that was in its inputs, and
which project the state belongs to. So the log must still have the records of that moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from coordinator.cloning.errors import CopyRefused
from coordinator.cloning.log_at_version import MomentOf, positions_before, withholds_before
from coordinator.revisions.document import PlanDocument, document_of
from coordinator.revisions.topic_facts import topics_of_project
from coordinator.storing.backups import REASONS_MAX
from coordinator.storing.manifest import Manifest
from coordinator.storing.presence import check_objects
from coordinator.topic_names import log_topic_of, plan_topic_of
from engine.run.plan_document import BadDocument
from io_kafka.clients.lost_topics import lost_topics
from io_kafka.clients.plan_topic import read_plan
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import StepLogGone, StepLogReader
from io_kafka.clients.topics import Topics
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import Origin
from io_kafka.step_log.state import StepLogState
from storage import description
from storage.remote.chain import Chain
from storage.remote.objects_protocol import ObjectStore

ANOTHER = (
    "Choose another backup with --backup (`stepwell backup list` in that project shows them), or make one there with "
    "`stepwell backup create`."
)


@dataclass(frozen=True)
class StoredVersion:
    """A version in the checkpoint store: its manifest, with the name and the digest of the manifest's object."""

    store: ObjectStore
    name: str
    digest: str
    manifest: Manifest

    @property
    def chains(self) -> dict[int, Chain]:
        """The chains of packs, by worker."""
        return {worker: Chain.of_json(text) for worker, text in sorted(self.manifest.chains.items())}


@dataclass(frozen=True)
class CopySource:
    """`at`, `document`: see CopyMoment. `positions`: where the step of the version was to read, of the inputs of the project. `written`: all
    topics that the pipeline has written. `epoch`: the highest one that it has claimed."""

    stored: StoredVersion
    at: StepLogState
    document: PlanDocument
    positions: Mapping[TopicPartition, int]
    written: frozenset[str]
    epoch: int

    @property
    def pipeline(self) -> str:
        return self.stored.manifest.pipeline

    @property
    def origin(self) -> Origin:
        """The origin of the state, as the step log of a copy names it."""
        of = self.stored.manifest
        return Origin(
            pipeline=of.pipeline,
            log_id=of.log_id,
            generation=of.generation,
            epoch=self.epoch,
            version=of.version,
            manifest=self.stored.name,
            digest=self.stored.digest,
        )

    @property
    def step(self) -> int:
        """The first one that the version does not have."""
        return self.stored.manifest.version.step


@dataclass(frozen=True)
class CopyMoment:
    """What the step log of the pipeline said at the version (`at`, see log_at_version.py), and says now (`log`). `document`: of the project
    that was in force then."""

    log: StepLogState
    at: StepLogState
    document: PlanDocument


def read_moment(kafka: KafkaSettings, topics: Topics, stored: StoredVersion) -> CopyMoment:
    """Raises CopyRefused, PlanMissing, and faults of Kafka and of the store: ObjectMissing or DamagedPack if an object cannot be used."""
    manifest = stored.manifest
    whole, at = _read_log(kafka, topics, manifest)
    if at.is_former or at.revision is None:
        reason = "a former release has made it, and recorded no plan document"
        raise _refusal(manifest, [reason], "Run that pipeline with this release until it has stored another version.")
    text = read_plan(kafka, plan_topic_of(manifest.pipeline), at.revision.plan)
    try:
        document = document_of(text)
    except BadDocument as error:
        reason = f"its plan document cannot be read: {error}"
        raise _refusal(manifest, [reason], "Use the release that has written it, or a newer one.") from error
    if others := [chain.format for chain in stored.chains.values() if chain.format != description.FORMAT]:
        raise _refusal(
            manifest,
            [f"its databases have format {others[0]}, and this release reads format {description.FORMAT}"],
            "Use the release that has stored the version; or run that pipeline with this release until it has stored another one.",
        )
    check_objects(stored.store, manifest)
    return CopyMoment(whole, at, document)


def read_source(kafka: KafkaSettings, topics: Topics, stored: StoredVersion) -> CopySource:
    """Raises CopyRefused, PlanMissing, ObjectMissing, and other faults of Kafka and of the store."""
    moment = read_moment(kafka, topics, stored)
    step = stored.manifest.version.step
    if (reason := _why_not_begun(step, moment.at)) is not None:
        raise _refusal(stored.manifest, [reason], ANOTHER)
    positions = positions_before(step, moment.at, topics_of_project(moment.document, topics.names()))
    written = _written_topics(moment)
    source = CopySource(
        stored, moment.at, moment.document, positions=positions, written=written, epoch=moment.log.epoch
    )
    if lost := list(_lost_inputs(source, topics))[:REASONS_MAX]:
        raise _refusal(stored.manifest, lost, "A copy goes on reading from there. " + ANOTHER)
    return source


def _refusal(manifest: Manifest, reasons: list[str], what_to_do: str) -> CopyRefused:
    version = manifest.version
    return CopyRefused(
        f"version {version.version} of {manifest.pipeline}, before step {version.step}, cannot be copied: {'; '.join(reasons)}. "
        "Nothing was changed.",
        what_to_do,
    )


def _read_log(kafka: KafkaSettings, topics: Topics, manifest: Manifest) -> tuple[StepLogState, StepLogState]:
    """(the whole log, the log at the version, or, if a transition was under way all the time, at the first moment before its step)."""
    moment = MomentOf(manifest.generation, manifest.version)
    topic, step = log_topic_of(manifest.pipeline), manifest.version.step
    try:
        whole, at = StepLogReader(kafka, topic).read_with(moment.is_reached)
        log_id = topics.describe([topic])[topic].topic_id
    except StepLogGone:
        raise _refusal(
            manifest,
            [f"there is no step log {topic} on this broker, and only that says where the pipeline was in its inputs"],
            "Restore the topic, or name the broker of that pipeline with kafka.bootstrap.servers.",
        ) from None
    if log_id != manifest.log_id:
        raise _refusal(manifest, ["it was made under another step log, which was deleted since"], ANOTHER)
    if step == 0:
        raise _refusal(manifest, ["it holds no step"], "Start the new pipeline with `stepwell run`: nothing is lost.")
    at = at or moment.first
    if at is None:
        reason = (
            f"the step log has no record of that moment any more: it begins at step {whole.first} (stepwell.steps.kept)"
        )
        raise _refusal(manifest, [reason], ANOTHER)
    return whole, at


def _why_not_begun(step: int, at: StepLogState) -> str | None:
    """Why no log can begin with the state before this step."""
    phase = at.revisions.phase
    if phase is not None:
        return f"the transition to revision {phase.intent.number} was under way, whose state cannot be told from that of the revision in force"
    if withholds_before(step, at):
        return "views were in error, and outputs were withheld: the state has what they were to get. Correct the rows in error first"
    return None


def _written_topics(moment: CopyMoment) -> frozenset[str]:
    """Returns the topics that were written, also by former revisions. Among them are all topics for malformed messages that are known."""
    document, logs = moment.document, (moment.log, moment.at)
    outputs = {output.topic for output in document.outputs} | {where.topic for log in logs for where in log.ends}
    dead = {source.dead_letter_topic for source in document.inputs if source.dead_letter_topic is not None}
    dead |= {topic for log in logs for division in log.divisions.values() for topic in division.dead_letters.values()}
    return frozenset(outputs | dead)


def _lost_inputs(source: CopySource, topics: Topics) -> Iterator[str]:
    """Each topic that is gone, and each partition whose messages from the version on have expired."""
    tables = {topic for each in source.document.inputs if each.is_table for topic in each.table.topics}  # see tables.py
    names = sorted({where.topic for where in source.positions} - tables)
    there = topics.existing(names)
    gone = [name for name in names if name not in there]
    yield from (f"input topic {name} does not exist any more" for name in gone)
    facts = topics.describe([name for name in names if name in there])
    begins = topics.begin_offsets(sorted(facts))
    recorded = (source.at.topics[name] for name in facts if name in source.at.topics)
    yield from (f"input topic {name} was deleted and created again" for name in lost_topics(recorded, facts).recreated)
    for where, position in source.positions.items():
        if (begin := begins.get(where, position)) > position:
            yield f"step {source.step} reads {where} from offset {position:,}, and the topic begins with offset {begin:,}"
