"""Where commands and the libraries in their process log: to the lines of log_lines.py, in one format and from one level on.

structlog (Stepwell) ------.
logging (the libraries) ----+--> one line each --> standard error, and the file of the service
warnings, threads that end -'
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import MutableMapping
from functools import partial
from typing import Any

from base.logger import configure_when_loaded
from io_kafka.client_log import CLIENT_LOG
from stepwell.commands.log_lines import LogFormat, is_json, say, use_format, write_event

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

CHATTY = ("py4j", "httpx", "httpcore", "asyncio", "urllib3", "uvicorn")
"""Libraries that log each call below the level of a warning. They do so at `debug` alone."""


def configure_logs(format_: LogFormat = "text", level: str = "warning") -> None:
    """From now on all that this process logs has this format, and at least this level."""
    use_format(format_)
    number = LEVELS[level]
    configure_when_loaded(partial(_configure_structlog, number))
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _LibraryLines)]:
        root.removeHandler(handler)
    root.addHandler(_LibraryLines(number))
    # A logger's own level decides before any handler, so it is set where the default of WARNING would hide what was asked for.
    root.setLevel(min(number, logging.WARNING))
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.DEBUG if number <= logging.DEBUG else logging.WARNING)
    # The exceptions of io_kafka have what its client logs.
    CLIENT_LOG.propagate = number <= logging.DEBUG
    logging.captureWarnings(is_json())
    if threading.excepthook is threading.__excepthook__:  # otherwise somebody else wants to know
        threading.excepthook = _say_end_of_thread


def _configure_structlog(level: int) -> None:
    import structlog

    def write(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        write_event(event)
        raise structlog.DropEvent

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            write,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.ReturnLoggerFactory(),
    )


class _LibraryLines(logging.Handler):
    """What libraries log by Python's own means."""

    def emit(self, record: logging.LogRecord) -> None:
        about: dict[str, Any] = {"logger": record.name}
        if record.exc_info and record.exc_info[0] is not None:
            about["exception"] = "".join(traceback.format_exception(*record.exc_info))
        say(record.levelname.lower(), record.getMessage(), **about)


def _say_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    trace = "".join(traceback.format_exception(ended.exc_type, ended.exc_value, ended.exc_traceback))
    name = ended.thread.name if ended.thread is not None else "?"
    say("error", f"thread {name} has ended: {ended.exc_type.__name__}: {ended.exc_value}", exception=trace)
