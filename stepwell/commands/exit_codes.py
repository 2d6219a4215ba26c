"""Which exit code an error of any room means; what the codes are for is told in common.py."""

from __future__ import annotations

from coordinator.core import NoCommonVersion
from coordinator.errors import CircuitChanged, CoordinatorError, LayoutChanged, TopicChanged
from engine.errors import EngineError
from io_kafka.clients.writer import Fenced
from io_kafka.errors import BadOption, JarsUnavailable, KafkaFault
from io_kafka.formats import FormatError
from io_kafka.step_log.output_progress import DigestMismatch
from stepwell.commands.common import Exit
from stepwell.commands.spark import SparkUnavailable
from stepwell.errors import OwnMistake, ProjectErrors, StepwellError
from stepwell.inspection.query import NoState
from stepwell.service.client import NotRunning
from stepwell.service.holder import HeldByAnother
from storage.errors import StorageError

_CODES: tuple[tuple[type[Exception], Exit], ...] = (
    (NotRunning, Exit.NOT_RUNNING),
    (HeldByAnother, Exit.HELD),
    (Fenced, Exit.HELD),
    (DigestMismatch, Exit.STATE),
    (BadOption, Exit.PROJECT),
    (FormatError, Exit.PROJECT),
    (SparkUnavailable, Exit.MACHINE),
    (JarsUnavailable, Exit.MACHINE),
    (KafkaFault, Exit.KAFKA),
    (StorageError, Exit.STATE),
    (NoState, Exit.STATE),
    (CircuitChanged, Exit.STATE),
    (LayoutChanged, Exit.STATE),
    (TopicChanged, Exit.KAFKA),
    (CoordinatorError, Exit.STATE),
    (NoCommonVersion, Exit.STATE),
    (EngineError, Exit.DATA),
    (OwnMistake, Exit.INTERNAL),
    (StepwellError, Exit.PROJECT),
)
"""The first that fits: subclasses stand before their bases."""


def exit_code_of(error: Exception) -> Exit | None:
    """None for a mistake of ours that is known as nothing but an exception."""
    if isinstance(error, ProjectErrors) and any(isinstance(each, OwnMistake) for each in error.errors):
        return Exit.INTERNAL
    return next((code for kind, code in _CODES if isinstance(error, kind)), None)
