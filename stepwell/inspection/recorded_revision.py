"""Reads what is recorded of the revision in force: its plan document, where the pipeline is in its inputs, and how large its state is.

Nothing is fenced and nothing is changed, so it works with and without a running service. The state is counted only if it is on this host
and small enough to be read within some seconds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa

from coordinator.revisions.document import PlanDocument
from coordinator.revisions.recorded_project import NothingRecorded, RecordedProject
from coordinator.revisions.topic_facts import facts_of_topics, topics_of_project
from coordinator.starting.project.in_force import revision_in_force
from coordinator.starting.project.same_project import refuse_former
from coordinator.starting.topics.schemas import refused_schemas
from coordinator.topic_names import log_topic_of, plan_topic_of
from engine.model.numbers import number_of
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import StepLogGone, StepLogReader
from io_kafka.clients.topics import Topics
from io_kafka.step_log.state import StepLogState
from stepwell.project.loading import Project
from storage.database import Database
from storage.errors import StorageError
from storage.keys import key_table

COUNTED_BYTES_MAX = 1 << 30
"""The largest number of bytes of databases that are read to count their rows. That takes two seconds."""


def read_recorded(project: Project, now: PlanDocument) -> RecordedProject:
    """Returns what is recorded. `now`: the document of the project's files, whose topics are looked at too. Raises NothingRecorded, PlanMissing,
    StateLost and faults of Kafka and of registries."""
    settings = KafkaSettings.parse(project.settings.kafka)
    topics, state = Topics(settings), _log(project, settings)
    revision = revision_in_force(settings, plan_topic_of(project.name), state)
    if revision is None:
        raise _nothing(project, state)
    document = revision.document
    names = topics.names()
    known = (topics_of_project(document, names) | topics_of_project(now, names) | state.topics.keys()) & names
    rows, sizes = _count_rows(project) or (None, None)
    own = frozenset({log_topic_of(project.name), plan_topic_of(project.name)})
    facts = facts_of_topics(state, topics, known, own=own)
    schemas = refused_schemas(document, now, project.settings.stepwell.registry_auth)
    phase = state.revisions.phase
    under_way = None if phase is None else phase.intent.number
    facts = replace(facts, rows=rows, bytes=sizes, refused_schemas=schemas)
    return RecordedProject(revision.number, document, facts, under_way)


def _log(project: Project, settings: KafkaSettings) -> StepLogState:
    try:
        state = StepLogReader(settings, log_topic_of(project.name)).read()
    except StepLogGone:
        state = StepLogState(log_topic_of(project.name))
    refuse_former(state)
    return state


def _nothing(project: Project, state: StepLogState) -> NothingRecorded:
    if state.circuit is not None:
        return NothingRecorded(
            f"the state of {project.name} was made by a former version of Stepwell, which recorded no revision.",
            "Run it once with the definitions that it was made with: that records them.",
        )
    return NothingRecorded(
        f"{project.name} has no state, so there is nothing with which its files could be compared.",
        "`stepwell dry-run` shows what the files define, and `stepwell run` begins with all input.",
    )


def _count_rows(project: Project) -> tuple[dict[int, int], dict[int, int]] | None:
    """Returns (rows, bytes) of the last checkpoint, by node number. None if the databases are not here, too large, or cannot be read. A row
    that lies in several runs of a trace is counted in each."""
    if project.on_cluster:
        return None
    folder = project.databases
    paths = [folder.databases / name for name in folder.names()]
    try:
        if sum(file.stat().st_size for path in paths for file in path.rglob("*.mdb")) > COUNTED_BYTES_MAX:
            return None
        rows, sizes = Counter[int](), Counter[int]()
        for path in paths:
            with Database.read_committed(path) as (_, transaction):
                for key, value in transaction.scan(b"", immutable=True):
                    number = number_of(key_table(key))
                    if number is not None:
                        rows[number] += pa.ipc.open_stream(pa.py_buffer(value)).read_all().num_rows
                        sizes[number] += len(value)
    except (OSError, StorageError):
        return None
    return dict(rows), dict(sizes)
