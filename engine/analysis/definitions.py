"""The definitions of views: which nodes belong to which view.

The **definition** of a view is the nodes on which it depends, up to the *ends*: sources, the tables of keyed sources, and other
views. An end belongs to no definition, and all that read it share it. Other nodes can be in several definitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from engine.model.circuit import Circuit, Output, View
from engine.model.node import NodeBase
from engine.model.rows import LastByKey, Source


@dataclass(frozen=True)
class Definition:
    """The nodes by which one view is defined, down to the views and sources that it reads. `nodes`: their indices in the circuit, in order.
    `readers`: which nodes of the definition, or its view, read each node; one that reads a node twice is there twice."""

    nodes: tuple[int, ...]
    readers: Mapping[int, tuple[int, ...]]


def is_end(node: NodeBase) -> bool:
    return isinstance(node, Source | LastByKey | View | Output)


def definition_of(circuit: Circuit, view: int) -> Definition:
    """`view`: the index of a View."""
    reading: defaultdict[int, list[int]] = defaultdict(list)
    found: set[int] = set()
    waiting = [view]
    while waiting:
        reader = waiting.pop()
        for below in circuit.nodes[reader].inputs:
            reading[below].append(reader)
            if below not in found and not is_end(circuit.nodes[below]):
                found.add(below)
                waiting.append(below)
    return Definition(tuple(sorted(found)), {index: tuple(sorted(readers)) for index, readers in reading.items()})
