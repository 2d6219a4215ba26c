"""Rows for which an expression of the user's raises, counted instead of ending the step.

An error row gives no output, so the operators behind it go on with the other rows. A row that is retracted raises as it did when it was
inserted, and then it counts with its negative weight. So the sums over all steps are 0 exactly when no row is in error any more, and what the
operators hold is then what they would hold if no row had ever been. Until then the outputs behind the node are withheld (output.py).

The idea of errors beside rows is that of Materialize. There each operator carries a second stream with the errors. Here only their sums travel,
because a view with an error has no answer whatever its other rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import DataError
from engine.rows import zset
from engine.rows.hashing import hash_columns

T = TypeVar("T")

CHECKSUM_BITS = 64
ALONE_ROWS_MAX = 8
"""So many rows are tried one by one. If all fail, as with a wrong view, more halving would double the number of attempts."""

EXAMPLE_CHARACTERS_MAX = 500
"""How many characters are kept of the text of an error, which the step log and the status repeat. Messages are shorter, but for values of the
user's."""


@dataclass
class ErrorRows:
    """What a step changes in the error rows of one node. `rows`: the sum of their weights. `checksum`: the sum of weight times hash modulo 2^64,
    by which different rows that come and go do not look like none. `example`: the error of one row that came, and may be gone since; empty if
    none came."""

    rows: int = 0
    checksum: int = 0
    example: str = ""

    @property
    def is_nothing(self) -> bool:
        return not self.rows and not self.checksum

    def add(self, rows: pa.Table, error: DataError | None, sign: int = 1) -> None:
        """Counts the rows of a Z-set. `sign` is -1 if they are those that the output had before the step. `error`: of one that comes."""
        weights = sign * zset.weights_of(rows)
        hashes = hash_columns(zset.rows_of(rows), rows.num_rows)
        self.rows += int(weights.sum())
        self.checksum = (self.checksum + int((hashes * weights.astype(np.uint64)).sum())) % (1 << CHECKSUM_BITS)
        if not self.example and error is not None and (weights > 0).any():
            self.example = error.message[:EXAMPLE_CHARACTERS_MAX]

    def plus(self, other: ErrorRows) -> ErrorRows:
        """The sum of both. The example is the later one's, if it has one."""
        checksum = (self.checksum + other.checksum) % (1 << CHECKSUM_BITS)
        return ErrorRows(self.rows + other.rows, checksum, other.example or self.example)


def add_all(sums: MutableMapping[int, ErrorRows], changes: Mapping[int, ErrorRows]) -> None:
    """Adds changes to sums, both by node."""
    for node, change in changes.items():
        sums[node] = sums.get(node, ErrorRows()).plus(change)


FailingRows = Callable[[pa.Table], pa.ChunkedArray | None]
"""Which rows fail, as booleans; None if that cannot be said at once."""


def attempt_all(
    attempt: Callable[[pa.Table], T | None], table: pa.Table, failing_rows: FailingRows | None = None
) -> tuple[list[T], list[int]]:
    """(results, the numbers of the rows that fail). `attempt` gives None if one of the rows that it is given fails. `failing_rows` says which,
    for 0.01 ms per row. Without it the rows are found by halving, and a few are tried one by one. An attempt costs 0.2 ms or more, so
    20,000 rows that fail would take seconds."""
    if failing_rows is None or table.num_rows <= ALONE_ROWS_MAX:
        return _halve(attempt, table)
    result = attempt(table)
    if result is not None:
        return [result], []
    said = failing_rows(table)
    if said is not None:
        good = table.filter(pc.invert(said))
        result = attempt(good)
        if result is not None and good.num_rows < table.num_rows:
            return [result], np.flatnonzero(said.to_numpy()).tolist()
    return _halve(attempt, table)


def _halve(attempt: Callable[[pa.Table], T | None], table: pa.Table) -> tuple[list[T], list[int]]:
    done: list[T] = []
    failing: list[int] = []
    waiting = [(0, table.num_rows)]
    while waiting:
        first, length = waiting.pop()
        result = attempt(table.slice(first, length))
        if result is not None:
            done.append(result)
        elif length <= 1:
            failing.append(first)
        elif length <= ALONE_ROWS_MAX:
            waiting += [(row, 1) for row in reversed(range(first, first + length))]
        else:
            half = length // 2
            waiting += [(first + half, length - half), (first, half)]
    return done, failing


def leave_out_errors(
    errors: ErrorRows,
    attempt: Callable[[pa.Table], pa.Table | None],
    compute: Callable[[pa.Table], object],
    rows: pa.Table,
    *,
    sign: int,
    types: Sequence[pa.DataType],
    counted: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    failing_rows: FailingRows | None = None,
) -> pa.Table:
    """The results of the rows that do not fail. The others are added to `errors`. `compute` is `attempt` that raises if a row fails.
    `failing_rows`: see `attempt_all`.
    `counted`: what is counted of rows that fail, one row for each, if an operator adds columns to them that another step would not have."""
    done, failing = attempt_all(attempt, rows, failing_rows)
    if failing:
        wrong = zset.take_rows(rows, np.array(failing))
        what = counted(wrong)
        came = np.flatnonzero(sign * zset.weights_of(what) > 0)
        errors.add(what, _error_of(compute, wrong.slice(int(came[0]), 1)) if len(came) else None, sign)
    return zset.add(done) if done else zset.empty(types)


def _error_of(compute: Callable[[pa.Table], object], row: pa.Table) -> DataError:
    """The error of a row that fails."""
    try:
        compute(row)
    except DataError as error:
        return error
    raise AssertionError("a row fails among others and not alone")
