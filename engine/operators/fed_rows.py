"""What the operators have in common that give rows of a node's state by ranges of hashes: which rows those are, and with which columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from base.arrays import Bools
from engine.model.filling import HASHES
from engine.model.node import Column, Types
from engine.rows.hashing import Hashes


def below(hashes: Hashes, bound: int) -> Bools:
    """Which hashes are below a position, which may be behind all hashes."""
    return np.ones(len(hashes), np.bool_) if bound >= HASHES else hashes < np.uint64(bound)


def within(hashes: Hashes, first: int, end: int) -> Bools:
    """Which hashes are in [first, end)."""
    return below(hashes, end) & ~below(hashes, first)


def columns_at_positions(
    rows: pa.Table, positions: Sequence[Column | None], types: Types
) -> list[pa.ChunkedArray | pa.Array]:
    """The columns of former rows for a table of now. `positions`: of each column, where it is in `rows`; None: it is null."""
    return [
        pa.nulls(rows.num_rows, kind) if position is None else rows.column(position)
        for position, kind in zip(positions, types, strict=True)
    ]
