"""What a view shows of a content that no correct source gives."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.model.circuit import View
from engine.operators.aggregate_errors import NegativeCount
from engine.run.contents import _rows

VIEW = View((0,), (pa.int64(), pa.string()), "people", ("id", "name"), kept=True)


def content(*rows: tuple[int, str | None, int]) -> pa.Table:
    ids, names, weights = zip(*rows, strict=True)
    return pa.table(
        {"c0": pa.array(ids, pa.int64()), "c1": pa.array(names, pa.string()), "weight": pa.array(weights, pa.int64())}
    )


def test_a_row_is_shown_as_often_as_it_is_there() -> None:
    assert _rows(content((1, "a", 2), (2, None, 1)), VIEW, 7).to_pylist() == [
        {"id": 1, "name": "a"}, {"id": 1, "name": "a"}, {"id": 2, "name": None},
    ]  # fmt: skip


def test_a_row_that_was_never_inserted_is_an_error_of_its_source() -> None:
    """A changelog without a key can say so, such as PostgreSQL's with the default REPLICA IDENTITY."""
    with pytest.raises(NegativeCount) as raised:
        _rows(content((1, "a", 1), (1, None, -1)), VIEW, 7)
    assert str(raised.value).startswith(
        "view people, step 7: The row {'id': 1, 'name': None} was retracted more often than it was inserted."
    )
    assert "declare its key" in raised.value.what_to_do
