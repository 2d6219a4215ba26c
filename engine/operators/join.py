"""Join: the inner equi-join of two changing tables.

By the product rule of bilinear operators (DBSP, section 4.3), the change of L x R is dL x (R + dR) + L x dR. So the change of each side is
looked up in the other side's trace. A step costs the changed rows and the rows that they match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from engine.expressions.evaluate import ExpressionError, evaluate, failing_rows, try_evaluate
from engine.model.joins import Join
from engine.model.node import Expression
from engine.operators import node_texts
from engine.operators.arrangement import by_join_key
from engine.operators.context import StepContext
from engine.operators.descriptor import FOLLOWS_INPUTS, Fed, NoContent, Operator, OutputFacts, StateUse, Wording, always
from engine.operators.error_rows import leave_out_errors
from engine.operators.keys import columns_at, matchable, only
from engine.operators.names import OF_BOTH
from engine.rows import zset
from engine.rows.hashing import Hashes
from engine.state.runs import as_rows, as_zset
from engine.state.trace import Trace


def step_join(node: Join, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    left, right = inputs
    left = zset.consolidate(only(left, matchable(left, node.left_key, node.null_safe)))
    right = zset.consolidate(only(right, matchable(right, node.right_key, node.null_safe)))
    left_types = [f.type for f in left.schema][:-1]
    right_types = [f.type for f in right.schema][:-1]
    if not left.num_rows and not right.num_rows:
        return zset.empty(node.types)
    left_key, right_key = context.join_keys(node.left_key, node.right_key)
    left_hashes, right_hashes = left_key.hashes(left), right_key.hashes(right)
    left_trace = context.trace(0, left_types, node.left_key)
    right_trace = context.trace(1, right_types, node.right_key)
    right_trace.append(as_rows(right), right_hashes)
    pairs = [
        pairs_of(left, node.left_key, left_hashes, right_trace, delta_is_left=True),
        pairs_of(right, node.right_key, right_hashes, left_trace, delta_is_left=False),
    ]
    left_trace.append(as_rows(left), left_hashes)
    joined = zset.add([p.cast(zset.schema_of(node.types)) for p in pairs])
    if node.residual is not None:
        joined = match_pairs(
            joined if context.errors is None else zset.consolidate(joined), node.residual, node.types, context
        )
    return zset.consolidate(joined)


def _content(
    node: Join, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
) -> pa.Table:
    """The stored left rows with the stored right rows of their keys. A right row that is gone may still be in two runs, so the pairs are
    consolidated before the condition is evaluated."""
    left_key, _ = context.join_keys(node.left_key, node.right_key)
    left = as_zset(context.trace(0, types[0], node.left_key).scan())
    right = context.trace(1, types[1], node.right_key)
    pairs = pairs_of(left, node.left_key, left_key.hashes(left), right, delta_is_left=True)
    pairs = zset.consolidate(zset.as_schema(pairs, zset.schema_of(node.types)))
    return pairs if node.residual is None else match_pairs(pairs, node.residual, node.types, context)


def match_pairs(
    pairs: pa.Table,
    condition: Expression,
    types: Sequence[pa.DataType],
    context: StepContext,
    *,
    counted: Callable[[pa.Table], pa.Table] = lambda pairs: pairs,
    sign: int = 1,
) -> pa.Table:
    """The pairs for which the condition is true. Those for which it fails match nothing, and are counted if the step counts error rows. `types`:
    of the columns. `counted`: the joined rows of pairs with further columns (see left_out). `sign`: see ErrorRows.add."""
    if context.errors is None or not pairs.num_rows:
        return keep(pairs, condition, types)
    every = _every(types)
    return leave_out_errors(
        context.errors,
        lambda part: try_evaluate(condition, every, part),
        lambda row: evaluate(condition, every, row),
        pairs,
        sign=sign,
        types=types,
        counted=counted,
        failing_rows=lambda part: failing_rows(condition, every, part),
    )


def _every(types: Sequence[pa.DataType]) -> tuple[Expression, ...]:
    return tuple(Expression(f"c{i}", kind, i) for i, kind in enumerate(types))


def pairs_of(delta: pa.Table, key: Sequence[int], hashes: Hashes, trace: Trace, *, delta_is_left: bool) -> pa.Table:
    """Every changed row with every stored row of the same key. Their weights are multiplied. `hashes`: of the changed rows' keys."""
    matches = trace.probe(columns_at(delta, key), hashes)
    rows = zset.take_rows(delta, matches.probe)
    weights = zset.weights_of(rows) * matches.rows.columns[-1].to_numpy()
    mine, theirs = rows.columns[:-1], matches.rows.columns[:-1]
    return zset.build([*mine, *theirs] if delta_is_left else [*theirs, *mine], weights)


def keep(rows: pa.Table, condition: Expression, types: Sequence[pa.DataType]) -> pa.Table:
    """The rows of a Z-set for which the condition is true. The columns stay as they are.

    The condition may fail for pairs of weight 0: of a row that leaves and one that comes in the same step, or with a row that is gone and still
    in two runs of a trace. They are left out then, which costs a consolidation of all rows."""
    if rows.num_rows == 0:
        return rows
    try:
        return evaluate(condition, _every(types), rows)
    except ExpressionError:
        return evaluate(condition, _every(types), zset.consolidate(rows))


JOIN = Operator(
    node=Join,
    implementation_version=1,
    step=step_join,
    arrange=lambda node, inputs: by_join_key(node.left_key, node.right_key, inputs),
    output=OutputFacts(
        unique_key=lambda node, inputs: None,
        comes_without_input=lambda node: False,
        counts_errors=lambda node: node.residual is not None,
    ),
    growth=FOLLOWS_INPUTS,
    state=StateUse(
        keeps=lambda node, append_only: "both inputs, by key",
        content=NoContent(),
        fed=Fed(always, _content),
        traces_in_recursion=2,
    ),
    wording=Wording(
        columns=OF_BOTH,
        text=lambda node: node_texts.join(node.left_key, node.right_key, node.null_safe, node.residual),
        user_name=lambda node: None,
    ),
)
