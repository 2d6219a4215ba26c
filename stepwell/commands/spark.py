"""The Spark session of one command. It prints nothing, gets no signals from the terminal, and ends with the command.

The JVM writes to a log file and never to the terminal, because it warns of its own modules at every start. What users need is in Stepwell's
messages. The JVM runs in a separate process group, so Ctrl-C or a signal to the command's group reaches only the command itself. The JVM
and its Python workers can then finish the step. They end when the command ends, in whatever way, because the JVM reads a pipe that only
this process holds.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import IO, TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext, accumulators
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from base.fault import ExitCode
from base.secrets import mask_value
from engine.resident.preload import DAEMON_MODULE, PLACE_VARIABLE, Preloaded
from stepwell.commands.common import warn
from stepwell.errors import StepwellError
from stepwell.project.loading import Project
from stepwell.spark.class_archive import make_if_missing
from stepwell.spark.launch import is_for_java, launched_with, without_secrets
from stepwell.spark.session import (
    DAEMON_KEY,
    PYTHON_PATH_KEY,
    configuration,
    connection_lost,
    make_context,
    session_of,
)

T = TypeVar("T")

TAIL_LINES = 8
"""The lines of Spark's log in a message. They are enough to show the cause, without a screen of stack trace."""


DEATH_SECONDS_MAX = 10.0
"""The time from the loss of its connections to the end of the JVM, which closes them first and then frees gigabytes. If it takes longer,
the JVM is alive and something else is wrong."""


STOP_SECONDS_MAX = 30.0
"""The time for Spark to stop, which takes a second in local mode. It also ends its executors on a cluster."""


NAME_UNKNOWN = (
    "This machine's own name has no address. Add it to /etc/hosts, or set the variable SPARK_LOCAL_HOSTNAME, to localhost if all workers run "
    "on this machine."
)


class SparkUnavailable(StepwellError):
    """The JVM did not start, or has ended."""

    exit_code = ExitCode.MACHINE


