"""View: the content of a materialized view or table. It is stored so that it can be queried, unless it can be computed from other state.

With a key, a view may have at most one row per key at the end of a step, because an upsert topic holds one row per key. Otherwise it is in
error, although Spark has an answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from engine.errors import DataError
from engine.expressions.functions.function import shown_row
from engine.model.circuit import View
from engine.operators import node_texts
from engine.operators.arrangement import Arrangement, Key, by_key
from engine.operators.context import StepContext
from engine.operators.descriptor import FOLLOWS_INPUTS, Fed, NoContent, Operator, OutputFacts, StateUse, Wording
from engine.operators.error_rows import ErrorRows
from engine.operators.keys import ColocatedKey, net_by_key
from engine.operators.names import named_by
from engine.rows import zset
from engine.state.runs import as_rows, as_zset
from engine.state.trace import Trace

CONTENT = 0
"""The number of the trace of the content, which queries read."""


class SeveralRows(DataError):
    """Several rows of a view have one key."""

    is_of_rows = True

    @classmethod
    def of(cls, node: View, keys: pa.Table, rows: Int64s, at: int) -> SeveralRows:
        """`keys`: some keys. `rows`: how many rows each has. `at`: the one to name."""
        values = shown_row([node.names[c] for c in node.key], keys.columns, at)
        return cls(
            f"{rows[at]} rows have the key {values}, but an upsert topic can hold only one row per key.",
            "Declare a 'key' that is different for each row of the view, or write the view with 'mode' = 'changelog' or 'append'.",
        )


def step_view(node: View, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    if not node.stored:
        return inputs[0]
    delta = zset.consolidate(inputs[0])
    if delta.num_rows == 0:
        return delta
    trace = content(node, context)
    key = context.key(0, _key(node))
    if node.key:
        _check_unique(node, key, delta, trace, context.errors)
    trace.append(as_rows(delta), key.hashes(delta))
    return delta


def content(node: View, context: StepContext) -> Trace:
    return context.trace(CONTENT, node.types, _key(node))


def _stored_rows(
    node: View, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
) -> pa.Table:
    return as_zset(content(node, context).scan())


def _key(node: View) -> Key:
    return node.key or tuple(range(len(node.types)))


def _check_unique(node: View, key: ColocatedKey, delta: pa.Table, trace: Trace, errors: ErrorRows | None) -> None:
    """Raises SeveralRows if a key has more than one row after the step. If the step counts error rows, such a key is one."""
    change = net_by_key(delta, node.key)
    if errors is None:
        change = change.filter(pa.array(zset.weights_of(change) > 0))
    if change.num_rows == 0:
        return
    keys = change.drop_columns([zset.WEIGHT])
    before = trace.probe(keys, key.alone.hashes(change)).totals(change.num_rows)
    after = before + zset.weights_of(change)
    doubled = np.flatnonzero(after > 1)
    error = SeveralRows.of(node, keys, after, int(doubled[0])) if len(doubled) else None
    if errors is None:
        if error is not None:
            raise error
        return
    moved = (after > 1).astype(np.int64) - (before > 1).astype(np.int64)
    rows = np.flatnonzero(moved)
    if len(rows):
        errors.add(zset.build([zset.take(column, pa.array(rows)) for column in keys.columns], moved[rows]), error)


def _arrange(node: View, inputs: Sequence[Key | None]) -> Arrangement:
    if not node.stored:
        return Arrangement((None,), inputs[0])
    return by_key(_key(node), inputs[0])


def _text(node: View) -> str:
    kept = (" derived" if node.derived else " kept") if node.kept else ""
    return f"{node.name}[{', '.join(node.names)}]{kept}" + (f" by {node_texts.columns(node.key)}" if node.key else "")


VIEW = Operator(
    node=View,
    implementation_version=1,
    step=step_view,
    arrange=_arrange,
    output=OutputFacts(
        unique_key=lambda node, inputs: inputs[0],
        comes_without_input=lambda node: False,
        counts_errors=lambda node: node.stored and bool(node.key),
    ),
    growth=FOLLOWS_INPUTS,
    state=StateUse(
        keeps=lambda node, append_only: "the content, for queries" if node.stored else "",
        content=NoContent(),  # this is for views over this one; engine/analysis/content.py reads a view's own content
        fed=Fed(lambda node: node.stored, _stored_rows),
        traces_in_recursion=None,
    ),
    wording=Wording(
        columns=named_by(lambda node, inputs, naming: node.names),
        text=_text,
        user_name=lambda node: f"view {node.name}",
    ),
)
