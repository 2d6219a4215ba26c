"""The table of operators: one descriptor per kind of node. The engine looks up here all that depends on the kind of a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast, get_args

from engine.model.circuit import Node
from engine.model.node import NodeBase
from engine.operators.aggregate import AGGREGATE
from engine.operators.clock_value import CLOCK_VALUE
from engine.operators.closing import CLOSING_AGGREGATE, CLOSING_SESSIONS
from engine.operators.descriptor import N, Operator
from engine.operators.distinct import DEDUPLICATE, DISTINCT
from engine.operators.event_time import LATEST_TIME, WATERMARK
from engine.operators.feeds import filling_over
from engine.operators.generate import GENERATE
from engine.operators.join import JOIN
from engine.operators.last_by_key import LAST_BY_KEY
from engine.operators.linear import CONSTANT, MAP, REPLICATE, UNION
from engine.operators.outer_join import OUTER_JOIN
from engine.operators.output import OUTPUT
from engine.operators.partials import FINAL_AGGREGATE, JOIN_PARTIALS, PARTIAL_AGGREGATE
from engine.operators.python_map import PYTHON_MAP
from engine.operators.recursion import recursion_over
from engine.operators.scalar import SCALAR_MAP, SCALAR_VALUE
from engine.operators.semi_join import SEMI_JOIN
from engine.operators.sessions import SESSIONS
from engine.operators.source import SOURCE
from engine.operators.temporal_filter import TEMPORAL_FILTER
from engine.operators.timed_deduplicate import TIMED_DEDUPLICATE
from engine.operators.timed_join import TIMED_JOIN
from engine.operators.top_k import TOP_K
from engine.operators.view import VIEW
from engine.operators.window import WINDOW

_OTHERS: tuple[Operator[Any], ...] = (
    SOURCE,
    LAST_BY_KEY,
    CONSTANT,
    MAP,
    PYTHON_MAP,
    REPLICATE,
    SCALAR_VALUE,
    SCALAR_MAP,
    UNION,
    DISTINCT,
    DEDUPLICATE,
    JOIN,
    SEMI_JOIN,
    OUTER_JOIN,
    AGGREGATE,
    PARTIAL_AGGREGATE,
    JOIN_PARTIALS,
    FINAL_AGGREGATE,
    TOP_K,
    WINDOW,
    GENERATE,
    SESSIONS,
    LATEST_TIME,
    WATERMARK,
    CLOSING_AGGREGATE,
    CLOSING_SESSIONS,
    TIMED_DEDUPLICATE,
    TIMED_JOIN,
    CLOCK_VALUE,
    TEMPORAL_FILTER,
    VIEW,
    OUTPUT,
)

_OF_PROJECTS: tuple[Operator[Any], ...] = (*_OTHERS, recursion_over(_OTHERS))

OPERATORS: tuple[Operator[Any], ...] = (*_OF_PROJECTS, *filling_over(_OF_PROJECTS))


def by_node_type(operators: Iterable[Operator[Any]], kinds: Iterable[type]) -> Mapping[type[NodeBase], Operator[Any]]:
    """The descriptors by node type. Raises TypeError unless every kind of node has exactly one descriptor, and no other type has one."""
    table: dict[type[NodeBase], Operator[Any]] = {}
    for operator in operators:
        if operator.node in table:
            raise TypeError(f"{operator.node.__name__} has two descriptors in engine/operators/table.py")
        table[operator.node] = operator
    for kind in kinds:
        if kind not in table:
            raise TypeError(f"{kind.__name__} has no descriptor in engine/operators/table.py")
    for kind in table.keys() - set(kinds):
        raise TypeError(f"{kind.__name__} has a descriptor, but is not in the union Node of engine/model/circuit.py")
    return MappingProxyType(table)


_BY_NODE_TYPE = by_node_type(OPERATORS, get_args(Node))


def operator_of(node: N) -> Operator[N]:
    """The descriptor of the node's kind."""
    return cast("Operator[N]", _BY_NODE_TYPE[type(node)])
