"""The value of a subquery is summed where the rows lie, before they meet on one worker.

    ScalarValue(Map(Aggregate(rows)))   ->   ScalarValue(Map(FinalAggregate(PartialAggregate(rows))))

An aggregate without groups brings all rows to the worker that owns slot 0. With partials, each worker sends it one row per step. The results
stay the same. The pass applies to aggregates that only values read, and whose calls are linear, as in eager_aggregation.py.
"""

from __future__ import annotations

from dataclasses import replace

from engine.analysis.definitions import Definition
from engine.analysis.stages import plan_stages
from engine.model.aggregates import Aggregate, FinalAggregate, PartialAggregate
from engine.model.circuit import Circuit
from engine.model.rows import Map, ScalarValue
from stepwell.lowering.builder import CircuitBuilder
from stepwell.lowering.definitions import Placed, rewrite_definitions
from stepwell.lowering.eager_aggregation import is_linear, sums_of


def sum_values_early(circuit: Circuit) -> Circuit:
    """The circuit, in which every aggregate of this form is split; an equal circuit if there is none."""
    places = plan_stages(circuit).colocation

    def split(definition: Definition, index: int, builder: CircuitBuilder, placed: Placed) -> int | None:
        node = circuit.nodes[index]
        if not isinstance(node, Aggregate) or places[node.inputs[0]] == ():
            return None
        is_for_values = _is_linear(circuit, node) and _only_values_read(circuit, definition, index)
        return _split(circuit, node, placed[node.inputs[0]], builder) if is_for_values else None

    return rewrite_definitions(circuit, split)


def _is_linear(circuit: Circuit, node: Aggregate) -> bool:
    """Whether the aggregate has no groups and linear calls."""
    types = circuit.nodes[node.inputs[0]].types
    linear = all(is_linear(call, None if call.argument is None else types[call.argument]) for call in node.calls)
    return not node.group and linear


def _only_values_read(circuit: Circuit, definition: Definition, index: int) -> bool:
    return all(
        isinstance(circuit.nodes[at], ScalarValue)
        or (isinstance(circuit.nodes[at], Map) and _only_values_read(circuit, definition, at))
        for at in definition.readers[index]
    )


def _split(circuit: Circuit, node: Aggregate, rows: int, builder: CircuitBuilder) -> int:
    types = circuit.nodes[node.inputs[0]].types
    named = tuple(dict.fromkeys(call.argument for call in node.calls if call.argument is not None))
    above = tuple(
        replace(call, argument=None if call.argument is None else named.index(call.argument)) for call in node.calls
    )
    partial = builder.add(PartialAggregate((rows,), sums_of(node.calls, types), (), node.calls))
    return builder.add(
        FinalAggregate(
            (partial,), node.types, group=(), calls=above, argument_types=tuple(types[a] for a in named), first_sum=0
        )
    )
