"""The circuit: what a project becomes, and what its state belongs to.

A circuit is a list of nodes in topological order; a node names its inputs by their index. It holds no Spark, no Kafka and no
state: it is plain data that pickles, is written down beside the state as JSON, and is recognised by the `fingerprint` of that JSON.
Columns have no names inside a circuit: they are `c0`, `c1`, ... of a node's output.

A node's output is a stream of Z-sets: its columns, and a weight. A node here is data only; what the engine does with it stands in its
module in `operators/`. `Node` is the closed union of all kinds. docs/contributing.md says how to add one.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import pyarrow as pa
import xxhash

from base.options import Mode

Column = int
Types = tuple[pa.DataType, ...]


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
class NodeBase(ABC):
    """`types`: the columns of the output, without the weight. `kind` is the name in the written form."""

    inputs: tuple[int, ...]
    types: Types
    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__

    @abstractmethod
    def check(self, inputs: Sequence[Types]) -> None:
        """Proves that the node fits the types of its inputs; an AssertionError is our own mistake."""


def _columns_exist(columns: Iterable[Column | None], types: Types) -> bool:
    return all(column is None or 0 <= column < len(types) for column in columns)


@dataclass(frozen=True)
class Source(NodeBase):
    """An input handle. `append` and a changelog without a key yield Z-sets; a keyed one (upsert, changelog with key)
    yields *messages*: the columns, then `deleted` (bool), `partition` (int32) and `offset` (int64), for `LastByKey`.
    `retracts`: a changelog without a key, whose Z-sets hold negative weights."""

    handle: str
    keyed: bool = False
    retracts: bool = False

    def check(self, inputs: Sequence[Types]) -> None:
        assert not inputs, "a source reads no node"


@dataclass(frozen=True)
class LastByKey(NodeBase):
    """Messages of a keyed source -> the change of the table "last message of every key", in the order (step, partition, offset)."""

    handle: str
    key: tuple[Column, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        (messages,) = inputs
        assert messages[: len(self.types)] == self.types and len(messages) == len(self.types) + 3
        assert _columns_exist(self.key, self.types)


@dataclass(frozen=True)
class Constant(NodeBase):
    """Rows that are there from step 0 on (LocalRelation, OneRowRelation, Range). `ipc`: one Arrow IPC stream of the columns."""

    ipc: bytes

    def check(self, inputs: Sequence[Types]) -> None:
        assert not inputs, "a constant reads no node"


@dataclass(frozen=True)
class Map(NodeBase):
    """Filter, then project. Rows whose predicate is not true are dropped; None keeps all."""

    predicate: Expression | None
    projections: tuple[Expression, ...]

    def places_of(self, columns: Iterable[Column]) -> tuple[Column, ...] | None:
        """Where these columns of the input stand in the output; None if one of them is not passed on."""
        where = {p.column: place for place, p in reversed(list(enumerate(self.projections))) if p.column is not None}
        wanted = tuple(columns)
        return tuple(where[c] for c in wanted) if all(c in where for c in wanted) else None

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert tuple(p.type for p in self.projections) == self.types
        assert _columns_exist((p.column for p in self.projections), rows)


@dataclass(frozen=True)
class Union(NodeBase):
    """The sum of the inputs (UNION ALL); their types are equal."""

    def check(self, inputs: Sequence[Types]) -> None:
        assert inputs and all(types == self.types for types in inputs), "unequal inputs"


@dataclass(frozen=True)
class Distinct(NodeBase):
    """Every row of positive weight, once."""

    def check(self, inputs: Sequence[Types]) -> None:
        assert list(inputs) == [self.types]


@dataclass(frozen=True)
class Deduplicate(NodeBase):
    """One row of every key. Over an input that only inserts: the first to come (within a step the least in canonical order). Over an input
    that retracts: the least in canonical order."""

    key: tuple[Column, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        assert list(inputs) == [self.types] and _columns_exist(self.key, self.types)


@dataclass(frozen=True)
class Join(NodeBase):
    """Inner equi-join; output = left columns, then right columns. Null keys match nothing unless `null_safe` says so for
    that key. `residual` is over the joined columns."""

    left_key: tuple[Column, ...]
    right_key: tuple[Column, ...]
    null_safe: tuple[bool, ...]
    residual: Expression | None = None

    def check(self, inputs: Sequence[Types]) -> None:
        left, right = inputs
        assert self.types == left + right
        _check_keys(self, left, right)


@dataclass(frozen=True)
class SemiJoin(NodeBase):
    """Left rows with (`anti`: without) a matching right row; output = left columns. `residual` is over left, then right columns.

    `null_aware`: NOT IN, with exactly one key column: a null on the right removes every row; a null on the left stays
    only if the right is empty."""

    anti: bool
    left_key: tuple[Column, ...]
    right_key: tuple[Column, ...]
    null_safe: tuple[bool, ...]
    residual: Expression | None = None
    null_aware: bool = False

    def check(self, inputs: Sequence[Types]) -> None:
        left, right = inputs
        assert self.types == left
        assert not self.null_aware or len(self.left_key) == 1
        _check_keys(self, left, right)


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
class Aggregate(NodeBase):
    """Output = the group's columns, then one column a call. Without group columns there is always exactly one row."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        _check_calls(self, rows, rows)


