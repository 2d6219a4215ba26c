"""The lines that a command writes to standard error: for users, or one JSON object each. Standard output has the answer alone.

Guarantees: no line has a secret that this process knows. In the format `json` every line is one object with `timestamp`, `level` and `event`,
whoever has written it: Stepwell, a library, Python's warnings, or a mistake that ends the process. A service keeps its last lines in a file
too, from which `stepwell bundle` takes them. A full disk loses lines there, and stops nothing.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from base.secrets import hidden

LogFormat = Literal["text", "json"]

FORMAT_VARIABLE = "STEPWELL_LOG_FORMAT"
"""In the environment: the setting stepwell.log.format, which also says how a command speaks before it has read the project."""

SERVICE_LOG = "service.log"
"""In the state folder. The lines before the last LOG_BYTES_MAX are in a file with `.1` at the end of its name."""

SPARK_LOG = "spark.log"
"""What Spark writes, in the state folder."""

LOG_BYTES_MAX = 4 << 20
"""The largest number of bytes of one file. Two of them hold days of a service that logs warnings, and hours of one that logs everything."""

FIRST = ("timestamp", "level", "event")


class _Lines:
    """Where lines go. A process has one."""

    def __init__(self) -> None:
        self.format: LogFormat = "text"
        self.file: logging.Handler | None = None

    def write(self, line: str) -> None:
        line = hidden(line)
        self.keep(line)
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def keep(self, line: str) -> None:
        if self.file is not None:
            self.file.handle(logging.LogRecord("stepwell", logging.INFO, "", 0, hidden(line), None, None))


_lines = _Lines()


def use_format(name: LogFormat) -> None:
    """From now on lines have this format."""
    _lines.format = name
    if sys.excepthook is sys.__excepthook__:  # otherwise somebody else wants to know
        sys.excepthook = _say_end


def is_json() -> bool:
    return _lines.format == "json"


def keep_lines(folder: Path) -> None:
    """From now on lines are kept in a file of this folder too."""
    from logging.handlers import RotatingFileHandler  # only a service needs it

    class Quiet(RotatingFileHandler):
        def handleError(self, record: logging.LogRecord) -> None:
            """The line is on standard error all the same."""

    keep_no_lines()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / SERVICE_LOG
        path.touch(mode=0o600)
        _lines.file = Quiet(path, maxBytes=LOG_BYTES_MAX, backupCount=1, encoding="utf-8", errors="backslashreplace")


def keep_no_lines() -> None:
    """From now on lines are not kept in a file."""
    file, _lines.file = _lines.file, None
    if file is not None:
        with suppress(OSError, ValueError):  # a full disk, or a file that is closed
            file.close()


def say(level: str, event: str, **about: Any) -> None:
    """Writes one line."""
    _lines.write(line_of({"timestamp": _now(), "level": level, "event": event, **about}))


def write_event(about: Mapping[str, Any]) -> None:
    """Writes the line of an event that has its timestamp and level already."""
    _lines.write(line_of(about))


def keep_said(text: str) -> None:
    """Keeps a line that was printed for users."""
    _lines.keep(f"{_now()} note     {text}")


def line_of(about: Mapping[str, Any]) -> str:
    """The line, in the format in force."""
    if is_json():
        ordered = {**{name: about[name] for name in FIRST if name in about}, **about}
        return json.dumps(ordered, default=str, ensure_ascii=False)
    rest = {name: value for name, value in about.items() if name not in (*FIRST, "exception")}
    pairs = "".join(
        f" {name}={value if isinstance(value, int | float) else repr(str(value))}" for name, value in rest.items()
    )
    trace = f"\n{about['exception']}" if about.get("exception") else ""
    return f"{about.get('timestamp', _now())} {about.get('level', 'info'):8} {about.get('event', '')}{pairs}{trace}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _say_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A bug in Stepwell ends the process: its stack trace without secrets."""
    text = "".join(traceback.format_exception(kind, error, trace))
    if is_json():
        say("critical", f"{kind.__name__}: {error}", exception=text)
    else:
        _lines.write(text.rstrip("\n"))
