"""Keeps the topic of plan documents while a run goes on.

Every start reads the documents that the step log names. If the topic is deleted under a run, that run is the last one that knows them. So it
looks now and then whether the topic is the one that it has found, and writes the documents again if it is not. A document that it does not know
ends the run, because no later moment is better.
"""

from __future__ import annotations

from collections.abc import Callable

from base.logger import Logger
from coordinator.background_work import BackgroundWork
from coordinator.core import Core
from coordinator.loop_part import LoopPart, Recovered
from coordinator.measures import SettledStep
from coordinator.specification import PipelineSpec
from coordinator.transition.documents import Documents
from engine.resident.crew import Crew
from io_kafka.clients.plan_topic import ensure_plan_topic
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.errors import KafkaFault, UnknownTopic
from io_kafka.step_log.plans import PlanMissing

_log = Logger("coordinator.running.plan_topic")


class PlanTopic(LoopPart):
    """The keeper of the topic of plan documents. `documents`: those that the run knows. `wake` ends a wait of the loop."""

    def __init__(
        self,
        files: PipelineSpec,
        writer: PipelineWriter,
        topics: Topics,
        documents: Documents,
        wake: Callable[[], None],
    ) -> None:
        self._files, self._writer, self._topics, self._documents = files, writer, topics, documents
        self._wake, self._outside = wake, files.kafka.outside
        self._id: str | None = None  # of the topic as it was found first
        self._asked: BackgroundWork[str | None] | None = None
        self._begin_look()

    def recovered(self, recovered: Recovered) -> None:
        """No worker takes part in it."""

    def note_step(self, step: SettledStep) -> None:
        """The topic does not depend on steps."""

    @property
    def awaits_answers(self) -> bool:
        """Its thread wakes the loop."""
        return False

    def look(self, core: Core, crew: Crew) -> None:
        """Looks at the topic if that is due. Raises PlanMissing if a document is lost, and faults of Kafka."""
        if self._asked is None:
            if self._outside.monotonic() - self._looked_at > self._files.pace.growth_seconds:
                self._begin_look()
        elif self._asked.is_over:
            asked, self._asked = self._asked, None
            self._take(asked)

    def _begin_look(self) -> None:
        self._looked_at = self._outside.monotonic()
        self._asked = BackgroundWork(self._outside, "look at the topic of plan documents", self._topic_id, self._wake)

    def _take(self, asked: BackgroundWork[str | None]) -> None:
        try:
            found = asked.result()
        except KafkaFault as fault:  # it is asked again, and whoever needs the broker says why it does not answer
            _log.debug("the topic of plan documents could not be looked at", fault=str(fault))
            return
        self._id = self._id or found
        if found is None or found != self._id:
            self._write_again()

    def _topic_id(self) -> str | None:
        """None if the topic is missing."""
        name = self._files.plan_topic
        try:
            return self._topics.describe([name])[name].topic_id
        except UnknownTopic:
            return None

    def _write_again(self) -> None:
        topic, revisions = self._files.plan_topic, self._writer.state.revisions
        known = {name: self._documents.text(name) for name in revisions.documents | revisions.replayed_documents}
        lost = sorted(name for name, text in known.items() if text is None)
        if needed := [name for name in lost if name in revisions.documents]:
            raise PlanMissing(topic, needed[0])
        ensure_plan_topic(self._topics, topic, self._files.replication)
        self._writer.append_plans(topic, [text for _, text in sorted(known.items()) if text is not None])
        self._id = self._topic_id()
        _log.warning(
            "the topic of plan documents was deleted or created again under this run, which has written them again",
            topic=topic,
            documents=len(known) - len(lost),
            lost_for_replays=len(lost),
        )
