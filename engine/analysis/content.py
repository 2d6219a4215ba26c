"""Reads the content of a view from the state: from the view's own trace, or from the totals of the aggregate below it.

An aggregate's rows can be computed from its totals. So a view over an aggregate stores nothing: a step writes and merges half as much, and a
query computes the view's rows from the totals. Each operator's descriptor says how its content can be read (`Content`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

import pyarrow as pa

from engine.analysis.uniqueness import key_of
from engine.model.circuit import Circuit, View
from engine.operators.context import StepContext
from engine.operators.descriptor import ContentOfInput, ContentOfState, NoContent
from engine.operators.table import operator_of
from engine.operators.view import content as stored_content
from engine.rows import zset
from engine.state.runs import as_zset

ContextOf = Callable[[int], StepContext]
"""From a node's index to the context in which its state is read. The number of its step is that of the version that is read."""


def derivable(circuit: Circuit, index: int) -> bool:
    """Whether a view need not store its content, because it can be computed from other state and no two of its rows can have the same key. (A
    view that stores its content checks that.)"""
    view = circuit.nodes[index]
    assert isinstance(view, View)
    if view.key:
        unique = key_of(circuit, index)
        if unique is None or not set(unique) <= set(view.key):
            return False
    return readable(circuit, view.inputs[0])


def readable(circuit: Circuit, index: int) -> bool:
    """Whether the content of a node's output can be computed from its own state and that of the nodes below it."""
    node = circuit.nodes[index]
    content = operator_of(node).state.content
    match content:
        case NoContent():
            return False
        case ContentOfInput():
            return readable(circuit, node.inputs[0])
        case ContentOfState():
            return True
        case _:
            assert_never(content)


def is_readable_view(circuit: Circuit, index: int) -> bool:
    """Whether the content of a kept view can be read. It cannot if it is derived from a node that is frozen (release.py)."""
    view = circuit.nodes[index]
    assert isinstance(view, View)
    return view.stored or readable(circuit, view.inputs[0])


def derive_contents(circuit: Circuit) -> Circuit:
    """The circuit with `derived` set for every view that need not store its content."""
    return Circuit(
        tuple(
            replace(node, derived=True) if isinstance(node, View) and node.stored and derivable(circuit, i) else node
            for i, node in enumerate(circuit.nodes)
        )
    )


def content_of(circuit: Circuit, index: int, context_of: ContextOf) -> pa.Table:
    """One worker's part of the content of a kept view, as a Z-set."""
    view = circuit.nodes[index]
    assert isinstance(view, View) and view.kept, f"node {index}: a {view.kind} keeps no content"
    if view.stored:
        return as_zset(stored_content(view, context_of(index)).scan())
    return content_below(circuit, view.inputs[0], context_of)


def content_below(circuit: Circuit, index: int, context_of: ContextOf) -> pa.Table:
    """One worker's part of the content of a node's output, as a Z-set. The node must be `readable`."""
    node = circuit.nodes[index]
    content = operator_of(node).state.content
    match content:
        case NoContent():
            raise AssertionError(f"node {index}: the content of a {node.kind} cannot be read from the state")
        case ContentOfInput():
            return content.apply(node, content_below(circuit, node.inputs[0], context_of))
        case ContentOfState():
            fed, context = operator_of(node).state.fed, context_of(index)
            assert fed is not None, f"node {index}: the state of a {node.kind} does not tell its content"
            if context.step.division.number == 0:
                return zset.empty(node.types)
            return fed.rows(node, [circuit.nodes[i].types for i in node.inputs], (), context)
        case _:
            assert_never(content)