class StartingSpark:
    """The Spark of one command. It starts in a thread of its own, as soon as this object is made, and the command goes on meanwhile.

    The SparkContext is enough to run tasks. The session, which plans queries, takes as long again, so it is made when it is needed first."""

    def __init__(self, project: Project, log: Path | None, *, with_workers: bool) -> None:
        """`log` is the file for Spark's output; None discards it. It replaces the one of the run before when the context is asked for, for
        until then another run may be alive. `with_workers`: Python tasks are going to run, so what they need is loaded meanwhile."""
        self._log = log
        log_format = project.settings.stepwell.log_format
        self._configuration = configuration(project.name, project.settings.spark, log_format=log_format)
        for key, value in project.settings.spark.items():
            if is_for_java(key) and mask_value(key, value) != value:
                warn(
                    f"{key} has a secret, and stands on the command line of a JVM, which every user of the machine can read (`ps`). Put the "
                    "option into the variable JDK_JAVA_OPTIONS, or name a file."
                )
        self._hidden_variables = project.settings.secret_variables
        self._draft = None if log is None else log.with_name(f".{log.name}.{os.getpid()}")
        self._file = _open_output(self._draft)
        self._preloaded: Preloaded | None = None
        if with_workers and not project.on_cluster and self._configuration.get(DAEMON_KEY) == DAEMON_MODULE:
            inherited = without_secrets(os.environ, self._hidden_variables)
            self._preloaded = Preloaded({**inherited, "PYTHONPATH": self._configuration[PYTHON_PATH_KEY]})
            os.environ[PLACE_VARIABLE] = str(self._preloaded.folder)
        self._context: Future[SparkContext] = Future()
        self._session: SparkSession | None = None
        self._is_stopped = False
        threading.Thread(target=self._start, name="start of Spark", daemon=True).start()

    @property
    def context(self) -> SparkContext:
        """Waits until Spark has started. Raises SparkUnavailable."""
        return self._up(self._context.result)

    @property
    def session(self) -> SparkSession:
        """Raises SparkUnavailable."""
        context = self.context
        self._session = self._session or self._up(lambda: session_of(context))
        return self._session

    def stop(self) -> None:
        """Does not wait for a start that nobody has waited for: the JVM ends with this process, or with the start."""
        self._is_stopped = True
        if self._has_started:
            _stop(self._session or self._context.result())
        self.leave()

    def leave(self) -> None:
        """Lets go of a Spark that ends with this process, which is about to end: its JVM does all that a stop does, and nobody waits."""
        if self._has_started:
            make_if_missing()
        if self._preloaded is not None:
            self._preloaded.close()
        if self._draft is not None:
            self._draft.unlink(missing_ok=True)
        self._file.close()

    @property
    def _has_started(self) -> bool:
        return self._context.done() and self._context.exception() is None

    def unavailable(self, message: str) -> SparkUnavailable:
        """The fault with the end of Spark's output."""
        self._file.seek(0)
        said = [line for line in self._file.read().decode(errors="replace").splitlines() if not line.startswith("\t")]
        tail = "".join(f"\n    {line}" for line in said[-TAIL_LINES:])
        what_to_do = NAME_UNKNOWN if "UnknownHostException" in tail else "`stepwell doctor` checks Java and Spark."
        return SparkUnavailable(f"{message}. It said:{tail}" if tail else message, what_to_do)

    def _start(self) -> None:
        try:
            with launched_with(self._file, self._hidden_variables):
                context = make_context(self._configuration)
        except Exception as error:
            self._context.set_exception(error)
            return
        self._context.set_result(context)
        if self._is_stopped:
            _stop(context)

    def _up(self, wait: Callable[[], T]) -> T:
        try:
            found = wait()
        except PySparkRuntimeError as error:
            raise self.unavailable("Spark does not start") from error
        except Exception as error:
            if connection_lost(error) or jvm_is_gone():
                raise self.unavailable("Spark's JVM has ended while it started; nothing is lost, run again") from error
            raise
        finally:
            if self._draft is not None and self._draft.exists():
                assert self._log is not None
                self._draft.rename(self._log)
        return found


@contextlib.contextmanager
def start_spark(
    project: Project, log: Path | None = None, *, with_workers: bool = False, ends_with_process: bool = False
) -> Iterator[StartingSpark]:
    """The project's Spark while the body runs: see StartingSpark. `ends_with_process`: see StartingSpark.leave. Raises SparkUnavailable if
    the JVM ends meanwhile."""
    spark = StartingSpark(project, log, with_workers=with_workers)
    try:
        yield spark
    except Exception as error:
        if jvm_is_gone(DEATH_SECONDS_MAX if connection_lost(error) else 0.0):
            raise spark.unavailable("Spark's JVM has ended; nothing is lost, run again") from error
        raise
    finally:
        if ends_with_process:
            spark.leave()
        else:
            spark.stop()


@contextlib.contextmanager
def spark_session(project: Project, log: Path | None = None) -> Iterator[SparkSession]:
    """The project's session while the body runs. `log` is the file for Spark's output; None discards it.
    Raises SparkUnavailable."""
    with start_spark(project, log) as spark:
        yield spark.session


def _stop(spark: SparkContext | SparkSession) -> None:
    """Stops Spark. A JVM that does not stop in time is killed: one that is asleep never would, and the command would not end."""

    def stop() -> None:
        with contextlib.suppress(Py4JError, OSError):  # a JVM that has ended needs no stop
            spark.stop()

    stopping = threading.Thread(target=stop, name="stop of Spark", daemon=True)
    stopping.start()
    stopping.join(STOP_SECONDS_MAX)
    process = getattr(SparkContext._gateway, "proc", None)
    if stopping.is_alive() and process is not None:
        process.kill()
        stopping.join(DEATH_SECONDS_MAX)


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


def _open_output(path: Path | None) -> IO[bytes]:
    if path is None:
        return tempfile.TemporaryFile()
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("w+b")
