"""Rows that another process has sent are what was asked for, or a loss of that process: nothing else is raised, whatever the bytes are."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import TaskLost
from engine.resident.received import received_table
from engine.rows import zset
from engine.run.exchange import to_buffer

TYPES = (pa.int64(), pa.string(), pa.list_(pa.struct([("a", pa.decimal128(9, 2))])))
SCHEMA = zset.schema_of(TYPES)
ROWS = pa.Table.from_pylist(
    [{"c0": i, "c1": "é" * i, "c2": [{"a": None}] * (i % 3), "weight": 1} for i in range(20)], schema=SCHEMA
)


def loss(data: Any, schema: pa.Schema | None, *, every_value: bool = False) -> str:
    """Why the sender is lost; empty if the table is taken."""
    try:
        received_table(data, schema, "worker 1 has sent rows", every_value=every_value)
    except TaskLost as lost:
        return str(lost)
    except Exception as other:
        raise AssertionError("no run recovers from that") from other
    return ""


def test_a_table_arrives_as_it_was_sent() -> None:
    assert received_table(to_buffer(ROWS), SCHEMA, "worker 1 has sent rows", every_value=True).equals(ROWS)
    assert received_table(to_buffer(ROWS), None, "worker 1 has sent rows").equals(ROWS)
    assert received_table(to_buffer(SCHEMA.empty_table()), SCHEMA, "worker 1 has sent rows").num_rows == 0


@pytest.mark.parametrize("length", [0, 1, 8, 100, 300])
def test_a_part_of_a_table_is_none(length: int) -> None:
    assert "worker 1 has sent rows, which cannot be read" in loss(to_buffer(ROWS).slice(0, length), SCHEMA)


def test_a_table_of_other_columns_is_none() -> None:
    said = loss(to_buffer(ROWS.drop_columns(["c1"])), SCHEMA)
    assert "worker 1 has sent rows, which have other columns than expected: c0 int64, c2" in said


def test_a_flipped_bit_raises_nothing_else() -> None:
    """It may be in a value: then the table is another one. Whoever reads the values must not run beyond a buffer."""
    chance, whole, refused = random.Random(7), to_buffer(ROWS).to_pybytes(), 0
    for _ in range(2000):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        refused += bool(loss(bytes(damaged), SCHEMA, every_value=True))
    assert refused > 100


def test_the_values_are_looked_at_where_that_is_asked() -> None:
    """A text whose bytes are none passes for a table until somebody reads it."""
    texts = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    sent = to_buffer(pa.table({"a": texts}))
    assert loss(sent, None) == ""
    assert "cannot be read" in loss(sent, None, every_value=True)
