"""Resolves the projects that the steps of a run belong to: each with its topics, which are looked at once, and its registered schemas."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from coordinator.revisions.project_of_revision import project_of_revision
from coordinator.specification import PipelineSpec
from coordinator.starting.errors import TopicChanged
from coordinator.starting.topics.lost_on_the_way import standing_still_if_lost
from coordinator.starting.topics.patterns import with_matching_topics
from coordinator.starting.topics.same_topics import refuse_lost_log
from coordinator.starting.topics.setup import resolved_outputs
from coordinator.transition.documents import Documents
from engine.model.filling import TAKEN_BACK
from engine.run.program_document import Outputs
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.records import TopicIdentity
from io_kafka.step_log.revision_records import RevisionIntent, RevisionRecord

Resolved = tuple[PipelineSpec, tuple[TopicIdentity, ...], Outputs]
"""A project with its topics: see `resolved_outputs`."""


class ResolvedProjects:
    """The projects of one run, by revision, each resolved once. `files`: the project of the files, whose settings all of them have.
    `log_id`: the topic id of the step log."""

    def __init__(
        self, files: PipelineSpec, writer: PipelineWriter, topics: Topics, documents: Documents, *, log_id: str
    ) -> None:
        self.files, self._writer, self._topics, self._documents = files, writer, topics, documents
        self._log_id = log_id
        self._resolved: dict[int, Resolved] = {}

    def resolve(self, revision: RevisionRecord) -> Resolved:
        """Returns the project of a revision with its topics, which are looked at once. Raises TopicChanged and StateLost."""
        if revision.number not in self._resolved:
            document, known = self._documents.plan(revision.plan), self._writer.state.topics
            spec = self._standing_still_if_over(revision, project_of_revision(document, self.files))
            spec = with_matching_topics(spec, self._topics, known)
            try:
                self._resolved[revision.number] = (spec, *resolved_outputs(spec, self._topics, known))
            except TopicChanged:
                refuse_lost_log(spec, self._writer, self._log_id)
                raise
        return self._resolved[revision.number]

    def _standing_still_if_over(self, revision: RevisionRecord, spec: PipelineSpec) -> PipelineSpec:
        """The project of a revision that is in force no more runs only in a replay, for which a topic that the next one has left may be gone."""
        log = self._writer.state
        if log.revision is None or revision.number >= log.revision.number:
            return spec
        following = project_of_revision(self._documents.plan(log.revision.plan), self.files)
        return standing_still_if_lost(spec, following, self._topics, log, numbers=None)

    def note_resolved(self, number: int, resolved: Resolved) -> None:
        """Keeps the project of a revision as it was resolved already, at the start or by `resolve_next`."""
        self._resolved[number] = resolved

    def resolve_next(self, intent: RevisionIntent, topics: Topics, known: Mapping[str, TopicIdentity]) -> Resolved:
        """Looks at the topics and registers the schemas of the project to which a transition leads, and creates topics that are missing. It may
        run in the background. `known`: the topics that the step log has. Raises the fault that would end the step of the switch."""
        spec = with_matching_topics(project_of_revision(self._documents.plan(intent.plan), self.files), topics, known)
        return spec, *resolved_outputs(spec, topics, known)

    def look_at_taken_back(
        self, before: RevisionRecord, intent: RevisionIntent, topics: Topics, known: Mapping[str, TopicIdentity]
    ) -> None:
        """Looks at topics and registers schemas as `resolve_next` does, for outputs of the former project whose content is to be taken back.
        Raises what would end the step of the switch."""
        if taken_back := self._documents.facts(intent.plans.facts).taken_back:
            resolved_outputs(self._taken_back(before, taken_back), topics, known)

    def resolve_taken_back(self, former: RevisionRecord, handles: Collection[str]) -> Resolved:
        """Returns the outputs of the former project whose content is taken back, under the handles that they have in the step of the switch."""
        spec = self._taken_back(former, handles)
        identities, found = resolved_outputs(spec, self._topics, self._writer.state.topics)
        renamed = replace(
            found,
            partitions={TAKEN_BACK + handle: count for handle, count in found.partitions.items()},
            schema_ids={TAKEN_BACK + handle: ids for handle, ids in found.schema_ids.items()},
        )
        named = tuple(replace(output, handle=TAKEN_BACK + output.handle) for output in spec.outputs)
        return replace(spec, outputs=named), identities, renamed

    def _taken_back(self, former: RevisionRecord, handles: Collection[str]) -> PipelineSpec:
        """The former project with nothing but these outputs."""
        project = project_of_revision(self._documents.plan(former.plan), self.files)
        outputs = tuple(output for output in project.outputs if output.handle in handles)
        return replace(project, inputs=(), outputs=outputs)


def with_taken_back(resolved: Resolved, taken: Resolved) -> Resolved:
    """A project in the step of the switch, which also writes to topics that it does not have."""
    (spec, identities, outputs), (more, topics, found) = resolved, taken
    named = {each.topic: each for each in (*identities, *topics)}
    written = replace(
        outputs,
        partitions={**outputs.partitions, **found.partitions},
        schema_ids={**outputs.schema_ids, **found.schema_ids},
    )
    return (
        replace(spec, outputs=(*spec.outputs, *more.outputs)),
        tuple(identity for _, identity in sorted(named.items())),
        written,
    )
