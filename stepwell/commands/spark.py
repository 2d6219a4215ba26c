"""The Spark session of one command. It prints nothing, gets no signals from the terminal, and ends with the command.

The JVM writes to a log file and never to the terminal, because it warns of its own modules at every start. What users need is in Stepwell's
messages. The JVM runs in a separate process group, so Ctrl-C or a signal to the command's group reaches only the command itself. The JVM
and its Python workers can then finish the step. They end when the command ends, in whatever way, because the JVM reads a pipe that only
this process holds.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from py4j.protocol import Py4JError
from pyspark import SparkContext, accumulators
from pyspark.core import context as spark_context
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from base.fault import ExitCode
from stepwell.errors import StepwellError
from stepwell.project.loading import Project
from stepwell.spark.session import connection_lost, make_session

SPARK_LOG = "spark.log"
TAIL_LINES = 8
"""The lines of Spark's log in a message. They are enough to show the cause, without a screen of stack trace."""


DEATH_SECONDS_MAX = 10.0
"""The time from the loss of its connections to the end of the JVM, which closes them first and then frees gigabytes. If it takes longer,
the JVM is alive and something else is wrong."""


class SparkUnavailable(StepwellError):
    """The JVM did not start, or has ended."""

    exit_code = ExitCode.MACHINE


@contextlib.contextmanager
def spark_session(project: Project, log: Path | None = None) -> Iterator[SparkSession]:
    """The project's session while the body runs. `log` is the file for Spark's output; None discards it.
    Raises SparkUnavailable."""
    with _open_log(log) as file:
        try:
            with _output_to(file):
                session = make_session(project.name, project.settings.spark)
        except PySparkRuntimeError as error:
            raise _unavailable("Spark does not start", file) from error
        except Exception as error:
            if connection_lost(error) or jvm_is_gone():
                raise _unavailable(
                    "Spark's JVM has ended while it started; nothing is lost, run again", file
                ) from error
            raise
        try:
            yield session
        except Exception as error:
            if jvm_is_gone(DEATH_SECONDS_MAX if connection_lost(error) else 0.0):
                raise _unavailable("Spark's JVM has ended; nothing is lost, run again", file) from error
            raise
        finally:
            with contextlib.suppress(Py4JError, OSError):  # a JVM that has ended needs no stop
                session.stop()


def _say_nothing(*_: object) -> None:
    """Ignores an error of PySpark's accumulator server, whose connection breaks when the JVM dies. `spark_session` reports the death."""


class _SaidByUs(logging.Filter):
    """Drops what Py4J logs to the root logger: each command that the JVM did not answer, with a stack trace."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts


logging.getLogger().addFilter(_SaidByUs())

for _server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
    _server.handle_error = _say_nothing


def jvm_is_gone(seconds_max: float = 0.0) -> bool:
    """Whether the JVM's process has ended, or ends within `seconds_max`."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds_max)
    return process.poll() is not None


@contextlib.contextmanager
def _open_log(path: Path | None) -> Iterator[IO[bytes]]:
    if path is None:
        with tempfile.TemporaryFile() as nameless:
            yield nameless
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w+b") as file:
        yield file


@contextlib.contextmanager
def _output_to(file: IO[bytes]) -> Iterator[None]:
    """Sends the JVM's output to `file` while the body runs. PySpark's launcher has arguments for this, but its session does not pass them on."""
    launch = spark_context.launch_gateway

    def launch_apart(conf: Any = None, popen_kwargs: Any = None) -> Any:
        apart = {"stdout": file, "stderr": file, "start_new_session": True}
        return launch(conf, {**apart, **(popen_kwargs or {})})

    spark_context.launch_gateway = launch_apart
    try:
        yield
    finally:
        spark_context.launch_gateway = launch


def _unavailable(message: str, file: IO[bytes]) -> SparkUnavailable:
    file.seek(0)
    said = [line for line in file.read().decode(errors="replace").splitlines() if not line.startswith("\t")]
    tail = "".join(f"\n    {line}" for line in said[-TAIL_LINES:])
    return SparkUnavailable(
        f"{message}. It said:{tail}" if tail else message, "`stepwell doctor` checks Java and Spark."
    )
