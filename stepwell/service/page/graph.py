"""The pipeline as a graph of sources, views and outputs, and where its boxes are drawn.

The drawing is the usual one for directed graphs (Sugiyama, Tagawa and Toda, 1981): layers by the longest path from a source, an order in each
layer by the mean place of the neighbours, and edges over several layers through a place of their own in each. It depends on the circuit alone,
so a box stays where it is while the page refreshes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from engine.model.circuit import Circuit
from engine.operators.table import operator_of

SWEEPS = 6
"""Passes over the layers that improve the order. More bring next to nothing for graphs of a hundred views."""


@dataclass(frozen=True)
class PipelineGraph:
    """The graph of sources, views and outputs. `names`: for users, such as `view totals`, each after all that it reads. `edges`: from what is
    read to what reads it, by place in `names`."""

    names: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]


NOTHING_DRAWN = PipelineGraph((), ())


def graph_of(circuit: Circuit) -> PipelineGraph:
    """Operators without a name of their own are left out: what reads them reads what they read. Nodes of one name are one box."""
    names: dict[str, int] = {}
    read: list[frozenset[int]] = []  # for each node, the boxes that a reader of it reads
    edges: dict[tuple[int, int], None] = {}
    for node in circuit.nodes:
        behind: frozenset[int] = frozenset().union(*(read[index] for index in node.inputs))
        name = operator_of(node).wording.user_name(node)
        if name is None:
            read.append(behind)
            continue
        box = names.setdefault(name, len(names))
        edges.update(((other, box), None) for other in sorted(behind) if other < box)
        read.append(frozenset((box,)))
    return PipelineGraph(tuple(names), tuple(edges))


def kind_of(name: str) -> str:
    """`source`, `view` or `output`, by the name for users."""
    kind, _, rest = name.partition(" ")
    return kind if rest and kind in ("view", "source", "output") else "view"


def bare_name(name: str) -> str:
    """The name for users without its kind."""
    kind, _, rest = name.partition(" ")
    return rest if rest and kind in ("view", "source", "output") else name


class GridPlace(NamedTuple):
    """A column from the left and a row from the top, both from 0."""

    column: int
    row: int


@dataclass(frozen=True)
class Drawing:
    """A graph with a place for each of its names. `boxes`: of each name. `paths`: the places that each edge goes through, from box to box.
    `columns`, `rows`: how many there are."""

    boxes: tuple[GridPlace, ...]
    paths: tuple[tuple[GridPlace, ...], ...]
    columns: int
    rows: int


@lru_cache(maxsize=4)
def drawing_of(graph: PipelineGraph) -> Drawing:
    layers = _layers(graph)
    chains, columns = _with_bends(graph, layers)
    rows = _order(columns, chains)
    column_of = {item: number for number, items in enumerate(columns) for item in items}
    places = {item: GridPlace(column_of[item], row) for item, row in rows.items()}
    return Drawing(
        tuple(places[box] for box in range(len(graph.names))),
        tuple(tuple(places[item] for item in chain) for chain in chains),
        len(columns),
        max((len(items) for items in columns), default=0),
    )


def _layers(graph: PipelineGraph) -> list[int]:
    """The longest path from a box that reads nothing."""
    layers = [0] * len(graph.names)
    for origin, reader in sorted(graph.edges, key=lambda edge: edge[1]):
        layers[reader] = max(layers[reader], layers[origin] + 1)
    return layers


def _with_bends(graph: PipelineGraph, layers: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
    """(the items of each edge, the items of each column). An item is a box, or a bend of an edge, which has a number of its own."""
    columns: list[list[int]] = [[] for _ in range(max(layers, default=-1) + 1)]
    for box, layer in enumerate(layers):
        columns[layer].append(box)
    chains, bends = [], len(layers)
    for origin, reader in graph.edges:
        chain = [origin]
        for layer in range(layers[origin] + 1, layers[reader]):
            columns[layer].append(bends)
            chain.append(bends)
            bends += 1
        chains.append([*chain, reader])
    return chains, columns


def _order(columns: list[list[int]], chains: Sequence[Sequence[int]]) -> Mapping[int, int]:
    """The row of each item. The columns are ordered in place."""
    before: dict[int, list[int]] = {}
    after: dict[int, list[int]] = {}
    for chain in chains:
        for origin, reader in pairwise(chain):
            after.setdefault(origin, []).append(reader)
            before.setdefault(reader, []).append(origin)
    rows = {item: row for items in columns for row, item in enumerate(items)}
    for sweep in range(SWEEPS):
        neighbours, order = (before, columns) if sweep % 2 == 0 else (after, columns[::-1])
        for items in order:
            items.sort(key=lambda item: (_mean(neighbours.get(item, ()), rows, rows[item]), item))
            rows.update({item: row for row, item in enumerate(items)})
    return rows


def _mean(neighbours: Sequence[int], rows: Mapping[int, int], otherwise: float) -> float:
    return sum(rows[each] for each in neighbours) / len(neighbours) if neighbours else otherwise
