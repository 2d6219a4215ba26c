"""Fixtures of the tests of io_kafka: the broker, and consuming and producing with and without the C extension."""

from __future__ import annotations

import pytest

import io_kafka.clients.writer as writer_module
from io_kafka.clients import native
from io_kafka.clients.settings import KafkaSettings
from tests.conftest import Broker


@pytest.fixture
def settings(broker: Broker) -> KafkaSettings:
    """A reader that stands at the end of a log finishes its fetch before it can move, which would take a tenth of a second."""
    return KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers, "fetch.wait.max.ms": "10"})


@pytest.fixture
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How messages are consumed and produced: natively where that can be, if a test has not the mark IN_BOTH_WAYS."""
    asked = getattr(request, "param", None)
    if asked == "by objects":
        monkeypatch.setattr(native, "serves", lambda client: False)
    elif asked is not None and native.why_not() is not None:
        pytest.skip(f"not natively: {native.why_not()}")
    monkeypatch.setattr(writer_module, "NATIVE_MESSAGES_MIN", 1)
