"""Z-sets: rows with integer weights, as Arrow tables whose last column is `weight`.

The order of a Z-set's rows has no meaning, and a row may occur several times. `consolidate` gives its unique form, in
which each row occurs once, with a weight other than zero. This form is ordered by hash, so it is a function of the
content alone and does not depend on the order in which rows arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s
from engine.rows.hashing import Hashes, hash_columns, identity_columns

WEIGHT = "weight"

Indices = Int64s

SORTED_RUNS_MAX = 16
"""Up to this number of ascending runs, a merge sort is the faster algorithm: it takes 0.05 to 0.24 ms for 45,000 hashes
in two runs, and a full sort takes 0.5 to 0.7 ms."""


SCHEMAS_MAX = 4096
"""How many schemas are remembered, with their Z-sets without rows. A circuit of a hundred views has two thousand, of which each small step needs
most; to make them took half of the time of such a step."""


def schema_of(types: Sequence[pa.DataType]) -> pa.Schema:
    """The schema of a Z-set whose columns have these types: c0, c1, ... and the weight."""
    return _schema_of(tuple(types))


def empty(types: Sequence[pa.DataType]) -> pa.Table:
    """The Z-set without rows."""
    return _empty(tuple(types))


@lru_cache(SCHEMAS_MAX)
def _schema_of(types: tuple[pa.DataType, ...]) -> pa.Schema:
    return pa.schema([*((f"c{i}", kind) for i, kind in enumerate(types)), (WEIGHT, pa.int64())])


@lru_cache(SCHEMAS_MAX)
def _empty(types: tuple[pa.DataType, ...]) -> pa.Table:
    return _schema_of(types).empty_table()


def build(columns: Sequence[pa.Array | pa.ChunkedArray], weights: Int64s) -> pa.Table:
    """A Z-set of these columns, which are renamed c0, c1, ..., with one weight for each row."""
    names = [f"c{i}" for i in range(len(columns))]
    return pa.Table.from_arrays([*columns, pa.array(weights, pa.int64())], [*names, WEIGHT])


def rows_of(zset: pa.Table) -> list[pa.ChunkedArray]:
    """The columns without the weight."""
    return list(zset.columns[:-1])


def weights_of(zset: pa.Table) -> Int64s:
    """The weight of each row."""
    return np.asarray(zset.column(zset.num_columns - 1).to_numpy(), dtype=np.int64)


def negate(zset: pa.Table) -> pa.Table:
    """The Z-set with opposite weights."""
    return zset.set_column(zset.num_columns - 1, WEIGHT, pa.array(-weights_of(zset)))


def as_schema(zset: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns the same rows under exactly this schema. It may differ from theirs in names of columns and in marks of nullability."""
    if zset.schema.equals(schema):
        return zset
    if zset.schema.types == schema.types:  # no cast: Arrow's own refuses a null struct whose fields may not be null
        return pa.Table.from_arrays(zset.columns, schema=schema)
    return zset.rename_columns(schema.names).cast(schema)


def add(zsets: Sequence[pa.Table]) -> pa.Table:
    """The sum, not consolidated, under `schema_of` the first part's types. The number of parts does not show in the schema: Arrow
    compares marks of nullability too when tables of several workers are joined, and a single part must not keep its own."""
    schema = schema_of([field.type for field in zsets[0].schema][:-1])
    parts = [as_schema(zset, schema) for zset in zsets]
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts)


def project(zset: pa.Table, columns: Sequence[int]) -> pa.Table:
    """The given columns, in this order, with the same weights."""
    arrays = [zset.column(i) for i in columns]
    names = [f"c{i}" for i in range(len(columns))]
    return pa.Table.from_arrays([*arrays, zset.column(zset.num_columns - 1)], [*names, WEIGHT])


def consolidate(zset: pa.Table) -> pa.Table:
    """The unique form of a Z-set: each row once, no row of weight 0, in an order that depends on the content alone."""
    return net_rows(zset)[0]


def net_rows(zset: pa.Table, major: Hashes | None = None) -> tuple[pa.Table, Indices]:
    """(the unique form, for each of its rows the position of one that equals it). It is ordered by `major` first, if that is given: a hash of
    some columns."""
    if zset.num_rows == 0:
        return zset, np.zeros(0, np.int64)
    columns = rows_of(zset)
    order, starts = group_rows(columns, zset.num_rows, major)
    totals = np.add.reduceat(weights_of(zset)[order], starts)
    kept = totals != 0
    chosen = order[starts[kept]]
    indices = pa.array(chosen)
    return build([take(column, indices) for column in columns], totals[kept]), chosen


