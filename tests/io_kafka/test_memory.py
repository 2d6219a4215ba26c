"""The memory of reading is bounded by bytes: messages of 1 MB, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics

ROOT = Path(__file__).resolve().parents[2]
MESSAGES, MESSAGE_BYTES = 300, 1_000_000
STEP_BYTES_MAX = 32 << 20
MEMORY_MB_MAX = 200
"""Above the process's base. All messages together take 300 MB, and twice that while they are put together."""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_steps_of_large_messages_fit_into_memory(settings: KafkaSettings, topic_prefix: str) -> None:
    room = str(2 * MESSAGE_BYTES)
    topic = Topics(settings).ensure(topic_prefix + "large", 3, {"max.message.bytes": room}).name
    producer = Producer(
        {"bootstrap.servers": settings.bootstrap_servers, "message.max.bytes": int(room), "linger.ms": 0}
    )
    for number in range(MESSAGES):
        producer.produce(topic, bytes(MESSAGE_BYTES), partition=number % 3)
        producer.flush()
    command = [
        sys.executable,
        "-m",
        "tests.io_kafka.step_memory",
        settings.bootstrap_servers,
        topic,
        str(STEP_BYTES_MAX),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["messages"] == MESSAGES
    assert told["steps"] >= MESSAGES * MESSAGE_BYTES // STEP_BYTES_MAX
    assert told["peak_mb"] - told["base_mb"] <= MEMORY_MB_MAX, told
