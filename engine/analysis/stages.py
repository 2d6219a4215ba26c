"""From a circuit to stages: where rows must be exchanged, and which operators run between two exchanges.

Every node's output has a *placement*: the columns whose hash decides the worker of a row, `()` for "all on the owner of the empty
key", None for "anywhere". An operator with memory needs equal keys on one worker; where its input is placed otherwise, an
exchange is put before it. A placement by fewer columns than the key has is good enough (rows with equal keys are together), so
operators that are keyed alike run in one stage without an exchange between them: a *region* (seed: ICADD).

A stage is what one Spark stage runs. A node's stage is the number of exchanges on the longest way to it from a source:

    stage 0: sources, and what needs no key        (no state)
    stage k: what becomes possible after k exchanges

What a stage gives to a later one is a **channel**: a node's output, exchanged by a key or kept on its worker. A channel that is
read two stages on is carried along by the stage between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.model.circuit import (
    Aggregate,
    Circuit,
    Column,
    Deduplicate,
    Distinct,
    FinalAggregate,
    Join,
    JoinPartials,
    LastByKey,
    Map,
    Node,
    PartialAggregate,
    SemiJoin,
    Union,
    View,
)  # fmt: skip

Key = tuple[Column, ...]


@dataclass(frozen=True)
class Channel:
    """`key` None: the rows stay on their worker."""

    producer: int
    key: Key | None


@dataclass(frozen=True)
class Plan:
    """`stage[n]` of node n; `arrivals[n][slot]`: the channel by which an input comes, None where it is made in the same stage
    on the same worker; `last_read[channel]`: the last stage that reads it."""

    circuit: Circuit
    stage: tuple[int, ...]
    arrivals: tuple[tuple[Channel | None, ...], ...]
    last_read: dict[Channel, int]

    @property
    def stages(self) -> int:
        return max(self.stage, default=0) + 1

    def nodes_of(self, stage: int) -> list[int]:
        return [index for index, at in enumerate(self.stage) if at == stage]

    def check(self) -> None:
        """An input made on the way is made before; one that is exchanged comes from an earlier stage."""
        for index, node in enumerate(self.circuit.nodes):
            for slot, producer in enumerate(node.inputs):
                channel = self.arrivals[index][slot]
                if channel is None:
                    assert self.stage[producer] == self.stage[index], (
                        f"node {index} reads another stage without a channel"
                    )
                else:
                    assert channel.producer == producer
                    assert self.stage[producer] < self.stage[index] <= self.last_read[channel]


def plan(circuit: Circuit) -> Plan:
    """The stages of a circuit; a function of the circuit alone."""
    placements: list[Key | None] = []
    stage: list[int] = []
    arrivals: list[tuple[Channel | None, ...]] = []
    for node in circuit.nodes:
        keys, placement = _arrange(node, [placements[i] for i in node.inputs])
        at = max((stage[i] + (key is not None) for i, key in zip(node.inputs, keys, strict=True)), default=0)
        placements.append(placement)
        stage.append(at)
        arrivals.append(
            tuple(
                None if stage[i] == at and key is None else Channel(i, key)
                for i, key in zip(node.inputs, keys, strict=True)
            )
        )
    last_read: dict[Channel, int] = {}
    for index, channels in enumerate(arrivals):
        for channel in channels:
            if channel is not None:
                last_read[channel] = max(last_read.get(channel, 0), stage[index])
    result = Plan(circuit, tuple(stage), tuple(arrivals), last_read)
    result.check()
    return result


def _arrange(node: Node, inputs: Sequence[Key | None]) -> tuple[list[Key | None], Key | None]:
    """(the key by which each input must be exchanged, None where it may stay; the placement of the output)."""
    if isinstance(node, Map):
        return [None], None if inputs[0] is None else node.places_of(inputs[0])
    if isinstance(node, Union):
        alike = all(placement == inputs[0] for placement in inputs)
        return [None] * len(inputs), inputs[0] if alike else None
    if isinstance(node, PartialAggregate):
        return [None], _through_group(node, inputs[0])
    if isinstance(node, Join | JoinPartials | SemiJoin):
        return _arrange_join(node, inputs)
    if isinstance(node, Aggregate | FinalAggregate):
        key, placement = _by(node.group, inputs[0])
        return [key], tuple(node.group.index(column) for column in placement)
    if isinstance(node, View):
        return _arrange_view(node, inputs[0])
    needed = _memory_key(node)
    if needed is None:
        return [None] * len(inputs), inputs[0] if inputs else None
    key, placement = _by(needed, inputs[0])
    return [key], placement


def _memory_key(node: Node) -> Key | None:
    if isinstance(node, LastByKey | Deduplicate):
        return node.key
    if isinstance(node, Distinct):
        return tuple(range(len(node.types)))
    return None


def _by(needed: Key, placement: Key | None) -> tuple[Key | None, Key]:
    """(the exchange to make, the placement after it) for an operator that needs equal `needed` together."""
    if placement is not None and set(placement) <= set(needed) and (placement or not needed):
        return None, placement
    return needed, needed


def _arrange_view(node: View, placement: Key | None) -> tuple[list[Key | None], Key | None]:
    if not node.stored:
        return [None], placement
    needed = node.key or tuple(range(len(node.types)))
    key, after = _by(needed, placement)
    return [key], after


def _arrange_join(
    node: Join | JoinPartials | SemiJoin, inputs: Sequence[Key | None]
) -> tuple[list[Key | None], Key | None]:
    """Both sides by the same columns of the join's key: by those that a side is placed by already, else by all."""
    if isinstance(node, SemiJoin) and node.null_aware:
        return [None if placement == () else () for placement in inputs], ()
    pairs = list(zip(node.left_key, node.right_key, strict=True))
    chosen = pairs
    for side, placement in enumerate(inputs):
        if placement and set(placement) <= {pair[side] for pair in pairs}:
            chosen = [next(pair for pair in pairs if pair[side] == column) for column in placement]
            break
    left, right = tuple(pair[0] for pair in chosen), tuple(pair[1] for pair in chosen)
    keys: list[Key | None] = [None if inputs[0] == left else left, None if inputs[1] == right else right]
    return keys, left


def _through_group(node: PartialAggregate, placement: Key | None) -> Key | None:
    """Where rows of one group are placed together already, so are the partials."""
    if placement is None or not set(placement) <= set(node.group):
        return None
    return tuple(node.group.index(column) for column in placement)