@dataclass(frozen=True)
class PartialAggregate(NodeBase):
    """Rows -> *partials*: a row for each group of the change, its columns followed by counts and exact sums (int64, in the order of
    `engine/operators/aggregate_plan`). A partial counts as often as its weight says: partials are a Z-set, and no memory is needed.

    `calls`: those of the FinalAggregate above, over this node's input: count, and sum and avg of integers and decimals."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert self.types[: len(self.group)] == tuple(rows[column] for column in self.group)
        assert _columns_exist((call.argument for call in self.calls), rows)


@dataclass(frozen=True)
class JoinPartials(NodeBase):
    """Inner equi-join of partials, on the left, with rows; output = left columns, then right columns. What it keeps of the left is one
    partial a group, however long the history is. `carries`: of each sum (they are the last columns of the left), whether it is a limb
    whose bits above 32 belong to the next."""

    left_key: tuple[Column, ...]
    right_key: tuple[Column, ...]
    null_safe: tuple[bool, ...]
    carries: tuple[bool, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        left, right = inputs
        assert self.types == left + right
        assert all(type_ == pa.int64() for type_ in left[len(left) - len(self.carries) :])
        _check_keys(self, left, right)


@dataclass(frozen=True)
class FinalAggregate(NodeBase):
    """Aggregate over partials. `first_sum`: the column where the sums begin; `calls` name their argument by its place in
    `argument_types`."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]
    argument_types: tuple[pa.DataType, ...]
    first_sum: Column

    def check(self, inputs: Sequence[Types]) -> None:
        (partials,) = inputs
        assert 0 <= self.first_sum < len(partials)
        _check_calls(self, partials, self.argument_types)


@dataclass(frozen=True)
class View(NodeBase):
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

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert rows == self.types and len(self.names) == len(rows)
        assert _columns_exist(self.key, rows)


@dataclass(frozen=True)
class Output(NodeBase):
    """An output handle: the change of its input, encoded as messages. `types` is empty: nothing reads it.

    `names`: of the message's fields. `key`: columns of the message key; upsert needs one."""

    handle: str
    mode: Mode
    names: tuple[str, ...]
    key: tuple[Column, ...] = ()

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert not self.types and len(self.names) == len(rows)
        assert _columns_exist(self.key, rows) and (self.key or self.mode != "upsert")


Node = (
    Source | LastByKey | Constant | Map | Union | Distinct | Deduplicate | Join | SemiJoin | Aggregate | PartialAggregate
    | JoinPartials | FinalAggregate | View | Output
)  # fmt: skip
"""Every kind of node there is: a `match` over it ends in `assert_never`."""


def _check_keys(node: Join | SemiJoin | JoinPartials, left: Types, right: Types) -> None:
    assert len(node.left_key) == len(node.right_key) == len(node.null_safe)
    assert _columns_exist(node.left_key, left) and _columns_exist(node.right_key, right)


def _check_calls(node: Aggregate | FinalAggregate, rows: Types, arguments: Types) -> None:
    """`arguments`: the types that the calls' arguments are numbered by."""
    assert _columns_exist(node.group, rows) and _columns_exist((call.argument for call in node.calls), arguments)
    assert node.types == (*(rows[column] for column in node.group), *(call.type for call in node.calls))


@dataclass(frozen=True)
class Circuit:
    """`nodes[i].inputs` are all below i."""

    nodes: tuple[Node, ...]

    def check(self) -> None:
        """Proves that inputs come before their readers and fit them; an AssertionError is our own mistake."""
        for index, node in enumerate(self.nodes):
            assert all(0 <= i < index for i in node.inputs), f"node {index} {node.kind} reads {node.inputs}"
            node.check([self.nodes[i].types for i in node.inputs])

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
    if isinstance(value, NodeBase | Expression | AggregateCall):
        plain = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind": value.kind, **plain} if isinstance(value, NodeBase) else plain
    return value
