"""Rows that need no source: OneRowRelation and Range. The circuit itself holds them, as Arrow IPC.

A constant has at least one column, because an Arrow table without columns loses its number of rows.
"""

from __future__ import annotations

import pyarrow as pa

from engine.model.rows import Constant
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.relation import Relation
from stepwell.lowering.trees import expression_id

# The rows are part of the circuit, which is sent to every worker and stored beside the state. So they may take a few
# megabytes at most.
CONSTANT_ROWS_MAX = 1_000_000


def lower_one_row(context: Lowering, node: TreeNode) -> Relation:
    """One row without columns. Its node has a column, but no other node can refer to it."""
    relation = context.add(constant(pa.table({"c0": pa.array([0], pa.int8())})), [context.fresh()])
    return Relation(relation.node, relation.columns, ())


def lower_range(context: Lowering, node: TreeNode) -> Relation:
    start, end, step = (int(node[name]) for name in ("start", "end", "step"))
    numbers = range(start, end, step)
    _check_count(len(numbers))
    rows = pa.table({"c0": pa.array(numbers, pa.int64())})
    return context.add(constant(rows), [expression_id(node["output"][0])])


def constant(rows: pa.Table) -> Constant:
    """The circuit node that holds `rows`, whose columns are already named c0, c1, ..."""
    _check_count(rows.num_rows)
    assert rows.num_columns > 0 and rows.column_names == [f"c{i}" for i in range(rows.num_columns)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return Constant((), tuple(rows.schema.types), sink.getvalue().to_pybytes())


def _check_count(count: int) -> None:
    if count > CONSTANT_ROWS_MAX:
        raise UnsupportedPlan(
            "Range",
            f"{count} rows are written in the definition; at most {CONSTANT_ROWS_MAX} can be",
            "Write the rows to a topic once and declare it as a source",
        )
