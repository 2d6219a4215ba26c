"""The way from one project to the next, in process: which program each step runs, and how far the feeds are."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from engine.analysis.comparing import ChosenOutputs
from engine.analysis.fill_circuits import fill_circuits
from engine.analysis.filling import FillingPrograms, Program
from engine.analysis.history import histories
from engine.analysis.identity import Named, SourceIdentity
from engine.analysis.numbering import numbers_after
from engine.analysis.project_match import ProjectMatch, match_projects
from engine.analysis.topic_columns import columns_change
from engine.model.circuit import Circuit, Output
from engine.model.filling import HASHES
from engine.model.numbers import number_of
from engine.model.rows import Source
from engine.state.store import DictStore
from storage.keys import key_table
from tests.engine.in_process import InProcess

PORTIONS = 4
"""Roughly how many portions fill everything."""


def named(circuit: Circuit, topics: Mapping[str, str] | None = None) -> Named:
    """With sources whose columns are called by their places. `topics`: of outputs whose topic is not called as they are."""
    leaves = {
        node.handle: SourceIdentity(f"topic {node.handle}", tuple(f"c{i} {kind}" for i, kind in enumerate(node.types)))
        for node in circuit.nodes
        if isinstance(node, Source)
    }
    handles = (node.handle for node in circuit.nodes if isinstance(node, Output))
    return Named(circuit, leaves, {handle: (topics or {}).get(handle, handle) for handle in handles}, {})


@dataclass(frozen=True)
class Led:
    """A transition, and the circuits of it. `had`: by the handle of an output, the names of the columns that messages of its topic have after
    the switch. `refused`: why the service would refuse it, because of columns of outputs."""

    found: ProjectMatch
    filling: FillingPrograms
    had: Mapping[str, tuple[str, ...]]
    refused: tuple[str, ...]


def led(
    before: Circuit,
    now: Circuit,
    numbers: Sequence[int] | None = None,
    *,
    from_switch: Collection[str] = (),
    taken_back: Collection[str] = (),
    gradual: bool = False,
    had: Mapping[str, tuple[str, ...]] | None = None,
) -> Led:
    """`numbers`: of the nodes of `before`. `had`: of the transition before this one, see Led. `from_switch`: the outputs of `now`
    that get only what comes from the switch on. `taken_back`: the outputs of `before` that take their content back. `gradual`: what differs
    leaves in several steps. Raises CannotFill."""
    found = match_projects(named(before), named(now))
    topics = set(found.previous.topics.values())
    passing = frozenset(outputs_of(now, from_switch))
    new = [i for i, node in enumerate(now.nodes) if isinstance(node, Output) and node.handle not in topics]
    new = [i for i in new if i not in passing]
    chosen = ChosenOutputs(from_switch=passing, taken_back=frozenset(outputs_of(before, taken_back)), gradual=gradual)
    known = tuple(range(len(before.nodes))) if numbers is None else tuple(numbers)
    made = histories(found, {}, new)
    stay = {i: node for i, node in enumerate(now.nodes) if isinstance(node, Output) and node.handle in topics}
    had = {} if had is None else had
    changes = {i: columns_change(found, node, had.get(node.handle)) for i, node in stay.items()}
    filling = fill_circuits(
        found,
        made,
        (known, numbers_after(found, known)),
        new,
        chosen,
        had={i: had[node.handle] for i, node in stay.items() if node.handle in had},
    )
    return Led(
        found,
        filling,
        had={node.handle: changes[i].had_after(node.mode) for i, node in stay.items()},
        refused=tuple(
            f"{node.handle}: {each.why}"
            for i, node in stay.items()
            if node.mode != "upsert" and i not in passing
            for each in changes[i].obstacles
        ),
    )


def outputs_of(circuit: Circuit, handles: Collection[str]) -> list[int]:
    return [i for i, node in enumerate(circuit.nodes) if isinstance(node, Output) and node.handle in handles]


def clear(stores: Sequence[DictStore], numbers: Collection[int]) -> None:
    """Removes the tables of the nodes with these numbers."""
    for store in stores:
        store.records = {key: value for key, value in store.records.items() if number_of(key_table(key)) not in numbers}


class Way:
    """Where a pipeline is on the way. `filled`: what the next step is given. A step that is not `advance`d moves no feed."""

    def __init__(self, inner: InProcess, filling: FillingPrograms) -> None:
        self.inner, self.filling = inner, filling
        self.position = self.drained = 0
        self.filled = (0, 0)

    @property
    def whole(self) -> int:
        return self.filling.levels * HASHES

    @property
    def is_filled(self) -> bool:
        return self.position == self.whole

    def begin(self) -> None:
        self.position, self.filled = 0, (0, 0)
        self._become(self.filling.filling)

    def advance(self, to: int) -> None:
        """The next step moves the feeds from where they are."""
        assert self.position <= to <= self.whole
        self.filled = (self.position, to)
        self.position = to

    def advance_randomly(self, chance: random.Random) -> None:
        """Now and then to the end of a level, or not at all."""
        bounds = [level * HASHES for level in range(1, self.filling.levels + 1)]
        near = [bound for bound in bounds if bound > self.position and chance.random() < 0.3]
        to = self.position + chance.randrange(self.whole // PORTIONS)
        self.advance(min([to, *near, self.whole]) if chance.random() < 0.9 else self.position)

    def turn(self) -> None:
        """The next step is that of the switch."""
        assert self.is_filled
        self._become(self.filling.switching)
        self.filled = (0, HASHES)

    def begin_to_drain(self) -> None:
        """The next step is the first in which a part of what differs leaves."""
        assert self.is_filled
        self._become(self.filling.switching)
        self.drained, self.filled = 0, (0, 0)

    def drain(self, to: int) -> None:
        """In the next step what differs leaves up to this position."""
        assert self.drained <= to <= HASHES
        self.filled, self.drained = (self.drained, to), to

    @property
    def is_drained(self) -> bool:
        return self.drained == HASHES

    def settle(self) -> None:
        """The step of the switch is over: the next project is in force."""
        self._become(self.filling.following)
        self.filled = (0, 0)
        clear(self.inner.stores, self.filling.gone)

    def abort(self) -> None:
        """The previous project goes on alone."""
        self._become(self.filling.present)
        self.position, self.filled = 0, (0, 0)
        clear(self.inner.stores, self.filling.young)

    def _become(self, program: Program) -> None:
        self.inner.become(program)
