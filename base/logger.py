"""The loggers of all rooms.

structlog takes longer to load than a command that only asks a running service takes for all else. So the first line that is logged loads it,
and a command that logs nothing does without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_configure: Callable[[], None] | None = None


class Logger:
    """One logger of structlog. `about`: the values of a line's fields."""

    __slots__ = ("_logger", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._logger: Any = None

    def debug(self, event: str, /, **about: Any) -> None:
        self._load().debug(event, **about)

    def info(self, event: str, /, **about: Any) -> None:
        self._load().info(event, **about)

    def warning(self, event: str, /, **about: Any) -> None:
        self._load().warning(event, **about)

    def _load(self) -> Any:
        if self._logger is None:
            import structlog

            if _configure is not None:
                configure_when_loaded(_configure)
            self._logger = structlog.get_logger(self._name)  # it has, at each line, the configuration of that moment
        return self._logger


def configure_when_loaded(configure: Callable[[], None]) -> None:
    """Lets `configure` say how structlog writes: now if it is loaded, else before its first line."""
    global _configure
    _configure = None if "structlog" in sys.modules else configure
    if _configure is None:
        configure()
