"""Plans the stages of a circuit: where rows must be exchanged, and which operators run between two exchanges.

An **exchange** routes rows, by the hash of a key, to the workers that own their slots; or it sends all rows to every worker, which the
value of a subquery needs.

Each operator's descriptor says which exchanges it needs (engine/operators/arrangement.py defines co-location keys). Operators with the same key
run in one stage without an exchange between them.

A node's stage is the number of exchanges on the longest path to it from a source:

    stage 0: sources, and operators that need no key    (no state)
    stage k: operators that need k exchanges

A stage passes rows to a later one by a **channel**: a node's output, exchanged by a key, sent to every worker, or kept on its worker. If the
later stage is not the next one, the stages between pass the channel on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from engine.analysis.event_time_sources import watermarks_over_feeds
from engine.analysis.withholding import outputs_written_again
from engine.model.circuit import Circuit, Output
from engine.operators.arrangement import Everyone, Exchange, Key
from engine.operators.output import arrange_withheld
from engine.operators.table import operator_of


@dataclass(frozen=True)
class Channel:
    """The output of node `producer`, exchanged by `key`. If `key` is None, the rows stay on their worker, unless they are for `everyone`."""

    producer: int
    key: Key | None
    everyone: bool = False

    @classmethod
    def of(cls, producer: int, exchange: Exchange) -> Channel:
        if isinstance(exchange, Everyone):
            return cls(producer, None, everyone=True)
        return cls(producer, exchange)

    @property
    def is_exchange(self) -> bool:
        """Whether rows may go to another worker."""
        return self.everyone or self.key is not None


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """The stages of a circuit, and the channels between them.

    `stage[n]`: the stage of node n. `arrivals[n][i]`: the channel by which its input i arrives; None if the same stage computes it on the same
    worker. `last_read[channel]`: the last stage that reads the channel. `colocation[n]`: the columns by whose hash the rows of node n lie on
    their worker, as its descriptor says; None if nothing is known. `input_colocation[n][i]`: the same of the rows of its input i as they
    arrive."""

    circuit: Circuit
    stage: tuple[int, ...]
    arrivals: tuple[tuple[Channel | None, ...], ...]
    last_read: dict[Channel, int]
    colocation: tuple[Key | None, ...]
    input_colocation: tuple[tuple[Key | None, ...], ...]

    @property
    def stages(self) -> int:
        return max(self.stage, default=0) + 1

    @property
    def has_state(self) -> bool:
        """Whether the steps change the database. The nodes of stage 0 keep nothing, so a circuit of one stage waits for no peer, and the step
        that its database names stays behind until something sets it."""
        return self.stages > 1

    @cached_property
    def reporting_nodes(self) -> tuple[int, ...]:
        """For each node, the first view, source or output that it belongs to, under whose name users read of it; itself if there is none."""
        nodes = self.circuit.nodes
        named = [operator_of(node).wording.user_name(node) is not None for node in nodes]
        found = [index if named[index] else len(nodes) for index in range(len(nodes))]
        for index in range(len(nodes) - 1, -1, -1):
            for producer in nodes[index].inputs:
                if not named[producer]:
                    found[producer] = min(found[producer], found[index])
        return tuple(index if first == len(nodes) else first for index, first in enumerate(found))

    @cached_property
    def watermarks_over_feeds(self) -> frozenset[int]:
        return watermarks_over_feeds(self.circuit)

    @cached_property
    def written_again(self) -> frozenset[str]:
        return outputs_written_again(self.circuit)

    def nodes_of(self, stage: int) -> list[int]:
        return [index for index, at in enumerate(self.stage) if at == stage]

    def check(self) -> None:
        """Asserts that an input without a channel is computed in the same stage, and that a channel comes from an earlier stage."""
        for index, node in enumerate(self.circuit.nodes):
            for position, producer in enumerate(node.inputs):
                channel = self.arrivals[index][position]
                if channel is None:
                    assert self.stage[producer] == self.stage[index], (
                        f"node {index} reads another stage without a channel"
                    )
                else:
                    assert channel.producer == producer
                    assert self.stage[producer] < self.stage[index] <= self.last_read[channel]


def plan_stages(circuit: Circuit, withheld: frozenset[str] = frozenset()) -> StagePlan:
    """The stages of a circuit, in a step that holds or releases the outputs `withheld`. They are a function of the circuit and these handles
    alone. Only the outputs are in other stages than without them."""
    colocations: list[Key | None] = []
    stage: list[int] = []
    arrivals: list[tuple[Channel | None, ...]] = []
    for node in circuit.nodes:
        if isinstance(node, Output) and node.handle in withheld:
            (producer,) = node.inputs
            arrangement = arrange_withheld(node, colocations[producer], has_state=stage[producer] > 0)
        else:
            arrangement = operator_of(node).arrange(node, [colocations[i] for i in node.inputs])
        keys = arrangement.exchanges
        at = max((stage[i] + (key is not None) for i, key in zip(node.inputs, keys, strict=True)), default=0)
        colocations.append(arrangement.colocation)
        stage.append(at)
        arrivals.append(
            tuple(
                None if stage[i] == at and key is None else Channel.of(i, key)
                for i, key in zip(node.inputs, keys, strict=True)
            )
        )
    result = StagePlan(
        circuit=circuit,
        stage=tuple(stage),
        arrivals=tuple(arrivals),
        last_read=_last_reads(stage, arrivals),
        colocation=tuple(colocations),
        input_colocation=_input_colocations(circuit, colocations, arrivals),
    )
    result.check()
    return result


def _last_reads(stage: Sequence[int], arrivals: Sequence[Sequence[Channel | None]]) -> dict[Channel, int]:
    """For each channel, the last stage that reads it."""
    found: dict[Channel, int] = {}
    for at, channels in zip(stage, arrivals, strict=True):
        for channel in channels:
            if channel is not None:
                found[channel] = max(found.get(channel, 0), at)
    return found


def _input_colocations(
    circuit: Circuit, colocations: Sequence[Key | None], arrivals: Sequence[Sequence[Channel | None]]
) -> tuple[tuple[Key | None, ...], ...]:
    """For each node, the columns by whose hash the rows of each of its inputs lie when they have arrived."""
    return tuple(
        tuple(
            colocations[producer] if channel is None or not channel.is_exchange else channel.key
            for producer, channel in zip(node.inputs, channels, strict=True)
        )
        for node, channels in zip(circuit.nodes, arrivals, strict=True)
    )


def channels_of(usual: StagePlan) -> tuple[Channel, ...]:
    """All channels that a step may have, whatever it withholds, in an order that is the same in all workers. `usual`: the plan of a step that
    withholds nothing."""
    every = frozenset(usual.circuit.outputs)
    return tuple(dict.fromkeys([*usual.last_read, *plan_stages(usual.circuit, every).last_read]))
