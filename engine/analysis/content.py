"""The content of a view, read from the state: from a trace of its own, or worked out from the aggregate that it shows.

An aggregate's totals say all that its rows do. So a view over one stores nothing: what a step writes and merges is half as much, and who
asks for the view pays for its rows instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from engine.analysis.growth import append_only_inputs
from engine.analysis.uniqueness import key_of
from engine.expressions.evaluate import evaluate
from engine.model.circuit import Aggregate, Circuit, FinalAggregate, Map, View
from engine.operators.aggregate import rows_of_state
from engine.operators.aggregate_plan import plan_of
from engine.operators.base import StepContext
from engine.operators.view import content as stored_content
from engine.rows import zset
from engine.state.trace import as_zset

ContextOf = Callable[[int], StepContext]
"""From a node's index to the context in which its state is read; `step` is that of the version read."""


def derivable(circuit: Circuit, index: int) -> bool:
    """Whether a view need not store its content: it shows an aggregate, and no two rows of it can have the view's key."""
    view = circuit.nodes[index]
    assert isinstance(view, View)
    if view.key:
        unique = key_of(circuit, index)
        if unique is None or not set(unique) <= set(view.key):
            return False
    below = circuit.nodes[view.inputs[0]]
    while isinstance(below, Map):
        below = circuit.nodes[below.inputs[0]]
    return isinstance(below, Aggregate | FinalAggregate)


def derive_contents(circuit: Circuit) -> Circuit:
    """The circuit in which every view that need not store its content does not."""
    return Circuit(
        tuple(
            replace(node, derived=True) if isinstance(node, View) and node.stored and derivable(circuit, i) else node
            for i, node in enumerate(circuit.nodes)
        )
    )


def content_of(circuit: Circuit, index: int, context_of: ContextOf) -> pa.Table:
    """One worker's part of the content of a kept view, as a Z-set."""
    node = circuit.nodes[index]
    match node:
        case View() if node.stored:
            return as_zset(stored_content(node, context_of(index)).scan())
        case View():
            return content_of(circuit, node.inputs[0], context_of)
        case Map():
            rows = content_of(circuit, node.inputs[0], context_of)
            return evaluate(node.predicate, node.projections, rows) if rows.num_rows else zset.empty(node.types)
        case Aggregate() | FinalAggregate():
            return _rows_of_aggregate(circuit, index, node, context_of(index))
    raise AssertionError(f"node {index}: a {node.kind} keeps no content")


def _rows_of_aggregate(
    circuit: Circuit, index: int, node: Aggregate | FinalAggregate, context: StepContext
) -> pa.Table:
    if context.step == 0 or (not node.group and not context.owns_keyless):
        return zset.empty(node.types)
    inputs = circuit.nodes[node.inputs[0]].types
    if isinstance(node, FinalAggregate):
        plan = plan_of(node.group, node.calls, node.argument_types, append_only=False)
    else:
        plan = plan_of(node.group, node.calls, inputs, all(append_only_inputs(circuit)[index]))
    columns = rows_of_state(plan, [inputs[column] for column in node.group], context)
    length = len(columns[0]) if columns else 0
    return zset.build(columns, np.ones(length, np.int64)).cast(zset.schema_of(node.types))
