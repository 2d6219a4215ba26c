"""ScalarValue and ScalarMap: a subquery that stands for a value, and the expressions that read it.

A value is one row on the worker that owns slot 0, and the rows that read it are many, on all workers. So the rows stay where they are, and
the value comes to them: a ScalarMap gets the rows of each ScalarValue on every worker.

State lies in slots, which move between workers, and a copy of the value at every reader would lie in none. So the readers keep no copy.
ScalarValue tells its value in every step, in a table of one row; in two if it has changed, the other one being the value before the step.
With f_v(rows) = "the rows that are selected and computed with the value v", the change of a ScalarMap's output is

    f_new(dRows)  +  f_new(Rows_old) - f_old(Rows_old)

A step in which no value changes costs the changed rows. If a value changes, every stored row is evaluated with both values, because each may
depend on it. Rows whose result stays the same cancel on their worker, before any exchange.

Whether a subquery has one row is decided for the whole step: a second row that comes and goes within one step is never seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.errors import DataError
from engine.model.rows import ScalarMap, ScalarValue
from engine.operators import words
from engine.operators.arrangement import EVERYONE, Arrangement, Exchange, Key, on_one_worker
from engine.operators.base import StepContext
from engine.operators.descriptor import NoContent, Operator
from engine.operators.error_rows import ErrorRows
from engine.rows import zset
from engine.state.trace import as_rows, as_zset


class TooManyRows(DataError):
    """A subquery that stands for a value has more than one row at the end of a step. Spark fails too."""

    is_of_rows = True

    @classmethod
    def of(cls, rows: str) -> TooManyRows:
        """`rows`: how many they are, for people."""
        return cls(
            f"[SCALAR_SUBQUERY_TOO_MANY_ROWS] A subquery that stands for a value has {rows} after this step; it may have one at most.",
            "Take one value in the subquery (max, min, any other aggregate), or add a condition that only one row fulfils.",
        )


def step_scalar_value(node: ScalarValue, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """What the value is (see ScalarValue), on the worker that owns slot 0. Raises TooManyRows."""
    if not context.owns_keyless:
        return zset.empty(node.types)
    types = node.types[:-1]
    delta = zset.consolidate(inputs[0])
    trace = context.trace(0, types, ())
    old = as_zset(trace.scan())
    if not delta.num_rows:
        return _told(_one_row(old, None if context.errors is None else ErrorRows()), is_after=True)
    trace.append(as_rows(delta), context.key(0, ()).hashes(delta))
    before = _one_row(old, context.errors, sign=-1)
    after = _one_row(zset.consolidate(zset.add([old, delta])), context.errors)
    told = [_told(after, is_after=True)]
    if zset.consolidate(zset.add([after, zset.negate(before)])).num_rows:
        told.append(_told(before, is_after=False))
    return zset.add(told)


def _one_row(content: pa.Table, errors: ErrorRows | None, sign: int = 1) -> pa.Table:
    """The only row, or a row of nulls if there is none. If there are several, the value itself is the error row: it is counted, and the value is
    nulls, or TooManyRows is raised if nothing is counted."""
    rows = int(zset.weights_of(content).sum())
    nulls = zset.build([pa.nulls(1, column.type) for column in zset.rows_of(content)], np.ones(1, np.int64))
    if rows > 1:
        error = TooManyRows.of(f"{rows} rows")
        if errors is None:
            raise error
        errors.add(nulls, error, sign)
        return nulls
    return content if content.num_rows else nulls


def _told(row: pa.Table, *, is_after: bool) -> pa.Table:
    return zset.build([*zset.rows_of(row), pa.array([is_after])], np.ones(1, np.int64))


@dataclass(frozen=True)
class _Values:
    """The columns of all values of a step, each as an array of one element."""

    before: list[pa.Array]
    after: list[pa.Array]
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
    out = [_evaluated(node, delta, values.after, context)]
    if values.changed:
        out += [_recomputed(node, as_zset(part), values, context) for part in trace.parts()]
    trace.append(as_rows(delta), context.key(0, everything).hashes(delta))
    return zset.consolidate(zset.add(out))


def _values(told: Sequence[pa.Table]) -> _Values:
    before: list[pa.Array] = []
    after: list[pa.Array] = []
    for table in told:
        is_after = table.column(table.num_columns - 2).to_pylist()
        assert sorted(is_after) in ([True], [False, True]), f"a value was told {len(is_after)} times in one step"
        at = is_after.index(True)
        columns = table.columns[:-2]
        after += [zset.take(column, pa.array([at])) for column in columns]
        before += [zset.take(column, pa.array([len(is_after) - 1 - at])) for column in columns]
    return _Values(before, after, any(table.num_rows > 1 for table in told))


def _recomputed(node: ScalarMap, stored: pa.Table, values: _Values, context: StepContext) -> pa.Table:
    """What the new values change in the output of these stored rows."""
    after = _evaluated(node, stored, values.after, context)
    before = _evaluated(node, stored, values.before, context, sign=-1)
    return zset.consolidate(zset.add([after, zset.negate(before)]))


def _evaluated(
    node: ScalarMap, rows: pa.Table, values: Sequence[pa.Array], context: StepContext, sign: int = 1
) -> pa.Table:
    """The rows that are selected and computed with these values. `sign`: see ErrorRows.add."""
    if not rows.num_rows:
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
    where = f" where {words.expression(node.predicate)}" if node.predicate else ""
    return ", ".join(map(words.expression, node.projections)) + where + f", with values from c{node.rows} on"


SCALAR_VALUE = Operator(
    node=ScalarValue,
    step=step_scalar_value,
    arrange=lambda node, inputs: on_one_worker(inputs),
    retraction=lambda node: None,
    keeps=lambda node, append_only: "the one row",
    unique_key=lambda node, inputs: None,  # a value that has changed is told in two rows
    content=NoContent(),
    outputs_without_input=lambda node: True,
    text=lambda node: "the one row, or nulls",
    user_name=lambda node: None,
)

SCALAR_MAP = Operator(
    node=ScalarMap,
    step=step_scalar_map,
    arrange=_arrange_map,
    retraction=lambda node: "a row is computed again when the value of a subquery changes",
    keeps=lambda node, append_only: "all rows",
    unique_key=_unique_key_of_map,
    content=NoContent(),
    outputs_without_input=lambda node: False,
    text=_text_of_map,
    user_name=lambda node: None,
)
