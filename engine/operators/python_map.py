"""PythonMap: functions of the user's for every row. It is linear and has no state: a row that is taken back is given to the functions again,
and they have to give the same results."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.model.rows import PythonMap
from engine.operators import words
from engine.operators.arrangement import Arrangement, Key
from engine.operators.base import StepContext
from engine.operators.descriptor import NoContent, Operator
from engine.python.calls import results
from engine.rows import zset


def step_python_map(node: PythonMap, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    return _mapped(node, inputs[0])


def _mapped(node: PythonMap, rows: pa.Table) -> pa.Table:
    if rows.num_rows == 0:
        return zset.empty(node.types)
    made = [results(call, rows) for call in node.calls]
    return zset.build([*zset.rows_of(rows), *made], zset.weights_of(rows))


def _arrange(node: PythonMap, inputs: Sequence[Key | None]) -> Arrangement:
    return Arrangement((None,), inputs[0])


PYTHON_MAP = Operator(
    node=PythonMap,
    step=step_python_map,
    arrange=_arrange,
    retraction=lambda node: None,
    keeps=lambda node, append_only: "",
    unique_key=lambda node, inputs: inputs[0],
    content=NoContent(),  # a view stores the results: a query does not call the functions again
    outputs_without_input=lambda node: False,
    text=lambda node: ", ".join(f"{call.name} of {words.columns(call.arguments) or 'nothing'}" for call in node.calls),
    user_name=lambda node: None,
)
