"""Chooses the program of a step: which documents it is made of, and which of them workers may need besides.

The step log alone says which program a step runs (io_kafka/step_log/programs.py). A revision alone is run from the documents of a transition
too, because only workers that have run another program adopt it, and a transition leads from it or to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.specification import PipelineSpec
from coordinator.transition.documents import Documents
from engine.resident.messages import AdoptProgram, RegisteredIds
from engine.run.program_document import Outputs
from io_kafka.step_log.programs import FillingProgram, PresentProgram, SwitchingProgram
from io_kafka.step_log.revision_records import RevisionIntent, RevisionRecord
from io_kafka.step_log.revision_state import RevisionState


@dataclass(frozen=True, kw_only=True)
class ProgramChoice:
    """Which documents the program of a step is made of. `revision`: whose project is read and written, and whose views have answers. `program`,
    `readable`, `later`: see AdoptProgram. `first`: the first step that runs the program, or 0 if that makes no difference. `counted`: the
    numbers of new nodes whose error rows every step counts. `former`: the revision before a switch, and `taken_back` its outputs whose content
    is taken back. `intent`: of the transition whose new nodes the steps fill."""

    revision: RevisionRecord
    program: str
    readable: Mapping[int, str]
    first: int = 0
    counted: tuple[int, ...] = ()
    former: RevisionRecord | None = None
    taken_back: tuple[str, ...] = ()
    intent: RevisionIntent | None = None
    later: tuple[str, ...] = ()


def choose_program(revisions: RevisionState, documents: Documents, step: int) -> ProgramChoice:
    """Returns what the workers run in a step. `documents`: those of the pipeline."""
    match revisions.program_of(step, 0, 0):
        case PresentProgram(revision):
            assert revision is not None
            return _choose_present(revisions, revision)
        case FillingProgram(revision, intent):
            passage = revisions.passage_that_fills(step)
            assert passage is not None
            counted = documents.facts(intent.plans.facts).counted
            plans = intent.plans
            return ProgramChoice(
                revision=revision,
                program=plans.filling,
                readable=_readable(intent),
                first=passage.first,
                counted=counted,
                intent=intent,
                later=(plans.switching,),
            )
        case SwitchingProgram(revision, intent):
            switching = revisions.passage_that_switches(step)
            assert switching is not None and switching.switch is not None
            first, plans = switching.switch, intent.plans
            switched = RevisionRecord(epoch=intent.epoch, number=intent.number, plan=intent.plan, step=first)
            return ProgramChoice(
                revision=switched,
                program=plans.switching,
                readable=_readable(intent),
                first=first,
                former=revision,
                taken_back=documents.facts(intent.plans.facts).taken_back,
            )


def _choose_present(revisions: RevisionState, revision: RevisionRecord) -> ProgramChoice:
    """Returns the program of a revision alone, which workers run again that have run a transition from it or to it."""
    intents = [passage.intent for passage in revisions.passages]
    intents += [] if revisions.phase is None else [revisions.phase.intent]
    for intent in reversed(intents):
        plans = intent.plans
        if intent.plan == revision.plan and intent.number == revision.number:
            return ProgramChoice(revision=revision, program=plans.following, readable=_readable(intent))
        if intent.number == revision.number + 1:
            return ProgramChoice(revision=revision, program=plans.present, readable=_readable(intent))
    raise AssertionError(f"no transition leads to revision {revision.number} or from it")


def _readable(intent: RevisionIntent) -> Mapping[int, str]:
    """The documents of the two revisions of a transition, whose views a version may have."""
    return {intent.number - 1: intent.plans.present, intent.number: intent.plans.following}


def order_of(spec: PipelineSpec, choice: ProgramChoice, outputs: Outputs, step: int) -> AdoptProgram:
    """Returns the order by which workers adopt the program before `step`. `spec`: the project. `outputs`: its topics as they were resolved."""
    return AdoptProgram(
        topic=spec.plan_topic,
        digest=choice.program,
        step=step,
        first=choice.first,
        topics=dict(outputs.topics),
        partitions=dict(outputs.partitions),
        schema_ids={handle: RegisteredIds.of(ids) for handle, ids in outputs.schema_ids.items()},
        revision=choice.revision.number,
        readable=dict(choice.readable),
        later=choice.later,
    )
