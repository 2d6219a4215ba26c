"""The circuits that lead from one project to the next: what each step of a transition runs.

    present     the circuit of the previous project, A
    filling     A, the young nodes over feeds, twins, and the differences of changed views; outputs are those of A
    switching   B in the step of the switch: kept readers of a changed view get its difference beside its change
    following   the circuit of the next project, B

A node has one number, one co-location key and one kind of growth in all of them, which `check` asserts. So what a step of one circuit has stored
is what the next step finds, whatever circuit that step runs. fill_circuits.py makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from engine.analysis.project_match import nodes_with_state
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import StagePlan, plan_stages
from engine.model.circuit import Circuit
from engine.model.filling import CarriedTable
from engine.model.rows import LastByKey
from engine.operators.arrangement import Key


@dataclass(frozen=True, kw_only=True)
class Program:
    """What a step runs. `numbers`: of each node. `append_only`: as in RunFacts. `begins`: the nodes whose first step is that of the program.
    `silent`: the nodes whose error rows are left out and not counted, because another node counts them or will count them; the name is
    recorded."""

    circuit: Circuit
    numbers: tuple[int, ...]
    append_only: Mapping[int, tuple[bool, ...]]
    begins: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()

    @cached_property
    def plan(self) -> StagePlan:
        return plan_stages(self.circuit)

    @classmethod
    def of(cls, circuit: Circuit, numbers: Sequence[int]) -> Program:
        """Returns the program of a revision that is in force, which runs its circuit alone."""
        return cls(circuit=circuit, numbers=tuple(numbers), append_only=append_only_inputs(circuit))


ColumnsBy = Literal["name", "place"]
"""By which a column of a row is that of another row (topic_columns.py)."""


@dataclass(frozen=True, kw_only=True)
class DifferencePlan:
    """The plan of one difference: what some readers of a view of B get in the step of the switch. `view`: its index in B. `previous`: the index
    in A of the view whose content the readers have; None if they have nothing. `number`: of the node that holds the difference. `readers`: the
    nodes of B that get it. `handles`: those of the outputs among them. `columns_by`: how rows are compared whose columns have changed.
    `rewrites_key`: if the reader is an output that writes all rows once more, its key; such a difference says of each row whether it is a former
    one."""

    view: int
    previous: int | None
    number: int
    readers: frozenset[int]
    handles: tuple[str, ...]
    columns_by: ColumnsBy = "name"
    rewrites_key: Key | None = None


@dataclass(frozen=True, kw_only=True)
class OutputTakenBack:
    """The content that an output of A takes back in the step of the switch. `output`, `view`: their indices in A. `number`: of the node that
    holds the content."""

    output: int
    view: int
    number: int


@dataclass(frozen=True, kw_only=True)
class FillingPrograms:
    """All programs of one transition, with what its differences are and what is cleared after it. `levels`: how many levels the feeds have.
    `differences`: what readers of changed views get. `taken_back`: the contents beside them. `young`: the numbers whose tables are to be
    cleared if the transition is given up. `gone`: those to be cleared when it is settled."""

    present: Program
    filling: Program
    switching: Program
    following: Program
    levels: int
    differences: tuple[DifferencePlan, ...]
    taken_back: tuple[OutputTakenBack, ...]
    young: frozenset[int]
    gone: frozenset[int]

    def check(self) -> None:
        """Asserts that a node lies, grows and is called the same in each circuit that has it, and that what is cleared belongs to nobody."""
        for index, number in enumerate(self.present.numbers):
            assert self.filling.numbers[index] == number
            assert self.filling.circuit.nodes[index] == self.present.circuit.nodes[index]
            assert _facts(self.filling, index) == _facts(self.present, index), (
                f"node {index} lies or grows in another way"
            )
        for program in (self.filling, self.switching, self.following):
            program.circuit.check()
            assert len(set(program.numbers)) == len(program.numbers), "two nodes have one number"
        self._check_state_of_following()
        assert self.young.isdisjoint(self.present.numbers) and self.gone.isdisjoint(self.following.numbers)

    def _check_state_of_following(self) -> None:
        of_following = {number: index for index, number in enumerate(self.following.numbers)}
        with_state = set(nodes_with_state(self.following.circuit))
        for program in (self.filling, self.switching):
            for index, number in enumerate(program.numbers):
                same = of_following.get(number)
                if same is None or same not in with_state:
                    continue
                made, node = program.circuit.nodes[index], self.following.circuit.nodes[same]
                if isinstance(made, CarriedTable) and isinstance(node, LastByKey):
                    assert (made.types, made.key) == (node.types, node.key)
                    assert program.plan.colocation[index] == self.following.plan.colocation[same]
                    continue
                assert type(made) is type(node)
                ours, others = _facts(program, index), _facts(self.following, same)
                assert ours == others, f"node {same} has {ours} in a transition, and {others} after it"


def _facts(program: Program, index: int) -> tuple[object, ...]:
    return program.plan.input_colocation[index], program.append_only[index]
