"""One form for values that Spark treats as equal: all NaN are the same NaN, and -0.0 is 0.0, in nested fields too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from base.arrays import fill
from engine.rows.hashing import canonical_floats


def canonical(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array in canonical form. A column whose type has only one form is not copied."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if pa.types.is_floating(column.type):
        return canonical_floats(column)
    if pa.types.is_struct(column.type) and column.type.num_fields:
        fields = [canonical(field) for field in column.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(column.type), mask=column.is_null())
    if pa.types.is_list(column.type):
        lengths = fill(column.value_lengths(), 0).to_numpy()
        offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, canonical(column.flatten()), type=column.type, mask=column.is_null())
    return column


def one_nan(column: pa.Array) -> pa.Array:
    """The column with one NaN for all, and with its -0.0. Nested values are returned unchanged."""
    if not pa.types.is_floating(column.type):
        return column
    values = fill(column, 0.0).to_numpy(zero_copy_only=False)
    plain = np.where(np.isnan(values), np.array(np.nan, dtype=values.dtype), values)
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(plain, type=column.type, mask=mask, from_pandas=False)
