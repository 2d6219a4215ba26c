"""Checks of the broker, the step log, and the input and output topics. What the settings of an input or output mean, topic_rules.py says."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from base.fault import Fault
from coordinator.topic_names import log_topic_of, plan_topic_of
from io_kafka.clients.first_partition import UNUSED, how_many
from io_kafka.clients.plan_topic import UnsuitablePlanTopic, check_plan_topic
from io_kafka.clients.settings import KafkaSettings, client_version
from io_kafka.clients.step_log_reader import StepLogReader, UnsuitableStepLog, check_log_topic
from io_kafka.clients.topics import LARGE_MESSAGE_BYTES, TopicFacts, Topics
from io_kafka.clients.writer_limits import WriterLimits
from io_kafka.errors import KafkaFault, NotAuthorized, UnknownTopic
from io_kafka.step_log.lost import StepLogUnreadable
from io_kafka.step_log.state import StepLogState
from stepwell.doctor.check import Check
from stepwell.doctor.open_transactions import open_transaction_checks
from stepwell.doctor.positions import position_checks
from stepwell.doctor.state_log import LogTopic, lost_log_checks
from stepwell.doctor.topic_rules import dead_letter_check, input_check, output_check
from stepwell.project.tables import OutputSpec, SourceSpec
from storage.identity import FoundDatabase

ANSWER_SECONDS_MAX = 5.0
"""A broker that takes longer is reported as down. `run` itself waits longer."""

ANSWER_MS_SLOW = 1000.0

TAKEN_BYTES, SENT_BYTES = "max.message.bytes", "message.max.bytes"
"""The settings of a topic and of a producer that bound a message."""

TO_COME = "{} will be made by the first run"

MISSING = "Create it, or correct 'subscribe' of the table; `stepwell run` makes it only on the local broker."


DELETED = "Restore it, or rebuild with `stepwell run --full-refresh`, which writes all of it again. Do not create it: it would be another topic."


def broker_checks(settings: Mapping[str, str]) -> tuple[list[Check], Topics | None]:
    """The checks of the broker, and a connection if a broker answers."""
    try:
        kafka = KafkaSettings.parse(dict(settings))
    except KafkaFault as fault:
        correct_it = "Correct the kafka.* settings of spark-pipeline.yml."
        return [Check("broker", "FAIL", fault.message, fault.what_to_do or correct_it)], None
    began = time.monotonic()
    try:
        topics = Topics(kafka, timeout_s=ANSWER_SECONDS_MAX)
        cluster, count = topics.cluster_id(), len(topics.names())
    except KafkaFault as fault:
        return [Check("broker", "FAIL", fault.message, fault.what_to_do or "Correct the kafka.* settings.")], None
    took_ms = 1e3 * (time.monotonic() - began)
    found = (
        f"cluster {cluster} at {kafka.bootstrap_servers}, {count} topics, answered in {took_ms:.0f} ms "
        f"(librdkafka {client_version()})"
    )
    slow = "Every step waits for the broker: bring it nearer, or look at its load." if took_ms > ANSWER_MS_SLOW else ""
    return [Check("broker", "WARN" if slow else "OK", found, slow), *_transaction_checks(kafka, topics)], topics


def _transaction_checks(kafka: KafkaSettings, topics: Topics) -> list[Check]:
    """One check if the broker allows no transactions as long as the settings ask for; none also if it does not say so to this user."""
    asked_ms = int(dict(kafka.options).get("transaction.timeout.ms", WriterLimits().transaction_timeout_ms))
    try:
        allowed_ms = topics.broker_setting("transaction.max.timeout.ms")
    except KafkaFault as fault:
        return [_asked_in_vain("transactions", fault)]
    if allowed_ms is None or asked_ms <= int(allowed_ms):
        return []
    found = f"kafka.transaction.timeout.ms is {asked_ms}, and the brokers allow {allowed_ms} (their transaction.max.timeout.ms)"
    return [Check("transactions", "FAIL", found, "Lower the first, or raise the second.")]


def log_checks(
    settings: Mapping[str, str], topics: Topics, pipeline: str, written: Iterable[str], found: Collection[FoundDatabase]
) -> list[Check]:
    """The step log, whether a rescale is under way, as it has it, whether the databases that were `found` on this machine are its own, and
    whether the inputs hold what is read next. `written`: the topics that the project writes to."""
    name = log_topic_of(pipeline)
    facts = _facts(topics, name)
    check = _log_topic_check(topics, name, facts)
    if facts is None:
        return lost_log_checks(LogTopic(name, None), None, pipeline, found) or [check]
    if isinstance(facts, KafkaFault) or check.level == "FAIL":
        return [check]
    try:
        log = StepLogReader(KafkaSettings.parse(dict(settings)), name).read()
    except StepLogUnreadable as fault:
        fault.name_written(written)
        return [Check("step log", "FAIL", fault.message, fault.what_to_do)]
    except Fault as fault:
        return [Check("step log", "FAIL", fault.message, fault.what_to_do or "Look at the step log's topic.")]
    lost = lost_log_checks(LogTopic(name, facts.topic_id), log, pipeline, found)
    return lost or [check, *_layout_checks(log), *position_checks(topics, log)]


def has_no_state(settings: Mapping[str, str], topics: Topics, pipeline: str) -> bool:
    """Whether the step log has not even the intent of a checkpoint, so that a start makes databases that are not there."""
    log = _log_of(settings, topics, pipeline)
    return log is not None and not log.checkpoints and log.intent is None and log.first == 0


def _log_of(settings: Mapping[str, str], topics: Topics, pipeline: str) -> StepLogState | None:
    """The step log; None if it is not there or cannot be read."""
    name = log_topic_of(pipeline)
    facts = _facts(topics, name)
    if facts is None or isinstance(facts, KafkaFault):
        return None
    try:
        return StepLogReader(KafkaSettings.parse(dict(settings)), name).read()
    except Fault:
        return None


def _log_topic_check(topics: Topics, name: str, facts: TopicFacts | KafkaFault | None) -> Check:
    if isinstance(facts, KafkaFault):
        return _asked_in_vain(f"step log {name}", facts)
    if facts is None:
        return Check("step log", "OK", TO_COME.format(name))
    try:
        check_log_topic(topics, facts)
    except UnsuitableStepLog as fault:
        return Check("step log", "FAIL", fault.message, fault.what_to_do)
    return _in_first_partition("step log", facts)


def _in_first_partition(label: str, facts: TopicFacts) -> Check:
    """The check of a topic that is suitable, of which Stepwell uses the first partition alone."""
    if facts.partitions == 1:
        return Check(label, "OK", facts.name)
    return Check(label, "WARN", f"{facts.name}: {how_many(facts)}", UNUSED)


def plan_topic_check(topics: Topics, pipeline: str) -> Check:
    """The topic of plan documents, without which no state can be opened."""
    name, label = plan_topic_of(pipeline), "plan documents"
    facts = _facts(topics, name)
    if isinstance(facts, KafkaFault):
        return _asked_in_vain(f"{label} {name}", facts)
    if facts is None:
        return Check(label, "OK", TO_COME.format(name))
    try:
        check_plan_topic(facts)
    except UnsuitablePlanTopic as fault:
        return Check(label, "FAIL", fault.message, fault.what_to_do)
    return _in_first_partition(label, facts)


def _layout_checks(log: StepLogState) -> list[Check]:
    """Whether a rescale is under way; nothing for a pipeline that has never run."""
    if log.layout is None:
        return []
    count = len(log.layout.placed.members)
    if log.rescale is None or log.target is None:
        return [Check("layout", "OK", f"{count} workers")]
    way = f"a {log.rescale.mode} change to {len(log.target.members)} is under way (`stepwell layout show`)"
    return [Check("layout", "OK", f"{count} workers; {way}")]


def input_checks(
    topics: Topics, sources: Sequence[SourceSpec], checkpoint_interval_s: float, *, run_makes_them: bool = False
) -> list[Check]:
    """Topics of batch tables are Stepwell's own, and made by the first run. `run_makes_them`: on this broker it makes missing inputs too."""
    read = [source for source in sources if source.format != "table"]
    checks = [check for source in read for check in _input_checks(topics, source, checkpoint_interval_s)]
    there = {check.name.removeprefix("input ") for check in checks if check.level != "FAIL"}
    checks += open_transaction_checks(topics, there)
    return [_with_topic_to_come(check) if run_makes_them and check.what_to_do == MISSING else check for check in checks]


