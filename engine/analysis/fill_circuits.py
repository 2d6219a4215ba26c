"""From a transition and the histories of its young nodes to the circuits that its steps run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from engine.analysis.comparing import NO_CHOICE, NOTHING_MORE_HAD, ChosenOutputs, Comparing, NamesHad
from engine.analysis.filling import FillingPrograms, Program
from engine.analysis.filling_circuit import filling_program
from engine.analysis.history import NOTHING_FROZEN, Histories
from engine.analysis.project_match import ProjectMatch, nodes_with_state
from engine.analysis.release import freeze
from engine.analysis.switching_circuit import switching_program
from engine.model.filling import LEVELS


def fill_circuits(
    found: ProjectMatch,
    histories: Histories,
    numbers: tuple[Sequence[int], Sequence[int]],
    new_outputs: Collection[int],
    outputs: ChosenOutputs = NO_CHOICE,
    *,
    frozen: Mapping[int, str] = NOTHING_FROZEN,
    had: NamesHad = NOTHING_MORE_HAD,
) -> FillingPrograms:
    """What leads from A to B. `numbers`: of the nodes of A, and of those of B. `new_outputs`: the Outputs of B whose topic A does not write and
    that get all content of their view. `outputs`: what the user has chosen for others. `frozen`: why nodes of A are (release.py). `had`: see
    NamesHad. Raises CannotFill."""
    before, now = map(tuple, numbers)
    comparing = Comparing(
        found, histories, before, now, frozenset(new_outputs), outputs=outputs, frozen=frozen, had=had
    )
    filling, switching = filling_program(comparing), switching_program(comparing)
    young = {now[i] for i in range(len(now)) if found.is_young(i)}
    made = FillingPrograms(
        present=Program.of(freeze(found.previous.circuit, frozen), before),
        filling=filling,
        switching=switching,
        following=Program.of(found.now.circuit, now),
        levels=LEVELS,
        differences=comparing.differences,
        taken_back=comparing.taken_back,
        young=frozenset(young | comparing.helpers),
        gone=_numbers_not_kept(found, before, now) | comparing.helpers,
    )
    made.check()
    return made


def _numbers_not_kept(found: ProjectMatch, before: Sequence[int], now: Sequence[int]) -> frozenset[int]:
    """The numbers of the nodes of A whose state nobody keeps. An output has the changes that it withheld."""
    circuit = found.previous.circuit
    with_state = {before[i] for i in nodes_with_state(circuit)}
    outputs = {before[i] for i in circuit.outputs.values()}
    return frozenset((with_state | outputs) - {now[i] for i in found.kept})
