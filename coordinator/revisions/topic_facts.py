"""Asks the broker for what a plan has to know of topics (facts.py)."""

from __future__ import annotations

from collections.abc import Collection

from coordinator.revisions.facts import PlanFacts
from coordinator.revisions.leaves import HasLeaves
from coordinator.revisions.rereadable import topics_of
from io_kafka.clients.lost_topics import lost_topics
from io_kafka.clients.topics import Topics
from io_kafka.step_log.value import LogValue


def topics_of_project(project: HasLeaves, names: Collection[str]) -> set[str]:
    """The topics that it reads and writes. `names`: of all topics, which patterns match."""
    read = {topic for source in project.inputs for topic in topics_of(source, names)}
    return read | {output.topic for output in project.outputs}


def facts_of_topics(log: LogValue, topics: Topics, names: Collection[str], *, own: frozenset[str]) -> PlanFacts:
    """`names`: of topics that exist. `own`: see PlanFacts. Nothing is said of the state."""
    asked = sorted(names)
    begins, ends = topics.begin_offsets(asked), topics.end_offsets(asked)
    both = sorted(begins.keys() & ends.keys())  # a topic may grow between the two requests
    described = topics.describe(asked)
    lost = lost_topics(log.topics.values(), described)
    held = {where.topic for where in both if ends[where] > begins[where]}
    return PlanFacts(
        first=log.firsts,
        positions=log.next_offsets,
        begins={where: begins[where] for where in both},
        ends={where: ends[where] for where in both},
        compacted=frozenset(name for name, fact in described.items() if fact.compacted),
        grown=log.grown,
        own=own,
        used=frozenset(name for name in log.topics if name in lost.names or name in held),
        remade=frozenset(lost.recreated),
        loads={topic: load.rows for topic, load in log.tables.items()},
    )
