"""The operators of a transition: what fills young nodes, and what compares the new content of a view with its old one.

A drain passes a difference on by ranges of slots, from the step of the switch on. Below its position a reader has the new content of the view,
and above it the old content, as it was before the switch. So what changes above it waits in the difference.

A feed reads the content of its node *after* the node's own step, in the same stage and the same transaction. Rows above its position are then in
the content that it will meet, whatever the step did to them, and rows below it are passed on as they change. So no snapshot is held, and each
row is given once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from base.slots import SLOT_BITS, SLOTS
from engine.model.filling import HASHES, ContentFeed, Difference, Frozen, Placed, Renamed, Switched, WrittenAgain
from engine.model.node import NodeBase
from engine.operators import node_texts
from engine.operators.arrangement import EVERYONE, Arrangement, Exchange, Key
from engine.operators.carried import CARRIED_TABLE
from engine.operators.context import StepContext
from engine.operators.descriptor import (
    FOLLOWS_INPUTS,
    NO_STATE,
    Growth,
    NoContent,
    Operator,
    OutputFacts,
    StateUse,
    Wording,
)
from engine.operators.fed_rows import columns_at_positions, within
from engine.operators.keys import ColocatedKey, net_rows_by_key
from engine.operators.names import OF_FIRST, OF_POSITIONS, Names, Naming, named_by
from engine.rows import zset
from engine.rows.hashing import HASH_BITS, Hashes, slot_of
from engine.state.runs import as_rows, as_zset
from engine.state.trace import Trace

FIRST_LEVEL = 0
"""The level of the feeds that fill nodes, and that give whole contents to new topics from the step of the switch on."""

DIFFERENCE = 0
"""The number of the trace of a difference."""


def placed_hashes(rows: pa.Table, colocation: Key | None) -> Hashes:
    """The hash by which the rows of a node are fed: their slot, and below it the hash of the whole row. If the rows may lie anywhere, they are
    fed by the hash of the whole row alone."""
    columns = tuple(range(rows.num_columns - 1))
    return ColocatedKey(columns, columns if colocation is None else colocation).hashes(rows)


def _within(rows: pa.Table, colocation: Key | None, first: int, end: int) -> pa.Table:
    if not rows.num_rows or (first == 0 and end >= HASHES):
        return rows
    hashes = placed_hashes(rows, colocation)
    chosen = within(hashes, first, end)
    return rows if chosen.all() else rows.filter(pa.array(chosen))


def _feed_over(operators: Mapping[type[NodeBase], Operator[Any]]) -> Operator[ContentFeed]:
    def step(node: ContentFeed, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
        change, *values = inputs
        before, after = context.step.division.fed_hashes(node.level)
        passed = _within(change, node.colocation, 0, before) if before else zset.empty(node.types)
        return zset.add([passed, content(node, values, context, before, after)])

    def content(
        node: ContentFeed, values: Sequence[pa.Table], context: StepContext, before: int, after: int
    ) -> pa.Table:
        """The rows with hashes in [before, after) as the node's state has them now. Rows that may lie anywhere are in any slot."""
        if before == after:
            return zset.empty(node.types)
        slots = (0, SLOTS) if node.colocation is None else (slot_of(before), slot_of(after - 1) + 1)
        at = replace(context, node=node.inputs[0], slots=slots)
        fed = operators[type(node.holder)].state.fed
        assert fed is not None
        rows = fed.rows(node.holder, node.read, values, at)
        return _within(rows, node.colocation, before, after)

    return Operator(
        node=ContentFeed,
        implementation_version=1,
        step=step,
        arrange=_arrange_feed,
        output=OutputFacts(
            unique_key=lambda node, inputs: None,
            comes_without_input=lambda node: True,
            counts_errors=lambda node: False,
        ),
        growth=FOLLOWS_INPUTS,
        state=NO_STATE,
        wording=Wording(
            columns=OF_FIRST,
            text=lambda node: f"the content of the {node.holder.kind} below, level {node.level}",
            user_name=lambda node: None,
        ),
    )


def _arrange_feed(node: ContentFeed, inputs: Sequence[Key | None]) -> Arrangement:
    """The rows stay where they are, because the state from which they come is there. The values of a ScalarMap come to all workers."""
    exchanges: tuple[Exchange, ...] = (None, *(EVERYONE for _ in inputs[1:]))
    return Arrangement(exchanges, inputs[0])


def _frozen_over(operators: Mapping[type[NodeBase], Operator[Any]]) -> Operator[Frozen]:
    """What others may know of the node stays as it was: they were placed, and keep their state, by that."""

    def arrange(node: Frozen, inputs: Sequence[Key | None]) -> Arrangement:
        at = operators[type(node.holder)].arrange(node.holder, inputs).colocation
        return Arrangement(tuple(None for _ in inputs), at)

    def names(node: Frozen, inputs: Sequence[Names], naming: Naming) -> Names:
        return operators[type(node.holder)].wording.columns.of(node.holder, inputs, naming)

    return Operator(
        node=Frozen,
        implementation_version=1,
        step=lambda node, inputs, context: zset.empty(node.types),
        arrange=arrange,
        output=OutputFacts(
            unique_key=lambda node, inputs: operators[type(node.holder)].output.unique_key(node.holder, inputs),
            comes_without_input=lambda node: False,
            counts_errors=lambda node: False,
        ),
        growth=Growth(
            retraction=lambda node: operators[type(node.holder)].growth.retraction(node.holder),
            is_needed=False,
            is_relied_on=lambda node: False,
        ),
        state=StateUse(
            keeps=lambda node, append_only: operators[type(node.holder)].state.keeps(node.holder, append_only),
            content=NoContent(),
            fed=None,
            traces_in_recursion=None,
        ),
        wording=Wording(
            columns=named_by(names),
            text=lambda node: f"stands for a {node.holder.kind} that this version cannot run",
            user_name=lambda node: None,
        ),
    )


