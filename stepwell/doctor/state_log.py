"""Whether the databases on this machine belong to the step log that the pipeline's topic holds now.

A topic that is deleted and created again has another id, and a database names the id of its step log. A start refuses such databases
(coordinator/starting/workers/expected_databases.py), because the log that says what they hold is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from coordinator.starting.workers.database_names import DatabaseName
from io_kafka.step_log.value import LogValue
from stepwell.doctor.check import Check
from storage.identity import FoundDatabase


class LogTopic(NamedTuple):
    """The topic of a step log. `id`: None if there is no such topic."""

    name: str
    id: str | None


def lost_log_checks(
    topic: LogTopic, log: LogValue | None, pipeline: str, found: Iterable[FoundDatabase]
) -> list[Check]:
    """One failed check if a database of the pipeline was made under another step log than the one in `topic`. `log`: what the topic says; None
    if it is not there. Once the log has a checkpoint, or a full refresh has ended, a start removes what others have left."""
    if log is not None and (log.checkpoints or log.generation):
        return []
    of_others = [each for each in found if _log_of(each, pipeline) not in {None, topic.id}]
    if not of_others:
        return []
    gone = "is not there" if topic.id is None else "was deleted and created again"
    return [
        Check(
            "step log",
            "FAIL",
            f"the topic {topic.name} {gone}, and {len(of_others)} databases on this machine belong to the step log that it had",
            "See first whether `kafka.bootstrap.servers` names the Kafka that the service has. If it does, restore that topic from a replica. "
            "Without one, delete the topics that this pipeline has written to, and rebuild with `stepwell run --full-refresh`.",
        )
    ]


def _log_of(found: FoundDatabase, pipeline: str) -> str | None:
    """The topic id of the step log that the database belongs to; None for a database that is not the pipeline's, or that cannot be read."""
    if found.identity is None or found.identity.pipeline != pipeline:
        return None
    name = DatabaseName.of(found.identity.database)
    return None if name is None else name.log_id
