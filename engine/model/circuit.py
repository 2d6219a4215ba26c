"""The circuit: the graph of operators to which a project is compiled. State belongs to one circuit.

A circuit is a list of nodes in topological order. A node names its inputs by their index in the list. A circuit is plain data without Spark,
Kafka and state: it can be pickled, it is stored beside the state as JSON, and the `fingerprint` of that JSON identifies it. Columns have no
names inside a circuit: those of a node's output are `c0`, `c1`, ...

A node's output is a stream of Z-sets: its columns, and a weight. A node here is only data; what the engine does with it is in its module in
`operators/`. `Node` is the closed union of all kinds. docs/contributing.md says how to add one.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Literal

import pyarrow as pa
import xxhash

from base.options import Mode

LATER = {"later": True}
"""The metadata of a field that a node got when there was state already. The JSON form leaves it out where it has its default, so that circuits
without it keep their fingerprint."""

Column = int
Types = tuple[pa.DataType, ...]


@dataclass(frozen=True)
class Expression:
    """A scalar expression over a node's input columns.

    `sql` is DuckDB SQL over `c0`, `c1`, ...; `stepwell/lowering/expressions` writes it so that it has Spark's semantics.
    `column` is set if the expression is just an input column; then nothing is evaluated.
    """

    sql: str
    type: pa.DataType
    column: Column | None = None


@dataclass(frozen=True)
class NodeBase(ABC):
    """`types`: the types of the output's columns, without the weight. `kind` is the node's name in the JSON form."""

    inputs: tuple[int, ...]
    types: Types
    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__

    @abstractmethod
    def check(self, inputs: Sequence[Types]) -> None:
        """Asserts that the node fits the types of its inputs. An AssertionError is a defect of Stepwell."""


def _places_of(projections: Sequence[Expression], columns: Iterable[Column]) -> tuple[Column, ...] | None:
    where = {p.column: place for place, p in reversed(list(enumerate(projections))) if p.column is not None}
    wanted = tuple(columns)
    return tuple(where[c] for c in wanted) if all(c in where for c in wanted) else None


def _columns_exist(columns: Iterable[Column | None], types: Types) -> bool:
    return all(column is None or 0 <= column < len(types) for column in columns)


@dataclass(frozen=True)
class Source(NodeBase):
    """An input handle. The output of an `append` source, or of a changelog without a key, is a Z-set. The output of a keyed source (an upsert
    topic, or a changelog with a key) is a table of *messages* for `LastByKey`: the columns, then `deleted` (bool), `partition` (int32),
    `offset` (int64) and the weight. `retracts`: the source is a changelog without a key, whose Z-sets can have negative weights.

    `padded`: the columns that are CHAR(n), as texts. Rows that are stored depend on n, so the state belongs to a circuit that has it."""

    handle: str
    keyed: bool = False
    retracts: bool = False
    padded: tuple[str, ...] = field(default=(), metadata=LATER)

    def check(self, inputs: Sequence[Types]) -> None:
        assert not inputs, "a source reads no node"


@dataclass(frozen=True)
class LastByKey(NodeBase):
    """Turns the messages of a keyed source into the change of the table that holds the last message of every key, in the order (step, partition,
    offset)."""

    handle: str
    key: tuple[Column, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        (messages,) = inputs
        assert messages[: len(self.types)] == self.types and len(messages) == len(self.types) + 3
        assert _columns_exist(self.key, self.types)


@dataclass(frozen=True)
class Constant(NodeBase):
    """Constant rows, which are inserted at step 0 (LocalRelation, OneRowRelation, Range). `ipc`: one Arrow IPC stream of the columns."""

    ipc: bytes

    def check(self, inputs: Sequence[Types]) -> None:
        assert not inputs, "a constant reads no node"


@dataclass(frozen=True)
class Map(NodeBase):
    """Filters, then projects. Only rows for which the predicate is true are kept; without a predicate all rows are."""

    predicate: Expression | None
    projections: tuple[Expression, ...]

    def places_of(self, columns: Iterable[Column]) -> tuple[Column, ...] | None:
        """The positions in the output of these columns of the input; None if one of them is not in the output."""
        return _places_of(self.projections, columns)

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert tuple(p.type for p in self.projections) == self.types
        assert _columns_exist((p.column for p in self.projections), rows)


@dataclass(frozen=True)
class Replicate(NodeBase):
    """Every row as many times as its column `times` (a long) says, without that column. A row whose `times` is null or not positive is left
    out. Nothing is exploded: the row's weight is multiplied."""

    times: Column

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert _columns_exist((self.times,), rows) and rows[self.times] == pa.int64()
        assert self.types == (*rows[: self.times], *rows[self.times + 1 :])


