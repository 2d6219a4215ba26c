"""Eager aggregation: sums are computed before a join instead of after it, if nothing else in the view's definition reads the join. The
results stay the same.

    Aggregate(Map(Join(side, other)))   ->   FinalAggregate(JoinPartials(PartialAggregate(side), other))

A step then exchanges and joins one row per group of the side instead of each row. The join keeps one sum per group instead of every row
that ever came (engine/operators/partials.py). The pass applies if all of these hold:

- Every call is a count, or a sum or avg of integers, decimals or intervals. None is DISTINCT, and all arguments come from one side.
  Sums of doubles are kept exact in another form, and minima and maxima are not linear.
- The Map only selects columns, and the Join has no condition but its keys. An expression below the join would be evaluated for rows that
  the join drops, and might fail there.
- The side may have several rows per group. If a key of the side is among the group's columns, then there is nothing to add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.analysis.definitions import Definition
from engine.analysis.uniqueness import unique_keys
from engine.model.aggregates import Aggregate, AggregateCall, FinalAggregate, PartialAggregate
from engine.model.circuit import Circuit
from engine.model.joins import Join, JoinPartials
from engine.model.node import Column
from engine.model.rows import Map
from engine.operators.aggregate_functions import FUNCTIONS, TotalFunction
from engine.operators.aggregate_plan import aggregate_plan_of
from engine.operators.arrangement import Key
from stepwell.lowering.builder import CircuitBuilder
from stepwell.lowering.definitions import Placed, rewrite_definitions


@dataclass(frozen=True)
class _Chosen:
    """A join below an aggregate. `group` and `arguments` are columns of the join's output."""

    join: Join
    group: tuple[Column, ...]
    arguments: tuple[Column | None, ...]


def aggregate_early(circuit: Circuit) -> Circuit:
    """The circuit, in which every aggregate of this form is split; an equal circuit if there is none."""
    keys = unique_keys(circuit)

    def early(definition: Definition, index: int, builder: CircuitBuilder, placed: Placed) -> int | None:
        node = circuit.nodes[index]
        if not isinstance(node, Aggregate):
            return None
        shape = _shape(circuit, node, definition, keys)
        return None if shape is None else shape.build(builder, placed)

    return rewrite_definitions(circuit, early)


def _shape(circuit: Circuit, node: Aggregate, definition: Definition, keys: Sequence[Key | None]) -> _Shape | None:
    """The form in which the aggregate is computed early; None if it stays. `keys`: the unique key of each node."""
    chosen = _join_below(circuit, node, definition)
    if chosen is None or not chosen.join.left_key:
        return None
    width = len(circuit.nodes[chosen.join.inputs[0]].types)
    given = {argument < width for argument in chosen.arguments if argument is not None}
    if len(given) > 1:
        return None
    for left in given or (True, False):
        shape = _Shape(circuit, node, chosen, left)
        if shape.adds_up(keys):
            return shape
    return None


def _join_below(circuit: Circuit, node: Aggregate, definition: Definition) -> _Chosen | None:
    """The join below the aggregate, if nothing else in the definition reads it, through at most one Map that only selects columns; otherwise
    None."""
    at = node.inputs[0]
    below, columns = circuit.nodes[at], tuple(range(len(circuit.nodes[at].types)))
    if isinstance(below, Map) and len(definition.readers[at]) == 1:
        if below.selected is None:
            return None
        at, columns = below.inputs[0], below.selected
        below = circuit.nodes[at]
    if not isinstance(below, Join) or below.residual is not None or len(definition.readers[at]) != 1:
        return None
    arguments = tuple(None if call.argument is None else columns[call.argument] for call in node.calls)
    return _Chosen(below, tuple(columns[column] for column in node.group), arguments)


class _Shape:
    """The rewritten form of an aggregate over a join, in which the join's left (or right) side is summed."""

    def __init__(self, circuit: Circuit, node: Aggregate, chosen: _Chosen, left: bool) -> None:
        self._circuit, self._node, self._chosen = circuit, node, chosen
        join = chosen.join
        width = len(circuit.nodes[join.inputs[0]].types)
        self._side, self._other = join.inputs if left else join.inputs[::-1]
        self._side_key, self._other_key = (join.left_key, join.right_key) if left else (join.right_key, join.left_key)
        # For each column of the join's output: (whether it comes from the summed side, the column there).
        self._places = [
            ((column < width) == left, column if column < width else column - width)
            for column in range(len(join.types))
        ]
        self._types = circuit.nodes[self._side].types
        own = [self._places[column][1] for column in chosen.group if self._places[column][0]]
        self._group = tuple(dict.fromkeys([*self._side_key, *own]))

    def adds_up(self, keys: Sequence[Key | None]) -> bool:
        """Whether the calls are linear and the side may have several rows per group."""
        calls = zip(self._node.calls, self._chosen.arguments, strict=True)
        if not all(is_linear(call, None if a is None else self._types[self._places[a][1]]) for call, a in calls):
            return False
        key = keys[self._side]
        return key is None or not set(key) <= set(self._group)

    def build(self, builder: CircuitBuilder, placed: Placed) -> int:
        arguments = [None if a is None else self._places[a][1] for a in self._chosen.arguments]
        named = tuple(dict.fromkeys(a for a in arguments if a is not None))
        below = tuple(replace(c, argument=a) for c, a in zip(self._node.calls, arguments, strict=True))
        above = tuple(
            replace(c, argument=None if a is None else named.index(a))
            for c, a in zip(self._node.calls, arguments, strict=True)
        )
        types = tuple(self._types[column] for column in self._group)
        carries = _carries(self._group, below, self._types)
        sums = (pa.int64(),) * len(carries)
        partial = builder.add(PartialAggregate((placed[self._side],), types + sums, self._group, below))
        join = JoinPartials(
            (partial, placed[self._other]),
            types + sums + self._circuit.nodes[self._other].types,
            left_key=tuple(self._group.index(column) for column in self._side_key),
            right_key=self._other_key,
            null_safe=self._chosen.join.null_safe,
            carries=carries,
        )
        group = tuple(
            self._group.index(column) if mine else len(types + sums) + column
            for mine, column in (self._places[column] for column in self._chosen.group)
        )
        argument_types = tuple(self._types[column] for column in named)
        final = FinalAggregate(
            (builder.add(join),),
            self._node.types,
            group=group,
            calls=above,
            argument_types=argument_types,
            first_sum=len(types),
        )
        return builder.add(final)


def is_linear(call: AggregateCall, argument: pa.DataType | None) -> bool:
    """Whether partial results of the call can be added up. `argument`: the type of its argument; None for count(*)."""
    function = FUNCTIONS[call.function]
    if call.distinct or not isinstance(function, TotalFunction):
        return False
    return not function.adds_values or (argument is not None and not pa.types.is_floating(argument))


def sums_of(calls: tuple[AggregateCall, ...], types: tuple[pa.DataType, ...]) -> tuple[pa.DataType, ...]:
    """The types of the sums that a partial aggregate without groups has for these calls. `types`: those of its input."""
    return (pa.int64(),) * len(_carries((), calls, types))


def _carries(
    group: tuple[Column, ...], calls: tuple[AggregateCall, ...], types: tuple[pa.DataType, ...]
) -> tuple[bool, ...]:
    """For each sum of a partial aggregate: whether it is a limb and has a higher limb next to it."""
    plan = aggregate_plan_of(group, calls, types, append_only=False)
    limbs = {place for each in plan.argument_sums for place in range(each.limbs.start, each.limbs.stop - 1)}
    return tuple(place in limbs for place in range(plan.sums))
