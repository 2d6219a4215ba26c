"""A pipeline to which nothing comes gives back the memory that its steps have used."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

import pytest

from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Resolved, wait_until


def test_the_service_and_each_worker_give_memory_back_once_in_each_rest(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("base.memory.REST_SECONDS", 0.2)
    given = Counter[int]()  # by thread, each of which stands for a process
    play.topic("in")
    play.send("in", sums.rows(0, 4))
    resolved = sums.project(play, workers=2)
    outside = replace(resolved.spec.kafka.outside, give_back_memory=lambda: given.update([threading.get_ident()]))
    watched = Resolved(resolved.project, replace(resolved.spec, kafka=replace(resolved.spec.kafka, outside=outside)))
    with play.running(watched) as run:
        run.wait_until(lambda status: status["rows"] == 4)
        wait_until(lambda: len(given) == 3)
        first = dict(given)
        play.send("in", sums.rows(4, 1))
        run.wait_until(lambda status: status["rows"] == 5)
        wait_until(lambda: all(given[thread] > times for thread, times in first.items()))
    assert run.fault is None and len(given) == 3
