"""Arrow's binary arrays as numpy arrays, without copying the data. Digests and partitioning both use them.

An Arrow array may be a slice of larger buffers, so its offsets need not begin at 0. A null may still span bytes, which a
caller has to skip.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def offsets_and_bytes(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """`(offsets, data)` of a binary, large_binary or string array: row i is `data[offsets[i]:offsets[i + 1]]`. `offsets` has one entry more than
    rows, and begins where the slice begins. A null row may span arbitrary bytes."""
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    assert wide or pa.types.is_binary(array.type) or pa.types.is_string(array.type), f"not binary: {array.type}"
    _, offsets_buffer, data_buffer = array.buffers()
    if len(array) == 0:
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    width = np.dtype(np.int64 if wide else np.int32)
    offsets = np.frombuffer(offsets_buffer, width, len(array) + 1, array.offset * width.itemsize).astype(np.int64)
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return offsets, data


def binary_of_lengths(lengths: bytes, data: bytes) -> pa.BinaryArray:
    """A binary array. `lengths` has one int64 per value, -1 for null; `data` has the values' bytes end to end."""
    each = np.frombuffer(lengths, np.int64)
    if len(data) > np.iinfo(np.int32).max:  # the client's own limit on what it queues is far lower
        raise OverflowError(f"{len(each)} values with {len(data)} bytes in one call")
    ends = np.zeros(len(each) + 1, np.int32)
    np.cumsum(np.maximum(each, 0), out=ends[1:])
    valid = each >= 0
    nulls = None if valid.all() else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(each), [nulls, pa.py_buffer(ends), pa.py_buffer(data)])


def chunks_of(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array. Its bytes must fit into Arrow's limit of 2 GiB for a binary array; the limits of a step ensure that."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        assert whole.num_chunks <= 1, "a step's output outgrew one Arrow array (2 GiB): lower stepwell.step.rows.max"
        return whole.chunk(0) if whole.num_chunks else pa.array([], column.type)
    return whole
