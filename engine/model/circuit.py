"""The circuit: the graph of operators to which a project is compiled.

A circuit is a list of nodes in topological order. A node names its inputs by their index in the list. A circuit is plain data without Spark,
Kafka and state: it can be pickled, it is stored beside the state as JSON, and the `fingerprint` of that JSON identifies it. Columns have no
names inside a circuit: those of a node's output are `c0`, `c1`, ... A **handle** is the name of an input or output of the circuit.

A node's output is a stream of Z-sets: its columns, and a weight. A node here is only data; what the engine does with it is in its module in
`operators/`. `Node` is the closed union of all kinds. docs/extending.md says how to add one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
import xxhash

from base.options import Mode
from engine.model.aggregates import Aggregate, AggregateCall, FinalAggregate, PartialAggregate
from engine.model.clock import ClockBound, ClockFunction, ClockValue, TemporalFilter
from engine.model.event_time import (
    ClosingAggregate,
    ClosingSessions,
    Expiry,
    LatestTime,
    TimedDeduplicate,
    TimedJoin,
    Watermark,
)
from engine.model.filling import FillingNode
from engine.model.joins import Join, JoinPartials, OuterJoin, SemiJoin
from engine.model.node import BESIDE, LATER, Column, Expression, NodeBase, Types, columns_exist
from engine.model.ordered import Months, Sessions, SortKey, TopK, Window, WindowCall, WindowFrame
from engine.model.python_call import PythonCall, PythonFunction
from engine.model.rows import (
    Constant,
    Deduplicate,
    Distinct,
    Generate,
    LastByKey,
    Map,
    PythonMap,
    Replicate,
    ScalarMap,
    ScalarValue,
    Source,
    Union,
)
from io_kafka.formats.written import PLAIN, Written


@dataclass(frozen=True)
class Recursion(NodeBase):
    """WITH RECURSIVE. The rows of the first input are level 0. `body` makes the rows of each further level of those of the level before.

    `body`: the nodes of a circuit. It begins with Sources: the rows of a level, with the level as the last column (int64), and then each
    further input. Its last node has the rows that it makes, with the level of which they are made. Only levels below `levels_max` may have rows,
    and all levels together fewer than `rows_max`; more is an error of the data."""

    body: tuple[Node, ...]
    levels_max: int
    rows_max: int

    def check(self, inputs: Sequence[Types]) -> None:
        assert inputs[0] == self.types and self.levels_max > 0
        Circuit(self.body).check()
        sources = self.body[: len(inputs)]
        assert all(isinstance(node, Source) for node in sources), "the body begins with its inputs"
        assert not any(isinstance(node, Source) for node in self.body[len(inputs) :])
        assert [node.types for node in sources] == [(*self.types, pa.int64()), *inputs[1:]]
        assert self.body[-1].types == (*self.types, pa.int64())


@dataclass(frozen=True)
class View(NodeBase):
    """A materialized view or table: its content, under its name. `names`: the columns' names.

    `kept`: the content can be queried. It is stored by `key` (by all columns if there is no key), or it is `derived` from the aggregate below
    at each query (engine/analysis/content.py)."""

    name: str
    names: tuple[str, ...]
    kept: bool
    key: tuple[Column, ...] = ()
    derived: bool = False

    @property
    def stored(self) -> bool:
        return self.kept and not self.derived

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert rows == self.types and len(self.names) == len(rows)
        assert columns_exist(self.key, rows)


@dataclass(frozen=True)
class Output(NodeBase):
    """An output handle: the change of its input, encoded as messages. `types` is empty, because no node reads an output.

    `names`: the names of the message's fields. `key`: the columns of the message key; upsert needs one. `written`: how messages are written,
    of which the engine knows nothing."""

    handle: str
    mode: Mode
    names: tuple[str, ...]
    key: tuple[Column, ...] = ()
    written: Written = field(default=PLAIN, metadata=BESIDE)

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert not self.types and len(self.names) == len(rows)
        assert columns_exist(self.key, rows) and (self.key or self.mode != "upsert")


ProjectNode = (
    Source | LastByKey | Constant | Map | PythonMap | Replicate | ScalarValue | ScalarMap | Union | Distinct | Deduplicate | Join
    | SemiJoin | OuterJoin | Aggregate | PartialAggregate | JoinPartials | FinalAggregate | TopK | Window | Generate
    | Sessions | LatestTime | Watermark | ClosingAggregate | ClosingSessions | TimedDeduplicate | TimedJoin | ClockValue | TemporalFilter | View
    | Output | Recursion
)  # fmt: skip
"""Every kind of node that a project can have."""

Node = ProjectNode | FillingNode
"""Every kind of node. A `match` over it ends in `assert_never`."""


K = TypeVar("K", bound=NodeBase)


@dataclass(frozen=True)
class Circuit:
    """The nodes in topological order: every input of node i has an index below i."""

    nodes: tuple[Node, ...]

    def nodes_of(self, kind: type[K]) -> dict[int, K]:
        """The nodes of one kind by index, in topological order."""
        return {index: node for index, node in enumerate(self.nodes) if isinstance(node, kind)}

    @cached_property
    def sources(self) -> Mapping[str, int]:
        """The index of each source, by handle."""
        return {node.handle: index for index, node in self.nodes_of(Source).items()}

    @cached_property
    def views(self) -> Mapping[str, int]:
        """The index of each view, by name."""
        return {node.name: index for index, node in self.nodes_of(View).items()}

    @cached_property
    def outputs(self) -> Mapping[str, int]:
        """The index of each output, by handle."""
        return {node.handle: index for index, node in self.nodes_of(Output).items()}

    def check(self) -> None:
        """Asserts that inputs come before the nodes that read them, and fit them. An AssertionError is a defect of Stepwell."""
        for index, node in enumerate(self.nodes):
            assert all(0 <= i < index for i in node.inputs), f"node {index} {node.kind} reads {node.inputs}"
            node.check([self.nodes[i].types for i in node.inputs])

    def to_json(self) -> str:
        """The circuit as JSON with sorted keys, so that equal circuits have equal text."""
        return json.dumps([plain_fields(node) for node in self.nodes], sort_keys=True, separators=(",", ":"))

    @cached_property
    def fingerprint(self) -> str:
        return xxhash.xxh3_128_hexdigest(self.to_json().encode())


def plain_fields(node: Node) -> dict[str, Any]:
    """The JSON form of a node: its kind, and its fields without those that have the metadata LATER and their default."""
    plain: dict[str, Any] = _plain(node)
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, pa.DataType):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(
        value,
        NodeBase
        | Expression
        | AggregateCall
        | SortKey
        | WindowFrame
        | Months
        | WindowCall
        | PythonCall
        | PythonFunction
        | Expiry
        | ClockBound
        | ClockFunction,
    ):
        plain = {
            part.name: _plain(getattr(value, part.name))
            for part in fields(value)
            if part.compare and part.metadata != BESIDE and not _left_out(value, part)
        }
        for part in fields(value):
            if part.metadata == BESIDE:
                plain |= getattr(value, part.name).recorded_parts()
        return {"kind": value.kind, **plain} if isinstance(value, NodeBase) else plain
    return value


def _left_out(value: Any, part: Field[Any]) -> bool:
    return part.metadata == LATER and getattr(value, part.name) == part.default
