"""Faults on the wire: classes are registered by name, and their fields travel as plain values.

A worker sends the fault itself, so that the coordinator raises the class that decides whether the run recovers or ends. Only registered classes
are built from what arrives, and their constructors are not called. An exception that is not registered is a bug in Stepwell: it
arrives as `WorkerMistake` with its stack trace.
"""

from __future__ import annotations

import base64
import errno
import traceback
from collections.abc import Mapping
from pathlib import PurePath

import pyarrow as pa

from base.fault import Fault
from engine import errors as of_engine
from engine.errors import TaskLost
from engine.expressions.evaluate import ExpressionError
from engine.operators.aggregate_errors import NegativeCount, ResultOverflow
from engine.operators.aggregate_values import ListTooLong
from engine.operators.output import RowWithoutMessage
from engine.operators.recursion import LevelLimit, RowLimit
from engine.operators.scalar import TooManyRows
from engine.operators.scattered_keys import ScatteredKey
from engine.operators.view import SeveralRows
from engine.operators.window_order import RangeExceeded
from engine.python.errors import FunctionError, FunctionUnusable
from engine.resident.messages import WireFault
from io_kafka import errors as of_kafka
from io_kafka.formats.spec import FormatError
from io_kafka.offsets import TopicPartition
from storage import errors as of_storage
from storage.environments import Gone, Replaced
from storage.remote import errors as of_store

REGISTERED: Mapping[str, type[Fault]] = {
    kind.__name__: kind
    for kind in (
        of_engine.DataError,
        of_engine.StaleTask,
        of_engine.TaskLost,
        ExpressionError,
        FunctionError,
        FunctionUnusable,
        NegativeCount,
        ResultOverflow,
        ListTooLong,
        TooManyRows,
        LevelLimit,
        RowLimit,
        RangeExceeded,
        SeveralRows,
        RowWithoutMessage,
        ScatteredKey,
        FormatError,
        of_kafka.BadOption,
        of_kafka.BrokerUnreachable,
        of_kafka.LoginRefused,
        of_kafka.BrokerNotTrusted,
        of_kafka.CertificateRefused,
        of_kafka.WrongProtocol,
        of_kafka.UnknownHost,
        of_kafka.NotAuthorized,
        of_kafka.UnknownTopic,
        of_kafka.NoLeader,
        of_kafka.OffsetGone,
        of_kafka.ReadDeadline,
        of_kafka.StepTooLarge,
        of_kafka.BrokerRefused,
        of_kafka.RegistryUnreachable,
        of_kafka.RegistryRefused,
        of_kafka.SchemaGone,
        of_storage.NoDatabase,
        of_storage.DatabaseExists,
        of_storage.WrongDatabase,
        of_storage.UnknownVersion,
        of_storage.StaleEpoch,
        of_storage.NotOpen,
        of_storage.CheckpointPending,
        of_storage.CorruptRecord,
        of_storage.CorruptFile,
        of_storage.OtherFormat,
        of_storage.StorageFull,
        of_storage.WriterBlocked,
        of_storage.ForkedWhileOpen,
        of_store.BadStoreUri,
        of_store.StoreUnreachable,
        of_store.StoreDenied,
        of_store.ObjectMissing,
        of_store.StoreFull,
        of_store.DamagedPack,
        of_store.ForeignPack,
        of_store.OtherPackFormat,
        of_store.DamagedStore,
        Gone,
        Replaced,
    )
}
"""The faults that a worker can have. A test compares them with the classes that the rooms below define."""

TRACE_CHARACTERS_MAX = 20_000
"""How many characters are kept of the stack trace of a mistake: enough for some hundred frames."""


OVERFLOWS = ("offset overflow while concatenating", "overflowed binary array capacity")
"""What pyarrow says if an array would have 2 GiB or more."""

CANNOT_START_THREAD = "can't start new thread"
"""What Python says if there is no memory for the stack of a thread."""


