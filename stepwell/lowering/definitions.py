"""A pass that looks at one view's definition at a time, so that no view changes how another one is computed.

What several definitions have in common is there once. So a pass that asks how many nodes read a node would answer
differently as soon as another view has an equal node, and a view that is added would change the nodes, and with them the
state, of a view that is there. Therefore a pass is asked about each definition by itself, with the readers in that
definition alone. Where it decides alike for several definitions, they still share what they have in common.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from engine.analysis.definitions import Definition, definition_of, is_end
from engine.model.circuit import Circuit, Node, View
from stepwell.lowering.builder import CircuitBuilder, prune

Placed = Mapping[int, int]
"""From the index of a node to that of what stands for it in the circuit that is built."""


Rewrite = Callable[[Definition, int, CircuitBuilder, Placed], int | None]
"""Adds what stands for a node, given by its index, to the builder. None: the node stays as it is."""


def rewrite_definitions(circuit: Circuit, rewrite: Rewrite) -> Circuit:
    """The circuit, in which `rewrite` has been asked about each node of each definition. The new nodes are in the order of those for which they
    stand."""
    builder = CircuitBuilder()
    ends: dict[int, int] = {}
    origins: list[int] = []

    def add(index: int, placed: Placed) -> int:
        node = circuit.nodes[index]
        return builder.add(replace(node, inputs=tuple(placed[i] for i in node.inputs)))

    def note(origin: int) -> None:
        origins.extend([origin] * (len(builder.nodes) - len(origins)))

    for index, node in enumerate(circuit.nodes):
        if not is_end(node):
            continue
        placed = dict(ends)
        if isinstance(node, View):
            definition = definition_of(circuit, index)
            for below in definition.nodes:
                made = rewrite(definition, below, builder, placed)
                placed[below] = add(below, placed) if made is None else made
                note(below)
        ends[index] = add(index, placed)
        note(index)
    return _in_order(builder.nodes, origins)


def _in_order(nodes: Sequence[Node], origins: Sequence[int]) -> Circuit:
    """Each node as early as its origin, but behind its inputs: two definitions can make the same node of nodes in different places."""
    waits_for = [len(set(node.inputs)) for node in nodes]
    readers: defaultdict[int, list[int]] = defaultdict(list)
    for index, node in enumerate(nodes):
        for below in set(node.inputs):
            readers[below].append(index)
    ready = [(origins[index], index) for index, count in enumerate(waits_for) if not count]
    heapify(ready)
    moved: dict[int, int] = {}
    ordered: list[Node] = []
    while ready:
        _, index = heappop(ready)
        moved[index] = len(ordered)
        ordered.append(replace(nodes[index], inputs=tuple(moved[i] for i in nodes[index].inputs)))
        for reader in readers[index]:
            waits_for[reader] -= 1
            if not waits_for[reader]:
                heappush(ready, (origins[reader], reader))
    return prune(ordered)
