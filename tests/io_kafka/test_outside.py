"""`Outside` can be sent to a task, and a test can replace it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.outside import REAL


def test_settings_take_the_real_machine_to_a_task() -> None:
    settings = KafkaSettings.parse({"bootstrap.servers": "nowhere:1"})
    there: KafkaSettings = pickle.loads(pickle.dumps(settings))
    assert there == settings and hash(there) == hash(settings)
    assert [getattr(there.outside, f.name) for f in fields(REAL)] == [getattr(REAL, f.name) for f in fields(REAL)]


def test_another_outside_makes_the_clients() -> None:
    asked: list[Mapping[str, Any]] = []

    def admin(config: Mapping[str, Any]) -> Any:
        asked.append(config)
        return object()

    settings = replace(KafkaSettings.parse({"bootstrap.servers": "nowhere:1"}), outside=replace(REAL, admin=admin))
    Topics(settings)
    assert [config["bootstrap.servers"] for config in asked] == ["nowhere:1"]


def test_ids_are_never_the_same_and_a_thread_ends() -> None:
    assert len({REAL.new_id() for _ in range(100)}) == 100
    done: list[str] = []
    thread = REAL.start_thread("work", lambda: done.append("work"))
    thread.join(30.0)
    assert done == ["work"] and not thread.is_alive()