def step_placed(node: Placed, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    return inputs[0]


def step_renamed(node: Renamed, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    (rows,) = inputs
    return zset.build(columns_at_positions(rows, node.places, node.types), zset.weights_of(rows))


def step_difference(node: Difference, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    new, *old = inputs
    change = zset.consolidate(zset.add([new, *map(zset.negate, old)]))
    if change.num_rows:
        difference(node, context).append(as_rows(change), _hashes(node, change))
    return zset.empty(node.types)


def step_switched(node: Switched, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """All of the difference and of the change, or what a drain passes on in this step."""
    (change,) = inputs
    before, after = context.step.division.fed_hashes(FIRST_LEVEL)
    if (before, after) == (0, HASHES):
        left = difference(node, context).scan()
    else:
        first, end = slot_of(before), slot_of(after)
        change = _kept_back(node, change, context, end)
        left = difference(node, replace(context, slots=(first, end))).scan()
    return zset.consolidate(zset.add([change, zset.as_schema(as_zset(left), zset.schema_of(node.types))]))


def step_written_again(node: WrittenAgain, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
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


def _exchange(key: Key, colocation: Key | None) -> Exchange:
    return None if colocation == key else key


PLACED = Operator(
    node=Placed,
    implementation_version=1,
    step=step_placed,
    arrange=lambda node, inputs: Arrangement((None if node.key is None else _exchange(node.key, inputs[0]),), node.key),
    output=OutputFacts(
        unique_key=lambda node, inputs: None, comes_without_input=lambda node: False, counts_errors=lambda node: False
    ),
    growth=FOLLOWS_INPUTS,
    state=NO_STATE,
    wording=Wording(
        columns=OF_FIRST,
        text=lambda node: "anywhere" if node.key is None else f"by {node_texts.columns(node.key)}",
        user_name=lambda node: None,
    ),
)

RENAMED = Operator(
    node=Renamed,
    implementation_version=1,
    step=step_renamed,
    arrange=lambda node, inputs: Arrangement((None,), None),
    output=OutputFacts(
        unique_key=lambda node, inputs: None, comes_without_input=lambda node: False, counts_errors=lambda node: False
    ),
    growth=FOLLOWS_INPUTS,
    state=NO_STATE,
    wording=Wording(
        columns=OF_POSITIONS,
        text=lambda node: "with the columns of the view now",
        user_name=lambda node: None,
    ),
)

DIFFERENCE_OF_VIEW = Operator(
    node=Difference,
    implementation_version=1,
    step=step_difference,
    arrange=lambda node, inputs: Arrangement(tuple(_exchange(node.key, each) for each in inputs), node.key),
    output=OutputFacts(
        unique_key=lambda node, inputs: None, comes_without_input=lambda node: False, counts_errors=lambda node: False
    ),
    growth=Growth(retraction=lambda node: "old rows are taken back", is_needed=False, is_relied_on=lambda node: False),
    state=StateUse(
        keeps=lambda node, append_only: "what differs", content=NoContent(), fed=None, traces_in_recursion=None
    ),
    wording=Wording(columns=OF_FIRST, text=lambda node: "new content without old content", user_name=lambda node: None),
)

SWITCHED = Operator(
    node=Switched,
    implementation_version=1,
    step=step_switched,
    arrange=lambda node, inputs: Arrangement((_exchange(node.key, inputs[0]),), node.placed),
    output=OutputFacts(
        unique_key=lambda node, inputs: None, comes_without_input=lambda node: True, counts_errors=lambda node: False
    ),
    growth=Growth(retraction=lambda node: "old rows are taken back", is_needed=False, is_relied_on=lambda node: False),
    state=StateUse(
        keeps=lambda node, append_only: "what differs", content=NoContent(), fed=None, traces_in_recursion=None
    ),
    wording=Wording(columns=OF_FIRST, text=lambda node: "with what differs", user_name=lambda node: None),
)


WRITTEN_AGAIN = Operator(
    node=WrittenAgain,
    implementation_version=1,
    step=step_written_again,
    arrange=lambda node, inputs: Arrangement((_exchange(node.key, inputs[0]),), node.key),
    output=OutputFacts(
        unique_key=lambda node, inputs: None, comes_without_input=lambda node: False, counts_errors=lambda node: False
    ),
    growth=Growth(retraction=lambda node: "old rows are taken back", is_needed=False, is_relied_on=lambda node: False),
    state=NO_STATE,
    wording=Wording(columns=OF_FIRST, text=lambda node: "all rows once more", user_name=lambda node: None),
)


def filling_over(operators: Iterable[Operator[Any]]) -> tuple[Operator[Any], ...]:
    """`operators`: those of the nodes that can be fed."""
    by_kind = {operator.node: operator for operator in operators}
    return (
        _feed_over(by_kind),
        PLACED,
        RENAMED,
        DIFFERENCE_OF_VIEW,
        SWITCHED,
        WRITTEN_AGAIN,
        _frozen_over(by_kind),
        CARRIED_TABLE,
    )
