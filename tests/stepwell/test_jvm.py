"""How a command tells that Spark's JVM has ended."""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

from base.fault import ExitCode
from stepwell.commands import spark
from stepwell.commands.spark import SparkUnavailable, spark_session
from stepwell.project.stepwell_settings import StepwellSettings
from stepwell.spark.session import connection_lost
from tests.conftest import Broker
from tests.stepwell.command_line import COMMAND_SECONDS_MAX, ROOMS
from tests.stepwell.folder import write


@pytest.fixture
def jvm(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process in its place, which ends with its input."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        for name in ("make_context", "session_of"):
            monkeypatch.setattr(spark, name, lambda *_: SimpleNamespace(stop=lambda: None))
        yield process


class Dying:
    """Its connections are gone and it is still there, until somebody waits for it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.poll = process.poll

    def wait(self, seconds: float) -> None:
        if seconds:
            self._process.communicate()


PROJECT = SimpleNamespace(
    name="p", settings=SimpleNamespace(spark={}, secret_variables=frozenset(), stepwell=StepwellSettings())
)


@pytest.mark.parametrize("lost", [ConnectionRefusedError, Py4JNetworkError])
def test_a_jvm_that_takes_its_time_to_die_is_said_to_have_ended(
    jvm: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lost: type[Exception]
) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=Dying(jvm)))
    with pytest.raises(SparkUnavailable, match="JVM has ended"), spark_session(PROJECT, tmp_path / "log"):  # type: ignore[arg-type]
        try:
            raise lost
        except lost as fault:
            raise ValueError("a consequence") from fault


def test_an_error_that_has_nothing_to_do_with_it_is_not_kept_waiting(jvm: subprocess.Popen[bytes]) -> None:
    with pytest.raises(ValueError, match="another"), spark_session(PROJECT):  # type: ignore[arg-type]
        raise ValueError("another")
    assert jvm.poll() is None


def test_a_jvm_that_is_asleep_is_killed_at_the_end(
    jvm: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers nobody, so a command that waited for Spark's stop would not end."""
    monkeypatch.setattr(spark, "STOP_SECONDS_MAX", 0.2)
    monkeypatch.setattr(spark, "session_of", lambda _: SimpleNamespace(stop=jvm.wait))
    jvm.send_signal(signal.SIGSTOP)
    try:
        with spark_session(PROJECT):  # type: ignore[arg-type]
            assert jvm.poll() is None
        assert jvm.poll() == -signal.SIGKILL
    finally:
        jvm.kill()


def test_causes_that_go_in_a_circle_come_to_an_end(jvm: subprocess.Popen[bytes]) -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    with pytest.raises(ValueError, match="first"), spark_session(PROJECT):  # type: ignore[arg-type]
        raise first


def test_py4j_says_nothing_of_its_own(jvm: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture) -> None:
    """What it logs, it logs to the root."""
    with caplog.at_level("DEBUG"):
        for folder in ("py4j", "stepwell"):
            record = logging.LogRecord("root", logging.ERROR, f"/lib/{folder}/client.py", 1, folder, (), None)
            logging.getLogger().handle(record)
    assert [record.getMessage() for record in caplog.records] == ["stepwell"]


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (ConnectionResetError(), True),
        (EOFError(), True),
        (Py4JNetworkError("Answer from Java side is empty"), True),
        (Py4JError("An error occurred while calling o7.toJSON"), True),
        (Py4JError("An error occurred while calling o7.nothing. Trace:\npy4j.Py4JException: no such method"), False),
        (ValueError("an error occurred while calling"), False),
    ],
)
def test_what_says_that_the_jvm_did_not_answer(error: Exception, lost: bool) -> None:
    consequence = KeyError("x")
    consequence.__context__ = error
    assert connection_lost(error) == connection_lost(consequence) == lost


PROJECT_FILE = """
CREATE STREAMING TABLE t (a BIGINT, s STRING) USING kafka TBLPROPERTIES ('subscribe' = '{prefix}t');
CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a;
"""


@pytest.mark.parametrize(
    ("moment", "command"),
    [
        ("launched", "run --available-now"),
        pytest.param("connected", "dry-run", marks=pytest.mark.soak),
        ("context", "dry-run"),
        pytest.param("context", "doctor", marks=pytest.mark.soak),
        pytest.param("definitions", "dry-run", marks=pytest.mark.soak),
        pytest.param("analysed", "query 'SELECT * FROM v'", marks=pytest.mark.soak),
        pytest.param("analysed", "run --available-now", marks=pytest.mark.soak),
        pytest.param("leaves", "dry-run", marks=pytest.mark.soak),
    ],
)
def test_a_jvm_that_is_killed_early_ends_the_command_with_a_text(
    tmp_path: Path, broker: Broker, topic_prefix: str, moment: str, command: str
) -> None:
    spec = write(tmp_path, {"v.sql": PROJECT_FILE.format(prefix=topic_prefix)})
    ended = subprocess.run(
        [sys.executable, "-m", "tests.stepwell.jvm_killer", moment, *shlex.split(command), "--spec", str(spec), "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOMS), "STEPWELL_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers},
        capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, check=False,
    )  # fmt: skip
    assert ended.returncode == ExitCode.MACHINE, ended
    assert "Traceback" not in ended.stderr and "nanobind" not in ended.stderr, ended.stderr
    answer = json.loads(ended.stdout)
    texts = [answer["error"]] if "error" in answer else [f"{c['found']} {c['what_to_do']}" for c in answer["checks"]]
    assert any(
        "Spark" in text and ("has ended" in text or "does not start" in text) and "doctor" in text for text in texts
    ), texts
