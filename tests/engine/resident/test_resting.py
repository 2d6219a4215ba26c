"""A worker rests when it has no order and nothing runs beside its orders."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from base.memory import REST_SECONDS, Rest
from engine.resident.worker.background import BackgroundThreads
from engine.resident.worker.worker import Worker


def test_a_worker_rests_when_nothing_runs_beside_its_orders() -> None:
    given, fold_ends, clock = list[float](), threading.Event(), [0.0]
    worker: Any = object.__new__(Worker)  # what it needs for a rest, without databases and connections
    worker._outside = SimpleNamespace(monotonic=lambda: clock[0])
    worker._rest = Rest(lambda: given.append(clock[0]))
    fold = threading.Thread(target=fold_ends.wait, daemon=True)  # a failure would wait for it for ever
    fold.start()
    worker._background = BackgroundThreads(Mock(), Mock(start_thread=lambda name, work: fold))
    worker._background.begin("fold", Mock())
    for clock[0] in (0.0, REST_SECONDS, 2 * REST_SECONDS):
        worker._note_rest()
    assert not given, "a fold is under way"
    fold_ends.set()
    fold.join()
    for clock[0] in (3 * REST_SECONDS, 4 * REST_SECONDS, 5 * REST_SECONDS):
        worker._note_rest()
    assert given == [4 * REST_SECONDS]
