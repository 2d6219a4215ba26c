"""Maps in messages. Their keys are strings, and a message with two entries of one key is malformed.

Spark's readers keep both entries, though its own functions that make maps refuse such a pair (`spark.sql.mapKeyDedupPolicy` = `EXCEPTION`). No
map inside a circuit has two entries of one key, because the functions over maps would then see one of them or both.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, as_lists, fill


def with_repeated_keys(maps: pa.Array) -> Bools:
    """The rows of a column of maps in which two entries have one key."""
    entries = as_lists(maps)
    keys, _ = pc.list_flatten(entries).flatten()
    lengths = fill(pc.list_value_length(entries), 0).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(maps)), lengths)
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    pairs, counts = np.unique(rows * (len(keys) + 1) + codes, return_counts=True)
    found = np.zeros(len(maps), np.bool_)
    found[pairs[counts > 1] // (len(keys) + 1)] = True
    return found
