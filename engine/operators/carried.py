"""CarriedTable: the table of a keyed source gets or loses columns, and the rows that it has get nulls in the new ones.

It is filled from the former table like a feed: rows of keys with hashes below the position follow each change of that table, and the rows of a
range of keys come from its state. What it stores is what LastByKey stores, so the new table goes on with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from engine.model.filling import CarriedTable
from engine.operators import node_texts
from engine.operators.arrangement import Arrangement, Key
from engine.operators.context import StepContext
from engine.operators.descriptor import Growth, NoContent, Operator, OutputFacts, StateUse, Wording
from engine.operators.fed_rows import below, columns_at_positions, within
from engine.operators.keys import ColocatedKey, distinct_keys
from engine.operators.names import OF_POSITIONS
from engine.rows import zset
from engine.rows.hashing import Hashes, slot_of
from engine.state.runs import as_rows, as_zset
from engine.state.trace import Trace


def step_carried(node: CarriedTable, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """The change of the new table. `inputs[0]`: that of the previous one."""
    (change,) = inputs
    before, after = context.step.division.fed_hashes(node.level)
    mine = _trace(context, node.types, node.key)
    new = [zset.empty((*node.types, pa.int32()))]
    old = [zset.empty((*node.types, pa.int32()))]
    if before and change.num_rows:
        keys, hashes = _changed_keys(node, change, before)
        theirs = _former(node, context, None).probe(keys, hashes).rows
        new.append(_with_columns(node, as_zset(theirs)))
        old.append(as_zset(mine.probe(keys, hashes).rows))
    if before < after:
        slots = (slot_of(before), slot_of(after - 1) + 1)
        rows = as_zset(_former(node, context, slots).scan())
        new.append(_with_columns(node, _within(rows, node.former.key, before, after)))
    found = zset.consolidate(zset.add([*new, *map(zset.negate, old)]))
    if found.num_rows:
        mine.append(as_rows(found), ColocatedKey(node.key, _all(node.key)).hashes(found))
    return zset.consolidate(zset.project(found, range(len(node.types))))


def _all(key: Key) -> Key:
    """The table lies by its whole key."""
    return tuple(range(len(key)))


def _trace(context: StepContext, types: Sequence[pa.DataType], key: Key) -> Trace:
    return context.trace(0, (*types, pa.int32()), key)


def _former(node: CarriedTable, context: StepContext, slots: tuple[int, int] | None) -> Trace:
    return _trace(replace(context, node=node.inputs[0], slots=slots), node.former.types, node.former.key)


def _changed_keys(node: CarriedTable, change: pa.Table, before: int) -> tuple[pa.Table, Hashes]:
    """The keys of a change that are below a position, each once, and their hashes."""
    hashes = ColocatedKey(node.former.key, _all(node.key)).hashes(change)
    keys, of_keys, _ = distinct_keys(change, node.former.key, hashes)
    chosen = np.flatnonzero(below(of_keys, before))
    return keys.take(pa.array(chosen)), of_keys[chosen]


def _within(rows: pa.Table, key: Key, first: int, end: int) -> pa.Table:
    hashes = ColocatedKey(key, _all(key)).hashes(rows)
    return rows.filter(pa.array(within(hashes, first, end)))


def _with_columns(node: CarriedTable, rows: pa.Table) -> pa.Table:
    """Rows of the former table, each with its partition, with the columns of the new one."""
    columns = columns_at_positions(rows, node.places, node.types)
    return zset.build([*columns, rows.column(len(node.former.types))], zset.weights_of(rows))


CARRIED_TABLE = Operator(
    node=CarriedTable,
    implementation_version=1,
    step=step_carried,
    arrange=lambda node, inputs: Arrangement((None,), node.key),
    output=OutputFacts(
        unique_key=lambda node, inputs: node.key,
        comes_without_input=lambda node: True,
        counts_errors=lambda node: False,
    ),
    growth=Growth(
        retraction=lambda node: "a new message of a key replaces its row",
        is_needed=False,
        is_relied_on=lambda node: False,
    ),
    state=StateUse(
        keeps=lambda node, append_only: "the last row of every key",
        content=NoContent(),
        fed=None,
        traces_in_recursion=None,
    ),
    wording=Wording(
        columns=OF_POSITIONS,
        text=lambda node: f"by {node_texts.columns(node.key)}, level {node.level}",
        user_name=lambda node: None,
    ),
)
