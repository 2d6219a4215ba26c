"""What the doctor finds wrong, on real topics and real folders."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, cast

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from base.options import Mode
from coordinator.starting.workers.circuit_file import StateOwner
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from stepwell.commands.doctor import examine
from stepwell.doctor.kafka import (
    broker_checks,
    dead_letter_checks,
    input_checks,
    log_checks,
    output_checks,
    plan_topic_check,
)
from stepwell.doctor.machine import disk_check, java_check
from stepwell.doctor.open_transactions import OPEN_SECONDS, open_transaction_checks
from stepwell.doctor.registry import registry_checks
from stepwell.doctor.state import state_checks
from stepwell.errors import Location
from stepwell.planning.resolver import resolve
from stepwell.project.loading import load_project
from stepwell.project.tables import OutputSpec, SourceSpec
from stepwell.service.endpoint import Endpoint
from storage.database import Database
from storage.errors import CorruptFile, NoDatabase, StorageError
from tests.conftest import Broker
from tests.schema_registry import schema_registry
from tests.settled import settle
from tests.stepwell.folder import SPEC, project, write

HERE = Location("a.sql", 1)


def _source(topic: str, mode: Mode = "append") -> SourceSpec:
    return SourceSpec("s", (topic,), mode, (), StructType(), "earliest", "fail", None, HERE)


def _topics(broker: Broker) -> Topics:
    return Topics(KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers}))


def test_inputs_that_are_missing_expire_or_are_compacted(broker: Broker, topic_prefix: str) -> None:
    topics = _topics(broker)
    configs = {
        "good": {},
        "short": {"retention.ms": "99000"},
        "long": {"retention.ms": "100000"},
        "compacted": {"cleanup.policy": "compact", "retention.ms": "1"},
    }
    for name, config in configs.items():
        topics.ensure(topic_prefix + name, 1, config)
    sources = [_source(topic_prefix + name) for name in (*configs, "missing")]
    found = {c.name.rsplit("-")[-1]: c.level for c in input_checks(topics, sources, checkpoint_interval_s=10.0)}
    assert found == {"good": "OK", "short": "FAIL", "long": "OK", "compacted": "FAIL", "missing": "FAIL"}
    by_pattern = replace(_source(""), topics=(), pattern=topic_prefix + "(good|short)")
    found = {c.name.rsplit("-")[-1]: c.level for c in input_checks(topics, [by_pattern], checkpoint_interval_s=10.0)}
    assert found == {"good": "OK", "short": "FAIL"}
    [none] = input_checks(topics, [replace(by_pattern, pattern="nothing.*")], 10.0)
    assert (none.level, none.found) == ("FAIL", f"no topic matches nothing.*; read by s ({HERE})")
    upsert = replace(_source(topic_prefix + "compacted", "upsert"), key=("k",))
    [check] = input_checks(topics, [upsert], 10.0)
    assert check.level == "WARN" and check.found.startswith("min.compaction.lag.ms is 0: "), "Kafka's default"
    topics.ensure(topic_prefix + "kept", 1, {"cleanup.policy": "compact", "min.compaction.lag.ms": "100000"})
    kept = replace(upsert, topics=(topic_prefix + "kept",))
    assert [check.level for check in input_checks(topics, [kept], 10.0)] == ["OK"]


def test_a_transaction_that_stays_open_is_seen(broker: Broker, topic_prefix: str) -> None:
    topics, topic = _topics(broker), topic_prefix + "in"
    settings = KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers})
    topics.ensure(topic, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()

    def begin() -> None:
        producer.begin_transaction()
        producer.produce(topic, b"a", partition=1)
        producer.flush()

    begin()
    waits: list[float] = []
    (check,) = open_transaction_checks(topics, [topic], waits.append)
    assert (check.name, check.level, waits) == (f"input {topic}", "WARN", [OPEN_SECONDS])
    assert "partition 1 is read up to offset 0 of 1: a transaction" in check.found
    assert [each.level for each in input_checks(topics, [_source(topic)], 10.0)] == ["OK", "WARN"]

    def commit_and_begin(_: float) -> None:
        """The client returns before the broker has written the marker."""
        producer.commit_transaction()
        settle(settings, topic, 1)
        begin()

    assert open_transaction_checks(topics, [topic], commit_and_begin) == [], "another transaction is open"
    producer.abort_transaction()
    settle(settings, topic, 1)
    assert open_transaction_checks(topics, [topic], commit_and_begin) == []


def test_a_timeout_of_transactions_is_compared_with_the_brokers_limit(broker: Broker) -> None:
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    checks, _ = broker_checks(servers)
    assert [check.name for check in checks] == ["broker"]
    (_, check), _ = broker_checks({**servers, "transaction.timeout.ms": "900001"})
    assert (check.name, check.level) == ("transactions", "FAIL")
    assert "transaction.timeout.ms is 900001, and the brokers allow 900000" in check.found


def test_topics_of_dead_letters_take_the_largest_letters(broker: Broker, topic_prefix: str) -> None:
    """A topic that is not there yet will take 8 MiB."""
    topics = _topics(broker)
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    names = [topic_prefix + name for name in ("usual", "large", "letters", "new")]
    for name, size in zip(names, (None, 4 << 20, None), strict=False):
        topics.ensure(name, 1, {} if size is None else {"max.message.bytes": str(size)})
    usual, large, letters, new = names

    def source(topic: str, dead: str | None) -> SourceSpec:
        return replace(_source(topic), on_error="dead-letter", dead_letter_topic=dead)

    [check] = dead_letter_checks(topics, servers, [source(usual, letters), source(large, None)])
    needed = (1 << 20) + 12 + (4 << 20) + (64 << 10)
    assert check.level == "WARN" and f"Set max.message.bytes of the topic to {needed} or more" in check.what_to_do
    assert [each.level for each in dead_letter_checks(topics, servers, [source(usual, new)])] == ["OK"]
    [check] = dead_letter_checks(topics, servers, [source(usual, new), source(large, new)])
    assert check.level == "WARN" and "max.message.bytes of the topic is 8388608" in check.found
    [check] = dead_letter_checks(topics, {**servers, "message.max.bytes": "2000000"}, [source(usual, new)])
    assert check.level == "WARN" and check.what_to_do.startswith("Set kafka.message.max.bytes to ")


def test_outputs_and_the_step_log(broker: Broker, topic_prefix: str) -> None:
    topics = _topics(broker)
    topics.ensure(topic_prefix + "plain", 2)
    topics.ensure(topic_prefix + "compacted", 2, {"cleanup.policy": "compact"})
    cases = (
        ("plain", "upsert"),
        ("compacted", "upsert"),
        ("plain", "append"),
        ("compacted", "changelog"),
        ("new", "append"),
    )
    outputs = [
        OutputSpec(handle="v", topic=topic_prefix + name, mode=cast(Mode, mode), key=(), partitions=None, location=HERE)
        for name, mode in cases
    ]
    assert [check.level for check in output_checks(topics, outputs, ())] == ["WARN", "OK", "OK", "FAIL", "OK"]
    deleted = output_checks(topics, outputs, [topic_prefix + "new"])[-1]
    assert (deleted.level, deleted.found) == ("FAIL", "was deleted, and this pipeline has written to it")
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    assert [check.level for check in log_checks(settings, topics, topic_prefix, [], ())] == ["OK"]  # not there yet
    topics.ensure(f"stepwell.{topic_prefix}.steps", 1, {"retention.ms": "1000"})
    assert [check.level for check in log_checks(settings, topics, topic_prefix, [], ())] == ["FAIL"]
    assert plan_topic_check(topics, topic_prefix).level == "OK"  # not there yet
    topics.ensure(f"stepwell.{topic_prefix}.plans", 1, {"cleanup.policy": "delete"})
    check = plan_topic_check(topics, topic_prefix)
    assert check.level == "FAIL" and "cleanup.policy is delete" in check.found


def test_an_input_that_a_run_makes_is_no_fault_and_is_said(broker: Broker, topic_prefix: str) -> None:
    """On the broker of `stepwell dev up`, so a new project is green before its first run."""
    source = _source(topic_prefix + "missing")
    [check] = input_checks(_topics(broker), [source], 10.0, run_makes_them=True)
    assert (check.level, check.what_to_do) == ("OK", "")
    assert check.found == f"not there yet: `stepwell run` makes it, empty; read by s ({HERE})"
    by_pattern = replace(source, topics=(), pattern="nothing.*")
    [check] = input_checks(_topics(broker), [by_pattern], 10.0, run_makes_them=True)
    assert check.level == "FAIL", "a run makes no topic for a pattern"


def test_a_storage_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = tmp_path / "not" / "yet"
    assert disk_check(storage).level in ("OK", "WARN")
    monkeypatch.setattr("os.access", lambda place, mode: place != tmp_path)
    check = disk_check(storage)
    assert (check.level, check.found) == ("FAIL", f"{tmp_path} cannot be written by this user")


def test_the_version_of_java_is_shown() -> None:
    assert re.search(r'java: .*version "\d+', java_check().found)


def test_java_is_looked_for(monkeypatch: object, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # type: ignore[attr-defined]
    check = java_check()
    assert check.level == "FAIL" and "Install Java" in check.what_to_do


def test_a_broken_project_file_is_one_check_that_fails(tmp_path: Path) -> None:
    spec = write(tmp_path, {}, "name: [")
    assert {check.name: check.level for check in examine(spec)}["project"] == "FAIL"


def test_state_without_owner_and_an_endpoint_that_nobody_serves(tmp_path: Path) -> None:
    project = load_project(write(tmp_path, {}))
    assert [check.level for check in state_checks(project)] == ["OK", "OK"]
    (project.state_folder / "workers" / "0000").mkdir(parents=True)
    Endpoint.new(1).write(project.state_folder)
    assert [check.level for check in state_checks(project)] == ["FAIL", "WARN"]


@pytest.mark.parametrize(
    ("fault", "with_store", "expected"),
    [
        (StorageError("the system says no.", "Correct the mount."), False, ("FAIL", "Correct the mount.")),
        (StorageError("the system says no.", "Correct the mount."), True, ("FAIL", "Correct the mount.")),
        (CorruptFile(Path("there"), "bad page"), False, ("FAIL", "rebuild the state")),
        (CorruptFile(Path("there"), "bad page"), True, ("WARN", "checkpoint store")),
        (NoDatabase(Path("there")), False, ("FAIL", "rebuild the state")),
    ],
)
def test_only_a_state_that_is_lost_is_to_be_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: StorageError, with_store: bool, expected: tuple[str, str]
) -> None:
    """A folder that is mounted for reading alone has the whole state, and LMDB refuses to open it."""

    def refuse(path: Path) -> NoReturn:
        raise fault

    store = f"configuration:\n  stepwell.store: file://{tmp_path}/store\n" if with_store else ""
    project = load_project(write(tmp_path, {}, SPEC + store))
    project.state_folder.mkdir(parents=True)
    StateOwner(project.name, "f", "[]", (), ("0000",)).write(project.state_folder, 1)
    monkeypatch.setattr(Database, "owned_by_version", refuse)
    check = state_checks(project)[0]
    level, advice = expected
    assert (check.name, check.level) == ("state", level) and advice in check.what_to_do


REGISTRY = """
CREATE STREAMING TABLE t (id BIGINT, s STRING) USING kafka TBLPROPERTIES ('subscribe' = 'in', 'format' = 'protobuf');
CREATE MATERIALIZED VIEW one TBLPROPERTIES ('topic' = 'one', 'format' = 'protobuf', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT id, s FROM t;
CREATE MATERIALIZED VIEW two TBLPROPERTIES ('topic' = 'two', 'format' = 'avro', 'key' = 'id', 'key.format' = 'long') AS SELECT id, s FROM t;
CREATE MATERIALIZED VIEW three TBLPROPERTIES ('topic' = 'three') AS SELECT id, s FROM t;
"""


@pytest.mark.long
def test_registries_that_are_gone_refuse_or_have_other_schemas(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(auth: str = "me:secret") -> dict[str, tuple[str, str]]:
        conf = f"{SPEC}configuration:\n  stepwell.registry.url: {served.url}\n  stepwell.registry.auth: {auth}\n"
        resolved = resolve(project(tmp_path, {"a.sql": REGISTRY}, conf), spark)
        checks = registry_checks(resolved)
        assert all("secret" not in check.found + check.what_to_do for check in checks)
        return {check.name: (check.level, check.found) for check in checks}

    with schema_registry("me:secret") as served:
        own = f"registry {served.url}"
        good = found()
        assert {name: level for name, (level, _) in good.items()} == dict.fromkeys(
            (own, "schema one-value", "schema one-key", "schema two-value"), "OK"
        )
        assert good[own][1] == "it answers, and has schemas of AVRO and PROTOBUF"
        assert served.subjects == {}, "nothing was registered"
        served.add("two-value", '"long"')
        assert found() == good
        served.incompatible["two-value"] = "READER_FIELD_MISSING_DEFAULT_VALUE"
        assert found()["schema two-value"] == (
            "FAIL",
            "the registry will refuse it: READER_FIELD_MISSING_DEFAULT_VALUE",
        )
        refused = found("me:wrong secret")
        assert list(refused) == [own] and refused[own][0] == "FAIL" and "401" in refused[own][1]
        served.kinds = ("AVRO",)
        assert found() == {own: ("FAIL", "it has no schemas of PROTOBUF")}
        served.busy = 1000
        monkeypatch.setattr("stepwell.doctor.registry.ANSWER_SECONDS_MAX", 0.2)
        assert found() == {own: ("FAIL", "it gives no answer: it answers 503")}
        served.busy, served.instead = 0, (404, b"default backend", {})
        level, what = found()[own]
        assert level == "FAIL" and "404 as no registry does" in what