@dataclass(frozen=True)
class ScalarValue(NodeBase):
    """The only row of its input, or nulls in all columns if the input has no row. More than one row is an error.

    The output is no change of a table. In every step it tells what the value is: a row of the columns and true, the value after the step; and
    only if the value has changed, another row of the columns and false, the value before the step. So a reader needs no state of it."""

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert self.types == (*rows, pa.bool_())


@dataclass(frozen=True)
class ScalarMap(NodeBase):
    """A Map whose expressions also read the values of ScalarValue nodes. The first input has the rows, and the others are ScalarValue nodes.
    The expressions are over the columns of the rows, of which there are `rows`, and then those of each value."""

    rows: int
    predicate: Expression | None
    projections: tuple[Expression, ...]

    def places_of(self, columns: Iterable[Column]) -> tuple[Column, ...] | None:
        """The positions in the output of these columns of the rows; None if one of them is not in the output."""
        return _places_of(self.projections, columns)

    def check(self, inputs: Sequence[Types]) -> None:
        rows, *values = inputs
        assert values and all(value[-1] == pa.bool_() for value in values), "it reads no value"
        assert self.rows == len(rows)
        assert tuple(p.type for p in self.projections) == self.types
        read = (*rows, *(type_ for value in values for type_ in value[:-1]))
        assert _columns_exist((p.column for p in self.projections), read)


@dataclass(frozen=True)
class Generate(NodeBase):
    """Several rows made of one: a row for each element of the list or map in the column `collection`. The output has the columns `kept` of the
    input, then the position in the list (int32, from 0) if `position` is set, then the element. With `fields`, the element is a struct whose
    fields are columns of their own; a map's element is its key and its value. With `outer`, a row whose list is null or empty gives one
    row, with nulls in place of what is made of an element."""

    kept: tuple[Column, ...]
    collection: Column
    position: bool
    fields: bool
    outer: bool

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert _columns_exist((*self.kept, self.collection), rows)
        made = self.made(rows[self.collection], position=self.position, fields=self.fields)
        assert self.types == (*(rows[column] for column in self.kept), *made)

    @staticmethod
    def made(collection: pa.DataType, *, position: bool, fields: bool) -> Types:
        """The types of the columns that are made of a list or map of this type."""
        if pa.types.is_map(collection):
            element = pa.struct([("key", collection.key_type), ("value", collection.item_type)])
        else:
            element = collection.value_type
        return (*((pa.int32(),) if position else ()), *((field.type for field in element) if fields else (element,)))


@dataclass(frozen=True)
class Union(NodeBase):
    """The sum of the inputs (UNION ALL). Their types are equal."""

    def check(self, inputs: Sequence[Types]) -> None:
        assert inputs and all(types == self.types for types in inputs), "unequal inputs"


@dataclass(frozen=True)
class Distinct(NodeBase):
    """Every row of positive weight, with weight 1."""

    def check(self, inputs: Sequence[Types]) -> None:
        assert list(inputs) == [self.types]


