"""What a service takes from the settings: how many workers a new pipeline gets, and whether the network is trusted."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from base.fault import ExitCode, exit_code_of
from coordinator.requests import Requests
from engine.resident.start_faults import InsecureCluster
from stepwell.commands import serve
from stepwell.commands.serve import RunOptions
from stepwell.planning import pipeline
from stepwell.planning.pipeline import WORKERS_DEFAULT_MAX, workers_default
from stepwell.project.settings import load_settings


@pytest.mark.parametrize(
    ("master", "cores", "workers"),
    [
        (None, 4, 4),
        (None, 16, WORKERS_DEFAULT_MAX),
        ("local[*]", 4, 4),
        ("local[*,4]", 4, 4),
        ("local[4]", 4, 3),
        ("local[4,2]", 2, 2),
        ("local[2]", 4, 1),
        ("local[1]", 4, 1),
        ("local", 4, 1),
        ("spark://h:7077", 4, None),
        ("yarn", 4, None),
    ],
)
def test_the_default_number_of_workers_leaves_a_task_slot_free(
    monkeypatch: pytest.MonkeyPatch, master: str | None, cores: int, workers: int | None
) -> None:
    monkeypatch.setattr(pipeline, "cores", lambda: cores)
    assert workers_default(load_settings({} if master is None else {"spark.master": master})) == workers


@pytest.mark.parametrize(
    ("master", "least", "most", "workers"), [(None, 1, 3, 3), (None, 6, 8, 6), (None, 2, 8, 4), ("yarn", 3, 8, 3)]
)
def test_a_new_pipeline_whose_workers_stepwell_chooses_begins_within_the_bounds(
    monkeypatch: pytest.MonkeyPatch, master: str | None, least: int, most: int, workers: int
) -> None:
    monkeypatch.setattr(pipeline, "cores", lambda: 4)
    bounds = {"stepwell.workers.min": str(least), "stepwell.workers.max": str(most)}
    assert workers_default(load_settings(bounds | ({} if master is None else {"spark.master": master}))) == workers


class Begun(Exception):
    """The run would begin here."""


@pytest.mark.parametrize("setting", [None, "false", "true"])
def test_a_network_beyond_loopback_is_used_only_if_the_setting_says_so(
    monkeypatch: pytest.MonkeyPatch, setting: str | None
) -> None:
    """The setting reaches the place that decides, and what it decides ends the command."""

    def begin(*_: object, **__: object) -> Any:
        raise Begun

    host = {"spark.driver.host": "192.0.2.7"}
    context = SimpleNamespace(master="spark://192.0.2.7:7077", getConf=lambda: host)
    settings = load_settings({} if setting is None else {"stepwell.cluster.insecure": setting})
    for name, stand_in in {
        "warm_up": lambda context: None,
        "_plan": lambda *_, **__: (None, nullcontext()),
        "pipeline_spec": lambda *_, **__: SimpleNamespace(kafka=None),
        "kafka_watched": lambda kafka, board: nullcontext(),
        "make_missing_inputs": lambda spec: (),
        "Pipeline": begin,
    }.items():
        monkeypatch.setattr(serve, name, stand_in)
    spark, project = SimpleNamespace(context=context), SimpleNamespace(name="p", settings=settings, on_cluster=True)
    definitions = SimpleNamespace(table_rows=None)
    service: Any = SimpleNamespace(signals=SimpleNamespace(), requests=Requests(), board=None, definitions=definitions)
    given: Any = (project, spark, RunOptions(), service)
    server: Any = None
    with pytest.raises((Begun, InsecureCluster)) as raised:
        serve._run(given[0], serve._prepare(*given), RunOptions(), service, server, claimable=None)
    assert isinstance(raised.value, Begun if setting == "true" else InsecureCluster)
    if setting != "true":
        assert exit_code_of(raised.value) == ExitCode.PROJECT
        assert "with Spark's master spark://192.0.2.7:7077" in str(raised.value)


def test_a_signal_waits_for_no_lock_of_the_thread_that_it_interrupts() -> None:
    """The loop may be in the middle of its requests, and would wait for itself."""
    requests = Requests()
    signals = serve._Signals(requests)
    signals.stops_at_checkpoint = True
    with _former_handlers():
        signals.install()
        told = threading.Thread(target=signals._received, args=(signal.SIGTERM, None))
        with requests._lock:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(signal, "signal", lambda number, handler: None)  # only the main thread may
                told.start()
                told.join(30)
            assert not told.is_alive(), "it waits for the lock"
        deadline = time.monotonic() + 30
        while (taken := requests.take()) == [] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert taken == ["stop"]


@pytest.mark.parametrize("is_ignored", [False, True])
def test_the_end_of_the_terminal_stops_a_run_unless_it_is_to_outlive_it(is_ignored: bool) -> None:
    """The system and the shell both send SIGHUP, and `nohup` has it ignored."""
    requests = Requests()
    signals = serve._Signals(requests)
    signals.stops_at_checkpoint = True
    with _former_handlers():
        signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
        signals.install()
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        is_stopped = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert is_stopped is not is_ignored


@contextmanager
def _former_handlers() -> Iterator[None]:
    """Restores what the signals do."""
    former = {number: signal.getsignal(number) for number in serve._STOPPING}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
