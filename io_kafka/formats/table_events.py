"""Debezium's changes that are of no row: `t`, the table was truncated, and `m`, a message that a program wrote into the database's log.

A truncation has no key. With `truncate` = `apply` it goes to LastByKey as a message whose `deleted` is null, which deletes every row. A message
of a program says nothing of the table, so it is left out and counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s
from base.options import Truncate

OPS = {"c", "r", "u", "d"}
TRUNCATED, MESSAGE = "t", "m"

_KEYED = (
    "op t: the table was truncated; set 'truncate' = 'apply' on the declared table, and all its rows are deleted too, "
    "or 'ignore', and they stay"
)
_WITHOUT_KEY = (
    "op t: the table was truncated, and without a key nobody knows which rows it had; declare its key and set "
    "'truncate' = 'apply', or set 'truncate' = 'ignore', and they stay"
)


class TableEvents(NamedTuple):
    """The messages that are no changes of rows, by their positions. `ignored` are left out and counted."""

    truncates: Int64s
    ignored: Int64s

    @property
    def all(self) -> Int64s:
        return np.concatenate([self.truncates, self.ignored])


NO_EVENTS = TableEvents(np.zeros(0, np.int64), np.zeros(0, np.int64))


def table_events(ops: pa.Array, at: Int64s, faults: dict[int, str], truncate: Truncate, *, keyed: bool) -> TableEvents:
    """`ops`: those of the messages at the positions `at`. Adds a fault for each that the table cannot have."""
    found = pc.unique(ops).to_pylist()
    if set(found) <= OPS:
        return NO_EVENTS
    applies = truncate == "apply" and keyed
    for op in found:
        if op not in OPS and op != MESSAGE and not (op == TRUNCATED and (applies or truncate == "ignore")):
            reason = f"op {op!r} is none of c, r, u, d" if op != TRUNCATED else _KEYED if keyed else _WITHOUT_KEY
            faults.update((int(position), reason) for position in at[is_op(ops, {op})])
    truncates = at[is_op(ops, {TRUNCATED})] if applies else NO_EVENTS.truncates
    return TableEvents(truncates, at[is_op(ops, {MESSAGE, TRUNCATED} if truncate == "ignore" else {MESSAGE})])


def is_op(ops: pa.Array, which: set[str]) -> Bools:
    return np.array(pc.is_in(ops, pa.array(sorted(which))).to_numpy(zero_copy_only=False), dtype=np.bool_)
