"""A service with processes of its own and a checkpoint store in a bucket: it is killed, its disk goes, and the store refuses and breaks off.

The store is a real S3 server behind a proxy that breaks on command (tests/storage/remote). Whatever is killed, the next service makes its
state of what the store has.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from base.fault import ExitCode
from faults.points import ONCE_VARIABLE, STORE, VARIABLE, Point
from storage.database import Database
from storage.remote import retrying_store
from storage.remote.errors import BadStoreUri, StoreUnreachable
from tests.end_to_end import sums
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, service, wait_until
from tests.end_to_end.test_kill import kill_at
from tests.storage.remote.conftest import proxy, s3, s3_server  # noqa: F401  fixtures
from tests.storage.remote.faulty_proxy import FaultyProxy, Rule

AVAILABLE_NOW = "--available-now"


class Bucket(NamedTuple):
    uri: str
    proxy: FaultyProxy


@pytest.fixture
def bucket(s3: str, proxy: FaultyProxy) -> Bucket:  # noqa: F811
    """A store of its own, and the proxy between it and all processes of this test."""
    return Bucket(s3, proxy)


def resolve(play: Playground, store: str, **conf: Any) -> Resolved:
    settings = {
        "stepwell.store": store,
        "stepwell.workers": 2,
        "stepwell.step.rows.max": 10,
        "stepwell.checkpoint.interval": "300ms",
    }
    return play.resolve(
        sums.files(), {**settings, **{"stepwell." + name.replace("_", "."): each for name, each in conf.items()}}
    )


def send(play: Playground, number: int, rows: int = 150) -> None:
    for partition in (0, 1):
        play.send("in", sums.rows(1000 * number + partition, rows), partition)


def lose_disk(play: Playground) -> None:
    """A process of a former service may still write for a moment; what it makes meanwhile stays, as on a disk that fails by and by."""
    Database.close_all()
    shutil.rmtree(play.folder / "state", ignore_errors=True)


def stored_step(play: Playground, resolved: Resolved) -> int:
    stored = play.log(resolved).stored
    assert stored is not None
    return stored.version.step


def ends(play: Playground, resolved: Resolved, log: Path, *arguments: str, **variables: str) -> int:
    """Runs the service over what is there. Returns its exit code."""
    with service(resolved, log, AVAILABLE_NOW, *arguments, **variables) as process:
        return process.wait(WAIT_SECONDS_MAX)


@pytest.mark.long
def test_a_service_that_is_killed_with_its_disk_goes_on_from_the_bucket(
    play: Playground,
    bucket: Bucket,
    tmp_path: Path,
) -> None:
    play.topic("in", 2)
    resolved, log = resolve(play, bucket.uri), tmp_path / "service.log"
    send(play, 0)
    bucket.proxy.break_when(Rule("^PUT", "status", 503, times=4))  # the client tries three times by itself
    with service(resolved, log) as process:
        kill_at(play, resolved, process, "checkpoint_stored", 1)
    send(play, 1)
    stored = stored_step(play, resolved)
    lose_disk(play)
    bucket.proxy.break_when(Rule("^GET .*/packs/", "cut answer", 100, times=4))
    assert ends(play, resolved, log) == 0, log.read_text()[-3000:]
    assert stored_step(play, resolved) == play.log(resolved).steps > stored
    play.check(resolved)
    play.check_steps(resolved)


@pytest.mark.soak
def test_an_empty_disk_and_a_store_that_refuses_end_with_what_to_do(
    play: Playground,
    bucket: Bucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the disk, the run goes on, and tells of the store."""
    play.topic("in", 2)
    resolved, log = resolve(play, bucket.uri), tmp_path / "service.log"
    send(play, 0, 20)
    play.run(resolved)
    steps = play.log(resolved).steps
    send(play, 1, 20)
    with play.running(resolved) as run:  # the disk is there, and the store is away
        rule = bucket.proxy.break_when(Rule(".", "status", 503))
        run.wait_until(lambda shown: shown["rows"] == 40 and bool((shown["store"] or {}).get("fault")))
        assert bucket.uri in run.board.show()["store"]["fault"] and rule.hits
        assert run.board.show()["phase"] == "run"
        bucket.proxy.heal()
    assert stored_step(play, resolved) == play.log(resolved).steps > steps
    lose_disk(play)
    assert ends(play, resolved, log, "--take-over", AWS_SECRET_ACCESS_KEY="another") == ExitCode.STATE
    said = log.read_text()
    assert "Traceback" not in said, said
    assert f"The checkpoint store {bucket.uri} refuses to read" in said and "credentials" in said, said
    bucket.proxy.break_when(Rule(".", "status", 503))
    monkeypatch.setattr(retrying_store, "STORE_SECONDS_MAX", 1.0)
    with pytest.raises(StoreUnreachable, match=bucket.uri):
        play.run(resolved)
    bucket.proxy.heal()
    elsewhere = resolve(play, bucket.uri.replace("bucket/", "no-bucket/"))
    with pytest.raises(BadStoreUri, match="its bucket does not exist"):
        play.run(elsewhere)
    play.run(resolved)
    play.check(resolved)
    play.check_steps(resolved)


