"""Where commands log: to standard error, because standard output has their answer."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logs(*, verbose: bool) -> None:
    """Logs one JSON object per line to standard error: only warnings, or everything."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO if verbose else logging.WARNING),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
