"""Faults cross the wire as what they are; everything else arrives as a mistake with its stack trace."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest

import storage.database  # noqa: F401  with the modules above: every fault that a worker can have is defined in what they import
from base.fault import Fault, exit_code_of
from base.term import Term
from engine.errors import DataError, EngineError, TaskLost
from engine.resident import faults
from engine.resident.faults import REGISTERED, WorkerMistake, from_wire, lost_without_memory, to_wire
from engine.resident.frames import Frame
from engine.resident.messages import Failed
from io_kafka.errors import KafkaFault, StepTooLarge
from io_kafka.offsets import TopicPartition
from storage.errors import CorruptRecord, OtherFormat, StaleEpoch, StorageError
from storage.identity import Identity
from storage.remote.errors import StoreFault
from tests.engine.resident.test_frames import received, sent

NOT_OF_A_WORKER = {
    "BadLogRecord", "BrokenStepLog", "LogOffsetGone", "StepLogUnreadable", "DigestMismatch", "StepBeyondEnd", "InputChanged", "ErrorsDiffer",
    "UnsuitableStepLog", "Fenced", "WriteRefused", "PlanMissing", "UnsuitablePlanTopic",
    "OutcomeUnknown", "StepLogGone", "TopicExists", "JarsUnavailable", "LocalBrokerFault", "EngineError", "KafkaFault", "StorageError",
    "CannotConnect", "RightsMissing", "NoTopicMatches", "NothingSince", "NoSuchStart", "Redivided", "ViewsInError", "NotAlone",
    "StoreFault", "FaultAtRoot", "PackError", "DamagedManifest", "BadBackup",
}  # fmt: skip
"""Faults of the step log, of the writers and of the local broker, which only the coordinator has; and bases."""


def over_the_wire(error: BaseException) -> Exception:
    frame = received(sent(Frame(Term(0, 0), Failed(doing="run_step", fault=to_wire(error)))))
    assert isinstance(frame.message, Failed)
    return from_wire(frame.message.fault, 1)


def subclasses(kind: type[Fault]) -> set[type[Fault]]:
    return {*kind.__subclasses__(), *(each for direct in kind.__subclasses__() for each in subclasses(direct))}


@pytest.mark.parametrize("base", [EngineError, KafkaFault, StorageError, StoreFault])
def test_every_fault_that_a_worker_can_have_is_registered(base: type[Fault]) -> None:
    own = {each.__name__ for each in subclasses(base) if not each.__module__.startswith("tests")}
    assert own - NOT_OF_A_WORKER <= REGISTERED.keys()
    assert REGISTERED.keys() & own, "a fault is registered"


def test_a_fault_arrives_with_its_fields() -> None:
    error = DataError("a \N{SNOWMAN} in it", "Remove it.").locate(
        owner="view v", step=3, place="topic t, partition 0, offset 4"
    )
    arrived = over_the_wire(error)
    assert isinstance(arrived, DataError)
    assert str(arrived) == str(error)
    assert (arrived.owner, arrived.step, arrived.place) == (error.owner, error.step, error.place)
    assert exit_code_of(arrived) == exit_code_of(error)


def test_fields_that_are_no_texts_arrive_too() -> None:
    large = StepTooLarge(9, {TopicPartition("t", 1): 5, TopicPartition("t", 0): 3})
    arrived = over_the_wire(large)
    assert isinstance(arrived, StepTooLarge) and arrived.ends == large.ends
    corrupt = over_the_wire(CorruptRecord("a layer", b"\x00\xff"))
    assert isinstance(corrupt, CorruptRecord) and corrupt.key == b"\x00\xff"
    stale = over_the_wire(StaleEpoch(Path("/a/b"), 1, 2))
    assert isinstance(stale, StaleEpoch) and (stale.epoch, stale.stored) == (1, 2)
    other = over_the_wire(OtherFormat(Path("/a"), Identity("p", 0, "u"), 9, 3))
    assert isinstance(other, OtherFormat) and "format 9" in str(other)


def test_an_exception_that_nobody_foresaw_arrives_with_its_stack_trace() -> None:
    try:
        _mistaken()
    except ZeroDivisionError as error:
        arrived = over_the_wire(error)
    assert isinstance(arrived, WorkerMistake)
    assert "worker 1 ended by ZeroDivisionError" in str(arrived) and "_mistaken" in str(arrived)
    assert exit_code_of(arrived) is None


def test_a_class_that_is_not_registered_is_not_built() -> None:
    class DataError(Fault):  # the name of a registered class
        exit_code = EngineError.exit_code

    assert isinstance(over_the_wire(DataError("x")), WorkerMistake)
    assert isinstance(
        from_wire(faults.WireFault(known=True, name="SystemExit", fields={"message": "x"}), 0), WorkerMistake
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"message": "m"},
        {"message": "m", "what_to_do": ""},
        {"message": "m", "what_to_do": "", "key": {"bytes": "no base 64!"}},
        {"message": "m", "what_to_do": "", "ends": {"items": [[1]]}},
        {"message": "m", "what_to_do": "", "ends": {"items": [[{"items": []}, 1]]}},
    ],
    ids=["none", "no text", "none of the class", "no bytes", "no pairs", "no key"],
)
def test_fields_that_do_not_belong_to_the_class_are_a_loss_of_the_worker(fields: dict[str, object]) -> None:
    arrived = from_wire(faults.WireFault(known=True, name="DataError", fields=fields), 3)
    assert isinstance(arrived, TaskLost) and "worker 3 has failed by DataError, and what it says" in str(arrived)


def _mistaken() -> None:
    _ = 1 // 0


def _caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "said", "advice"),
    [
        (MemoryError("4 GB"), "worker 1 has no memory left (MemoryError: 4 GB)", "run fewer workers"),
        (_caused(RuntimeError("no batch"), MemoryError()), "worker 1 has no memory left", "run fewer workers"),
        (OSError(errno.ENOMEM, "full"), "worker 1 has no memory left", "Give its host more memory"),
        (pa.ArrowCapacityError("3 GB"), "worker 1 has more than one array of Arrow can hold (3 GB)", "bytes.max"),
        (pa.ArrowInvalid("Take operation overflowed binary array capacity"), "worker 1 has more than", "bytes.max"),
    ],
)
def test_a_worker_that_cannot_hold_a_step_is_lost_with_advice(error: Exception, said: str, advice: str) -> None:
    """What is known of it on the worker crosses the wire."""
    lost = lost_without_memory(error, 1)
    assert lost is not None
    arrived = over_the_wire(lost)
    assert isinstance(arrived, TaskLost) and str(arrived).startswith(said) and advice in str(arrived)


def test_arrow_says_so_in_the_words_that_are_looked_for() -> None:
    value = pa.array(["a" * (1 << 20)])
    with pytest.raises(pa.ArrowInvalid) as raised:
        pa.concat_arrays([value] * 2048)
    assert lost_without_memory(raised.value, 1) is not None


def test_other_exceptions_are_no_lack_of_memory() -> None:
    assert lost_without_memory(pa.ArrowInvalid("Column 'a' has type"), 1) is None
    assert lost_without_memory(_caused(ValueError("wrong"), KeyError("k")), 1) is None
    assert lost_without_memory(OSError(errno.ENOENT, "no file"), 1) is None
