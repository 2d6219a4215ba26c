"""Checks of what the user of the `kafka.` settings may do, on a broker with an authorizer: each right that the project needs, by itself.

docs/security.md has the table of these rights; a test compares it with this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.topic_names import is_table_topic, log_topic_of, plan_topic_of, table_topic_of, transactional_id_of
from io_kafka.clients.rights import Operation, Right, acl_lines, may_use_transactional_id, missing_on_topics
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.errors import KafkaFault, NotAuthorized
from stepwell.doctor.check import Check, Level
from stepwell.project.tables import OutputSpec, SourceSpec

STEP_LOG: tuple[Operation, ...] = ("Read", "Write", "Create", "DescribeConfigs")
STEP_LOG_LATER: tuple[Operation, ...] = ("Delete",)
PLANS: tuple[Operation, ...] = ("Read", "Write", "Create", "DescribeConfigs")
INPUT: tuple[Operation, ...] = ("Read", "DescribeConfigs")
OUTPUT: tuple[Operation, ...] = ("Write", "Create", "DescribeConfigs")
REFRESH_UPSERT: tuple[Operation, ...] = ("Read",)
REFRESH_OTHER: tuple[Operation, ...] = ("Delete",)
DEAD_LETTERS: tuple[Operation, ...] = ("Write", "Create", "DescribeConfigs")
TABLES: tuple[Operation, ...] = ("Read", "Write", "Create", "Delete", "DescribeConfigs")

_SAMPLE = "0" * 16
"""In place of the digest in the name of a topic of a batch table that is not there yet."""


@dataclass(frozen=True)
class WantedRights:
    """Rights on topics, by name. `now`: without them no run is possible. `later`: without them something later is not: the truncation of the
    step log, and a full refresh. `tables`: whether there are batch tables, whose topics have names of Stepwell's."""

    now: Mapping[str, frozenset[Operation]]
    later: Mapping[str, frozenset[Operation]] = field(default_factory=dict)
    tables: bool = False


def wanted_by(
    pipeline: str, topics: Topics, sources: Sequence[SourceSpec] = (), outputs: Sequence[OutputSpec] = ()
) -> WantedRights:
    """What a project needs. Without its definitions, only what every pipeline needs."""
    now: dict[str, set[Operation]] = {}
    later: dict[str, set[Operation]] = {}
    _add(now, log_topic_of(pipeline), STEP_LOG)
    _add(later, log_topic_of(pipeline), STEP_LOG_LATER)
    _add(now, plan_topic_of(pipeline), PLANS)
    for source in sources:
        if source.format == "table":
            continue
        for name in source.topics if source.pattern is None else _matching(topics, source.pattern):
            _add(now, name, INPUT)
        if source.dead_letter_topic is not None:
            _add(now, source.dead_letter_topic, DEAD_LETTERS)
            _add(later, source.dead_letter_topic, REFRESH_OTHER)
    for output in outputs:
        _add(now, output.topic, OUTPUT)
        _add(later, output.topic, REFRESH_UPSERT if output.mode == "upsert" else REFRESH_OTHER)
    tables = any(source.format == "table" for source in sources)
    return WantedRights(_frozen(now), _frozen(later), tables)


def right_checks(settings: KafkaSettings, topics: Topics, pipeline: str, wanted: WantedRights) -> list[Check]:
    """One check of the rights for a run, and one of those for later."""
    try:
        missing = missing_on_topics(topics, wanted.now)
        if wanted.tables:
            missing |= _of_tables(topics, pipeline)
        identifier = transactional_id_of(pipeline)
        if not may_use_transactional_id(settings, identifier):
            missing.add(Right("transactional-id", identifier, "Write"))
        later = missing_on_topics(topics, wanted.later)
        to_come = _not_there(topics, wanted.later)
    except KafkaFault as fault:
        return [Check("rights", "WARN", f"not all could be looked at: {fault}", "Ask again when the broker answers.")]
    count = 1 + sum(map(len, wanted.now.values())) + len(TABLES) * wanted.tables
    return [
        _check("rights", f"all {count} that a run needs", "FAIL", settings, missing),
        _check("rights for later", LATER + to_come, "WARN", settings, later - missing),
    ]


LATER = "the truncation of the step log, and a full refresh"


def _not_there(topics: Topics, wanted: Mapping[str, frozenset[Operation]]) -> str:
    """Which topics have to be asked for again, because Kafka says the rights of those alone that are there."""
    try:
        there = topics.existing(wanted)
    except NotAuthorized:
        return ""  # what is missing is said
    to_come = sorted(wanted.keys() - there)
    return f"; not known yet of topics that the first run makes: {', '.join(to_come)}" if to_come else ""


def _check(name: str, all_of_them: str, level: Level, settings: KafkaSettings, missing: Iterable[Right]) -> Check:
    lacking = sorted(missing)
    if not lacking:
        return Check(name, "OK", all_of_them)
    purpose = "" if level == "FAIL" else " (for the truncation of the step log, or for a full refresh)"
    found = f"missing: {', '.join(str(right) for right in lacking)}{purpose}"
    what_to_do = "Have an administrator of Kafka grant them, by the lines at the end."
    return Check(name, level, found, what_to_do, tuple(acl_lines(settings, lacking)))


def _of_tables(topics: Topics, pipeline: str) -> set[Right]:
    """What is missing on the topics of batch tables. Each load makes one, so the rights are for all names that begin alike."""
    there = [name for name in topics.names() if is_table_topic(pipeline, name)]
    names = there or [table_topic_of(pipeline, _SAMPLE)]
    missing = missing_on_topics(topics, dict.fromkeys(names, TABLES))
    return {Right("topic", table_topic_of(pipeline, ""), right.operation, is_prefix=True) for right in missing}


def _matching(topics: Topics, pattern: str) -> list[str]:
    return sorted(name for name in topics.names() if re.fullmatch(pattern, name))


def _add(rights: dict[str, set[Operation]], topic: str, operations: Iterable[Operation]) -> None:
    rights.setdefault(topic, set()).update(operations)


def _frozen(rights: Mapping[str, set[Operation]]) -> dict[str, frozenset[Operation]]:
    return {topic: frozenset(operations) for topic, operations in rights.items()}
