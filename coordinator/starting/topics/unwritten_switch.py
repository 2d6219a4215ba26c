"""A start that finds a switch whose step is not written yet: whether the next project can still run.

Its topics may have gone since the switch was recorded. Each start would fail then, although a switch can be taken back as long as its
step has no output.
"""

from __future__ import annotations

from base.fault import Fault
from coordinator.revisions.document import Revision
from coordinator.revisions.project_of_revision import project_of_revision
from coordinator.specification import PipelineSpec
from coordinator.starting.errors import TopicChanged
from coordinator.starting.topics.patterns import with_matching_topics
from coordinator.starting.topics.setup import resolved_outputs
from io_kafka.clients.topics import Topics
from io_kafka.errors import NotAuthorized, NoTopicMatches, RegistryRefused, UnknownTopic
from io_kafka.step_log.revision_state import Switching
from io_kafka.step_log.state import StepLogState

CANNOT_RUN = (TopicChanged, UnknownTopic, NotAuthorized, NoTopicMatches, RegistryRefused)
"""Faults that another try does not remove. A broker that is away concerns both projects."""


def why_switch_cannot_run(files: PipelineSpec, revision: Revision, state: StepLogState, topics: Topics) -> Fault | None:
    """None if it can, or if no switch waits for its step. `revision`: the one in force, to which the switch leads."""
    if not isinstance(state.revisions.phase, Switching):
        return None
    try:
        spec = with_matching_topics(project_of_revision(revision.document, files), topics, state.topics)
        resolved_outputs(spec, topics, state.topics)
    except CANNOT_RUN as fault:
        return fault
    return None
