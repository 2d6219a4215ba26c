"""The edge table has what a comparison of expressions with two operands needs."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pyarrow.compute as pc

from tests.stepwell.expressions.edges import edge_table


def test_each_column_is_null_where_each_other_is_not_and_all_are_null_once() -> None:
    """Otherwise a wrong answer for one null operand would not be noticed."""
    table = edge_table()
    nulls = {name: table.column(name).is_null().to_numpy() for name in table.column_names}
    assert not [(a, b) for a, b in permutations(nulls, 2) if not (nulls[a] & ~nulls[b]).any()]
    assert np.all(list(nulls.values()), axis=0).any()


def test_a_divisor_is_zero_where_any_other_operand_is_null() -> None:
    """Spark does not divide behind an operand that is null. So an expression that is to be `strict` is seen to be."""
    table = edge_table()
    zero = np.array(pc.equal(table.column("k"), 0).fill_null(False))
    others = [name for name in table.column_names if name != "k"]
    assert not [name for name in others if not (zero & table.column(name).is_null().to_numpy()).any()]
