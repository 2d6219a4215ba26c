"""Values that Protobuf has as messages of several parts, which `known.py` names -> columns: dates and decimals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Int64s
from io_kafka.formats.avro.values import at_scale, low_bytes
from io_kafka.formats.column_bytes import lengths_of
from io_kafka.formats.cursor import Cursor

SCALE_MAX = 38
"""The largest scale of a DECIMAL. Confluent's type allows any, also below 0."""


def days_of(cursor: Cursor, rows: Int64s, parts: list[pa.Array], place: str) -> pa.Array:
    """`parts`: year, month and day. A date of which one is unknown, which is 0 in google.type.Date, is malformed. The faults are those of
    `rows`."""
    year, month, day = (part.to_numpy(zero_copy_only=False).astype(np.int64) for part in parts)
    in_range = (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(in_range, (year - 1970) * 12 + month - 1, 0)
    begins, ends = (of.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for of in (months, months + 1))
    wrong = ~in_range | (day > ends - begins)
    if wrong.any():
        cursor.fault(rows[wrong], f"column {place}: no whole date of the years 1 to 9999")
    return pa.array(np.where(wrong, 0, begins + day - 1).astype(np.int32), pa.int32()).cast(pa.date32())


def decimals_of(cursor: Cursor, rows: Int64s, parts: list[pa.Array], kind: pa.Decimal128Type, place: str) -> pa.Array:
    """`parts`: the unscaled number with its highest byte first, and the scale, which each message says itself. It may be smaller than the
    column's, as in Avro."""
    numbers, scales = parts[0], parts[1].to_numpy(zero_copy_only=False)
    lengths = lengths_of(numbers)
    inner = Cursor(numbers)
    wide, padded = low_bytes(inner.data, inner.at, np.maximum(lengths, 1))
    wrong = ~padded | (lengths == 0) | (scales < 0) | (scales > min(SCALE_MAX, kind.scale))
    if wrong.any():
        cursor.fault(rows[wrong], f"column {place}: a decimal without a number, or that no {kind} holds")
        wide[wrong] = 0
    found: list[pa.Array] = []
    places: list[Int64s] = []
    own = np.where(wrong, 0, scales)
    for scale in np.unique(own).tolist():
        mine = np.flatnonzero(own == scale)
        found.append(at_scale(cursor, rows[mine], wide[mine], scale=scale, kind=kind, column=place))
        places.append(mine)
    if not found:
        return pa.nulls(0, kind)
    order = np.argsort(np.concatenate(places), kind="stable")
    return pc.take(pa.concat_arrays(found), pa.array(order))
