"""The circuit: what a project becomes, and what its state belongs to.

A circuit is a list of nodes in topological order; a node names its inputs by their index. It holds no Spark, no Kafka and no
state: it is plain data that pickles, is written down beside the state as JSON, and is told apart from another by the
`fingerprint` of that JSON. Columns have no names inside a circuit: they are `c0`, `c1`, ... of a node's output.

A node's output is a stream of Z-sets: its columns, and a weight. `operators/` has one module for each kind of node.
To add an operator: a dataclass here, a module in `operators/`, a line in `operators/table.py`, a rule in `stepwell/lowering`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import pyarrow as pa
import xxhash

Column = int
InputMode = Literal["append", "upsert", "changelog"]
OutputMode = Literal["append", "upsert", "changelog"]


@dataclass(frozen=True)
class Expression:
    """A scalar expression over a node's input columns.

    `sql` is DuckDB SQL over `c0`, `c1`, ...; it has Spark's semantics because `stepwell/lowering/expressions` wrote it so.
    `column` is set where the expression is an input column and nothing more: then nothing is evaluated.
    """

    sql: str
    type: pa.DataType
    column: Column | None = None


@dataclass(frozen=True)
class Node:
    """`types`: the columns of the output, without the weight."""

    inputs: tuple[int, ...]
    types: tuple[pa.DataType, ...]
    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__


@dataclass(frozen=True)
class Source(Node):
    """An input handle. `append` and a changelog without a key yield Z-sets; a keyed one (upsert, changelog with key)
    yields *messages*: the columns, then `deleted` (bool), `partition` (int32) and `offset` (int64), for `LastByKey`.
    `retracts`: a changelog without a key, whose Z-sets hold negative weights."""

    handle: str
    keyed: bool = False
    retracts: bool = False


@dataclass(frozen=True)
class LastByKey(Node):
    """Messages of a keyed source -> the change of the table "last message of every key", in the order (step, partition, offset)."""

    handle: str
    key: tuple[Column, ...]


@dataclass(frozen=True)
class Constant(Node):
    """Rows that are there from step 0 on (LocalRelation, OneRowRelation, Range). `ipc`: one Arrow IPC stream of the columns."""

    ipc: bytes


@dataclass(frozen=True)
class Map(Node):
    """Filter, then project. Rows whose predicate is not true are dropped; None keeps all."""

    predicate: Expression | None
    projections: tuple[Expression, ...]

    def places_of(self, columns: Iterable[Column]) -> tuple[Column, ...] | None:
        """Where these columns of the input stand in the output; None if one of them is not passed on."""
        where = {p.column: place for place, p in reversed(list(enumerate(self.projections))) if p.column is not None}
        wanted = tuple(columns)
        return tuple(where[c] for c in wanted) if all(c in where for c in wanted) else None


@dataclass(frozen=True)
class Union(Node):
    """The sum of the inputs (UNION ALL); their types are equal."""


@dataclass(frozen=True)
class Distinct(Node):
    """Every row of positive weight, once."""


@dataclass(frozen=True)
class Deduplicate(Node):
    """One row of every key: the least in canonical order, so that the choice is a function of the content alone."""

    key: tuple[Column, ...]


@dataclass(frozen=True)
class Join(Node):
    """Inner equi-join; output = left columns, then right columns. Null keys match nothing unless `null_safe` says so for
    that key. `residual` is over the joined columns."""

    left_key: tuple[Column, ...]
    right_key: tuple[Column, ...]
    null_safe: tuple[bool, ...]
    residual: Expression | None = None


@dataclass(frozen=True)
class SemiJoin(Node):
    """Left rows with (`anti`: without) a matching right row; output = left columns. `residual` is over left, then right columns.

    `null_aware`: NOT IN, with exactly one key column: a null on the right removes every row; a null on the left stays
    only if the right is empty."""

    anti: bool
    left_key: tuple[Column, ...]
    right_key: tuple[Column, ...]
    null_safe: tuple[bool, ...]
    residual: Expression | None = None
    null_aware: bool = False


AggregateFunction = Literal["count", "sum", "avg", "min", "max"]


@dataclass(frozen=True)
class AggregateCall:
    """`argument` is a column of the input; None is count(*). `type` is the result's, as Spark has it.
    `count(a, b)` and FILTER clauses have become expressions of a Map before: an argument that is null is not counted."""

    function: AggregateFunction
    argument: Column | None
    distinct: bool
    type: pa.DataType


@dataclass(frozen=True)
class Aggregate(Node):
    """Output = the group's columns, then one column a call. Without group columns there is always exactly one row."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class PartialAggregate(Node):
    """Rows -> *partials*: a row for each group of the change, its columns followed by counts and exact sums (int64, in the order of
    `engine/operators/aggregate_plan`). A partial counts as often as its weight says: partials are a Z-set, and no memory is needed.

    `calls`: those of the FinalAggregate above, over this node's input: count, and sum and avg of integers and decimals."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class JoinPartials(Node):
    """Inner equi-join of partials, on the left, with rows; output = left columns, then right columns. What it keeps of the left is one
    partial a group, however long the history is. `carries`: of each sum (they are the last columns of the left), whether it is a limb
    whose bits above 32 belong to the next."""

    left_key: tuple[Column, ...]
    right_key: tuple[Column, ...]
    null_safe: tuple[bool, ...]
    carries: tuple[bool, ...]


@dataclass(frozen=True)
class FinalAggregate(Node):
    """Aggregate over partials. `first_sum`: the column where the sums begin; `calls` name their argument by its place in
    `argument_types`."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]
    argument_types: tuple[pa.DataType, ...]
    first_sum: Column


