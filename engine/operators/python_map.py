"""PythonMap: functions of the user's for every row. It is linear and has no state: a row that is taken back is given to the functions again,
and they have to give the same results."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.model.rows import PythonMap
from engine.operators import node_texts
from engine.operators.arrangement import Arrangement, Key
from engine.operators.context import StepContext
from engine.operators.descriptor import FOLLOWS_INPUTS, NoContent, Operator, OutputFacts, StateUse, Wording
from engine.operators.error_rows import leave_out_errors
from engine.operators.names import OF_FIRST
from engine.python.calls import results, try_results
from engine.rows import zset


def step_python_map(node: PythonMap, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    (rows,) = inputs
    if rows.num_rows == 0:
        return zset.empty(node.types)
    if context.errors is None:
        return _map(node, rows)
    return leave_out_errors(
        context.errors,
        lambda part: _attempt(node, part),
        lambda row: _map(node, row),
        rows,
        sign=1,
        types=node.types,
    )


def _map(node: PythonMap, rows: pa.Table) -> pa.Table:
    return _with(rows, [results(call, rows) for call in node.calls])


def _with(rows: pa.Table, made: Sequence[pa.ChunkedArray]) -> pa.Table:
    return zset.build([*zset.rows_of(rows), *made], zset.weights_of(rows))


def _attempt(node: PythonMap, rows: pa.Table) -> pa.Table | None:
    """None if a function fails on one of the rows."""
    made: list[pa.ChunkedArray] = []
    for call in node.calls:
        result = try_results(call, rows)
        if result is None:
            return None
        made.append(result)
    return _with(rows, made)


def _arrange(node: PythonMap, inputs: Sequence[Key | None]) -> Arrangement:
    return Arrangement((None,), inputs[0])


PYTHON_MAP = Operator(
    node=PythonMap,
    implementation_version=1,
    step=step_python_map,
    arrange=_arrange,
    output=OutputFacts(
        unique_key=lambda node, inputs: inputs[0],
        comes_without_input=lambda node: False,
        counts_errors=lambda node: True,
    ),
    growth=FOLLOWS_INPUTS,
    state=StateUse(
        keeps=lambda node, append_only: "",
        content=NoContent(),  # a view stores the results: a query does not call the functions again
        fed=None,
        traces_in_recursion=None,
    ),
    wording=Wording(
        columns=OF_FIRST,
        text=lambda node: ", ".join(
            f"{call.name} of {node_texts.columns(call.arguments) or 'nothing'}" for call in node.calls
        ),
        user_name=lambda node: None,
    ),
)
