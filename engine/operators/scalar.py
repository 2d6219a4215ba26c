"""ScalarValue and ScalarMap: a subquery that stands for a value, and the expressions that read it.

A value is one row on the worker that owns slot 0, and the rows that read it are many, on all workers. So the rows stay where they are, and
the value comes to them: a ScalarMap gets the rows of each ScalarValue on every worker.

State lies in slots, which move between workers, and a copy of the value at every reader would lie in none. So the readers keep no copy.
ScalarValue tells its value in every step, in a table of one row; in two if it has changed, the other one being the value before the step.
With f_v(rows) = "the rows that are selected and computed with the value v", the change of a ScalarMap's output is

    f_new(dRows)  +  f_new(Rows_old) - f_old(Rows_old)

A step in which no value changes costs the changed rows. If a value changes, every stored row is evaluated with both values, because each may
depend on it. Rows whose result stays the same cancel on their worker, before any exchange.

Whether a subquery has one row is decided for the whole step: a second row that comes and goes within one step is never seen. While a value is in
error because of a second row (error_rows.py), its readers have no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.errors import DataError
from engine.model.rows import ScalarMap, ScalarValue
from engine.operators import node_texts
from engine.operators.arrangement import EVERYONE, Arrangement, Exchange, Key, on_one_worker
from engine.operators.context import StepContext
from engine.operators.descriptor import (
    FOLLOWS_INPUTS,
    Fed,
    Growth,
    NoContent,
    Operator,
    OutputFacts,
    StateUse,
    Wording,
    always,
)
from engine.operators.error_rows import ErrorRows
from engine.operators.names import OF_FIRST, ColumnNames, Names, Naming, of_expressions
from engine.rows import zset
from engine.state.runs import as_rows, as_zset


class TooManyRows(DataError):
    """A subquery that stands for a value has more than one row at the end of a step. Spark fails too."""

    is_of_rows = True

    @classmethod
    def of(cls, rows: str) -> TooManyRows:
        """`rows`: how many they are, for users."""
        return cls(
            f"[SCALAR_SUBQUERY_TOO_MANY_ROWS] A subquery that stands for a value has {rows} after this step; it may have one at most.",
            "Take one value in the subquery (max, min, any other aggregate), or add a condition that only one row fulfils.",
        )


def step_scalar_value(node: ScalarValue, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """What the value is (see ScalarValue), on the worker that owns slot 0. Raises TooManyRows, unless the step counts error rows: then the value
    is in error, and the row that tells it is of nulls."""
    if not context.step.owns_keyless:
        return zset.empty(node.types)
    types = node.types[:-1]
    delta = zset.consolidate(inputs[0])
    trace = context.trace(0, types, ())
    old = as_zset(trace.scan())
    if not delta.num_rows:
        value = _one_row(old, None if context.errors is None else ErrorRows())
        return _in_error(types) if value is None else _told_rows(value, is_after=True)
    trace.append(as_rows(delta), context.key(0, ()).hashes(delta))
    before = _one_row(old, context.errors, sign=-1)
    after = _one_row(zset.consolidate(zset.add([old, delta])), context.errors)
    if after is None:
        return _in_error(types) if before is None else _told_rows(before, is_after=False)
    told = [_told_rows(after, is_after=True)]
    if before is None:
        told.append(_in_error(types))
    elif zset.consolidate(zset.add([after, zset.negate(before)])).num_rows:
        told.append(_told_rows(before, is_after=False))
    return zset.add(told)


def _one_row(content: pa.Table, errors: ErrorRows | None, sign: int = 1) -> pa.Table | None:
    """The only row, or a row of nulls if there is none. If there are several, the value itself is the error row: None, and it is counted.
    TooManyRows is raised if nothing is counted."""
    rows = int(zset.weights_of(content).sum())
    if rows > 1:
        error = TooManyRows.of(f"{rows} rows")
        if errors is None:
            raise error
        errors.add(_nulls(content.schema.types[:-1]), error, sign)
        return None
    return content if content.num_rows else _nulls(content.schema.types[:-1])


def _nulls(types: Sequence[pa.DataType]) -> pa.Table:
    return zset.build([pa.nulls(1, kind) for kind in types], np.ones(1, np.int64))


def _told_rows(row: pa.Table, *, is_after: bool | None) -> pa.Table:
    return zset.build([*zset.rows_of(row), pa.array([is_after], pa.bool_())], np.ones(1, np.int64))


def _in_error(types: Sequence[pa.DataType]) -> pa.Table:
    """Tells that the value before the step was in error; alone, that it still is."""
    return _told_rows(_nulls(types), is_after=None)


def tells_a_change(told: pa.Table) -> bool:
    """Whether the step changes the value."""
    return _flags(told) not in ([True], [None])


def tell_again(told: pa.Table) -> pa.Table:
    """Tells the value as a step tells it that does not change it."""
    flags = _flags(told)
    if True in flags:
        return zset.take_rows(told, np.array([flags.index(True)]))
    return _in_error(told.schema.types[:-2])


def _flags(told: pa.Table) -> list[bool | None]:
    flags: list[bool | None] = told.column(told.num_columns - 2).to_pylist()
    return flags


@dataclass(frozen=True)
class _Values:
    """The columns of all values of a step, each as an array of one element; None if one of the values is in error."""

    before: list[pa.Array] | None
    after: list[pa.Array] | None
    changed: bool


def step_scalar_map(node: ScalarMap, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    rows, *told = inputs
    delta = zset.consolidate(rows)
    if not all(value.num_rows for value in told):
        assert not delta.num_rows, "there are rows and no value: a ScalarValue tells its value in every step"
        return zset.empty(node.types)
    values = _values(told)
    if not delta.num_rows and not values.changed:
        return zset.empty(node.types)
    types = [field.type for field in rows.schema][:-1]
    everything = range(len(types))
    trace = context.trace(0, types, everything)
    out = [_evaluate(node, delta, values.after, context)]
    if values.changed:
        out += [_recompute(node, as_zset(part), values, context) for part in trace.parts()]
    trace.append(as_rows(delta), context.key(0, everything).hashes(delta))
    return zset.consolidate(zset.add(out))


def _content(
    node: ScalarMap, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
) -> pa.Table:
    """The rows that are selected and computed with the values after the step."""
    assert all(value.num_rows for value in values), "a ScalarValue tells its value in every step"
    stored = context.trace(0, types[0], range(len(types[0]))).scan()
    return _evaluate(node, as_zset(stored), _values(values).after, context)


def _values(told: Sequence[pa.Table]) -> _Values:
    before: list[pa.Array] = []
    after: list[pa.Array] = []
    lacks_before = lacks_after = False
    for table in told:
        flags = _flags(table)
        assert sorted(map(str, flags)) in _TELLINGS, f"a value was told as {flags} in one step"
        columns = [_at(table, flags.index(True)) if True in flags else None]
        columns.append(_at(table, flags.index(False)) if False in flags else None if None in flags else columns[0])
        lacks_after |= columns[0] is None
        lacks_before |= columns[1] is None
        after += columns[0] or []
        before += columns[1] or []
    changed = any(map(tells_a_change, told))
    return _Values(None if lacks_before else before, None if lacks_after else after, changed)


_TELLINGS = (["True"], ["False", "True"], ["False"], ["None", "True"], ["None"])
"""Unchanged; changed; in error now; in error until now; still in error."""


def _at(told: pa.Table, row: int) -> list[pa.Array]:
    return [zset.take(column, pa.array([row])) for column in told.columns[:-2]]


def _recompute(node: ScalarMap, stored: pa.Table, values: _Values, context: StepContext) -> pa.Table:
    """What the new values change in the output of these stored rows."""
    after = _evaluate(node, stored, values.after, context)
    before = _evaluate(node, stored, values.before, context, sign=-1)
    return zset.consolidate(zset.add([after, zset.negate(before)]))


def _evaluate(
    node: ScalarMap, rows: pa.Table, values: Sequence[pa.Array] | None, context: StepContext, sign: int = 1
) -> pa.Table:
    """The rows that are selected and computed with these values; none if a value is in error. `sign`: see ErrorRows.add."""
    if not rows.num_rows or values is None:
        return zset.empty(node.types)
    every = pa.array(np.zeros(rows.num_rows, np.int64))
    columns = [*zset.rows_of(rows), *(value.take(every) for value in values)]
    return context.evaluate(node.predicate, node.projections, zset.build(columns, zset.weights_of(rows)), sign)


def _arrange_map(node: ScalarMap, inputs: Sequence[Key | None]) -> Arrangement:
    """Rows that lie by some columns stay. Others must be given a slot in which they can be stored."""
    rows, *values = inputs
    exchange: Exchange = None
    if rows is None:
        exchange = rows = tuple(range(node.rows))
    return Arrangement((exchange, *(EVERYONE for _ in values)), node.places_of(rows))


def _unique_key_of_map(node: ScalarMap, inputs: Sequence[Key | None]) -> Key | None:
    key = inputs[0]
    return None if key is None else node.places_of(key)


def _text_of_map(node: ScalarMap) -> str:
    where = f" where {node_texts.expression(node.predicate)}" if node.predicate else ""
    return ", ".join(map(node_texts.expression, node.projections)) + where + f", with values from c{node.rows} on"


def _names_read(inputs: Sequence[Names]) -> Names:
    """The last column of a value tells which one it is, and no expression reads that."""
    rows, *values = inputs
    return (*rows, *(name for value in values for name in value[:-1]))


def _names_of_map(node: ScalarMap, inputs: Sequence[Names], naming: Naming) -> Names:
    return of_expressions(node.projections, _names_read(inputs), naming)


SCALAR_VALUE = Operator(
    node=ScalarValue,
    implementation_version=1,
    step=step_scalar_value,
    arrange=lambda node, inputs: on_one_worker(inputs),
    output=OutputFacts(
        unique_key=lambda node, inputs: None,  # a value that has changed is told in two rows
        comes_without_input=lambda node: True,
        counts_errors=lambda node: True,
    ),
    growth=FOLLOWS_INPUTS,
    state=StateUse(
        keeps=lambda node, append_only: "the one row", content=NoContent(), fed=None, traces_in_recursion=None
    ),
    wording=Wording(columns=OF_FIRST, text=lambda node: "the one row, or nulls", user_name=lambda node: None),
)

SCALAR_MAP = Operator(
    node=ScalarMap,
    implementation_version=1,
    step=step_scalar_map,
    arrange=_arrange_map,
    output=OutputFacts(
        unique_key=_unique_key_of_map, comes_without_input=lambda node: False, counts_errors=lambda node: True
    ),
    growth=Growth(
        retraction=lambda node: "a row is computed again when the value of a subquery changes",
        is_needed=False,
        is_relied_on=lambda node: False,
    ),
    state=StateUse(
        keeps=lambda node, append_only: "all rows",
        content=NoContent(),
        fed=Fed(always, _content),
        traces_in_recursion=1,
    ),
    wording=Wording(
        columns=ColumnNames(_names_of_map, read=_names_read), text=_text_of_map, user_name=lambda node: None
    ),
)
