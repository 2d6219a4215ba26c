"""What the tests at the edge to Kafka share: how to reach the broker, and both ways in which messages are taken and given."""

from __future__ import annotations

import pytest

import io_kafka.clients.writer as writer_module
from io_kafka.clients import native
from io_kafka.clients.settings import KafkaSettings
from tests.conftest import Broker


@pytest.fixture
def settings(broker: Broker) -> KafkaSettings:
    return KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers})


@pytest.fixture(params=["by objects", "natively"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How messages are taken from the client, and given to it."""
    if request.param == "by objects":
        monkeypatch.setattr(native, "serves", lambda client: False)
    elif native.why_not() is not None:
        pytest.skip(f"not natively: {native.why_not()}")
    monkeypatch.setattr(writer_module, "NATIVE_MESSAGES_MIN", 1)
