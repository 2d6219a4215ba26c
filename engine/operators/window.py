"""Window: functions over the rows around a row (OVER).

The trace has all rows by partition. A step reads the whole partitions of the rows that changed, and no others. It sorts the stored and the new
rows together, once, and computes the functions of all these partitions at once: over the rows before the change, and over those after it. Rows
whose values stay the same are not given out. So a step costs the rows of the partitions that changed, and the operators above it pay only for
the rows whose values changed.

Rows that tie in the order and in the keys that decide between ties are ordered by the whole row in canonical order. This is a function of the
content alone. Spark orders such rows as they come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from base.arrays import Bools, Int64s
from engine.errors import DataError
from engine.model.ordered import RANKING, Window, WindowCall
from engine.operators import node_texts
from engine.operators.arrangement import Key, by_key
from engine.operators.context import StepContext
from engine.operators.descriptor import ContentOfState, Fed, Growth, Operator, OutputFacts, StateUse, Wording, always
from engine.operators.error_rows import ErrorRows
from engine.operators.keys import columns_at, distinct_keys, hash_keys
from engine.operators.names import OF_FIRST
from engine.operators.window_functions import call_values
from engine.operators.window_order import Rows, SortedRows, sort_rows
from engine.rows import zset
from engine.rows.hashing import Hashes, identity_columns
from engine.state.runs import as_rows

ROWS_MAX = 1 << 30
"""The rows of all partitions that one step computes. Running totals of limbs and digits below 2**32 are exact in int64 up to that number."""


def step_window(node: Window, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    delta = zset.consolidate(inputs[0])
    if delta.num_rows == 0:
        return zset.empty(node.types)
    of_rows = context.key(0, node.partition).hashes(delta)
    keys, hashes, partition = _partitions(node, delta, of_rows)
    width = len(node.types) - len(node.calls)
    trace = context.trace(0, node.types[:width], node.partition)
    stored = trace.probe(keys, hashes)
    columns = [_concatenate(stored.rows.column(i), delta.column(i)) for i in range(width)]
    before = np.concatenate([stored.rows.column(width).to_numpy(), np.zeros(delta.num_rows, np.int64)])
    after = before.copy()
    after[len(stored.probe) :] = zset.weights_of(delta)
    rows, (before, after) = _sort(node, columns, np.concatenate([stored.probe, partition]), [before, after])
    trace.append(as_rows(delta), of_rows)
    computed = _Computed(node, rows, before), _Computed(node, rows, after)
    for side, sign in zip(computed, (-1, 1), strict=True):
        side.count_errors(context.errors, sign)
    return _difference(node, *computed)


def _partitions(node: Window, rows: pa.Table, hashes: Hashes) -> tuple[pa.Table, Hashes, Int64s]:
    """The partitions of the rows, as `distinct_keys` has them. Without columns there is one."""
    if node.partition:
        return distinct_keys(rows, node.partition, hashes)
    return columns_at(rows, ()), hashes[:1], np.zeros(rows.num_rows, np.int64)


def _concatenate(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([*left.chunks, *right.chunks])


def _sort(
    node: Window, columns: list[pa.Array], partition: Int64s, weights: list[Int64s]
) -> tuple[SortedRows, list[Int64s]]:
    """(every different row once, in the order of the window; each of the `weights` summed for each of these rows)."""
    order, starts = zset.group_rows(columns, len(partition))
    sums = [np.add.reduceat(weight[order], starts) if len(starts) else weight for weight in weights]
    chosen = order[starts]
    different = [zset.take(column, pa.array(chosen)) for column in columns]
    rows, places = sort_rows(different, partition[chosen], node.order, node.ties)
    return rows, [total[places] for total in sums]


class _Computed:
    """Rows with the values of the calls. `first[i]`: the position of the first of the rows that are row i of the sorted ones."""

    def __init__(self, node: Window, rows: SortedRows, weights: Int64s) -> None:
        self.weights = np.maximum(weights, 0)
        if float(self.weights.sum(dtype=np.float64)) > ROWS_MAX:
            raise DataError(
                f"The partitions of a window that change in one step have more than {ROWS_MAX:,} rows.",
                "Take smaller steps, or add a column to PARTITION BY.",
            )
        self.rows: Rows = rows.expand(self.weights)
        self.first = np.cumsum(self.weights) - self.weights
        self.values, self._wrong = call_values(node, self.rows)

    def count_errors(self, errors: ErrorRows | None, sign: int) -> None:
        """Counts the rows for which a call raises. If nothing is counted, the error is raised. `sign`: see ErrorRows.add."""
        if self._wrong is None:
            return
        if errors is None:
            raise self._wrong.error
        at = pa.array(self.rows.at[self._wrong.rows])
        rows = zset.build([column.take(at) for column in self.rows.of.table], np.ones(len(at), np.int64))
        errors.add(rows, self._wrong.error, sign)

    @property
    def right(self) -> Bools:
        """The rows that are not in error."""
        return np.ones(self.rows.count, np.bool_) if self._wrong is None else ~self._wrong.rows

    def select_rows(self, kept: Bools, sign: int) -> pa.Table:
        """The rows for which `kept` is true, with their values and a weight of `sign`."""
        chosen = np.flatnonzero(kept)
        at = pa.array(self.rows.at[chosen])
        values = [zset.take(column, pa.array(chosen)) for column in self.values]
        return zset.build([*(column.take(at) for column in self.rows.of.table), *values], np.full(len(chosen), sign))


def _difference(node: Window, before: _Computed, after: _Computed) -> pa.Table:
    """The rows after, minus the rows before. A row that is there before and after with the same values is left out at once, because most rows of
    a partition are."""
    common = np.minimum(before.weights, after.weights)
    number = np.arange(int(common.sum())) - np.repeat(np.cumsum(common) - common, common)
    old, new = (np.repeat(side.first, common) + number for side in (before, after))
    same = zset.equal_rows(
        [column.take(pa.array(old)) for column in identity_columns(before.values)],
        [column.take(pa.array(new)) for column in identity_columns(after.values)],
        len(number),
    )
    gone, come = before.right, after.right
    same &= gone[old] & come[new]
    gone[old[same]] = False
    come[new[same]] = False
    change = zset.add([zset.empty(node.types), before.select_rows(gone, -1), after.select_rows(come, 1)])
    return zset.consolidate(change)


def _content(
    node: Window, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
) -> pa.Table:
    """Computed from all stored rows. All rows of a partition lie in one slot."""
    stored = context.trace(0, types[0], node.partition).scan()
    if not stored.num_rows:
        return zset.empty(node.types)
    _, _, partition = _partitions(node, stored, hash_keys(stored, node.partition))
    columns = [column.combine_chunks() for column in stored.columns[:-1]]
    rows, (weights,) = _sort(node, columns, partition, [stored.columns[-1].to_numpy()])
    computed = _Computed(node, rows, weights)
    return zset.consolidate(zset.add([zset.empty(node.types), computed.select_rows(computed.right, 1)]))


def _unique_key(node: Window, inputs: Sequence[Key | None]) -> Key | None:
    """A key of the input is one of the output. A row number is different in every row of a partition."""
    if inputs[0] is not None:
        return inputs[0]
    first = len(node.types) - len(node.calls)
    numbers = [first + i for i, call in enumerate(node.calls) if call.function == "row_number"]
    return (*node.partition, numbers[0]) if numbers else None


def _text(node: Window) -> str:
    by = [f"by {node_texts.columns(node.partition)}"] if node.partition else []
    order = [f"in the order of {', '.join(map(node_texts.sort_key, node.order))}"] if node.order else []
    ties = [f"(those that tie, of {', '.join(map(node_texts.sort_key, node.ties))})"] if node.ties else []
    return " ".join([*by, *order, *ties]) + ": " + ", ".join(map(_call, node.calls))


def _call(call: WindowCall) -> str:
    arguments = [] if call.argument is None else [f"c{call.argument}"]
    arguments += [str(call.offset)] if call.offset else []
    arguments += [] if call.default is None else [f"c{call.default}"]
    distinct = "distinct " if call.distinct else ""
    text = f"{call.function}({distinct}{', '.join(arguments)})" + (" ignoring nulls" if call.ignore_nulls else "")
    low, high = ("" if bound is None else bound for bound in (call.frame.low, call.frame.high))
    return text + (f" over {call.frame.unit} {low}..{high}" if call.function not in {*RANKING, "lead"} else "")


WINDOW = Operator(
    node=Window,
    implementation_version=1,
    step=step_window,
    arrange=lambda node, inputs: by_key(node.partition, inputs[0]),
    output=OutputFacts(unique_key=_unique_key, comes_without_input=lambda node: False, counts_errors=lambda node: True),
    growth=Growth(
        retraction=lambda node: "a row can change the values of a window function (OVER) of other rows",
        is_needed=False,
        is_relied_on=lambda node: False,
    ),
    state=StateUse(
        keeps=lambda node, append_only: "all rows, by PARTITION BY" if node.partition else "all rows",
        content=ContentOfState(),
        fed=Fed(always, _content),
        traces_in_recursion=None,
    ),
    wording=Wording(columns=OF_FIRST, text=_text, user_name=lambda node: None),
)
