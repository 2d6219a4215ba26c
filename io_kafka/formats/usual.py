"""Access to the C extension `_json`, which reads the usual JSON messages of a flat schema straight into Arrow columns.

It declines every message about which anything is unusual, and every schema with a type that it does not know. `parse.py` reads those. So what
it accepts has the value that `parse_slowly` gives, and nothing depends on whether the extension was built.
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np
import pyarrow as pa

from base.arrays import Bools
from base.text.columns import bytes_of, nulls_of
from io_kafka.formats.exact import nullable
from io_kafka.native_switch import NOT_BUILT, why_off

try:
    import io_kafka.formats._json as _json
except ImportError:  # no C compiler where Stepwell was installed
    _json = None  # type: ignore[assignment]

KINDS = {
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.float64(): "d",
    pa.bool_(): "?",
    pa.string(): "s",
    pa.date32(): "D",
    pa.timestamp("us"): "T",
    pa.timestamp("us", "UTC"): "Z",
}
"""The types that the extension reads, and their kinds there."""

Declared = tuple[tuple[bytes, str, bool], ...]


@cache
def why_not() -> str | None:
    """Why the extension is not used, as a text for users. None if it is used."""
    return why_off() or (NOT_BUILT if _json is None else None)


def read_usual(values: pa.Array, schema: pa.Schema) -> tuple[pa.RecordBatch, Bools] | None:
    """`values`: messages, binary; a null is declined. Returns (rows, which messages were declined: these are rows of nulls). None if
    the extension cannot read this schema, or is not used."""
    declared = _declared(schema)
    if declared is None or why_not() is not None:
        return None
    data, ends = bytes_of(values)
    declined, found = _json.read(data, np.ascontiguousarray(ends), nulls_of(values), declared)
    columns = []
    for field, (nulls, validity, content, text_ends) in zip(schema, found, strict=True):
        buffers = [pa.py_buffer(validity) if nulls else None, pa.py_buffer(content)]
        if text_ends is not None:
            buffers.insert(1, pa.py_buffer(text_ends))
        columns.append(pa.Array.from_buffers(field.type, len(values), buffers, nulls))
    return pa.RecordBatch.from_arrays(columns, schema=nullable(schema)), np.frombuffer(declined, dtype=np.bool_).copy()


@lru_cache(maxsize=256)  # one for each schema in use: an input has at most a few
def _declared(schema: pa.Schema) -> Declared | None:
    declared = tuple((field.name.encode(), KINDS.get(field.type, ""), not field.nullable) for field in schema)
    return declared if declared and all(kind for _, kind, _ in declared) else None
