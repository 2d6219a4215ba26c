"""A wheel that is installed where others have packages with the names of our rooms. `make dist` tries more (trial.py)."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.conftest import Broker
from tests.dist.build import build_wheel
from tests.dist.environment import Environment

ORDERS = 50
END_SECONDS_MAX = 30.0


def test_a_wheel_runs_the_first_project(tmp_path: Path, broker: Broker) -> None:
    """Its tasks, which Spark starts, import our modules too."""
    environment = Environment(tmp_path / "an environment", build_wheel(tmp_path / "built"))
    name = f"w{uuid.uuid4().hex[:8]}"
    project = tmp_path / name
    environment.variables["STEPWELL_KAFKA_BOOTSTRAP_SERVERS"] = broker.bootstrap_servers
    environment.run(tmp_path, "stepwell", "init", name)
    environment.run(project, "python", "send.py", str(ORDERS), broker.bootstrap_servers)
    environment.run(project, "stepwell", "run", "--available-now")
    counted = last_values(broker.bootstrap_servers, f"{name}.sales_by_country")
    assert sum(value["orders"] for value in counted.values()) == ORDERS


def last_values(servers: str, topic: str) -> dict[bytes, dict[str, int]]:
    """The last value of each key of a topic."""
    settings = {"isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, **settings})
    partitions = consumer.list_topics(topic, END_SECONDS_MAX).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found, unread = {}, len(partitions)
    while unread:
        message = consumer.poll(END_SECONDS_MAX)
        assert message is not None, f"the end of {topic} is not reached"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            unread -= 1
            continue
        found[message.key()] = json.loads(message.value())
    consumer.close()
    return found
