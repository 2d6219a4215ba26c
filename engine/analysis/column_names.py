"""The user's names for the columns of a circuit, as far as they can be told: for errors.

A circuit has columns by their places, `c0`, `c1`, ... A column of a source or of a view has a name, and keeps it through every node that passes
it on. What an expression has computed has none, and stays `c1`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from engine.model.aggregates import Aggregate, AggregateCall, FinalAggregate, PartialAggregate
from engine.model.circuit import Circuit, View
from engine.model.clock import ClockValue, TemporalFilter
from engine.model.joins import Join, JoinPartials, OuterJoin, SemiJoin
from engine.model.node import Expression, NodeBase
from engine.model.ordered import TopK, Window
from engine.model.rows import Deduplicate, Distinct, LastByKey, Map, PythonMap, Replicate, ScalarMap, Source, Union

Names = tuple[str | None, ...]

_PASSING_ON = (LastByKey, Replicate, Distinct, Deduplicate, TopK, SemiJoin, Union, Window, PythonMap, TemporalFilter)
"""Nodes whose first columns are those of their first input."""

_EXPRESSION = "(expression "
_WITH = " with "
_IN_SQL = re.compile(r"'(?:[^']|'')*'|\bc([0-9]+)\b")
_IN_VALUES = re.compile(r"(?<![^ ])c([0-9]+) = ")


def input_names(circuit: Circuit, sources: Mapping[str, Sequence[str]], index: int) -> Names:
    """The names of the columns that the expressions of a node read: those of its inputs, one after the other. `sources`: the columns' names by
    handle."""
    known = output_names(Circuit(circuit.nodes[:index]), sources, computed=False)
    return tuple(name for each in circuit.nodes[index].inputs for name in known[each])


def output_names(circuit: Circuit, sources: Mapping[str, Sequence[str]], *, computed: bool) -> list[Names]:
    """The names of the columns of each node. `computed`: what an aggregate has computed is called like its call,
    `sum(delay)`, and a short expression like its text."""
    known: list[Names] = []
    for node in circuit.nodes:
        inputs = [known[each] for each in node.inputs]
        found = _names(node, inputs, sources)
        if computed and isinstance(node, Aggregate):
            found += tuple(_of_call(call, inputs[0]) for call in node.calls)
        elif computed and isinstance(node, FinalAggregate):  # its arguments are not the columns of its input
            found += tuple("count(*)" if call.argument is None else f"{call.function}(...)" for call in node.calls)
        elif computed and isinstance(node, Map):
            short = (_of_expression(each, inputs[0]) for each in node.projections)
            found = tuple(name or text for name, text in zip(found, short, strict=True))
        known.append((*found, *(None,) * len(node.types))[: len(node.types)])
    return known


EXPRESSION_MAX = 40
"""The characters of an expression that stands for a name."""


def _of_expression(expression: Expression, names: Names) -> str | None:
    if expression.column is not None:
        return names[expression.column]
    text = named_text(expression.sql, names)
    return text if len(text) <= EXPRESSION_MAX else None


def _of_call(call: AggregateCall, names: Names) -> str:
    argument = "*" if call.argument is None else names[call.argument] or "..."
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{argument})"


def _names(node: NodeBase, inputs: Sequence[Names], sources: Mapping[str, Sequence[str]]) -> Names:
    if isinstance(node, Source):
        return tuple(sources.get(node.handle, ()))
    if isinstance(node, View):
        return node.names
    if isinstance(node, ClockValue):
        return ("now()",)
    if isinstance(node, Map):
        return tuple(None if each.column is None else inputs[0][each.column] for each in node.projections)
    if isinstance(node, ScalarMap):
        every = (*inputs[0], *(name for each in inputs[1:] for name in each[:-1]))
        return tuple(None if each.column is None else every[each.column] for each in node.projections)
    if isinstance(node, Aggregate | PartialAggregate | FinalAggregate):
        return tuple(inputs[0][column] for column in node.group)
    if isinstance(node, Join | OuterJoin | JoinPartials):
        return tuple(name for each in inputs for name in each)
    return inputs[0] if isinstance(node, _PASSING_ON) else ()


def named_text(text: str, names: Names) -> str:
    """A text of an operator, or an expression in SQL, with the names in place of `c0`, `c1`, ... What is quoted is left as it is, and so is a
    column without a name."""

    def name_of(found: re.Match[str]) -> str:
        at = -1 if found[1] is None else int(found[1])
        return (names[at] if 0 <= at < len(names) else None) or found[0]

    return _IN_SQL.sub(name_of, text)


def with_names(text: str, names: Names) -> str:
    """The text of an error, with the names in place of `c0`, `c1`, ... in the part that shows the expression and its row. What is quoted in the
    expression is left as it is."""
    start = text.find(_EXPRESSION)
    if start < 0:
        return text
    sql, with_, values = text[start:].partition(_WITH)

    values = _IN_VALUES.sub(lambda found: f"{named_text(f'c{found[1]}', names)} = ", values)
    return f"{text[:start]}{named_text(sql, names)}{with_}{values}"