def take(column: pa.Array | pa.ChunkedArray, indices: pa.Array) -> pa.Array:
    """The values of `column` at `indices`, as one array. (A take over a chunked array is many times slower than one
    over a combined array.)"""
    flat = column
    if isinstance(column, pa.ChunkedArray):
        flat = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return flat.take(indices)


def take_rows(table: pa.Table, indices: Indices | pa.Array) -> pa.Table:
    """The rows of `table` at `indices`."""
    whole = table if all(column.num_chunks == 1 for column in table.columns) else table.combine_chunks()
    return whole.take(indices if isinstance(indices, pa.Array) else pa.array(indices))


def group_rows(
    columns: Sequence[pa.Array | pa.ChunkedArray], length: int, major: Hashes | None = None, *, of_rows: bool = False
) -> tuple[Indices, Indices]:
    """(order, starts): `order` sorts the rows so that equal rows are neighbours; `starts` are the positions in this
    order at which another row begins. Rows are sorted by `major` first, if it is given, and then by the hash of the
    whole row. Unequal rows with equal hashes are sorted by their values, so the result is exact in spite of collisions.
    `of_rows`: `major` is a hash of whole rows already, and no other hash is computed."""
    minor = major if of_rows and major is not None else hash_columns(columns, length)
    order = _order(minor, major)
    tied = _ties(minor, major, order)
    new = changes(columns, tied, order)
    if (tied & new[1:]).any():  # a collision: equal rows are perhaps not neighbours
        order = _exact_order(columns, minor, major)
        new = changes(columns, _ties(minor, major, order), order)
    return order, new.nonzero()[0]


def _order(minor: Hashes, major: Hashes | None) -> Indices:
    order = _sort(minor if major is None else major)
    if major is None or minor is major:
        return order
    sorted_major = major[order]
    if not (sorted_major[1:] == sorted_major[:-1]).any():
        return order
    return np.lexsort((minor, major)).astype(np.int64, copy=False)


def _sort(hashes: Hashes) -> Indices:
    """The indices that sort the hashes. If the hashes are a few ascending runs, one after another, then the stable sort
    merges the runs, which is 3 to 11 times as fast as a full sort."""
    runs = 1 + np.count_nonzero(hashes[1:] < hashes[:-1])
    return np.argsort(hashes, kind="stable" if runs <= SORTED_RUNS_MAX else "quicksort").astype(np.int64, copy=False)


def _ties(minor: Hashes, major: Hashes | None, order: Indices) -> Bools:
    """For each position in `order` but the first: whether its hashes are those of the row before it."""
    ordered = minor[order]
    tied: Bools = ordered[1:] == ordered[:-1]
    if major is not None and major is not minor:
        ordered = major[order]
        tied &= ordered[1:] == ordered[:-1]
    return tied


def changes(columns: Sequence[pa.Array | pa.ChunkedArray], tied: Bools, order: Indices) -> Bools:
    """For each position in `order`: whether its row differs from the row before it. `tied`: for each position but the first, whether it may be
    equal, because its hash is."""
    new = np.ones(len(order), dtype=bool)
    same = tied.nonzero()[0] + 1
    if len(same):
        here, before = pa.array(order[same]), pa.array(order[same - 1])
        flat = identity_columns(columns)
        new[same] = ~equal_rows([c.take(here) for c in flat], [c.take(before) for c in flat], len(same))
    return new


def _exact_order(columns: Sequence[pa.Array | pa.ChunkedArray], minor: Hashes, major: Hashes | None) -> Indices:
    flat = [c.cast(pa.int8()) if pa.types.is_boolean(c.type) else c for c in identity_columns(columns)]
    ranks = [pc.rank(c, tiebreaker="dense").to_numpy() for c in reversed(flat)]
    keys = [*ranks, minor] if major is None else [*ranks, minor, major]
    return np.lexsort(keys).astype(np.int64, copy=False)


def equal_rows(left: Sequence[pa.Array], right: Sequence[pa.Array], length: int) -> Bools:
    """For each of `length` rows: whether the two sides are equal, where null equals null. Both sides are identity
    columns."""
    equal = np.ones(length, dtype=bool)
    for a, b in zip(left, right, strict=True):
        if pa.types.is_integer(a.type) and not a.null_count and not b.null_count:
            equal &= a.to_numpy() == b.to_numpy()  # a third of the time of Arrow's, which gives bits
            continue
        same = pc.equal(a, b)
        if same.null_count:
            both = pc.and_(a.is_null(), b.is_null())
            same = pc.if_else(same.is_valid(), same, both)
        equal &= same.to_numpy(zero_copy_only=False)
    return equal
