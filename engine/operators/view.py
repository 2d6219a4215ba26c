"""View: the content of a materialized view or table. It is stored so that it can be queried, unless it can be computed from other state.

With a key, a view may have at most one row per key at the end of a step, because an upsert topic holds one row per key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.errors import DataError
from engine.model.circuit import View
from engine.operators import words
from engine.operators.arrangement import Arrangement, Key, by_key
from engine.operators.base import StepContext
from engine.operators.descriptor import NoContent, Operator
from engine.operators.keys import PlacedKey, net_by_key
from engine.rows import zset
from engine.state.trace import Trace, as_rows

CONTENT = 0
"""The slot of the trace of the content, which queries read."""


def step_view(node: View, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    if not node.stored:
        return inputs[0]
    delta = zset.consolidate(inputs[0])
    if delta.num_rows == 0:
        return delta
    trace = content(node, context)
    key = context.key(0, _key(node))
    if node.key:
        _check_unique(node, key, delta, trace)
    trace.append(as_rows(delta), key.hashes(delta))
    return delta


def content(node: View, context: StepContext) -> Trace:
    return context.trace(CONTENT, node.types, _key(node))


def _key(node: View) -> Key:
    return node.key or tuple(range(len(node.types)))


def _check_unique(node: View, key: PlacedKey, delta: pa.Table, trace: Trace) -> None:
    change = net_by_key(delta, node.key)
    grown = change.filter(pa.array(zset.weights_of(change) > 0))
    if grown.num_rows == 0:
        return
    keys = grown.drop_columns([zset.WEIGHT])
    after = trace.probe(keys, key.alone.hashes(grown)).totals(grown.num_rows) + zset.weights_of(grown)
    doubled = np.flatnonzero(after > 1)
    if len(doubled):
        at = int(doubled[0])
        values = {node.names[c]: keys.column(n)[at].as_py() for n, c in enumerate(node.key)}
        raise DataError(
            f"{after[at]} rows have the key {values}, but an upsert topic can hold only one row per key.",
            "Declare a 'key' that is different for each row of the view, or write the view with 'mode' = 'changelog' or 'append'.",
        )


def _arrange(node: View, inputs: Sequence[Key | None]) -> Arrangement:
    if not node.stored:
        return Arrangement((None,), inputs[0])
    return by_key(_key(node), inputs[0])


def _text(node: View) -> str:
    kept = (" derived" if node.derived else " kept") if node.kept else ""
    return f"{node.name}[{', '.join(node.names)}]{kept}" + (f" by {words.columns(node.key)}" if node.key else "")


VIEW = Operator(
    node=View,
    step=step_view,
    arrange=_arrange,
    retraction=lambda node: None,
    keeps=lambda node, append_only: "the content, for queries" if node.stored else "",
    unique_key=lambda node, inputs: inputs[0],
    content=NoContent(),  # this is for views over this one; engine/analysis/content.py reads a view's own content
    outputs_without_input=lambda node: False,
    text=_text,
    user_name=lambda node: f"view {node.name}",
)
