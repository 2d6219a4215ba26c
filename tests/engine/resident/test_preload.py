"""Spark's Python daemon: where it imports from, and how a process that was started earlier takes its place."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from engine.resident.daemon import without_zipped_copies
from engine.resident.preload import AT_IMPORT, PLACE_VARIABLE, Preloaded

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_SECONDS = 60.0


def installed(folder: Path, *, zipped: Path) -> tuple[str, str]:
    """(the folder with PySpark in it, the zipped copy that Spark names)"""
    (folder / "pyspark").mkdir(parents=True)
    (folder / "pyspark" / "__init__.py").touch()
    return str(folder), str(zipped / "pyspark" / "python" / "lib" / "pyspark.zip")


def test_an_archive_of_the_installed_spark_is_left_out(tmp_path: Path) -> None:
    site, archive = installed(tmp_path / "site", zipped=tmp_path / "site")
    assert without_zipped_copies([archive, "own.zip", site]) == ["own.zip", site]
    py4j = archive.replace("pyspark.zip", "py4j-0.10.9.9-src.zip")
    assert without_zipped_copies([py4j, site]) == [py4j, site], "py4j is not installed there"
    (tmp_path / "site" / "py4j").mkdir()
    (tmp_path / "site" / "py4j" / "__init__.py").touch()
    assert without_zipped_copies([py4j, site]) == [site]


def test_an_archive_of_another_spark_stays(tmp_path: Path) -> None:
    """It may be of another version than the installed one."""
    site, archive = installed(tmp_path / "site", zipped=tmp_path / "opt")
    assert without_zipped_copies([archive, site]) == [archive, site]
    site, archive = installed(tmp_path / "other", zipped=tmp_path / "other")
    assert without_zipped_copies([archive]) == [archive], "nothing else has it"


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder with a short path, because the path of a Unix socket has about a hundred characters at most."""
    with tempfile.TemporaryDirectory(prefix="sockets-") as folder:
        yield Path(folder)


@pytest.fixture
def preloaded() -> Iterator[Preloaded]:
    started = Preloaded({**os.environ, "PYTHONPATH": str(ROOT)})
    yield started
    started.close()
    started.process.wait(DEADLINE_SECONDS)


class Daemon:
    """Spark's daemon, started as Spark starts it."""

    def __init__(self, place: Path, sockets: Path, **environment: str) -> None:
        own = {
            PLACE_VARIABLE: str(place),
            "PYTHONPATH": str(ROOT),
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": str(sockets),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engine.resident.daemon", "pyspark.worker"],
            env={**os.environ, **AT_IMPORT, **own, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        out = self.process.stdout
        assert out is not None
        self.socket = out.read(*struct.unpack("!i", out.read(4))).decode()

    def fork(self) -> tuple[socket.socket, int]:
        """(a connection to a new worker, its process)"""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(DEADLINE_SECONDS)
        connection.connect(self.socket)
        return connection, *struct.unpack("!i", connection.recv(4))  # type: ignore[return-value]

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    def end(self) -> None:
        """As Spark ends it."""
        self.stdin.close()
        self.process.wait(DEADLINE_SECONDS)


def ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(DEADLINE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return False
    return True


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.long
def test_a_driver_that_is_killed_leaves_no_folder_behind(preloaded: Preloaded) -> None:
    assert preloaded.folder.exists() and preloaded.process.stdin is not None
    preloaded.process.stdin.close()
    assert ended(preloaded.process)
    assert not preloaded.folder.exists()


@pytest.mark.long
def test_a_preloaded_process_becomes_the_daemon(preloaded: Preloaded, sockets: Path) -> None:
    daemon = Daemon(preloaded.folder, sockets, MINE="7")
    connection, worker = daemon.fork()
    with connection:
        assert parent_of(worker) == preloaded.process.pid
        assert b"MINE=7" not in Path(f"/proc/{preloaded.process.pid}/environ").read_bytes()
    assert not preloaded.folder.exists(), "a driver that is killed now would leave it behind"
    preloaded.close()
    connection, worker = daemon.fork()
    with connection:
        assert parent_of(worker) == preloaded.process.pid, "the daemon has ended with the driver's interest in it"
    daemon.end()
    assert ended(preloaded.process)


def test_the_daemon_ends_with_the_process_in_its_place(preloaded: Preloaded, sockets: Path) -> None:
    """Else Spark would wait for ever for workers of a daemon that is gone. A worker that lives on does not change this."""
    daemon = Daemon(preloaded.folder, sockets)
    connection, _ = daemon.fork()
    with connection:
        preloaded.process.kill()
        assert ended(daemon.process)


@pytest.mark.parametrize("name", [pytest.param("PYTHONHASHSEED", marks=pytest.mark.soak), "OMP_NUM_THREADS"])
def test_a_daemon_with_another_environment_does_the_work_itself(preloaded: Preloaded, sockets: Path, name: str) -> None:
    daemon = Daemon(preloaded.folder, sockets, **{name: "7"})
    connection, worker = daemon.fork()
    with connection:
        assert parent_of(worker) == daemon.process.pid
    daemon.end()
    fits = Daemon(preloaded.folder, sockets)
    connection, worker = fits.fork()
    with connection:
        assert parent_of(worker) == preloaded.process.pid
    fits.end()


@pytest.mark.long
def test_a_daemon_that_finds_nobody_does_the_work_itself(sockets: Path) -> None:
    daemon = Daemon(sockets, sockets)
    connection, worker = daemon.fork()
    with connection:
        assert parent_of(worker) == daemon.process.pid
    daemon.end()


@pytest.mark.long
def test_a_preloaded_process_that_nobody_needs_ends(preloaded: Preloaded) -> None:
    preloaded.close()
    assert ended(preloaded.process)
    assert not preloaded.folder.exists()
