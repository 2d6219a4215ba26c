"""A process that imports what workers need while Spark's JVM is starting, and then becomes Spark's Python daemon.

    driver:   start            -> [import the modules] ->                      -> become the daemon
    Spark:                        start its daemon     -> hand over the streams -> wait for the end

Spark starts its daemon when it has the first task. The imports take longer than a second, which the first step would wait for. Spark's
daemon hands its standard streams over a Unix socket and lives until the other process ends, so Spark sees one process that behaves like a
daemon. If there is nobody at the socket, or the environment differs in what counts at the time of an import, the daemon does the work itself.

In local mode alone, because on a cluster the executors' hosts have no process of the driver.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

DAEMON_MODULE = f"{__package__}.daemon"
"""The daemon's module, with the name that the room has where it is installed (setup.py)."""

PLACE_VARIABLE = "STEPWELL_PRELOADED"
"""The folder with the socket. Spark's JVM inherits the driver's environment, and its daemon that of the JVM."""

PRELOAD = "--preload"
"""The argument of the daemon's module that makes it wait for the streams of the daemon that Spark starts."""

SOCKET_NAME = "daemon"

AT_IMPORT = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
"""The variables that modules read when they are imported, and the values that Spark gives them unless the user does."""

STREAMS = (0, 1, 2)

ACCEPTED = b"y"

CODE = [sys.executable, str(Path(__file__).resolve())]
"""The interpreter and the packages. A project may name others for Spark's daemon."""


class Preloaded:
    """The driver's side. The process ends when nobody needs it: with `close`, or with the driver, whose pipe it reads."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment`: of the process, beside what AT_IMPORT adds."""
        self.folder = Path(tempfile.mkdtemp(prefix="stepwell-"))  # for this user alone
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.folder / SOCKET_NAME))
        listener.listen(1)
        self.process = subprocess.Popen(
            [sys.executable, "-m", DAEMON_MODULE, PRELOAD, str(listener.fileno())],
            env={**AT_IMPORT, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(listener.fileno(),),
            process_group=0,  # Ctrl-C is for the driver
        )
        listener.close()

    def close(self) -> None:
        """Ends the process unless it has become the daemon, whose life is Spark's affair."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_for_streams(listener: socket.socket) -> socket.socket | None:
    """The preloaded process waits until Spark's daemon hands over its streams, and takes its place. Returns the connection, whose end tells
    the other side that this process has ended; None if the driver does not need this process any more. Then the folder of the socket is removed,
    because a driver that was killed could not do it."""
    socket_file = Path(listener.getsockname())
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if listener not in ready:
            _remove(socket_file)
            return None
        connection, _ = listener.accept()
        _, streams, _, _ = socket.recv_fds(connection, 1, len(STREAMS))
        with connection.makefile("rb") as message:
            wanted = json.loads(message.readline())
        if _fits(wanted):
            break
        connection.close()
    listener.close()
    _remove(socket_file)
    connection.sendall(ACCEPTED)
    for number, stream in zip(STREAMS, streams, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.register_at_fork(after_in_child=connection.close)  # else it would not end with this process
    sys.argv[1:] = wanted["arguments"]
    os.environ.clear()
    os.environ.update(wanted["environment"])
    os.chdir(wanted["folder"])
    return connection


def _remove(socket_file: Path) -> None:
    """Removes the socket and its folder, which has nothing else."""
    with suppress(OSError):  # the driver has done it
        socket_file.unlink()
        socket_file.parent.rmdir()


def _fits(wanted: Mapping[str, object]) -> bool:
    environment = wanted["environment"]
    assert isinstance(environment, dict)
    return wanted["code"] == CODE and all(environment.get(name) == os.environ.get(name) for name in AT_IMPORT)


def hand_over(folder: str, arguments: Sequence[str]) -> bool:
    """Spark's daemon gives its streams to the preloaded process. Waits until that process ends. Returns False if there is none that fits."""
    about = {
        "code": CODE,
        "arguments": list(arguments),
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
    }
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(Path(folder, SOCKET_NAME)))
            socket.send_fds(connection, [b"s"], STREAMS)
            connection.sendall(json.dumps(about).encode() + b"\n")
            if connection.recv(1) != ACCEPTED:
                return False
        except OSError:
            return False
        return connection.recv(1) == b""
