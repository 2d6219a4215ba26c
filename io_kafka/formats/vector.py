"""Whole columns of base64 -> bytes: the usual spelling at once, the rest left as doubtful, as in `base.text.columns`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools
from base.text.columns import bytes_of, nulls_of

_SIXBITS = np.full(256, 255, dtype=np.uint8)
_SIXBITS[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)] = np.arange(64)
_PAD = 61


def base64s(strings: pa.Array) -> tuple[pa.Array, Bools]:
    """Base64 with padding and without any other character."""
    null = nulls_of(strings)
    data, ends = bytes_of(strings)
    lengths = np.where(null, 0, np.diff(ends)).astype(np.int64)
    doubtful = lengths % 4 != 0
    if doubtful.any() or (null.any() and int(np.diff(ends).sum()) != int(lengths.sum())):
        # Only whole groups, back to back, can be decoded at once.
        kept = pc.if_else(pa.array(doubtful | null), pa.scalar("", strings.type), strings)
        data, ends = bytes_of(kept)
        lengths = np.diff(ends).astype(np.int64)
    groups = data[ends[0] : ends[-1]].reshape(-1, 4)
    pads = np.zeros(len(lengths), dtype=np.int64)
    full = np.flatnonzero(lengths > 0)
    last = ends[1:][full]
    pads[full] = (data[last - 1] == _PAD).astype(np.int64) + ((data[last - 1] == _PAD) & (data[last - 2] == _PAD))
    six = _SIXBITS[groups]
    group_of_row = np.repeat(np.arange(len(lengths)), lengths // 4)
    is_pad = np.zeros(groups.shape, dtype=np.bool_)
    last_group = np.cumsum(lengths // 4)[full] - 1
    is_pad[last_group, 3] = pads[full] >= 1
    is_pad[last_group, 2] = pads[full] == 2
    doubtful[group_of_row[((six == 255) & ~is_pad).any(axis=1)]] = True
    six = np.where(is_pad, 0, six)
    out = np.empty((len(groups), 3), dtype=np.uint8)
    out[:, 0] = (six[:, 0] << 2) | (six[:, 1] >> 4)
    out[:, 1] = (six[:, 1] << 4) | (six[:, 2] >> 2)
    out[:, 2] = (six[:, 2] << 6) | six[:, 3]
    content = out[~is_pad[:, 1:]].tobytes()
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths // 4 * 3 - pads, out=offsets[1:])
    values = pa.Array.from_buffers(
        pa.binary(), len(lengths), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(content)]
    )
    missing = null | doubtful
    if missing.any():
        values = pc.if_else(pa.array(~missing), values, pa.scalar(None, pa.binary()))
    return values, doubtful