def _with_topic_to_come(check: Check) -> Check:
    return replace(
        check,
        level="OK",
        found=check.found.replace("missing", "not there yet: `stepwell run` makes it, empty", 1),
        what_to_do="",
    )


def _input_checks(topics: Topics, source: SourceSpec, checkpoint_interval_s: float) -> list[Check]:
    try:
        names = source.topics if source.pattern is None else _matching(topics, source.pattern)
    except KafkaFault as fault:
        return [_asked_in_vain(f"input {source.pattern}", fault)]
    if not names:
        text = f"no topic matches {source.pattern}; read by {source.handle} ({source.location})"
        return [Check(f"input {source.pattern}", "FAIL", text, "Create one, or correct subscribePattern.")]
    return [_input_checked(topics, source, topic, checkpoint_interval_s) for topic in names]


def _matching(topics: Topics, pattern: str) -> tuple[str, ...]:
    return tuple(sorted(name for name in topics.names() if re.fullmatch(pattern, name)))


def _input_checked(topics: Topics, source: SourceSpec, topic: str, checkpoint_interval_s: float) -> Check:
    facts = _facts(topics, topic)
    if isinstance(facts, KafkaFault):
        return _asked_in_vain(f"input {topic}", facts)
    if facts is None:
        return Check(f"input {topic}", "FAIL", f"missing; read by {source.handle} ({source.location})", MISSING)
    return input_check(facts, source, checkpoint_interval_s)


