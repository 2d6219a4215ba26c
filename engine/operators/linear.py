"""The operators without state. They are linear: the change of the output is the operator applied to the change of the input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from base.arrays import fill
from engine.expressions.evaluate import evaluate
from engine.model.rows import Constant, Map, Replicate, Union
from engine.operators import node_texts
from engine.operators.arrangement import Arrangement, Key
from engine.operators.context import StepContext
from engine.operators.descriptor import (
    FOLLOWS_INPUTS,
    NO_STATE,
    PLAIN_OUTPUT,
    ContentOfInput,
    NoContent,
    Operator,
    OutputFacts,
    StateUse,
    Wording,
)
from engine.operators.names import NONE, OF_FIRST, named_by, of_expressions
from engine.rows import zset


def step_map(node: Map, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """Filters and projects row by row. The weights stay as they are."""
    if inputs[0].num_rows == 0:
        return zset.empty(node.types)
    return context.evaluate(node.predicate, node.projections, inputs[0])


def step_replicate(node: Replicate, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """Multiplies the weights. If only the number of a row changes, what is left is the difference of its weights."""
    (delta,) = inputs
    times = np.maximum(fill(delta.column(node.times), 0).to_numpy(), 0)
    columns = [column for place, column in enumerate(zset.rows_of(delta)) if place != node.times]
    return zset.consolidate(zset.build(columns, zset.weights_of(delta) * times))


def step_union(node: Union, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    return zset.add(inputs)


def step_constant(node: Constant, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """All rows in the first step of the node, on the worker that owns slot 0; nothing afterwards."""
    if not context.is_first or not context.step.owns_keyless:
        return zset.empty(node.types)
    table = pa.ipc.open_stream(node.ipc).read_all()
    return zset.build(table.columns, np.ones(table.num_rows, np.int64)).cast(zset.schema_of(node.types))


def _arrange_map(node: Map, inputs: Sequence[Key | None]) -> Arrangement:
    (colocation,) = inputs
    return Arrangement((None,), None if colocation is None else node.places_of(colocation))


def _arrange_replicate(node: Replicate, inputs: Sequence[Key | None]) -> Arrangement:
    (colocation,) = inputs
    if colocation is None or node.times in colocation:
        return Arrangement((None,), None)
    return Arrangement((None,), tuple(column - (column > node.times) for column in colocation))


def _arrange_union(node: Union, inputs: Sequence[Key | None]) -> Arrangement:
    alike = all(colocation == inputs[0] for colocation in inputs)
    return Arrangement((None,) * len(inputs), inputs[0] if alike else None)


def _unique_key_of_map(node: Map, inputs: Sequence[Key | None]) -> Key | None:
    (key,) = inputs
    return None if key is None else node.places_of(key)


def _content_of_map(node: Map, content: pa.Table) -> pa.Table:
    return evaluate(node.predicate, node.projections, content) if content.num_rows else zset.empty(node.types)


def _text_of_map(node: Map) -> str:
    where = f" where {node_texts.expression(node.predicate)}" if node.predicate else ""
    return ", ".join(map(node_texts.expression, node.projections)) + where


def _text_of_constant(node: Constant) -> str:
    with pa.ipc.open_stream(node.ipc) as reader:
        return f"of {sum(batch.num_rows for batch in reader)} rows"


MAP = Operator(
    node=Map,
    implementation_version=1,
    step=step_map,
    arrange=_arrange_map,
    output=OutputFacts(
        unique_key=_unique_key_of_map, comes_without_input=lambda node: False, counts_errors=lambda node: True
    ),
    growth=FOLLOWS_INPUTS,
    state=StateUse(
        keeps=lambda node, append_only: "", content=ContentOfInput(_content_of_map), fed=None, traces_in_recursion=0
    ),
    wording=Wording(
        columns=named_by(lambda node, inputs, naming: of_expressions(node.projections, inputs[0], naming)),
        text=_text_of_map,
        user_name=lambda node: None,
    ),
)

REPLICATE = Operator(
    node=Replicate,
    implementation_version=1,
    step=step_replicate,
    arrange=_arrange_replicate,
    output=OutputFacts(
        unique_key=lambda node, inputs: None,  # its rows have weights above 1
        comes_without_input=lambda node: False,
        counts_errors=lambda node: False,
    ),
    growth=FOLLOWS_INPUTS,
    state=StateUse(keeps=lambda node, append_only: "", content=NoContent(), fed=None, traces_in_recursion=0),
    wording=Wording(
        columns=named_by(lambda node, inputs, naming: (*inputs[0][: node.times], *inputs[0][node.times + 1 :])),
        text=lambda node: f"c{node.times} times, without c{node.times}",
        user_name=lambda node: None,
    ),
)

UNION = Operator(
    node=Union,
    implementation_version=1,
    step=step_union,
    arrange=_arrange_union,
    output=PLAIN_OUTPUT,
    growth=FOLLOWS_INPUTS,
    state=StateUse(keeps=lambda node, append_only: "", content=NoContent(), fed=None, traces_in_recursion=0),
    wording=Wording(columns=OF_FIRST, text=lambda node: "", user_name=lambda node: None),
)

CONSTANT = Operator(
    node=Constant,
    implementation_version=1,
    step=step_constant,
    arrange=lambda node, inputs: Arrangement((), None),
    output=OutputFacts(
        unique_key=lambda node, inputs: None, comes_without_input=lambda node: True, counts_errors=lambda node: False
    ),
    growth=FOLLOWS_INPUTS,
    state=NO_STATE,
    wording=Wording(columns=NONE, text=_text_of_constant, user_name=lambda node: None),
)
