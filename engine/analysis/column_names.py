"""The user's names in a circuit: of the columns that each node puts out or reads, and in the texts of errors.

What an operator calls its columns is in its descriptor (engine/operators/names.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from engine.model.circuit import Circuit
from engine.operators.names import Names, Naming, named_text
from engine.operators.table import operator_of

_EXPRESSION = "(expression "
_WITH = " with "
_IN_VALUES = re.compile(r"(?<![^ ])c([0-9]+) = ")


def input_names(circuit: Circuit, sources: Mapping[str, Sequence[str]], index: int) -> Names:
    """The names of the columns that the expressions of a node read. `sources`: the columns' names by handle."""
    node = circuit.nodes[index]
    known = output_names(Circuit(circuit.nodes[:index]), sources, computed=False)
    return operator_of(node).wording.columns.read([known[each] for each in node.inputs])


def output_names(circuit: Circuit, sources: Mapping[str, Sequence[str]], *, computed: bool) -> list[Names]:
    """The names of the columns of each node. `computed`: see Naming."""
    known: list[Names] = []
    naming = Naming(sources, computed)
    for node in circuit.nodes:
        known.append(operator_of(node).wording.columns.of(node, [known[each] for each in node.inputs], naming))
    return known


def with_names(text: str, names: Names) -> str:
    """The text of an error, with the names in place of `c0`, `c1`, ... in the part that shows the expression and its row. What is quoted in the
    expression is left as it is."""
    start = text.find(_EXPRESSION)
    if start < 0:
        return text
    sql, with_, values = text[start:].partition(_WITH)

    values = _IN_VALUES.sub(lambda found: f"{named_text(f'c{found[1]}', names)} = ", values)
    return f"{text[:start]}{named_text(sql, names)}{with_}{values}"
