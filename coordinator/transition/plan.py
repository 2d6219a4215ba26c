"""The documents of a transition: made once, when it begins, and read by every run that goes on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from coordinator.revisions.document import PlanDocument
from coordinator.revisions.leaves import named_project
from engine.analysis.fill_circuits import fill_circuits
from engine.analysis.filling import Compared, Filling, Program
from engine.analysis.history import NoHistory, Reread, histories, parts_of
from engine.analysis.numbering import numbers_after
from engine.analysis.taking import CannotFill
from engine.analysis.transition import Transition, transition
from engine.analysis.withholding import countable
from engine.model.circuit import Output, View
from engine.model.filling import HASHES
from engine.run import plan_document
from engine.run.program_document import ProgramDocument
from io_kafka.step_log.plans import digest_of
from io_kafka.step_log.revision_records import TransitionPlans

FACTS_FORMAT: Literal[1] = 1


@dataclass(frozen=True, kw_only=True)
class Holds:
    """A difference, as people see it. `number`: of the node that holds it. `appends`: the append outputs that get it, which can take no row
    back."""

    view: str
    number: int
    appends: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TransitionFacts:
    """What the coordinator has to know of a transition. `levels`: of its feeds. `differences`: of views. `young`: the numbers of what it adds,
    to be cleared if it is aborted. `gone`: those to be cleared after the switch. `counted`: the new nodes whose error rows are counted from
    the first step on. `rebuilt`, `new`, `dropped`: views, by name."""

    levels: int
    differences: tuple[Holds, ...]
    young: tuple[int, ...]
    gone: tuple[int, ...]
    counted: tuple[int, ...]
    rebuilt: tuple[str, ...]
    new: tuple[str, ...]
    dropped: tuple[str, ...]
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
    """`document`: of the project to which it leads. `texts`: of all documents. `plans`: their names."""

    document: PlanDocument
    facts: TransitionFacts
    texts: tuple[str, ...]
    plans: TransitionPlans

    @property
    def plan(self) -> str:
        return digest_of(self.document.text)


def plan_transition(before: PlanDocument, now: PlanDocument) -> TransitionPlan:
    """What leads from one project to another. `now.numbers` does not count. Raises CannotFill and TooManyNodes."""
    found = transition(named_project(before), named_project(now))
    document = PlanDocument(
        circuit=now.circuit,
        numbers=numbers_after(found, before.numbers),
        inputs=now.inputs,
        outputs=now.outputs,
        places=now.places,
        versions=now.versions,
        revisions=now.revisions,
    )
    topics = {output.topic for output in before.outputs}
    handles = {output.handle for output in now.outputs if output.topic not in topics}
    new = frozenset(
        i for i, node in enumerate(now.circuit.nodes) if isinstance(node, Output) and node.handle in handles
    )
    history = histories(found, {}, new)
    for take in parts_of(each for takes in history.of.values() for each in takes):
        if isinstance(take, Reread | NoHistory):
            node = found.now.circuit.nodes[take.node]
            raise CannotFill(f"source {getattr(node, 'handle', take.node)}")
    filling = fill_circuits(found, history, (before.numbers, document.numbers), new)
    return _made(before, document, found, filling)


def _made(before: PlanDocument, document: PlanDocument, found: Transition, filling: Filling) -> TransitionPlan:
    old, sources = (tuple(each.table for each in project.inputs) for project in (before, document))
    young = tuple(sorted(filling.young))
    facts = TransitionFacts(
        levels=filling.levels,
        differences=tuple(_holds(each, document) for each in filling.compared),
        young=young,
        gone=tuple(sorted(filling.gone)),
        counted=_counted(filling),
        rebuilt=found.changed,
        new=found.new,
        dropped=found.dropped,
    )
    programs: Mapping[str, ProgramDocument] = {
        "present": ProgramDocument(program=filling.present, sources=old),
        "filling": ProgramDocument(program=filling.filling, sources=old, clears=young),
        "switching": ProgramDocument(program=filling.switching, sources=sources),
        "following": ProgramDocument(program=filling.next, sources=sources),
    }
    texts = {name: each.text for name, each in programs.items()}
    return TransitionPlan(
        document=document,
        facts=facts,
        texts=(document.text, facts.text, *texts.values()),
        plans=TransitionPlans(facts=digest_of(facts.text), **{name: digest_of(text) for name, text in texts.items()}),
    )


def _holds(compared: Compared, document: PlanDocument) -> Holds:
    nodes = document.circuit.nodes
    view = nodes[compared.view]
    assert isinstance(view, View)
    outputs = [node for i in sorted(compared.readers) if isinstance(node := nodes[i], Output)]
    return Holds(
        view=view.name,
        number=compared.number,
        appends=tuple(node.handle for node in outputs if node.mode == "append"),
    )


def _counted(filling: Filling) -> tuple[int, ...]:
    program: Program = filling.filling
    new = countable(program.circuit) - program.silent - frozenset(range(len(filling.present.circuit.nodes)))
    return tuple(sorted(program.numbers[index] for index in new))
