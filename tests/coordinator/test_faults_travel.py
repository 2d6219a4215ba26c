"""A fault of a task reaches the driver unchanged, whatever arguments its constructor takes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from engine.errors import DataError, EngineError
from engine.expressions.evaluate import ExpressionError
from engine.run.exchange import error_message, error_of
from io_kafka.errors import KafkaFault, OffsetGone, UnknownTopic
from storage.errors import CorruptRecord, StaleEpoch, StorageError, StorageFull

FAULTS = [
    OffsetGone("topic", 1, 2, 3, 4),
    UnknownTopic("topic", 0),
    StorageFull(Path("/state"), "No space left on device", 0),
    StaleEpoch(Path("/state"), 1, 2),
    CorruptRecord("a database", b"key"),
    DataError("two rows", "Remove one.").located(owner="view v", step=3, place="topic t, partition 0, offset 4"),
    ExpressionError("DIVIDE_BY_ZERO", "1 / 0").located(owner="view v", step=3),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_a_fault_is_pickled_unchanged(fault: KafkaFault | StorageError | EngineError) -> None:
    for found in (error_of(error_message(0, fault)), pickle.loads(pickle.dumps(fault))):
        assert (type(found), str(found), found.__dict__) == (type(fault), str(fault), fault.__dict__)
