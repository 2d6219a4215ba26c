"""What commands write to standard error: one form for all lines, no secrets, and the levels that a setting names."""

from __future__ import annotations

import errno
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import typer

from base.fault import ExitCode
from base.secrets import MASK, remember
from io_kafka.outside import CLIENT_LOG
from stepwell.commands import common, log_lines
from stepwell.commands.common import note, project_of, report_faults, warn
from stepwell.commands.log_lines import SERVICE_LOG, keep_lines, keep_no_lines, use_format
from stepwell.commands.logs import configure_logs
from stepwell.errors import ProjectError
from tests.stepwell.folder import write

HUSH = "a-secret-of-the-log-lines"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    hooks, level = (sys.excepthook, threading.excepthook), logging.getLogger().level
    sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__  # as in a process of its own
    yield
    configure_logs()
    sys.excepthook, threading.excepthook = hooks
    logging.captureWarnings(False)
    logging.getLogger().setLevel(level)
    keep_no_lines()


def _everybody_logs() -> None:
    """Each source of lines, once."""
    log = structlog.get_logger("a")
    log.info("ours", step=7)
    log.warning("ours, worse", fault=f"it said {HUSH}")
    logging.getLogger("a.library").warning("theirs %s", HUSH)
    logging.getLogger("py4j.clientserver").info("chatter")
    CLIENT_LOG.error("a client of Kafka")
    warnings.warn("of Python", stacklevel=1)
    note(f"for people {HUSH}")
    warn("a warning for people")
    with pytest.raises(typer.Exit), report_faults():
        raise ProjectError(f"a fault {HUSH}", "Do something.")
    try:
        raise ValueError(f"a mistake\nof {HUSH}")
    except ValueError as error:
        log.error("with a trace", exc_info=True)
        sys.excepthook(ValueError, error, error.__traceback__)
    thread = threading.Thread(target=lambda: {}[HUSH], name="one that dies")
    thread.start()
    thread.join()


@pytest.mark.filterwarnings("default")
def test_all_lines_are_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    remember(HUSH)
    configure_logs("json", "info")
    keep_lines(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)  # inside, because the context has put back what shows warnings
        _everybody_logs()
    said = capsys.readouterr()
    assert not [line for line in said.err.splitlines() if not line.startswith('{"timestamp"')], "plain lines between"
    lines: list[dict[str, Any]] = [json.loads(line) for line in said.err.splitlines()]
    assert all(list(line)[:3] == ["timestamp", "level", "event"] for line in lines)
    events = [line["event"] for line in lines]
    for wanted in (
        "ours",
        "ours, worse",
        f"theirs {MASK}",
        f"for people {MASK}",
        "a warning for people",
        "with a trace",
    ):
        assert wanted in events, events
    assert any("of Python" in event for event in events) and any("thread one that dies" in event for event in events)
    assert f"a fault {MASK}\n  Do something." in events and f"ValueError: a mistake\nof {MASK}" in events
    assert "chatter" not in events and "a client of Kafka" not in events
    assert HUSH not in said.err + said.out and said.out == ""
    assert (tmp_path / SERVICE_LOG).read_text() == said.err, "the file has other lines"


def test_lines_for_people_have_no_secret_and_the_file_keeps_them_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    remember(HUSH)
    configure_logs("text", "warning")
    keep_lines(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _everybody_logs()
    said, kept = capsys.readouterr().err, (tmp_path / SERVICE_LOG).read_text()
    assert HUSH not in said + kept
    assert "ours step=7" not in said and f"warning  ours, worse fault='it said {MASK}'" in said
    for wanted in ("ours, worse", f"for people {MASK}", f"error: a fault {MASK}", f"ValueError: a mistake\nof {MASK}"):
        assert wanted in said and wanted in kept, wanted


def test_at_debug_the_clients_of_kafka_log_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "debug")
    CLIENT_LOG.error("a client of Kafka")
    structlog.get_logger("a").debug("a detail")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == [
        "a client of Kafka",
        "a detail",
    ]


def test_the_file_of_lines_is_bounded_and_a_lost_line_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_lines, "LOG_BYTES_MAX", 1000)
    keep_lines(tmp_path)
    for _ in range(100):
        log_lines.say("info", "x" * 100)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {SERVICE_LOG, f"{SERVICE_LOG}.1"} and max(sizes.values()) <= 1000
    file = log_lines._lines.file
    assert isinstance(file, logging.StreamHandler)
    file.stream.close()  # as if it could not be written
    log_lines.say("info", "still said")
    assert "still said" in capsys.readouterr().err.splitlines()[-1]


def test_a_secret_on_the_command_line_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write(tmp_path, {})
    assert (
        project_of(spec, ["kafka.sasl.password=hush-on-the-line", "stepwell.workers=2"]).settings.stepwell.workers == 2
    )
    said = capsys.readouterr().err.replace("\n", " ")
    assert "kafka.sasl.password is a secret" in said and "stepwell.workers" not in said and "hush-on" not in said
    (tmp_path / "password").write_text("hush of a file")
    project_of(spec, [f"kafka.sasl.password=${{file:{tmp_path}/password}}"])
    assert capsys.readouterr().err == ""
    with pytest.raises(typer.BadParameter) as raised:
        project_of(spec, ["kafka.sasl.password:hush"])
    assert "hush" not in str(raised.value)


def test_a_place_that_cannot_be_used_is_an_error_without_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as raised, report_faults():
        raise PermissionError(errno.EACCES, "Permission denied", "/a/place")
    assert raised.value.exit_code == ExitCode.MACHINE
    assert "error: /a/place: Permission denied\n  Correct its owner" in capsys.readouterr().err
    with pytest.raises(typer.Exit), report_faults():
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "error: a file that Stepwell writes: No space left on device" in capsys.readouterr().err
    for mistake in (FileNotFoundError(errno.ENOENT, "No such file", "/a/place"), OSError(errno.EACCES, "no place")):
        with pytest.raises(OSError), report_faults():
            raise mistake


def test_the_settings_of_the_project_decide_how_lines_look(tmp_path: Path) -> None:
    spec = write(tmp_path, {})
    spec.write_text(spec.read_text() + "configuration:\n  stepwell.log.format: json\n  stepwell.log.level: error\n")
    project_of(spec)
    assert log_lines.is_json() and common.is_json()
    use_format("text")
    assert not log_lines.is_json()
