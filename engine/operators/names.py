"""The user's names for the columns of an operator, as far as they can be told: for errors, and for what `plan` says.

A circuit has columns by their positions, `c0`, `c1`, ... A column of a source or of a view has a name, and keeps it through every node that
passes it on. What an expression has computed has none, and stays `c1`, unless `Naming.computed` asks for its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from engine.model.aggregates import AggregateCall
from engine.model.node import Column, Expression, NodeBase

N = TypeVar("N", bound=NodeBase)

Names = tuple[str | None, ...]
"""One entry for each column; None for a column without a name."""

EXPRESSION_MAX = 40
"""The characters of an expression that stands for a name."""

_IN_SQL = re.compile(r"'(?:[^']|'')*'|\bc([0-9]+)\b")


@dataclass(frozen=True)
class Naming:
    """What names depend on besides the node. `sources`: the columns' names by handle. `computed`: what is computed has a name too: a call of an
    aggregate is called like the call, `sum(delay)`, and a short expression like its text."""

    sources: Mapping[str, Sequence[str]]
    computed: bool


@dataclass(frozen=True)
class ColumnNames(Generic[N]):
    """How the columns of an operator's output are named, and those that its expressions read.

    `output(node, names of the inputs, naming)`: of the columns of the output. Those at the end that have no name may be left out.
    `read(names of the inputs)`: of the columns that the expressions of the node call `c0`, `c1`, ..."""

    output: Callable[[N, Sequence[Names], Naming], Names]
    read: Callable[[Sequence[Names]], Names]

    def of(self, node: N, inputs: Sequence[Names], naming: Naming) -> Names:
        """One entry for each column of the output."""
        found = self.output(node, inputs, naming)
        return (*found, *(None,) * (len(node.types) - len(found)))


def of_all_inputs(inputs: Sequence[Names]) -> Names:
    """The names for expressions over the columns of all inputs, one input after the other."""
    return tuple(name for each in inputs for name in each)


def named_by(output: Callable[[N, Sequence[Names], Naming], Names]) -> ColumnNames[N]:
    """The names for an operator whose expressions read all its inputs."""
    return ColumnNames(output, of_all_inputs)


NONE: ColumnNames[Any] = named_by(lambda node, inputs, naming: ())
"""All columns are computed, or there is none."""

OF_FIRST: ColumnNames[Any] = named_by(lambda node, inputs, naming: inputs[0][: len(node.types)])
"""The first columns are those of the first input, in their order. Others that follow are computed."""

OF_BOTH: ColumnNames[Any] = named_by(lambda node, inputs, naming: (*inputs[0], *inputs[1]))
"""The columns of the first two inputs, as those of a join."""


def names_at(positions: Sequence[Column | None], names: Names) -> Names:
    """The names of the columns at these positions. None: a column that comes from elsewhere."""
    return tuple(None if position is None else names[position] for position in positions)


OF_POSITIONS: ColumnNames[Any] = named_by(lambda node, inputs, naming: names_at(node.places, inputs[0]))
"""The columns of the first input at `places` of the node."""

OF_GROUP_AND_CALLS: ColumnNames[Any] = named_by(
    lambda node, inputs, naming: of_calls(node.group, node.calls, inputs[0], naming)
)
"""The columns of an aggregate over its input: `group` of the node, and then `calls`."""


def of_expressions(expressions: Sequence[Expression], names: Names, naming: Naming) -> Names:
    """`names`: of the columns that the expressions read."""
    return tuple(_of_expression(each, names, naming) for each in expressions)


def of_calls(
    group: Sequence[Column], calls: Sequence[AggregateCall], names: Names, naming: Naming, *, of_partials: bool = False
) -> Names:
    """The names for an aggregate: the group's columns, and then the calls. `of_partials`: the arguments are not columns of the input."""
    found = names_at(group, names)
    return (*found, *(_of_call(call, None if of_partials else names) for call in calls)) if naming.computed else found


def named_text(text: str, names: Names) -> str:
    """A text of an operator, or an expression in SQL, with the names in place of `c0`, `c1`, ... What is quoted is left as it is, and so is a
    column without a name."""

    def name_of(found: re.Match[str]) -> str:
        at = -1 if found[1] is None else int(found[1])
        return (names[at] if 0 <= at < len(names) else None) or found[0]

    return _IN_SQL.sub(name_of, text)


def _of_expression(expression: Expression, names: Names, naming: Naming) -> str | None:
    if expression.column is not None:
        return names[expression.column]
    if not naming.computed:
        return None
    text = named_text(expression.sql, names)
    return text if len(text) <= EXPRESSION_MAX else None


def _of_call(call: AggregateCall, names: Names | None) -> str:
    if call.argument is None:
        return f"{call.function}(*)"
    argument = "..." if names is None else names[call.argument] or "..."
    return f"{call.function}({'DISTINCT ' if call.distinct and names is not None else ''}{argument})"
