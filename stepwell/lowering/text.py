"""A circuit as text for people: one line a node, inputs by number. For `dry-run` and for tests; nothing reads it
back."""

from __future__ import annotations

import pyarrow as pa

from engine.model.circuit import (
    Aggregate,
    AggregateCall,
    Circuit,
    Column,
    Constant,
    Deduplicate,
    Expression,
    FinalAggregate,
    Join,
    JoinPartials,
    LastByKey,
    Map,
    Node,
    Output,
    PartialAggregate,
    SemiJoin,
    Source,
    View,
)  # fmt: skip


def circuit_text(circuit: Circuit) -> str:
    """`3: Aggregate(2) by c0: count(*)`, a line a node."""
    return "\n".join(f"{index}: {node_text(node)}" for index, node in enumerate(circuit.nodes))


def node_text(node: Node) -> str:
    """The kind, the inputs, and what this node does."""
    inputs = f"({', '.join(map(str, node.inputs))})" if node.inputs else ""
    detail = _detail(node)
    return f"{node.kind}{inputs} {detail}".rstrip()


def _detail(node: Node) -> str:
    match node:
        case Source():
            marks = (" keyed" if node.keyed else "") + (" retracts" if node.retracts else "")
            return node.handle + marks
        case LastByKey() | Deduplicate():
            return f"by {_columns(node.key)}"
        case Constant():
            return f"of {_rows(node)} rows"
        case Map():
            where = f" where {_expression(node.predicate)}" if node.predicate else ""
            return ", ".join(_expression(p) for p in node.projections) + where
        case Join() | JoinPartials():
            return _join(node)
        case SemiJoin():
            return ("anti " if node.anti else "") + ("null-aware " if node.null_aware else "") + _join(node)
        case Aggregate() | PartialAggregate() | FinalAggregate():
            by = f"by {_columns(node.group)}: " if node.group else ""
            return by + ", ".join(_call(call, isinstance(node, FinalAggregate)) for call in node.calls)
        case View():
            kept = (" derived" if node.derived else " kept") if node.kept else ""
            return f"{node.name}[{', '.join(node.names)}]{kept}" + (f" by {_columns(node.key)}" if node.key else "")
        case Output():
            return f"{node.handle} {node.mode}" + (f" by {_columns(node.key)}" if node.key else "")
    return ""


def _columns(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"c{column}" for column in columns)


def _expression(expression: Expression) -> str:
    return f"c{expression.column}" if expression.column is not None else expression.sql


def _join(node: Join | JoinPartials | SemiJoin) -> str:
    pairs = zip(node.left_key, node.right_key, node.null_safe, strict=True)
    keys = ", ".join(f"c{left} {'<=>' if safe else '='} c{right}" for left, right, safe in pairs)
    residual = None if isinstance(node, JoinPartials) else node.residual
    return f"on {keys}" + (f" if {residual.sql}" if residual else "")


def _call(call: AggregateCall, of_partials: bool) -> str:
    """`s0` is the first argument that partials have sums of."""
    argument = "*" if call.argument is None else f"{'s' if of_partials else 'c'}{call.argument}"
    return f"{call.function}({'distinct ' if call.distinct else ''}{argument})"


def _rows(node: Constant) -> int:
    with pa.ipc.open_stream(node.ipc) as reader:
        return int(sum(batch.num_rows for batch in reader))