@dataclass(frozen=True)
class Deduplicate(NodeBase):
    """One row of every key. If the input only inserts, it is the first row to arrive; of several in the same step, the least in canonical order.
    If the input can retract, it is the least row in canonical order."""

    key: tuple[Column, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        assert list(inputs) == [self.types] and _columns_exist(self.key, self.types)


@dataclass(frozen=True)
class Join(NodeBase):
    """Inner equi-join. The output has the left columns, then the right columns. A null in a key column matches nothing, unless `null_safe` is
    set for that column. `residual` is a condition over the joined columns."""

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
    """The left rows that have a matching right row; with `anti`, those that have none. The output has the left columns. `residual` is a
    condition over the left columns, then the right columns.

    `null_aware`: NOT IN, with exactly one key column. A null on the right removes every row. A left row whose key is null stays only if the
    right is empty."""

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


@dataclass(frozen=True)
class OuterJoin(NodeBase):
    """Outer equi-join. The output has the left columns, then the right columns. It has the rows of the inner join, and each left row without
    a match, with NULLs in the right columns; with `full`, also each right row without a match. A match has an equal key, as in `Join`, and
    satisfies the `residual`, which is a condition over the joined columns.

    `single`: the right is a subquery that stands for a value. It is an error of the data if a left row has several matches."""

    full: bool
    left_key: tuple[Column, ...]
    right_key: tuple[Column, ...]
    null_safe: tuple[bool, ...]
    residual: Expression | None = None
    single: bool = False

    def check(self, inputs: Sequence[Types]) -> None:
        left, right = inputs
        assert self.types == left + right
        assert not (self.full and self.single)
        _check_keys(self, left, right)


AggregateFunction = Literal[
    "count", "sum", "avg", "min", "max",
    "var_pop", "var_samp", "stddev_pop", "stddev_samp", "regr_sxx",
    "covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2", "regr_sxy",
    "collect_list", "collect_set", "first_k", "listagg", "mode", "bit_and", "bit_or", "bit_xor", "skewness", "kurtosis",
    "percentile_cont", "percentile_disc", "percentile_approx",
]  # fmt: skip
"""What each computes is in its descriptor, in the table of engine/operators/aggregate_functions.py."""


@dataclass(frozen=True)
class AggregateCall:
    """One call of an aggregate function. `argument` is a column of the input; None is count(*). `type` is Spark's type of the result.
    A Map below computes `count(a, b)` and FILTER clauses as expressions that are null for the rows that do not count."""

    function: AggregateFunction
    argument: Column | None
    distinct: bool
    type: pa.DataType


@dataclass(frozen=True)
class ValuesCall(AggregateCall):
    """A call of a function that reads all values of a group in order (collect_list, percentile, ...). It has a class of its own, so that the
    JSON form of all other calls stays as it was.

    `field`: if the argument is a struct, this field of it is the value, and the whole struct decides the order. `parameters`: the constants of
    the function, such as the fractions of a percentile; its descriptor says which."""

    field: Column | None = None
    parameters: tuple[str | float | bytes, ...] = ()


@dataclass(frozen=True)
class Aggregate(NodeBase):
    """One row per group. The output has the group's columns, then one column per call. Without group columns there is always exactly one row."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        _check_calls(self, rows, rows)


@dataclass(frozen=True)
class PartialAggregate(NodeBase):
    """Turns rows into *partials*: one row for each group of the change. It has the group's columns, then counts and exact sums (int64, in the
    order of `engine/operators/aggregate_plan`). Partials are a Z-set: a partial of weight 2 counts twice. The node has no state.

    `calls`: the calls of the FinalAggregate above, over this node's input: count, and sum and avg of integers and decimals."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert self.types[: len(self.group)] == tuple(rows[column] for column in self.group)
        assert _columns_exist((call.argument for call in self.calls), rows)


@dataclass(frozen=True)
class JoinPartials(NodeBase):
    """Inner equi-join of partials, on the left, with rows. The output has the left columns, then the right columns. Of the left it stores one
    partial per group, however long the history is. `carries`: for each sum (the sums are the last columns of the left), whether it is a limb
    whose bits above 32 are carried to the next."""

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
    """Aggregate over partials. `first_sum`: the first column that is a sum. The argument of a call is a position in `argument_types`."""

    group: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]
    argument_types: tuple[pa.DataType, ...]
    first_sum: Column

    def check(self, inputs: Sequence[Types]) -> None:
        (partials,) = inputs
        assert 0 <= self.first_sum < len(partials)
        _check_calls(self, partials, self.argument_types)


@dataclass(frozen=True)
class SortKey:
    """A column by which rows are sorted."""

    column: Column
    ascending: bool
    nulls_first: bool


@dataclass(frozen=True)
class TopK(NodeBase):
    """Of the rows with equal `partition` columns: the `count` rows behind the first `offset`, in the order of `order`. A row of weight 3 takes
    three places. Rows that tie are in canonical order. Without a `count` there is no end. Without partition columns there is one group.

    The partition columns are compared as they are, and the sort keys in Spark's order, in which -0.0 equals 0.0."""

    partition: tuple[Column, ...]
    order: tuple[SortKey, ...]
    offset: int
    count: int | None

    @property
    def bounds(self) -> tuple[int, ...]:
        """The numbers of rows from the first one on whose difference is the output: `offset`, unless it is 0, and the end, if there is one."""
        ends = (self.offset, 0 if self.count is None else self.offset + self.count)
        return tuple(end for end in ends if end)

    def check(self, inputs: Sequence[Types]) -> None:
        assert list(inputs) == [self.types]
        assert _columns_exist(self.partition, self.types) and len(set(self.partition)) == len(self.partition)
        assert _columns_exist((key.column for key in self.order), self.types)
        assert self.offset >= 0 and self.bounds and (self.count is None or self.count > 0), (
            "it keeps no row, or every row"
        )


WindowFunction = Literal[
    "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lead", "first_value", "last_value",
    "nth_value", "count", "sum", "avg", "min", "max",
]  # fmt: skip
RANKING: frozenset[WindowFunction] = frozenset(
    {"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"}
)
"""The functions that read the row's place in its partition and nothing else."""


@dataclass(frozen=True)
class Frame:
    """The rows around a row that a function reads. In `rows`, a bound is a number of rows. In `range`, it is a distance between values of the
    one column of the order, as the engine stores them: a number, unscaled units of a decimal, days of a date or microseconds of a timestamp;
    0 means the row and those that tie with it. A bound before the row is negative. None is the end of the partition."""

    unit: Literal["rows", "range"]
    low: int | float | None
    high: int | float | None

    @property
    def whole(self) -> bool:
        """Whether the frame of every row is its partition."""
        return self.low is None and self.high is None


