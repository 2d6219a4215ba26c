"""Connections between workers that are slow, lose everything, or break off in the middle of a message: the workers are real, the network is a
proxy in front of each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from engine.errors import TaskLost
from engine.resident import pulse
from engine.resident.crew import Crew
from engine.resident.messages import SocketAddress
from engine.resident.sockets import SocketTransport
from tests.engine.resident.local_cluster import (
    LOOPBACK,
    Log,
    ThreadLauncher,
    crew,
    impatient,
    messages_of,
    opened,
    setup_of,
    step_of,
)
from tests.engine.resident.proxy import Proxy
from tests.sampling import sampled

PARTITIONS = 2
WORKERS = 2
ROWS = 4_000
"""More bytes of rows than the introduction of two peers has."""


class BehindProxies(ThreadLauncher):
    """Each worker tells its peers the address of a proxy. The connection to the coordinator is direct."""

    def __init__(self, log: Log) -> None:
        super().__init__(lambda: log)
        self.proxies: list[Proxy] = []

    def transport(self) -> SocketTransport:
        return _Proxied(self.proxies)


class _Proxied(SocketTransport):
    def __init__(self, proxies: list[Proxy]) -> None:
        super().__init__(LOOPBACK)
        self._proxy = Proxy(super().address)
        proxies.append(self._proxy)

    @property
    def address(self) -> SocketAddress:
        return SocketAddress(LOOPBACK, self._proxy.port)


@pytest.fixture(autouse=True)
def signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "BEAT_SECONDS", 0.05)


def filled() -> Log:
    """Both workers have rows for each other."""
    log = Log(PARTITIONS)
    for partition in range(PARTITIONS):
        log.add(partition, *(json.dumps({"id": i, "word": f"w{i % 500}"}).encode() for i in range(ROWS)))
    return log


STEP = step_of(0, {0: (0, ROWS), 1: (0, ROWS)})


@contextmanager
def behind_proxies(folder: Path, attempt: int = 0) -> Iterator[tuple[Crew, BehindProxies]]:
    launcher = BehindProxies(filled())
    with closing(crew(setup_of(folder, WORKERS), launcher, attempt)) as made:
        yield opened(made), launcher
        for proxy in launcher.proxies:
            proxy.cut()
    launcher.join()


def answer(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """Over a network without faults."""
    launcher = ThreadLauncher(filled)
    with closing(opened(crew(setup_of(folder, WORKERS), launcher))) as made:
        made.steps.give(STEP)
        found = messages_of(made.steps.collect(0))
    launcher.join()
    return found


def goes_on(folder: Path, expected: dict[str, list[tuple[object, ...]]]) -> None:
    """A new crew runs the step that was lost, on the databases of the one before."""
    with behind_proxies(folder, attempt=1) as (made, _):
        made.steps.give(STEP)
        assert messages_of(made.steps.collect(0)) == expected


@pytest.mark.long
def test_a_slow_connection_delays_the_step_and_changes_nothing(tmp_path: Path) -> None:
    with behind_proxies(tmp_path / "slow") as (made, launcher):
        assert len(launcher.proxies) == WORKERS
        impatient(made, silence_s=2.0, progress_s=30.0)
        for proxy in launcher.proxies:
            proxy.delay_s = 5.0
        made.steps.give(STEP)
        assert messages_of(made.steps.collect(0)) == answer(tmp_path / "plain")


@pytest.mark.long
def test_a_half_open_connection_is_given_up(tmp_path: Path) -> None:
    """Both ends live, say so to the coordinator, and wait for each other."""
    with behind_proxies(tmp_path / "lost") as (made, launcher):
        impatient(made, progress_s=1.0)
        for proxy in launcher.proxies:
            proxy.swallows = True
        made.steps.give(STEP)
        with pytest.raises(TaskLost, match="step 0: "):
            made.steps.collect(0)
    goes_on(tmp_path / "lost", answer(tmp_path / "plain"))


@pytest.mark.long
@pytest.mark.parametrize("passed", sampled([9, 0, 1_000], 3))
def test_a_connection_that_breaks_off_within_a_message_loses_the_step_and_nothing_else(
    tmp_path: Path, passed: int
) -> None:
    with behind_proxies(tmp_path / "lost") as (made, launcher):
        for proxy in launcher.proxies:
            proxy.limit = passed
        made.steps.give(STEP)
        with pytest.raises(TaskLost, match="the connection"):
            made.steps.collect(0)
    goes_on(tmp_path / "lost", answer(tmp_path / "plain"))
