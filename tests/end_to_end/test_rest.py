"""A pipeline to which nothing comes gives back the memory that its steps have used."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

import pytest

from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Resolved, wait_until


def watched(play: Playground, given: Counter[int]) -> Resolved:
    """A project with some rows, whose processes (threads here) note in `given` that they give memory back."""
    play.topic("in")
    play.send("in", sums.rows(0, 4))
    resolved = sums.project(play, workers=2)
    outside = replace(resolved.spec.kafka.outside, give_back_memory=lambda: given.update([threading.get_ident()]))
    return Resolved(resolved.project, replace(resolved.spec, kafka=replace(resolved.spec.kafka, outside=outside)))


def test_the_service_and_each_worker_give_memory_back_once_in_each_rest(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("base.memory.REST_SECONDS", 0.2)
    given = Counter[int]()
    with play.running(watched(play, given)) as run:
        run.wait_until(lambda status: status["rows"] == 4)
        wait_until(lambda: len(given) == 3)
        first = dict(given)
        play.send("in", sums.rows(4, 1))
        run.wait_until(lambda status: status["rows"] == 5)
        wait_until(lambda: all(given[thread] > times for thread, times in first.items()))
    assert run.fault is None and len(given) == 3


def test_a_service_that_is_paused_gives_memory_back(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("base.memory.REST_SECONDS", 3600.0)
    given = Counter[int]()
    with play.running(watched(play, given)) as run:
        run.wait_until(lambda status: status["rows"] == 4)
        run.requests.ask("pause")
        run.wait_until(lambda status: status["phase"] == "paused")
        assert not given
        monkeypatch.setattr("base.memory.REST_SECONDS", 0.0)
        wait_until(lambda: len(given) == 3)
    assert run.fault is None
