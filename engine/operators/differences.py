"""The operators that pass on what differs between the old and the new content of a view, in the step of a switch or in those of a drain.

A drain passes a difference on by ranges of slots, from the step of the switch on. Below its position a reader has the new content of the view,
and above it the old content, as it was before the switch. So what changes above it waits in the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from base.slots import SLOT_BITS
from engine.model.filling import FILL, HASHES, Difference, Switched, WrittenAgain
from engine.operators.arrangement import Arrangement, exchange_to
from engine.operators.context import StepContext
from engine.operators.descriptor import (
    NO_STATE,
    PLAIN_OUTPUT,
    TAKES_BACK,
    NoContent,
    Operator,
    OutputFacts,
    StateUse,
    Wording,
)
from engine.operators.keys import ColocatedKey, net_rows_by_key
from engine.operators.names import OF_FIRST
from engine.rows import zset
from engine.rows.hashing import HASH_BITS, Hashes, slot_of
from engine.state.runs import as_rows, as_zset
from engine.state.trace import Trace

DIFFERENCE = 0
"""The number of the trace of a difference."""


def step_difference(node: Difference, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """Adds the new content to the difference and subtracts the old one. It puts nothing out."""
    new, *old = inputs
    change = zset.consolidate(zset.add([new, *map(zset.negate, old)]))
    if change.num_rows:
        difference(node, context).append(as_rows(change), _hashes(node, change))
    return zset.empty(node.types)


def step_switched(node: Switched, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """All of the difference and of the change, or what a drain passes on in this step."""
    (change,) = inputs
    # The position of a drain is that of the feeds which give whole contents to new topics in the same steps.
    before, after = context.step.division.fed_hashes(FILL)
    if (before, after) == (0, HASHES):
        left = difference(node, context).scan()
    else:
        first, end = slot_of(before), slot_of(after)
        change = _kept_back(node, change, context, end)
        left = difference(node, replace(context, slots=(first, end))).scan()
    return zset.consolidate(zset.add([change, zset.as_schema(as_zset(left), zset.schema_of(node.types))]))


def step_written_again(node: WrittenAgain, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """All rows of now, and the former rows whose key has no row now."""
    rows, group, keys = net_rows_by_key(inputs[0], node.key)
    weights = zset.weights_of(rows)
    is_former = rows.column(len(node.types)).to_numpy(zero_copy_only=False)
    has_row = np.zeros(keys, dtype=bool)
    has_row[group[(weights > 0) & ~is_former]] = True
    chosen = ~is_former | ~has_row[group]
    wanted = rows.filter(pa.array(chosen))
    return zset.build(wanted.columns[: len(node.types)], weights[chosen])


def _kept_back(node: Switched, change: pa.Table, context: StepContext, end: int) -> pa.Table:
    """The rows of the change in slots below `end`. The others are added to the difference, with which they leave. If they passed at once, a
    reader would get the retraction of a row whose insertion has still to leave."""
    hashes = _hashes(node, change)
    waits = (hashes >> np.uint64(HASH_BITS - SLOT_BITS)) >= np.uint64(end)
    if not waits.any():
        return change
    waiting = zset.consolidate(change.filter(pa.array(waits)))
    if waiting.num_rows:
        difference(node, context).append(as_rows(waiting), _hashes(node, waiting))
    return change.filter(pa.array(~waits))


def difference(node: Difference | Switched, context: StepContext) -> Trace:
    """The trace of what differs: rows that are new have positive weights, and rows that are gone have negative ones."""
    return context.trace(DIFFERENCE, node.types, tuple(range(len(node.types))))


def _hashes(node: Difference | Switched, rows: pa.Table) -> Hashes:
    return ColocatedKey(tuple(range(len(node.types))), node.key).hashes(rows)


DIFFERENCE_OF_VIEW = Operator(
    node=Difference,
    implementation_version=1,
    step=step_difference,
    arrange=lambda node, inputs: Arrangement(tuple(exchange_to(node.key, each) for each in inputs), node.key),
    output=PLAIN_OUTPUT,
    growth=TAKES_BACK,
    state=StateUse(
        keeps=lambda node, append_only: "what differs", content=NoContent(), fed=None, traces_in_recursion=None
    ),
    wording=Wording(columns=OF_FIRST, text=lambda node: "new content without old content", user_name=lambda node: None),
)

SWITCHED = Operator(
    node=Switched,
    implementation_version=1,
    step=step_switched,
    arrange=lambda node, inputs: Arrangement((exchange_to(node.key, inputs[0]),), node.placed),
    output=OutputFacts(
        unique_key=lambda node, inputs: None, comes_without_input=lambda node: True, counts_errors=lambda node: False
    ),
    growth=TAKES_BACK,
    state=StateUse(
        keeps=lambda node, append_only: "what differs", content=NoContent(), fed=None, traces_in_recursion=None
    ),
    wording=Wording(columns=OF_FIRST, text=lambda node: "with what differs", user_name=lambda node: None),
)


WRITTEN_AGAIN = Operator(
    node=WrittenAgain,
    implementation_version=1,
    step=step_written_again,
    arrange=lambda node, inputs: Arrangement((exchange_to(node.key, inputs[0]),), node.key),
    output=PLAIN_OUTPUT,
    growth=TAKES_BACK,
    state=NO_STATE,
    wording=Wording(columns=OF_FIRST, text=lambda node: "all rows once more", user_name=lambda node: None),
)
