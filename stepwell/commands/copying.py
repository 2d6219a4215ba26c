"""`stepwell restore --from PIPELINE`: the project's pipeline, which is new, begins with the state of another one.

    judge all (nothing is written) -> make the copy (coordinator/cloning/clone.py)

Only the last transaction counts. Until then the pipeline of the project is as new as before, so a command that was broken off is repeated. The
other pipeline is only read, and may run meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from base.sizes import size_text
from coordinator.cloning.clone import CopyTarget, make_copy
from coordinator.cloning.errors import CopyRefused
from coordinator.cloning.objects import Known
from coordinator.cloning.source import CopySource, read_source
from coordinator.cloning.state import copied_document, copied_state, loads_of
from coordinator.cloning.tables import check_loads
from coordinator.revisions.choices import Chosen
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.loads import with_loads
from coordinator.revisions.planned import Planned, plan_change
from coordinator.revisions.topic_facts import facts_of_topics, topics_of_project
from coordinator.starting.topics.schemas import refused_schemas
from coordinator.topic_names import log_topic_of, plan_topic_of
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.step_log.rules import why_not_new
from stepwell.commands.claiming import claim_pipeline
from stepwell.commands.common import note
from stepwell.commands.definitions import planning_session
from stepwell.commands.plan import NOT_YET
from stepwell.commands.steps import read_log
from stepwell.commands.store_access import (
    WantedVersion,
    missed_text,
    store_of,
    version_to_restore,
    while_it_is_replaced,
)
from stepwell.inspection.revision_text import revision_json, revision_text
from stepwell.lowering.driver import lower
from stepwell.planning.resolver import resolve
from stepwell.planning.revisions import document_of_project
from stepwell.project.loading import Project
from storage.remote.errors import ObjectMissing
from storage.remote.objects import open_store
from storage.remote.objects_protocol import ObjectStore

READS_SHOWN = 8
"""Partitions with their offsets. Of hundreds, nobody reads them."""


@dataclass(frozen=True)
class CopyOrder:
    """What the command says about one copy. `origin`: the pipeline that is copied. `store`: the URI of its checkpoint store; None if it is the
    project's. `chosen`: for the change that fills the outputs."""

    origin: str
    store: str | None
    wanted: WantedVersion
    chosen: Chosen
    is_dry: bool


@dataclass(frozen=True)
class CopyReport:
    """What was copied, or would be. `found`: what the first `run --apply` does with it."""

    pipeline: str
    source: CopySource
    found: Planned
    chosen: Chosen
    is_dry: bool

    @property
    def _sizes(self) -> tuple[int, int]:
        packs = [pack for chain in self.source.stored.chains.values() for pack in chain.packs]
        return len(packs), sum(pack.bytes for pack in packs)

    @property
    def _number(self) -> int:
        assert self.source.at.revision is not None
        return self.source.at.revision.number

    def to_json(self) -> dict[str, Any]:
        version, (objects, size) = self.source.stored.manifest.version, self._sizes
        return {
            "from": self.source.pipeline,
            "version": version.version,
            "step": version.step,
            "workers": len(self.source.stored.chains),
            "objects": objects,
            "bytes": size,
            "manifest": self.source.stored.name,
            "digest": self.source.stored.digest,
            "reads": {str(where): position for where, position in self.source.positions.items()},
            "plan": revision_json(self.found, self._number),
        }

    @property
    def text(self) -> RenderableType:
        """The text for users."""
        version, (objects, size) = self.source.stored.manifest.version, self._sizes
        of = f"version {version.version} of {self.source.pipeline}, before step {version.step}"
        copied = f"{objects} objects, {size_text(size)}" if objects != 1 else f"1 object, {size_text(size)}"
        lines = [f"{self.pipeline} {'would begin' if self.is_dry else 'begins'} with {of}: {copied}"]
        if self.is_dry:
            topics = ", ".join((log_topic_of(self.pipeline), plan_topic_of(self.pipeline)))
            lines.append(f"topics {topics} would be made, and nothing of {self.source.pipeline} would change")
        reads = [f"reads {where} from offset {at:,}" for where, at in self.source.positions.items()]
        lines += reads[:READS_SHOWN]
        lines += [f"and {len(reads) - READS_SHOWN} other partitions, see --json"] if reads[READS_SHOWN:] else []
        names = [f"--from-now {name}" for name in self.chosen.from_now]
        names += [f"--append {name}=from-now" for name in self.chosen.append_from_now]
        command = " ".join(["stepwell run --apply", *names])
        lines.append(f"`{command}` then does this, and fills the outputs:")
        return Group(*map(Text, lines), Text(""), revision_text(self.found, self._number))


