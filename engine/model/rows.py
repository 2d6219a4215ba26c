"""Nodes that are inputs, or that treat each row or each key by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from base.options import UNAVAILABLE_VALUE
from engine.model.node import LATER, Column, Expression, NodeBase, Types, columns_exist, places_of
from engine.model.python_call import OF_GROUPS, PythonCall


@dataclass(frozen=True)
class Source(NodeBase):
    """An input handle. The output of an `append` source, or of a changelog without a key, is a Z-set. The output of a keyed source (an upsert
    topic, or a changelog with a key) is a table of *messages* for `LastByKey`: the columns, then `deleted` (bool), `partition` (int32),
    `offset` (int64) and the weight. `retracts`: the source is a changelog without a key, whose Z-sets can have negative weights.

    A message of which `deleted` is null deletes every row of the table, so every worker gets it.

    `padded`: the columns that are CHAR(n), as texts. Rows that are stored depend on n, so the state belongs to a circuit that has it.
    `unavailable`: what stands for values that the database has not sent, for the same reason."""

    handle: str
    keyed: bool = False
    retracts: bool = False
    padded: tuple[str, ...] = field(default=(), metadata=LATER)
    unavailable: str = field(default=UNAVAILABLE_VALUE, metadata=LATER)

    def check(self, inputs: Sequence[Types]) -> None:
        assert not inputs, "a source reads no node"


@dataclass(frozen=True)
class LastByKey(NodeBase):
    """Turns the messages of a keyed source into the change of the table that holds the last message of every key, in the order (step, partition,
    offset). A value of a message that is the mark of the placeholder `unavailable` (io_kafka/formats/unavailable.py) is the value that the row
    had before."""

    handle: str
    key: tuple[Column, ...]
    unavailable: str = field(default=UNAVAILABLE_VALUE, metadata=LATER)

    def check(self, inputs: Sequence[Types]) -> None:
        (messages,) = inputs
        assert messages[: len(self.types)] == self.types and len(messages) == len(self.types) + 3
        assert columns_exist(self.key, self.types)


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

    @property
    def selected(self) -> tuple[Column, ...] | None:
        """The columns of the input that the output has, if the node does nothing but select them; otherwise None."""
        columns = tuple(p.column for p in self.projections if p.column is not None)
        return columns if self.predicate is None and len(columns) == len(self.projections) else None

    def places_of(self, columns: Iterable[Column]) -> tuple[Column, ...] | None:
        """The positions in the output of these columns of the input; None if one of them is not in the output."""
        return places_of(self.projections, columns)

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert tuple(p.type for p in self.projections) == self.types
        assert columns_exist((p.column for p in self.projections), rows)


@dataclass(frozen=True)
class PythonMap(NodeBase):
    """Calls functions of the user's for every row. The output has the input's columns, then one column per call."""

    calls: tuple[PythonCall, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert self.calls and self.types == (*rows, *(call.type for call in self.calls))
        assert all(call.functions for call in self.calls)
        assert all(len(call.arguments) == 1 or call.form not in OF_GROUPS for call in self.calls)
        assert columns_exist((column for call in self.calls for column in call.arguments), rows)


@dataclass(frozen=True)
class Replicate(NodeBase):
    """Every row as many times as its column `times` (a long) says, without that column. A row whose `times` is null or not positive is left
    out. Nothing is exploded: the row's weight is multiplied."""

    times: Column

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert columns_exist((self.times,), rows) and rows[self.times] == pa.int64()
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
        return places_of(self.projections, columns)

    def check(self, inputs: Sequence[Types]) -> None:
        rows, *values = inputs
        assert values and all(value[-1] == pa.bool_() for value in values), "it reads no value"
        assert self.rows == len(rows)
        assert tuple(p.type for p in self.projections) == self.types
        read = (*rows, *(type_ for value in values for type_ in value[:-1]))
        assert columns_exist((p.column for p in self.projections), read)


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
        assert columns_exist((*self.kept, self.collection), rows)
        made = self.made_types(rows[self.collection], position=self.position, fields=self.fields)
        assert self.types == (*(rows[column] for column in self.kept), *made)

    @staticmethod
    def made_types(collection: pa.DataType, *, position: bool, fields: bool) -> Types:
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
        assert list(inputs) == [self.types] and columns_exist(self.key, self.types)
