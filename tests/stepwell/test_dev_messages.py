"""Messages by hand: what is sent comes back, and what was aborted does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from stepwell.commands.dev_messages import messages_from
from tests.conftest import Broker
from tests.stepwell.command_line import CommandLine
from tests.stepwell.folder import SPEC


@pytest.fixture
def line(tmp_path: Path, broker: Broker) -> CommandLine:
    return CommandLine(tmp_path, broker.bootstrap_servers, tmp_path / "cache")


def test_lines_go_out_and_come_back(line: CommandLine, topic_prefix: str) -> None:
    topic = f"{topic_prefix}a"
    line.folder.joinpath("lines").write_text('plain\n\nk1\t{"a": "x y"}\nk1\tnull\n')
    assert line.here("dev", "produce", topic, "lines").out == f"sent 3 messages to {topic}\n"
    assert line.here("dev", "consume", topic).out == 'plain\nk1\t{"a": "x y"}\nk1\tnull\n'
    assert line.here("dev", "consume", topic, "--count", "1").out == "plain\n"


def test_a_key_is_made_of_members_and_headers_are_sent(line: CommandLine, topic_prefix: str) -> None:
    topic = f"{topic_prefix}a"
    line.folder.joinpath("lines").write_text('{"a": 1, "b": "é", "c": 2}\n')
    sent = line.asked("dev", "produce", topic, "lines", "--key", "b, a", "--header", "from=test", "--partitions", "3")
    assert sent == {"topic": topic, "sent": 1}
    (read,) = [json.loads(each) for each in line.here("dev", "consume", topic, "--json").out.splitlines()]
    assert read["key"] == '{"b":"é","a":1}' and read["headers"] == {"from": "test"}
    assert read["offset"] == 0 and read["partition"] in (0, 1, 2) and read["timestamp_ms"] > 0
    line.folder.joinpath("lines").write_text('{"a": 1}\n')
    refused = line.here("dev", "produce", topic, "lines", "--key", "a,b")
    assert refused.code == 3 and "line 1 has no b for the key" in refused.err
    assert line.here("dev", "produce", topic, "lines", "--header", "from").code == 2


def test_a_line_may_have_a_key_and_delete_it() -> None:
    lines = ["plain\n", 'k\t{"a": 1}\n', "k\tnull", "null"]
    found = [(each.key, each.value) for each in messages_from(lines, (), ())]
    assert found == [(None, b"plain"), (b"k", b'{"a": 1}'), (b"k", None), (None, None)]


def test_aborted_messages_are_not_shown(line: CommandLine, broker: Broker, topic_prefix: str) -> None:
    topic = f"{topic_prefix}a"
    line.folder.joinpath("lines").write_text("first\n")
    assert line.here("dev", "produce", topic, "lines").code == 0
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    for value, is_kept in (("aborted", False), ("committed", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        producer.commit_transaction() if is_kept else producer.abort_transaction()
    read = line.here(
        "dev", "consume", topic, "--follow", "--count", "2"
    )  # the marker of a commit comes after its answer
    assert read.out == "first\ncommitted\n"


def test_the_broker_is_that_of_the_project(line: CommandLine, broker: Broker, topic_prefix: str) -> None:
    servers = line.environment.pop("STEPWELL_KAFKA_BOOTSTRAP_SERVERS")
    spec = f"{SPEC}configuration:\n  kafka.bootstrap.servers: {servers}\n"
    line.folder.joinpath("spark-pipeline.yml").write_text(spec)
    line.folder.joinpath("lines").write_text("x\n")
    assert line.here("dev", "produce", f"{topic_prefix}a", "lines").code == 0
    away = line.here("dev", "consume", f"{topic_prefix}none")
    assert away.code == 5 and "docs/errors.md#unknown-topic" in away.err.splitlines()[-1]