# The soak


class Weather:
    """Breaks the store for moments, by a seed, while the block runs."""

    def __init__(self, between: FaultyProxy, seed: int) -> None:
        self._proxy, self._random = between, random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._proxy.heal()

    def _run(self) -> None:
        r = self._random
        while not self._over.wait(r.uniform(0.2, 2.0)):
            rule = r.choice(
                [
                    Rule("^(PUT|POST)", "status", 503, times=r.randint(1, 8)),
                    Rule("^GET", "status", 500, times=r.randint(1, 8)),
                    Rule("^PUT", "cut request", r.randint(1, 500), times=r.randint(1, 3)),
                    Rule("^GET", "cut answer", r.randint(1, 500), times=r.randint(1, 3)),
                    Rule(".", "delay", r.randint(1, 500), times=r.randint(1, 20)),
                    Rule(".", "status", 503, times=r.randint(1, 40)),
                ]
            )
            self._proxy.break_when(rule)
            self._over.wait(r.uniform(0.1, 2.0))
            self._proxy.heal()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_with_and_without_the_disk(
    play: Playground,
    bucket: Bucket,
    tmp_path: Path,
    seed: int,
) -> None:
    r = random.Random(seed)
    play.topic("in", 2)
    resolved, log = resolve(play, bucket.uri), tmp_path / "service.log"
    for number in range(5):
        send(play, number)
        with Weather(bucket.proxy, 100 * seed + number), service(resolved, log) as process:
            kind = r.choice(["step", "division", "checkpoint_intent", "checkpoint_complete", "checkpoint_stored"])
            kill_at(play, resolved, process, kind, r.randint(1, 6) if kind in ("step", "division") else 1)
        if r.random() < 0.7 and play.log(resolved).stored is not None:
            lose_disk(play)
    assert ends(play, resolved, log) == 0, log.read_text()[-3000:]
    assert stored_step(play, resolved) == play.log(resolved).steps
    play.check(resolved)
    play.check_steps(resolved)


POINTS: tuple[Point, ...] = tuple(point for point in STORE if point != "backup.named")
IN_WORKERS: tuple[Point, ...] = ("spool.half", "pack.half", "pack.uploaded", "restore.half", "restore.done")


@pytest.mark.soak
@pytest.mark.parametrize("action", ["kill", "stop"])
@pytest.mark.parametrize("point", POINTS)
def test_a_process_is_killed_or_stopped_while_it_stores_or_restores(
    play: Playground,
    bucket: Bucket,
    tmp_path: Path,
    point: Point,
    action: str,
) -> None:
    """A worker is replaced by its own service. The service itself is taken over by another one, and goes on as a zombie if it was only
    stopped. Meanwhile the store has its bad moments, and the disks are lost before and after."""
    play.topic("in", 2)
    resolved, log, once = resolve(play, bucket.uri), tmp_path / "service.log", tmp_path / "once"
    once.mkdir()
    for number in range(2):  # what is there is to be collected, and spooled
        send(play, number, 30)
        play.run(resolved)
    lose_disk(play)
    send(play, 2)
    orders = {VARIABLE: f"{point}={action}", ONCE_VARIABLE: str(once)}
    with Weather(bucket.proxy, POINTS.index(point)), service(resolved, log, "--take-over", **orders) as process:
        wait_until(lambda: any(once.iterdir()))
        if point in IN_WORKERS:
            send(play, 3)
            wait_until(lambda: process.poll() is not None or has_read_all(play, resolved, 2 * (30 + 30 + 150 + 150)))
            assert process.poll() is None, log.read_text()[-3000:]
        elif action == "kill":
            assert process.wait(WAIT_SECONDS_MAX) == -signal.SIGKILL
        else:
            lose_disk(play)
            with resumed(process):
                assert ends(play, resolved, log, "--take-over") == 0, log.read_text()[-3000:]
            assert process.wait(WAIT_SECONDS_MAX) == ExitCode.HELD, log.read_text()[-3000:]
        if process.poll() is None:
            process.kill()
    lose_disk(play)
    assert ends(play, resolved, log) == 0, log.read_text()[-3000:]
    play.check(resolved)
    play.check_steps(resolved)
    lose_disk(play)
    send(play, 4, 10)
    play.run(resolved)
    play.check(resolved)
    play.check_steps(resolved)


@contextmanager
def resumed(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """The process goes on after the block, as a zombie."""
    yield
    process.send_signal(signal.SIGCONT)


def has_read_all(play: Playground, resolved: Resolved, messages: int) -> bool:
    positions = play.log(resolved).next_offsets
    return sum(positions.values()) >= messages
