"""The user's names for the columns of a circuit, as far as they can be told: for errors.

A circuit has columns by their places, `c0`, `c1`, ... A column of a source or of a view has a name, and keeps it through every node that passes
it on. What an expression has computed has none, and stays `c1`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from engine.model.aggregates import Aggregate, FinalAggregate, PartialAggregate
from engine.model.circuit import Circuit, View
from engine.model.joins import Join, OuterJoin, SemiJoin
from engine.model.node import NodeBase
from engine.model.ordered import TopK, Window
from engine.model.rows import Deduplicate, Distinct, LastByKey, Map, PythonMap, Replicate, Source, Union

Names = tuple[str | None, ...]

_PASSING_ON = (LastByKey, Replicate, Distinct, Deduplicate, TopK, SemiJoin, Union, Window, PythonMap)
"""Nodes whose first columns are those of their first input."""

_EXPRESSION = "(expression "
_WITH = " with "
_IN_SQL = re.compile(r"'(?:[^']|'')*'|\bc([0-9]+)\b")
_IN_VALUES = re.compile(r"(?<![^ ])c([0-9]+) = ")


def input_names(circuit: Circuit, sources: Mapping[str, Sequence[str]], index: int) -> Names:
    """The names of the columns that the expressions of a node read: those of its inputs, one after the other. `sources`: the columns' names by
    handle."""
    known: dict[int, Names] = {}
    for at, node in enumerate(circuit.nodes[:index]):
        inputs = [known[each] for each in node.inputs]
        found = _names(node, inputs, sources)
        known[at] = (*found, *(None,) * len(node.types))[: len(node.types)]
    return tuple(name for each in circuit.nodes[index].inputs for name in known[each])


def _names(node: NodeBase, inputs: Sequence[Names], sources: Mapping[str, Sequence[str]]) -> Names:
    if isinstance(node, Source):
        return tuple(sources.get(node.handle, ()))
    if isinstance(node, View):
        return node.names
    if isinstance(node, Map):
        return tuple(None if each.column is None else inputs[0][each.column] for each in node.projections)
    if isinstance(node, Aggregate | PartialAggregate | FinalAggregate):
        return tuple(inputs[0][column] for column in node.group)
    if isinstance(node, Join | OuterJoin):
        return tuple(name for each in inputs for name in each)
    return inputs[0] if isinstance(node, _PASSING_ON) else ()


def with_names(text: str, names: Names) -> str:
    """The text of an error, with the names in place of `c0`, `c1`, ... in the part that shows the expression and its row. What is quoted in the
    expression is left as it is."""
    start = text.find(_EXPRESSION)
    if start < 0:
        return text
    sql, with_, values = text[start:].partition(_WITH)

    def name_of(found: re.Match[str]) -> str | None:
        at = -1 if found[1] is None else int(found[1])
        return names[at] if 0 <= at < len(names) else None

    sql = _IN_SQL.sub(lambda found: name_of(found) or found[0], sql)
    values = _IN_VALUES.sub(lambda found: f"{name_of(found) or f'c{found[1]}'} = ", values)
    return f"{text[:start]}{sql}{with_}{values}"