def recorded_topics(settings: Mapping[str, str], topics: Topics, pipeline: str) -> frozenset[str]:
    """The topics that the pipeline has read or written; none if its step log cannot be read, which another check says."""
    log = _log_of(settings, topics, pipeline)
    return frozenset() if log is None else frozenset(log.topics)


def output_checks(topics: Topics, outputs: Sequence[OutputSpec], recorded: Collection[str]) -> list[Check]:
    """`recorded`: see `recorded_topics`."""
    checks = []
    for output in outputs:
        name = f"output {output.topic}"
        facts = _facts(topics, output.topic)
        if isinstance(facts, KafkaFault):
            checks.append(_asked_in_vain(name, facts))
        elif facts is None and output.topic in recorded:
            checks.append(Check(name, "FAIL", "was deleted, and this pipeline has written to it", DELETED))
        elif facts is None:
            checks.append(Check(name, "OK", "will be made by the first run"))
        else:
            checks.append(output_check(facts, output))
    return checks


def dead_letter_checks(topics: Topics, settings: Mapping[str, str], sources: Sequence[SourceSpec]) -> list[Check]:
    """Whether each topic of dead letters takes the letters of the largest messages of its sources."""
    by_topic: dict[str, set[str]] = {}
    for source in sources:
        if source.dead_letter_topic is not None:
            by_topic.setdefault(source.dead_letter_topic, set()).update(source.topics)
    sends = int(KafkaSettings.parse(dict(settings)).producer_config("doctor")[SENT_BYTES])
    checks = []
    for name, inputs in by_topic.items():
        facts = _facts(topics, name)
        if isinstance(facts, KafkaFault):
            checks.append(_asked_in_vain(f"dead letters {name}", facts))
            continue
        takes = LARGE_MESSAGE_BYTES if facts is None else int(facts.config.get(TAKEN_BYTES, LARGE_MESSAGE_BYTES))
        found = [_facts(topics, each) for each in sorted(inputs)]  # an input that is not there has a check of its own
        sizes = [int(each.config.get(TAKEN_BYTES, 0)) for each in found if isinstance(each, TopicFacts)]
        limits = {f"{TAKEN_BYTES} of the topic": takes, f"kafka.{SENT_BYTES}": sends}
        checks.append(dead_letter_check(f"dead letters {name}", limits, max(sizes, default=0)))
    return checks


def _facts(topics: Topics, name: str) -> TopicFacts | KafkaFault | None:
    try:
        return topics.describe([name])[name]
    except UnknownTopic:
        return None
    except KafkaFault as fault:
        return fault


def _asked_in_vain(name: str, fault: KafkaFault) -> Check:
    if isinstance(fault, NotAuthorized):
        return Check(name, "FAIL", fault.message, "See which rights are missing, at the end.")
    return Check(name, "FAIL", str(fault), "Correct the connection, and ask again.")
