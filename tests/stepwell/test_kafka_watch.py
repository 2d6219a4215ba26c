"""A broker that is away is told once, and once more when it is back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from rich.console import Console
from structlog.testing import capture_logs

from coordinator.status import StatusBoard
from io_kafka.clients.probe import BrokerProbe
from io_kafka.clients.settings import KafkaSettings
from io_kafka.errors import UnknownHost
from stepwell.commands.control import status_table
from stepwell.service.kafka_watch import KafkaWatch, kafka_watched
from stepwell.service.metrics.exposition import Exposition
from tests.conftest import Broker
from tests.end_to_end.harness import wait_until


def text_of(board: StatusBoard) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(status_table(board.show()))
    return captured.get()


def test_a_loss_is_told_once_and_its_end_once() -> None:
    answers = [None, "refused", "refused", "no route", None, None]
    board = StatusBoard("p")
    board.update(phase="run", lag={"orders/0": 7})
    watch = KafkaWatch(lambda: answers.pop(0), board)
    with capture_logs() as logs:
        watch.look()
        assert 'stepwell_kafka_up{pipeline="p"} 1.0' in Exposition(board).text()[0].decode()
        watch.look()
        since = board.show()["kafka_away_since"]
        watch.look()
        watch.look()
        shown, text = board.show(), text_of(board)
        assert (shown["kafka_away_since"], shown["kafka_fault"]) == (since, "no route")
        assert f"waiting for Kafka since {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC: no route" in text
        assert "orders/0 7 (stale)" in text
        assert 'stepwell_kafka_up{pipeline="p"} 0.0' in Exposition(board).text()[0].decode()
        watch.look()
        watch.look()
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("no Kafka broker answers; waiting for one", "warning"),
        ("Kafka answers again", "warning"),
    ]
    assert board.show()["phase"] == "run" and "(stale)" not in text_of(board)


def test_it_watches_a_real_address(broker: Broker) -> None:
    board = StatusBoard("p")
    board.update(phase="run")
    with kafka_watched(KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:9"}), board):
        wait_until(lambda: not board.show()["kafka_up"])
    assert "Connection refused" in board.show()["kafka_fault"]
    BrokerProbe(KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:9"})).refuse_if_lasting()  # it may come
    with pytest.raises(UnknownHost, match=r"kafka\.invalid"):
        BrokerProbe(KafkaSettings.parse({"bootstrap.servers": "kafka.invalid:9092"})).refuse_if_lasting()
    assert BrokerProbe(KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers})).ask() is None
