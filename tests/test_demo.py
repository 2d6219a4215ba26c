"""The demo's parts: the same messages every time, an independent consumer, and a verdict that notices what it is for. `make demo` runs the
whole."""

from __future__ import annotations

import json
from collections import Counter
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Producer
from rich.console import Console

from examples.flights import data, edit
from examples.flights.consumer import Received, read_topic
from examples.flights.feed import Feed
from examples.flights.service import Service
from examples.flights.show import PROJECT, table_of_edit
from examples.flights.verdict import ViewResult, audit
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import STEP_HEADER
from io_kafka.step_log.records import OutputPart
from io_kafka.step_log.state import StepLogState
from tests.conftest import Broker

WAIT_SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def year() -> data.Data:
    return data.load()


@pytest.mark.long
def test_the_package_is_read_whole(year: data.Data) -> None:
    assert year.flights == 336_776


@pytest.mark.long
def test_messages_are_the_same_at_every_run(year: data.Data) -> None:
    assert list(data.stream(year)) == list(data.stream(year))


def test_every_flight_comes_once_and_airlines_and_planes_are_corrected_deleted_and_brought_back(
    year: data.Data,
) -> None:
    messages = list(data.stream(year))
    assert [m.value for m in messages if m.topic == "flights"] == [row.encode() for row in year.tables["flights"]]
    for topic in ("airlines", "planes"):
        changes = [m for m in messages if m.topic == topic]
        deleted = {m.key for m in changes if m.value is None}
        assert deleted and any(m.value is not None for m in changes)
        last = {m.key: m.value for m in changes}
        assert {last[key] is None for key in deleted} == {True, False}, "some come back, some never do"


def test_a_key_names_the_row_it_stands_beside(year: data.Data) -> None:
    for message in data.reference(year):
        if message.key is not None and message.value is not None:
            key, row = json.loads(message.key), json.loads(message.value)
            assert key == {name: row[name] for name in key}


def test_the_feed_waits_for_the_service_and_at_the_gate_and_the_consumer_reads_all_of_it(
    broker: Broker, topic_prefix: str
) -> None:
    topic = topic_prefix + "feed"
    Topics(KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers})).ensure(topic, 2)
    messages = [data.Message(topic, b"k%d" % (i % 7), b"%d" % i) for i in range(5000)]
    feed = Feed(broker.bootstrap_servers, messages, gate_at=3000)
    feed.start()
    feed.join(0.1)
    for gate in (3000, 4000):
        feed.open_gate(gate)
        while not feed.at_gate and feed.fault is None and feed.is_alive():
            feed.join(0.05)
        assert len(read_topic(broker.bootstrap_servers, topic)) == gate, "nothing passes the gate"
    feed.open_gate()
    feed.join(WAIT_SECONDS_MAX)
    assert (feed.is_alive(), feed.fault, feed.sent) == (False, None, 5000)
    found = read_topic(broker.bootstrap_servers, topic)
    assert Counter(m.value for m in found) == Counter(m.value for m in messages)
    of_key: dict[bytes | None, set[int]] = {}
    for message in found:
        of_key.setdefault(message.key, set()).add(message.partition)
    assert all(len(partitions) == 1 for partitions in of_key.values()), "a key stays in one partition"


def test_the_consumer_sees_committed_messages_with_their_step_and_no_others(broker: Broker, topic_prefix: str) -> None:
    topic = topic_prefix + "out"
    Topics(KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers})).ensure(topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    for step, commit in ((0, True), (1, False), (1, True)):
        producer.begin_transaction()
        producer.produce(topic, str(commit).encode(), headers=[(STEP_HEADER, str(step).encode())])
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    assert [(m.step, m.value) for m in read_topic(broker.bootstrap_servers, topic)] == [(0, b"True"), (1, b"True")]


def _message(step: int | None, partition: int = 0, offset: int = 0) -> Received:
    return Received(partition, offset, b"k", b"v", step)


@pytest.mark.parametrize(
    ("messages", "recorded", "expected"),
    [
        ([_message(0), _message(1)], {(0, 0): 1, (1, 0): 1}, (0, 0)),
        ([_message(0), _message(1), _message(1)], {(0, 0): 1, (1, 0): 1}, (1, 0)),  # a step written twice
        ([_message(0)], {(0, 0): 1, (1, 0): 1}, (0, 1)),  # a step that was lost
        ([_message(0, 1)], {(0, 0): 1}, (1, 1)),  # in another partition than recorded
        ([_message(0), _message(2)], {(0, 0): 1}, (1, 0)),  # a step that the log does not know
        ([_message(None)], {}, (1, 0)),  # no step at all
    ],
)
def test_the_audit_counts_every_step(
    messages: list[Received], recorded: dict[tuple[int | None, int], int], expected: tuple[int, int]
) -> None:
    assert audit(messages, recorded) == expected


def test_one_message_too_many_makes_a_view_unequal() -> None:
    assert ViewResult("v", 3, 3, 0, 0, 1).equal
    assert not ViewResult("v", 3, 3, 1, 0, 1).equal
    assert not ViewResult("v", 3, 3, 0, 1, 1).equal


def test_the_edit_of_the_demo_fits_its_project_and_only_its_view_counts(tmp_path: Path) -> None:
    class Applies:
        def answer(self, *command: str) -> dict[str, Any]:
            return {"command": command, "text": (tmp_path / edit.FILE).read_text()}

    (tmp_path / edit.FILE).parent.mkdir()
    (tmp_path / edit.FILE).write_text((PROJECT / edit.FILE).read_text())
    found = edit.edit(tmp_path, cast(Service, Applies()))
    assert found["command"] == ("apply", "--yes")
    assert found["text"] == (PROJECT / edit.FILE).read_text().replace(edit.BEFORE, edit.AFTER)

    ended = {"step": 7, "filling_s": 0.5, "seconds": 1.0, "pause_ms": 20.0}
    outputs = tuple(
        OutputPart(handle=handle, topic=handle, partition=partition, messages=messages, digest="0" * 32, end=9)
        for handle, partition, messages in ((edit.VIEW, 0, 3), (edit.VIEW, 1, 4), ("fleet", 0, 5))
    )
    log = SimpleNamespace(step_records={7: SimpleNamespace(outputs=outputs), 8: SimpleNamespace(outputs=outputs[:1])})
    answer = {"plan": {"kept_share": 0.9996, "rows": 210}, "transition_last": ended}
    edited = edit.edited_as(answer, cast(StepLogState, log))
    assert (edited.messages, edited.step, edited.paused_ms) == (7, 7, 20.0)
    shown = StringIO()
    Console(width=80, file=shown).print(table_of_edit(edited))
    assert all(text in shown.getvalue() for text in ("99.96 %", "210", edit.BEFORE, edit.AFTER)), shown.getvalue()


def test_the_project_is_a_plain_spark_project() -> None:
    assert {p.relative_to(PROJECT) for p in PROJECT.rglob("*") if p.is_file() and "__pycache__" not in p.parts} == {
        Path("spark-pipeline.yml"),
        Path("transformations/sources.sql"),
        Path("transformations/views.sql"),
        Path("transformations/views.py"),
    }
