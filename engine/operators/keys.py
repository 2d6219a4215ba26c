"""Keys of Z-sets: their hashes, which of them can match, and the distinct keys of a change.

A trace keeps a row under its **co-located hash**: the slot of its routing hash (base/slots.py), and below it the hash of the trace's key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from base.arrays import Bools
from engine.rows import zset
from engine.rows.hashing import Hashes, colocated_hashes, hash_columns


@dataclass(frozen=True)
class ColocatedKey:
    """A key, and which of its columns decide the worker of a row. `columns`: the key's columns in some table. `colocation`: positions in
    `columns`.

    The hash of a key has the slot of its co-location columns, so that all rows of a slot have neighbouring hashes in every trace, whatever the
    trace's key is. Two tables whose keys have equal values in equal order have equal hashes if their `colocation` is equal too."""

    columns: tuple[int, ...]
    colocation: tuple[int, ...]

    def hashes(self, table: pa.Table) -> Hashes:
        """The co-located hash of every row's key."""
        return colocated_hashes([table.column(i) for i in self.columns], table.num_rows, self.colocation)

    @property
    def alone(self) -> ColocatedKey:
        """The key in a table of its columns alone, in their order."""
        return ColocatedKey(tuple(range(len(self.columns))), self.colocation)


def hash_keys(table: pa.Table, key: Sequence[int]) -> Hashes:
    """The hash of every row's key, without regard to where the row lies. The routing hash is that of the co-location columns."""
    return hash_columns([table.column(i) for i in key], table.num_rows)


def columns_at(table: pa.Table, key: Sequence[int]) -> pa.Table:
    """The key columns of a table, named `k0`, `k1`, ..."""
    return pa.Table.from_arrays([table.column(i) for i in key], [f"k{n}" for n in range(len(key))])


def matchable(table: pa.Table, key: Sequence[int], null_safe: Sequence[bool]) -> Bools:
    """For each row, whether its key can equal another: it has no null in a column that is not compared null-safely."""
    result = np.ones(table.num_rows, dtype=bool)
    for column, safe in zip(key, null_safe, strict=True):
        array = table.column(column)
        if not safe and array.null_count:
            result &= array.is_valid().to_numpy()
    return result


def only(table: pa.Table, rows: Bools) -> pa.Table:
    """The rows for which `rows` is true."""
    return table if rows.all() else table.filter(pa.array(rows))


def net_by_key(delta: pa.Table, key: Sequence[int]) -> pa.Table:
    """The change of the number of rows of each key, as a consolidated Z-set of the key columns."""
    return zset.consolidate(zset.project(delta, key))


def net_rows_by_key(delta: pa.Table, key: Sequence[int]) -> tuple[pa.Table, zset.Indices, int]:
    """(rows, group, number of keys). `rows` is the unique form of the change, as `zset.consolidate` has it but in another order; `group[i]` is
    the number of row i's key. One sort does both, because equal rows have equal keys."""
    of_keys = hash_keys(delta, key)
    rows, chosen = zset.net_rows(delta, of_keys)
    hashes = of_keys[chosen]
    tied = hashes[1:] == hashes[:-1]
    new = zset.changes([rows.column(i) for i in key], tied, np.arange(rows.num_rows))
    if (tied & new[1:]).any():  # a collision: rows of one key are perhaps not neighbours
        keys, _, group = distinct_keys(rows, key, hashes)
        return rows, group, keys.num_rows
    return rows, np.cumsum(new) - 1, int(new.sum())


def distinct_keys(delta: pa.Table, key: Sequence[int], hashes: Hashes) -> tuple[pa.Table, Hashes, zset.Indices]:
    """(keys, hashes, group). `keys` has each key of the change once, and `hashes` its hash; `group[i]` is the position of row i's key. The
    given `hashes` are of all rows' keys."""
    columns = [delta.column(i) for i in key]
    order, starts = zset.group_rows(columns, delta.num_rows, hashes, of_rows=True)
    group = np.empty(delta.num_rows, dtype=np.int64)
    lengths = np.diff(np.append(starts, delta.num_rows))
    group[order] = np.repeat(np.arange(len(starts)), lengths)
    first = order[starts]
    chosen = pa.array(first)
    keys = pa.Table.from_arrays([zset.take(c, chosen) for c in columns], [f"k{n}" for n in range(len(key))])
    return keys, hashes[first], group