def copy(project: Project, order: CopyOrder) -> CopyReport:
    """Raises CopyRefused, HeldByAnother, and faults of the project, of Kafka and of the store."""
    _refuse_itself(project, order)
    kafka = KafkaSettings.parse(project.settings.kafka)
    replication = project.settings.stepwell.topics_replication_factor
    target = CopyTarget(
        pipeline=project.name, kafka=kafka, topics=Topics(kafka), store=store_of(project), replication=replication
    )
    _refuse_own_state(project, target.topics)
    now = _planned_files(project)
    of_origin = target.store if order.store is None else open_store(order.store)
    tried = _Copy(project, order, target, of_origin=of_origin, now=now, known={})
    # What both versions have is copied once, so a second attempt takes as long as the newer one has changed.
    newer = f"{order.origin} has stored a newer checkpoint meanwhile, which is copied now"
    try:
        return while_it_is_replaced(lambda: _try_copy(tried), is_last=order.wanted.is_last, say=lambda: note(newer))
    except ObjectMissing as missing:
        raise CopyRefused(
            missed_text(missing, order.origin),
            f"`stepwell backup create` in the project of {order.origin} keeps a version; then copy that with --backup.",
        ) from missing


def _planned_files(project: Project) -> PlanDocument:
    with planning_session(project) as (session, kept):
        resolved = resolve(project, session, kept)
        return document_of_project(resolved, lower(resolved))


def _refuse_itself(project: Project, order: CopyOrder) -> None:
    if order.origin == project.name:
        raise CopyRefused(
            f"the project is that of {project.name} itself, whose topics, folders and objects a copy would take.",
            "Give the copy another name: in its project file, or leave out --from to go back to an earlier checkpoint.",
        )


def _refuse_own_state(project: Project, topics: Topics) -> None:
    """Raises CopyRefused unless the project's pipeline is new."""
    name = project.name
    if log_topic_of(name) in topics.names():
        reason = why_not_new(read_log(project))
        if reason is not None:
            raise CopyRefused(
                f"pipeline {name} is not new: {reason} (topic {log_topic_of(name)}). Nothing was changed.",
                "If that is the copy that you want, `stepwell run --apply` goes on with it. Otherwise give the project another name.",
            )
    if not project.on_cluster and project.databases.names():
        folder = project.databases.databases
        raise CopyRefused(
            f"there are databases in {folder} already, perhaps of another pipeline. Nothing was changed.",
            "Name another folder with storage: (or stepwell.local.dir), or delete the databases if nobody needs them.",
        )


@dataclass(frozen=True)
class _Copy:
    """One try. `of_origin`: the checkpoint store of the pipeline that is copied. `now`: the project of the files."""

    project: Project
    order: CopyOrder
    target: CopyTarget
    of_origin: ObjectStore
    now: PlanDocument
    known: Known


def _try_copy(copy: _Copy) -> CopyReport:
    """Raises ObjectMissing if the version was replaced meanwhile."""
    project, order, topics = copy.project, copy.order, copy.target.topics
    log = read_log(project, order.origin)
    stored = version_to_restore(copy.of_origin, order.origin, log, order.wanted)
    source = read_source(copy.target.kafka, topics, stored)
    check_loads(source, topics)
    _refuse_shared_topics(project, copy.now, source)
    found = _plan_first_run(copy, source)
    if not order.is_dry:
        make_copy(source, copy.target, lambda above: claim_pipeline(project, above), copy.known)
    return CopyReport(project.name, source, found, order.chosen, order.is_dry)


def _refuse_shared_topics(project: Project, now: PlanDocument, source: CopySource) -> None:
    """Raises CopyRefused if the copy would write to a topic of the pipeline that is copied."""
    written = [(output.topic, f"output {output.handle}") for output in now.outputs]
    for each in now.inputs:
        if each.dead_letter_topic is not None:
            written.append((each.dead_letter_topic, f"malformed messages of source {each.table.handle}"))
    shared = [f"{what} would go to topic {topic}" for topic, what in written if topic in source.written]
    if shared:
        raise CopyRefused(
            f"{project.name} would write to topics of {source.pipeline}: {'; '.join(shared)}. Nothing was changed.",
            "Give these outputs other topics in the project (topic, dead.letter.topic), and repeat the command.",
        )


def _plan_first_run(copy: _Copy, source: CopySource) -> Planned:
    """What the first run with --apply does with the copy. It follows from the topics that are there now. Raises CopyRefused if it would be
    refused."""
    project, order, topics = copy.project, copy.order, copy.target.topics
    loads = loads_of(source)
    document = copied_document(source, loads)
    state = copied_state(source, log_topic_of(project.name), document.text, loads, manifest=("", ""), epoch=0)
    inputs = with_loads(copy.now.inputs, document.inputs, (), NOT_YET)
    now = replace(copy.now, inputs=inputs)
    names = topics.names()
    asked = (topics_of_project(document, names) | topics_of_project(now, names) | state.topics.keys()) & names
    own = frozenset({log_topic_of(project.name), plan_topic_of(project.name)})
    facts = facts_of_topics(state, topics, asked, own=own)
    schemas = refused_schemas(document, now, project.settings.stepwell.registry_auth)
    facts = replace(facts, refused_schemas=schemas)
    assert source.at.revision is not None
    found = plan_change(document, now, facts, order.chosen, number=source.at.revision.number)
    if found.refusals:
        raise CopyRefused(
            f"the outputs of {project.name} could not be filled from the state of {source.pipeline}: "
            f"{'; '.join(map(str, found.refusals))}. Nothing was changed.",
            "Change the project, or give --append or --from-now, here and with `stepwell run --apply`.",
        )
    return found
