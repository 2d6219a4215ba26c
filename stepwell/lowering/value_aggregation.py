"""The value of a subquery is summed where the rows lie, before they meet on one worker.

    ScalarValue(Map(Aggregate(rows)))   ->   ScalarValue(Map(FinalAggregate(PartialAggregate(rows))))

An aggregate without groups brings all rows to the worker that owns slot 0. With partials, each worker sends it one row per step. The results
stay the same. The pass applies to aggregates that only values read, and whose calls are linear, as in eager_aggregation.py.
"""

from __future__ import annotations

from dataclasses import replace

from engine.analysis.stages import plan
from engine.model.aggregates import Aggregate, FinalAggregate, PartialAggregate
from engine.model.circuit import Circuit
from engine.model.rows import Map, ScalarValue
from stepwell.lowering.builder import CircuitBuilder
from stepwell.lowering.eager_aggregation import is_linear, sums_of


def sum_values_early(circuit: Circuit) -> Circuit:
    """The circuit, in which every aggregate of this form is split; the same circuit if there is none."""
    places = plan(circuit).places
    builder = CircuitBuilder()
    moved: list[int] = []
    for index, node in enumerate(circuit.nodes):
        inputs = tuple(moved[i] for i in node.inputs)
        if isinstance(node, Aggregate) and places[node.inputs[0]] != () and _is_for_values(circuit, index):
            moved.append(_split(circuit, node, inputs[0], builder))
        else:
            moved.append(builder.add(replace(node, inputs=inputs)))
    return builder.circuit()


def _is_for_values(circuit: Circuit, index: int) -> bool:
    """Whether the aggregate has no groups and linear calls, and only values read it."""
    node = circuit.nodes[index]
    assert isinstance(node, Aggregate)
    types = circuit.nodes[node.inputs[0]].types
    linear = all(is_linear(call, None if call.argument is None else types[call.argument]) for call in node.calls)
    return not node.group and linear and _only_values_read(circuit, index)


def _only_values_read(circuit: Circuit, index: int) -> bool:
    readers = [at for at in range(index + 1, len(circuit.nodes)) if index in circuit.nodes[at].inputs]
    return bool(readers) and all(
        isinstance(circuit.nodes[at], ScalarValue)
        or (isinstance(circuit.nodes[at], Map) and _only_values_read(circuit, at))
        for at in readers
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
