"""The keys by which an operator sorts rows, and what `dry-run` says of rows that tie in them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from base.text.type_names import sql_type
from engine.accumulators.sort_bytes import has_order
from engine.model.ordered import SortKey
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan

_TIES_NOTE = "rows that tie in the ORDER BY of {what} are ordered by the whole row, in canonical order; Spark orders them as they come"


def sort_key(context: Lowering, column: int, item: TreeNode, type_: pa.DataType) -> SortKey:
    """The sort key of a SortOrder, whose value is in the column."""
    if not has_order(type_) and not context.refusals:
        raise UnsupportedPlan(
            "Window",
            f"ORDER BY of {sql_type(type_)} in OVER (...) is not supported",
            "Order by a column of another type",
        )
    direction, nulls = item["direction"]["object"], item["nullOrdering"]["object"]
    return SortKey(column, direction.endswith("Ascending$"), nulls.endswith("NullsFirst$"))


def note_ties(
    context: Lowering, node: int, partition: tuple[int, ...], order: tuple[SortKey, ...], readers: Iterable[str]
) -> None:
    """Says that these readers of an order depend on that of rows of circuit node `node` that tie, unless a unique key shows that none do."""
    known = context.builder.unique_key(node)
    if known is not None and {*known} <= {*partition, *(key.column for key in order)}:
        return
    for name in dict.fromkeys(readers):
        context.note(_TIES_NOTE.format(what=name))