@dataclass(frozen=True)
class WindowCall:
    """One call of a function over a window. `argument` is a column of the input; None is count(*), or a function of the row's place alone.

    `offset`: of lead, the number of rows ahead (lag is a negative one); of nth_value, n; of ntile, the number of tiles. `default`: the column
    whose value lead gives where there is no such row; None is NULL. `ignore_nulls`: rows whose argument is null are left out of the count."""

    function: WindowFunction
    argument: Column | None
    frame: Frame
    type: pa.DataType
    offset: int = 0
    default: Column | None = None
    ignore_nulls: bool = False


@dataclass(frozen=True)
class Window(NodeBase):
    """Functions over the rows around a row (OVER). The output has the input's columns, then one column per call. Rows of equal `partition`
    columns, where null equals null, are a partition. They are ordered by `order`, and rows that tie in it by the whole row in canonical order.
    A row of weight 3 is three rows."""

    partition: tuple[Column, ...]
    order: tuple[SortKey, ...]
    calls: tuple[WindowCall, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert self.calls and self.types == (*rows, *(call.type for call in self.calls))
        assert _columns_exist((*self.partition, *(key.column for key in self.order)), rows)
        assert _columns_exist((column for call in self.calls for column in (call.argument, call.default)), rows)
        assert all(
            (call.argument is None) == (call.function in RANKING) or call.function == "count" for call in self.calls
        )


@dataclass(frozen=True)
class Sessions(NodeBase):
    """The rows of the input, in which the time range in the column `window` (a struct of two timestamps) is replaced by that of the row's
    session. The ranges of rows with equal `key` columns that touch or overlap are one session."""

    key: tuple[Column, ...]
    window: Column

    def check(self, inputs: Sequence[Types]) -> None:
        assert list(inputs) == [self.types] and _columns_exist((*self.key, self.window), self.types)
        window = self.types[self.window]
        assert pa.types.is_struct(window) and window.num_fields == 2 and self.window not in self.key
        assert all(pa.types.is_timestamp(field.type) for field in window)


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
        assert _columns_exist(self.key, rows)


@dataclass(frozen=True)
class Output(NodeBase):
    """An output handle: the change of its input, encoded as messages. `types` is empty, because no node reads an output.

    `names`: the names of the message's fields. `key`: the columns of the message key; upsert needs one."""

    handle: str
    mode: Mode
    names: tuple[str, ...]
    key: tuple[Column, ...] = ()

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert not self.types and len(self.names) == len(rows)
        assert _columns_exist(self.key, rows) and (self.key or self.mode != "upsert")


Node = (
    Source | LastByKey | Constant | Map | Replicate | ScalarValue | ScalarMap | Union | Distinct | Deduplicate | Join
    | SemiJoin | OuterJoin | Aggregate | PartialAggregate | JoinPartials | FinalAggregate | TopK | Window | Generate
    | Sessions | Recursion | View | Output
)  # fmt: skip
"""Every kind of node. A `match` over it ends in `assert_never`."""


def _check_keys(node: Join | SemiJoin | OuterJoin | JoinPartials, left: Types, right: Types) -> None:
    assert len(node.left_key) == len(node.right_key) == len(node.null_safe)
    assert _columns_exist(node.left_key, left) and _columns_exist(node.right_key, right)


def _check_calls(node: Aggregate | FinalAggregate, rows: Types, arguments: Types) -> None:
    """`arguments`: the types of the columns that the calls' arguments are positions of."""
    assert _columns_exist(node.group, rows) and _columns_exist((call.argument for call in node.calls), arguments)
    assert node.types == (*(rows[column] for column in node.group), *(call.type for call in node.calls))


@dataclass(frozen=True)
class Circuit:
    """The nodes in topological order: every input of node i has an index below i."""

    nodes: tuple[Node, ...]

    def check(self) -> None:
        """Asserts that inputs come before the nodes that read them, and fit them. An AssertionError is a defect of Stepwell."""
        for index, node in enumerate(self.nodes):
            assert all(0 <= i < index for i in node.inputs), f"node {index} {node.kind} reads {node.inputs}"
            node.check([self.nodes[i].types for i in node.inputs])

    def to_json(self) -> str:
        """The circuit as JSON with sorted keys, so that equal circuits have equal text."""
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
    if isinstance(value, NodeBase | Expression | AggregateCall | SortKey | Frame | WindowCall):
        plain = {part.name: _plain(getattr(value, part.name)) for part in fields(value) if not _left_out(value, part)}
        return {"kind": value.kind, **plain} if isinstance(value, NodeBase) else plain
    return value


def _left_out(value: Any, part: Field[Any]) -> bool:
    return part.metadata == LATER and getattr(value, part.name) == part.default
