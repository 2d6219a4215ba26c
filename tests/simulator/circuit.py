"""The pipeline of the simulator: a table of (key, number, weight), published as it comes, summed by key, and the sums grouped again.

The project's operators work on Arrow, and a stage of them takes milliseconds; a world has a hundred stages. So the circuit is a real one,
with its plan, its exchange and its one transaction of a step (`tasks.StepTask`), and what its operators compute is said here in plain Python:
`stages.run_stage` and `read_sources` stand where engine.run.tasks has the real ones, and `Moves` where engine.run.cut has engine.state.moves.
Rows travel between workers as plain lists (seams.py). A key lies in the slot that its checksum says.

A message is JSON, `[key, number, weight]`. A key whose count and sum are 0 leaves the view: its record is deleted and a null is published.

There are several projects, and a transition leads from one to another while the pipeline runs. The sums by key are kept in each of them. A
difference changes what is shown of them, and by what they are grouped. Some projects have one more view, the tallies, which are sums of
other numbers, and also of the messages of another topic. No state tells what they are made of, so a transition to them reads messages again.

As long as the key WRONG is in the view, its row is in error. It is never published, and the outputs are withheld: what changes is kept, and
written by the step that releases them.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from base.slots import SlotSet
from engine.analysis.numbering import numbers_of
from engine.model.aggregates import Aggregate, AggregateCall
from engine.model.circuit import Circuit, Node, Output, View
from engine.model.filling import is_read_again
from engine.model.node import Expression
from engine.model.numbers import table_of
from engine.model.rows import Map, Source, Union
from engine.run.source_table import SourceTable
from engine.run.sources import Checksum, SourceReport
from engine.run.step_input import StepInput
from engine.state.moves import Piece
from engine.state.store import Store
from io_kafka.clients.raw import RawBatch
from io_kafka.formats.spec import SourceFormat
from storage.keys import key_slot, key_table, record_key, table_prefix

INPUT, OTHER, ROWS, SUMS, GROUPS, TALLIES = "in", "other", "rows", "sums", "groups", "tallies"
PARTITIONS = {ROWS: 2, SUMS: 2, GROUPS: 2, TALLIES: 2}
"""Of the topics of outputs."""

OTHER_NAME = "totals"
"""Of the view of the sums. A project with this name computes the same, so it continues the state of the one with the first name."""

WRONG = "!"
"""The key whose row gives an error."""

TALLIES_AT = 11
"""The index of the first node that only the view of the tallies has."""

_TYPES = (pa.string(), pa.int64(), pa.int64())
_GROUP_TYPES = (pa.int64(), pa.int64(), pa.int64())
COLUMNS = ("key", "number", "weight")
_SCHEMA = pa.schema(list(zip(COLUMNS, _TYPES, strict=True)))
SOURCES = {topic: SourceTable(topic, (topic,), SourceFormat(topic, _SCHEMA)) for topic in (INPUT, OTHER)}
_CALLS = (AggregateCall("count", None, False, pa.int64()), AggregateCall("sum", 1, False, pa.int64()))
_ODD = "c1 % 2 = 1"


class Project(NamedTuple):
    """`name`: of the view of the sums. They are multiplied by `factor`, of keys with an odd count alone if `odd`, and grouped by their remainder
    of `modulus`. `scale`: by what the numbers of the tallies are multiplied; 0 without that view. `other`: whether they count the messages of
    the other topic too."""

    name: str = SUMS
    factor: int = 1
    odd: bool = False
    modulus: int = 2
    scale: int = 0
    other: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        return (INPUT, OTHER) if self.other else (INPUT,)

    @property
    def outputs(self) -> tuple[str, ...]:
        return (ROWS, SUMS, GROUPS, TALLIES) if self.scale else (ROWS, SUMS, GROUPS)

    @property
    def circuit(self) -> Circuit:
        odd = Expression(_ODD, pa.bool_()) if self.odd else None
        total = Expression(f"c2 * {self.factor}", pa.int64())
        group = Expression(f"c2 % {self.modulus}", pa.int64())
        return Circuit(
            (
                Source((), _TYPES, INPUT),
                View((0,), _TYPES, ROWS, COLUMNS, False),
                Output((1,), (), ROWS, "append", COLUMNS),
                Aggregate((0,), _TYPES, (0,), _CALLS),
                Map((3,), _TYPES, odd, (Expression("c0", pa.string(), 0), Expression("c1", pa.int64(), 1), total)),
                View((4,), _TYPES, self.name, ("key", "count", "total"), False),
                Output((5,), (), SUMS, "upsert", ("key", "count", "total"), (0,)),
                Map((5,), (pa.int64(), pa.int64()), None, (group, Expression("c2", pa.int64(), 2))),
                Aggregate((7,), _GROUP_TYPES, (0,), _CALLS),
                View((8,), _GROUP_TYPES, GROUPS, ("group", "count", "total"), False),
                Output((9,), (), GROUPS, "upsert", ("group", "count", "total"), (0,)),
                *self._tallies(TALLIES_AT),
            )
        )

    def _tallies(self, at: int) -> tuple[Node, ...]:
        """The nodes of the view, of which the first has this index."""
        if not self.scale:
            return ()
        scaled = Expression(f"c1 * {self.scale}", pa.int64())
        counted = (Expression("c0", pa.string(), 0), scaled, Expression("c2", pa.int64(), 2))
        nodes: list[Node] = [Map((0,), _TYPES, None, counted)]
        if self.other:
            nodes += [Source((), _TYPES, OTHER), Map((at + 1,), _TYPES, None, counted), Union((at, at + 2), _TYPES)]
        last = at + len(nodes) - 1
        return (
            *nodes,
            Aggregate((last,), _TYPES, (0,), _CALLS),
            View((last + 1,), _TYPES, TALLIES, ("key", "count", "total"), False),
            Output((last + 2,), (), TALLIES, "upsert", ("key", "count", "total"), (0,)),
        )

    @classmethod
    def of(cls, circuit: Mapping[str, Any]) -> Project:
        """Of the JSON form of its circuit."""
        _, name, *_ = (node["name"] for node in circuit["nodes"] if node["kind"] == "View")
        sums, groups, *tallies = (node for node in circuit["nodes"] if node["kind"] == "Map")
        constants = [(sums, 2), (groups, 0), *((each, 1) for each in tallies)]
        factor, modulus, *scales = (int(node["projections"][i]["sql"].split()[-1]) for node, i in constants)
        return cls(name, factor, sums["predicate"] is not None, modulus, *(scales[:1] or [0]), len(scales) == 2)

    def row_of(self, key: str, count: int, total: int) -> tuple[str, int, int] | None:
        """What the view of the sums has of a key."""
        return None if self.odd and count % 2 != 1 else (key, count, total * self.factor)


PROJECTS = tuple(
    Project(SUMS, factor, odd, modulus, scale, other)
    for scale, other in ((0, False), (1, False), (2, False), (1, True), (2, True))
    for factor in (1, 2)
    for odd in (False, True)
    for modulus in (2, 3)
)
"""A transition leads from any of them to any other."""

FROM_STATE, READS_AGAIN = PROJECTS[7], PROJECTS[-1]
"""A transition from the first project to one of them is filled from state alone, and to the other one from messages too."""

AGGREGATE_NUMBER = numbers_of(PROJECTS[0].circuit)[3]
STATE_TABLE = table_of(AGGREGATE_NUMBER)

Row = tuple[str, int, int]
Message = tuple[int, bytes | None, bytes | None]


def message_of(row: Row) -> bytes:
    return json.dumps(row).encode()


def row_of(message: bytes) -> Row:
    key, number, weight = json.loads(message)
    return key, number, weight


def spread(key: str, over: int) -> int:
    """Which of so many workers or partitions a key belongs to."""
    return zlib.crc32(key.encode()) % over


def slot(key: str) -> int:
    return zlib.crc32(key.encode()) >> 16


def state_key(key: str) -> bytes:
    return record_key(STATE_TABLE, slot(key), key.encode())


def state_value(count: int, total: int) -> bytes:
    return struct.pack(">qq", count, total)


def read_sources(
    circuit: Circuit,
    tables: Mapping[str, Any],
    given: StepInput,
    batches: Sequence[RawBatch],
    again: Sequence[RawBatch],
) -> tuple[dict[int, list[Row]], SourceReport]:
    """As engine.run.sources: the rows of the sources, and what was read."""
    report = SourceReport(inputs=[_checksum(each) for each in batches], again=[_checksum(each) for each in again])
    rows: dict[int, list[Row]] = {}
    for index, node in enumerate(circuit.nodes):
        if isinstance(node, Source):
            every = again if is_read_again(node.handle) else batches
            mine = (each for each in every if tables[node.handle].reads(each.range.where))
            rows[index] = [row_of(value) for each in mine for value in each.messages.values.to_pylist()]
    return rows, report


def _checksum(batch: RawBatch) -> Checksum:
    return Checksum(*batch.range.where, batch.messages.length, batch.checksum)


class Part(NamedTuple):
    """A record. Its value stands for the number of a run: if it changes, a copy of it is none any more."""

    key: bytes
    value: bytes

    def copy_key(self, table: int) -> bytes:
        return self.key


class Moves:
    """As engine.state.moves, of which engine.run.cut and hidden_copies use these functions. A piece is one record: its key as a number, its
    value."""

    @staticmethod
    def parts_of(store: Store, table: int, slots: SlotSet) -> list[Part]:
        found = []
        for key in list(store.keys(table_prefix(table))):
            if key_slot(key) in slots:
                value = store.get(key)
                assert value is not None
                found.append(Part(key, bytes(value)))
        return found

    @staticmethod
    def piece_of(store: Store, table: int, part: Part) -> Piece | None:
        """None if the record has changed: real runs are pinned meanwhile."""
        value = store.get(part.key)
        return None if value is None or bytes(value) != part.value else Piece(int.from_bytes(b"\1" + part.key), value)

    copy_of = piece_of

    @staticmethod
    def next_number(store: Store, table: int) -> int:
        return 0

    @staticmethod
    def check_rows(encoded: memoryview, slots: SlotSet, first: int = 0) -> None:
        """A record has no form that could be wrong."""

    @staticmethod
    def make_edges(store: Store, table: int, slots: SlotSet) -> None:
        """No record reaches over the edge of a slot."""

    @staticmethod
    def adopt_all(store: Store, table: int, slots: SlotSet, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            key = piece.first.to_bytes((piece.first.bit_length() + 7) // 8)[1:]
            assert key_slot(key) in slots and key_table(key) == table
            store.put(key, bytes(piece.rows))

    @staticmethod
    def drop(store: Store, table: int, slots: SlotSet) -> None:
        for key in list(store.keys(table_prefix(table))):
            if key_slot(key) in slots:
                store.delete(key)

    @staticmethod
    def runs_of(store: Store, table: int) -> Iterator[tuple[int, Any, int]]:
        for key in list(store.keys(table_prefix(table))):
            yield key_slot(key) << 48, np.array([key_slot(key) << 48], dtype=np.uint64), len(key)
