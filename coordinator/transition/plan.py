"""The documents of a transition: made once, when it begins, and read by every run that goes on with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from coordinator.revisions.columns_had import names_had, outputs_after
from coordinator.revisions.comparison import Comparison
from coordinator.revisions.document import PlanDocument
from engine.analysis.fill_circuits import fill_circuits
from engine.analysis.filling import DifferencePlan, FillingPrograms, OutputTakenBack, Program
from engine.analysis.numbering import numbers_after
from engine.analysis.project_match import ProjectMatch
from engine.analysis.withholding import countable
from engine.model.circuit import Circuit, Output, View
from engine.model.filling import FILL, HASHES, OF_FORMER, OF_NEXT, ContentFeed, is_read_again
from engine.model.rows import Source
from engine.run import plan_document
from engine.run.program_document import ProgramDocument
from engine.run.source_table import SourceTable
from io_kafka.step_log.plans import digest_of
from io_kafka.step_log.revision_records import TransitionPlans

FACTS_FORMAT: Literal[1] = 1


@dataclass(frozen=True, kw_only=True)
class StoredDifference:
    """A difference that a node stores until the switch, as users see it. `number`: of that node. `appends`: the append outputs that get it,
    which can take no row back."""

    view: str
    number: int
    appends: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TransitionFacts:
    """What the coordinator has to know of a transition. `levels`: of its feeds. `differences`: of views. `young`: the numbers of what it adds,
    to be cleared if it is aborted. `gone`: those to be cleared after the switch. `counted`: the new nodes whose error rows are counted from
    the first step on. `rebuilt`, `new`, `dropped`: views, by name. `taken_back`: the outputs of the previous project, by their
    handles there, whose content is taken back in the step of the switch."""

    levels: int
    differences: tuple[StoredDifference, ...]
    young: tuple[int, ...]
    gone: tuple[int, ...]
    counted: tuple[int, ...]
    rebuilt: tuple[str, ...]
    new: tuple[str, ...]
    dropped: tuple[str, ...]
    taken_back: tuple[str, ...] = ()
    format: Literal[1] = FACTS_FORMAT

    @property
    def whole(self) -> int:
        return self.levels * HASHES

    @property
    def text(self) -> str:
        return plan_document.text_of(self, TransitionFacts)


def facts_of(text: str) -> TransitionFacts:
    """Raises BadDocument."""
    return plan_document.value_of(text, TransitionFacts)


@dataclass(frozen=True, kw_only=True)
class TransitionPlan:
    """`document`: of the project to which it leads. `again`: the sources that are read again, by the handles that they have there. `texts`: of
    all documents. `plans`: their names. `fed_nodes`: the numbers of the nodes of the previous project from whose state new nodes are filled.
    `fed_levels`: the levels that have feeds."""

    document: PlanDocument
    facts: TransitionFacts
    again: tuple[str, ...]
    texts: tuple[str, ...]
    plans: TransitionPlans
    fed_nodes: tuple[int, ...]
    fed_levels: frozenset[int]

    @property
    def plan(self) -> str:
        return digest_of(self.document.text)

    @property
    def program_names(self) -> tuple[str, ...]:
        """What workers run in the transition and after it."""
        return self.plans.present, self.plans.filling, self.plans.switching, self.plans.following


def plan_transition(comparison: Comparison) -> TransitionPlan:
    """What leads from one project to another. The numbers of the next one do not count. Raises CannotFill and TooManyNodes."""
    found, before, now = comparison.found, comparison.before, comparison.now
    document = replace(now, numbers=numbers_after(found, before.numbers), outputs=outputs_after(comparison))
    numbers = before.numbers, document.numbers
    chosen = replace(comparison.chosen_outputs, gradual=comparison.chosen.gradual)
    filling = fill_circuits(
        found,
        comparison.histories,
        numbers,
        comparison.new_outputs(),
        chosen,
        frozen=before.frozen,
        had=names_had(comparison),
    )
    return _plan_of(before, document, found, filling)


def _plan_of(
    before: PlanDocument, document: PlanDocument, found: ProjectMatch, filling: FillingPrograms
) -> TransitionPlan:
    old, sources = (tuple(each.table for each in project.inputs) for project in (before, document))
    young = tuple(sorted(filling.young))
    facts = TransitionFacts(
        levels=filling.levels,
        differences=(
            *(_stored_difference(each, document) for each in filling.differences),
            *(_stored_content_taken_back(each, before) for each in filling.taken_back),
        ),
        young=young,
        gone=tuple(sorted(filling.gone)),
        counted=_counted_nodes(filling),
        rebuilt=found.changed,
        new=found.new,
        dropped=found.dropped,
        taken_back=tuple(_handle(each, before) for each in filling.taken_back),
    )
    again = _read_again(filling.filling.circuit, old, sources)
    programs: Mapping[str, ProgramDocument] = {
        "present": ProgramDocument.of(filling.present, old),
        "filling": ProgramDocument.of(filling.filling, (*old, *again), young),
        "switching": ProgramDocument.of(filling.switching, sources),
        "following": ProgramDocument.of(filling.following, sources),
    }
    texts = {name: each.text for name, each in programs.items()}
    return TransitionPlan(
        document=document,
        facts=facts,
        again=tuple(each.handle for each in again),
        texts=(document.text, facts.text, *texts.values()),
        plans=TransitionPlans(facts=digest_of(facts.text), **{name: digest_of(text) for name, text in texts.items()}),
        fed_nodes=_fed_nodes(filling),
        fed_levels=frozenset(node.level for node in filling.filling.circuit.nodes if isinstance(node, ContentFeed)),
    )


def _read_again(
    filling: Circuit, former: Sequence[SourceTable], following: Sequence[SourceTable]
) -> tuple[SourceTable, ...]:
    """The sources of the circuit that are read again, as their project has them."""
    named = {OF_FORMER + each.handle: each for each in former} | {OF_NEXT + each.handle: each for each in following}
    handles = [node.handle for node in filling.nodes if isinstance(node, Source) and is_read_again(node.handle)]
    return tuple(replace(named[handle], handle=handle) for handle in dict.fromkeys(handles))


def _fed_nodes(filling: FillingPrograms) -> tuple[int, ...]:
    """The numbers of the nodes of the previous project that have feeds from their state."""
    program, before = filling.filling, set(filling.present.numbers)
    feeds = (node for node in program.circuit.nodes if isinstance(node, ContentFeed) and node.level == FILL)
    return tuple(sorted({program.numbers[node.inputs[0]] for node in feeds} & before))


def _stored_difference(difference: DifferencePlan, document: PlanDocument) -> StoredDifference:
    nodes = document.circuit.nodes
    view = nodes[difference.view]
    assert isinstance(view, View)
    outputs = [node for i in sorted(difference.readers) if isinstance(node := nodes[i], Output)]
    return StoredDifference(
        view=view.name,
        number=difference.number,
        appends=tuple(node.handle for node in outputs if node.mode == "append"),
    )


def _stored_content_taken_back(taken: OutputTakenBack, document: PlanDocument) -> StoredDifference:
    view = document.circuit.nodes[taken.view]
    assert isinstance(view, View)
    return StoredDifference(view=view.name, number=taken.number, appends=())


def _handle(taken: OutputTakenBack, document: PlanDocument) -> str:
    output = document.circuit.nodes[taken.output]
    assert isinstance(output, Output)
    return output.handle


def _counted_nodes(filling: FillingPrograms) -> tuple[int, ...]:
    program: Program = filling.filling
    new = countable(program.circuit) - program.silent - frozenset(range(len(filling.present.circuit.nodes)))
    return tuple(sorted(program.numbers[index] for index in new))