class WorkerMistake(Exception):
    """An exception that nobody foresaw has ended a worker. Its text is the stack trace on the worker."""


def lost_without_memory(error: BaseException, worker: int) -> TaskLost | None:
    """The loss of a worker whose memory does not suffice, or whose step has more than an array of Arrow can hold; None for any other exception.
    A new worker begins with the memory of a new process."""
    cause: BaseException | None = error
    while cause is not None and not _is_lack_of_memory(cause):
        cause = cause.__cause__
    if cause is None:
        return None
    if _is_beyond_arrow(cause):
        return TaskLost(
            f"worker {worker} has more than one array of Arrow can hold ({cause})",
            "Lower stepwell.step.bytes.max, so that fewer messages meet in one step. A step without output is divided again then.",
        )
    return TaskLost(
        f"worker {worker} has no memory left ({type(cause).__name__}: {cause})",
        "Give its host more memory, run fewer workers on it, or lower stepwell.step.rows.max and stepwell.step.bytes.max.",
    )


def _is_beyond_arrow(error: BaseException) -> bool:
    """Whether texts or lists are longer than the 32 bits with which Arrow counts them. Most of its functions raise a general error then."""
    if isinstance(error, pa.ArrowInvalid):
        return any(text in str(error) for text in OVERFLOWS)
    return isinstance(error, pa.ArrowCapacityError)


def _is_lack_of_memory(error: BaseException) -> bool:
    if _is_beyond_arrow(error):
        return True
    match error:
        case MemoryError():
            return True
        case OSError(errno=number):
            return number == errno.ENOMEM
        case RuntimeError():
            return str(error) == CANNOT_START_THREAD
        case _:
            return False


def to_wire(error: BaseException) -> WireFault:
    name = type(error).__name__
    if isinstance(error, Fault) and REGISTERED.get(name) is type(error):
        fields = {key: _plain(value) for key, value in error.__dict__.items()}
        return WireFault(known=True, name=name, fields=fields)
    trace = "".join(traceback.format_exception(error))[-TRACE_CHARACTERS_MAX:]
    return WireFault(known=False, name=name, fields={"trace": trace})


def from_wire(fault: WireFault, worker: int) -> Exception:
    """The exception to raise. A class that is not registered here gives a WorkerMistake. Fields that do not belong to the class give a TaskLost:
    the worker answers nonsense."""
    kind = REGISTERED.get(fault.name) if fault.known else None
    if kind is None:
        return WorkerMistake(f"worker {worker} ended by {fault.name}:\n{fault.fields.get('trace', fault.fields)}")
    try:
        fields = {key: _value(value) for key, value in fault.fields.items()}
        error = kind.__new__(kind, fields["message"], fields["what_to_do"])
        error.__dict__.update(fields)
        str(error)  # it needs the fields of the class
        if isinstance(error, of_storage.StorageError):
            error.worker = worker
    except (AttributeError, KeyError, TypeError, ValueError) as unreadable:
        return TaskLost(
            f"worker {worker} has failed by {fault.name}, and what it says of it cannot be read: {unreadable!r}"
        )
    return error


def _plain(value: object) -> object:
    """The value as JSON. What has no plain form becomes its text, which is all that an error message needs of it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case PurePath():
            return str(value)
        case TopicPartition():
            return {"partition": [value.topic, value.partition]}
        case Mapping():
            return {"items": [[_plain(key), _plain(item)] for key, item in value.items()]}
        case tuple() | list():
            return [_plain(item) for item in value]
        case _:
            return str(value)


def _value(plain: object) -> object:
    match plain:
        case {"bytes": str(text)}:
            return base64.b64decode(text)
        case {"partition": [str(topic), int(partition)]}:
            return TopicPartition(topic, partition)
        case {"items": list(items)}:
            return {_value(key): _value(item) for key, item in items}
        case list(items):
            return tuple(_value(item) for item in items)
        case _:
            return plain