@dataclass(frozen=True)
class View(Node):
    """The boundary of a materialized view or table: its content, under its name. `names`: the columns' names.

    `kept`: the content can be queried. It is stored by `key` (or by whole row), or `derived` from the aggregate below when it is asked for
    (engine/analysis/content.py)."""

    name: str
    names: tuple[str, ...]
    kept: bool
    key: tuple[Column, ...] = ()
    derived: bool = False

    @property
    def stored(self) -> bool:
        return self.kept and not self.derived


@dataclass(frozen=True)
class Output(Node):
    """An output handle: the change of its input, encoded as messages. `types` is empty: nothing reads it.

    `names`: of the message's fields. `key`: columns of the message key; upsert needs one."""

    handle: str
    mode: OutputMode
    names: tuple[str, ...]
    key: tuple[Column, ...] = ()


NODE_KINDS: dict[str, type[Node]] = {
    kind.__name__: kind
    for kind in (
        Source, LastByKey, Constant, Map, Union, Distinct, Deduplicate, Join, SemiJoin, Aggregate, PartialAggregate, JoinPartials,
        FinalAggregate, View, Output,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Circuit:
    """`nodes[i].inputs` are all below i."""

    nodes: tuple[Node, ...]

    def check(self) -> None:
        """Proves that inputs come before their readers and that plain columns exist; an AssertionError is our own mistake."""
        for index, node in enumerate(self.nodes):
            assert all(0 <= i < index for i in node.inputs), f"node {index} {node.kind} reads {node.inputs}"
            if isinstance(node, Map):
                width = len(self.nodes[node.inputs[0]].types)
                assert tuple(p.type for p in node.projections) == node.types, f"node {index}: types differ"
                assert all(p.column is None or p.column < width for p in node.projections)
            if isinstance(node, Union):
                assert all(self.nodes[i].types == node.types for i in node.inputs), f"node {index}: unequal inputs"
            if isinstance(node, View | Output):
                assert len(node.names) == len(self.nodes[node.inputs[0]].types)

    def to_json(self) -> str:
        """The circuit's own written form: stable in key order, so that equal circuits have equal text."""
        return json.dumps([_plain(node) for node in self.nodes], sort_keys=True, separators=(",", ":"))

    @property
    def fingerprint(self) -> str:
        return xxhash.xxh3_128_hexdigest(self.to_json().encode())


def _plain(value: Any) -> Any:
    if isinstance(value, pa.DataType):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Node | Expression | AggregateCall):
        plain = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind": value.kind, **plain} if isinstance(value, Node) else plain
    return value
