"""The operators of a transition: feeds, which give the contents of nodes by ranges of hashes, and what stands between nodes of two projects.

Those that compare the old and the new content of a view, and pass on what differs, are in differences.py.

A feed reads the content of its node *after* the node's own step, in the same stage and the same transaction. Rows above its position are then in
the content that it will meet, whatever the step did to them, and rows below it are passed on as they change. So no snapshot is held, and each
row is given once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from base.slots import SLOTS
from engine.model.filling import HASHES, ContentFeed, Frozen, Placed, Renamed
from engine.model.node import NodeBase
from engine.operators import node_texts
from engine.operators.arrangement import EVERYONE, Arrangement, Exchange, Key, exchange_to
from engine.operators.carried import CARRIED_TABLE
from engine.operators.context import StepContext
from engine.operators.descriptor import (
    FOLLOWS_INPUTS,
    NO_STATE,
    PLAIN_OUTPUT,
    Growth,
    NoContent,
    Operator,
    OutputFacts,
    StateUse,
    Wording,
)
from engine.operators.differences import DIFFERENCE_OF_VIEW, SWITCHED, WRITTEN_AGAIN
from engine.operators.fed_rows import columns_at_positions, within
from engine.operators.keys import ColocatedKey
from engine.operators.names import OF_FIRST, OF_POSITIONS, Names, Naming, named_by
from engine.rows import zset
from engine.rows.hashing import Hashes, slot_of


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
    """The rows as they are. They have been exchanged before, if another node has them elsewhere."""
    return inputs[0]


def step_renamed(node: Renamed, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """The rows with the columns that the view has now. Those that it did not have are null."""
    (rows,) = inputs
    return zset.build(columns_at_positions(rows, node.places, node.types), zset.weights_of(rows))


PLACED = Operator(
    node=Placed,
    implementation_version=1,
    step=step_placed,
    arrange=lambda node, inputs: Arrangement(
        (None if node.key is None else exchange_to(node.key, inputs[0]),), node.key
    ),
    output=PLAIN_OUTPUT,
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
    output=PLAIN_OUTPUT,
    growth=FOLLOWS_INPUTS,
    state=NO_STATE,
    wording=Wording(
        columns=OF_POSITIONS,
        text=lambda node: "with the columns of the view now",
        user_name=lambda node: None,
    ),
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
