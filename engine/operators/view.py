"""View: the content of a materialized view or table, stored where nothing else holds it, so that it can be queried.

With a key, at most one row of a key may be there at the end of a step: an upsert topic could not tell two apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.errors import DataError
from engine.model.circuit import View
from engine.operators.base import StepContext
from engine.operators.keys import hash_keys, net_by_key
from engine.rows import zset
from engine.state.trace import Trace, as_rows

CONTENT = 0
"""The slot of the content's trace: a query reads it."""


def step_view(node: View, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    if not node.stored:
        return inputs[0]
    delta = zset.consolidate(inputs[0])
    if delta.num_rows == 0:
        return delta
    trace = content(node, context)
    if node.key:
        _check_unique(node, delta, trace, context)
    trace.append(as_rows(delta))
    return delta


def content(node: View, context: StepContext) -> Trace:
    return context.trace(CONTENT, node.types, node.key or tuple(range(len(node.types))))


def _check_unique(node: View, delta: pa.Table, trace: Trace, context: StepContext) -> None:
    change = net_by_key(delta, node.key)
    grown = change.filter(pa.array(zset.weights_of(change) > 0))
    if grown.num_rows == 0:
        return
    keys = grown.drop_columns([zset.WEIGHT])
    hashes = hash_keys(grown, range(len(node.key)))
    after = trace.probe(keys, hashes).totals(grown.num_rows) + zset.weights_of(grown)
    doubled = np.flatnonzero(after > 1)
    if len(doubled):
        at = int(doubled[0])
        key = {node.names[c]: keys.column(n)[at].as_py() for n, c in enumerate(node.key)}
        raise DataError(
            f"view {node.name}, step {context.step}: {after[at]} rows have the key {key}; an upsert topic can hold one row of a key.",
            "Declare a 'key' that tells the view's rows apart, or write the view with 'mode' = 'changelog' or 'append'.",
        )
