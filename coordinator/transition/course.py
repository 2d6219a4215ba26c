"""What the steps run: from a program of the step log to the project, the topics and the setup of workers.

    step log: program of step s  ->  Running  ->  AdoptProgram, to all workers  ->  divisions and steps

A run begins with what it was started with, which is the revision in force alone. Every other program has its documents in the topic of plan
documents. The project of a revision has the settings of the files, as `former_project` says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from coordinator.revisions.document import PlanDocument, Revision
from coordinator.revisions.former import former_project
from coordinator.specification import InputTopic, PipelineSpec
from coordinator.starting.errors import TopicChanged
from coordinator.starting.topics.patterns import with_matching_topics
from coordinator.starting.topics.same_topics import refuse_lost_log
from coordinator.starting.topics.setup import resolved_outputs
from coordinator.transition.documents import Documents
from coordinator.transition.plan import TransitionFacts
from coordinator.transition.reread_portions import source_read_again
from engine.analysis.filling import Program
from engine.analysis.marking import Marks
from engine.analysis.release import ImplementationVersions
from engine.model.filling import OF_FORMER, OF_NEXT, TAKEN_BACK, handle_of_project, is_read_again
from engine.model.numbers import NumberedCircuit
from engine.resident.messages import AdoptProgram, RegisteredIds
from engine.run.program_document import Outputs, ProgramDocument, setup_of
from engine.run.task_setup import TaskSetup
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.programs import FillingProgram, PresentProgram, ProgramKey, SwitchingProgram
from io_kafka.step_log.records import TopicIdentity
from io_kafka.step_log.revision_records import RevisionIntent, RevisionRecord

Resolved = tuple[PipelineSpec, tuple[TopicIdentity, ...], Outputs]
"""A project with its topics: see `resolved_outputs`."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """What the steps of a program run with. `spec`: the project whose inputs are read and whose outputs are written. `answers`: the circuit of
    the project whose views have answers. `made_with`: the revisions of what that computes with. `counted`: the numbers of new nodes whose
    error rows every step counts. `order`: by which workers adopt it; None if they were started with it. `again`: the sources that are read
    again, with the handles that they have there. `before`: in the steps of a switch, the circuit of the former project."""

    key: ProgramKey
    spec: PipelineSpec
    setup: TaskSetup
    identities: tuple[TopicIdentity, ...]
    answers: NumberedCircuit
    made_with: ImplementationVersions
    counted: tuple[int, ...] = ()
    order: AdoptProgram | None = None
    again: tuple[InputTopic, ...] = ()
    before: NumberedCircuit | None = None


@dataclass(frozen=True, kw_only=True)
class _ProgramChoice:
    """`program`, `readable`: see AdoptProgram. `former`: the revision before a switch, and `taken_back` its outputs that take their content
    back. `intent`: of the transition that the steps fill."""

    revision: RevisionRecord
    program: str
    readable: Mapping[int, str]
    first: int = 0
    counted: tuple[int, ...] = ()
    former: RevisionRecord | None = None
    taken_back: tuple[str, ...] = ()
    intent: RevisionIntent | None = None
    later: tuple[str, ...] = ()


class Course:
    """`start`: what the workers are started with. `files`: the project of the files. `log_id`: the topic id of the step log."""

    def __init__(
        self, files: PipelineSpec, writer: PipelineWriter, topics: Topics, log_id: str, start: Running
    ) -> None:
        self.files, self._writer, self._topics, self.log_id = files, writer, topics, log_id
        self.start = start
        self.documents = Documents(RangeReader(files.kafka), files.plan_topic)
        self._resolved: dict[int, Resolved] = {start.key.number: _resolved_at_start(start)}

    def know(self, revision: Revision) -> None:
        """Takes the document of the revision in force, which was read already."""
        record = self._writer.state.revision
        if record is not None and record.number == revision.number:
            self.documents.know(record.plan, revision.document)

    def at(self, step: int, has_adopted: bool) -> Running:
        """What this step runs. `has_adopted`: whether the workers have adopted another program than that of the start."""
        key = self._writer.state.program_key(step)
        if key == self.start.key and not has_adopted:
            return self.start
        choice = self._program_choice(step)
        document = self.document(choice.revision)
        spec, identities, outputs = self._resolve(choice.revision)
        program, number = self.documents.program(choice.program), choice.revision.number
        if choice.former is not None and choice.taken_back:
            taken = self._resolve_taken_back(choice.former, choice.taken_back)
            spec, identities, outputs = _with_taken_back((spec, identities, outputs), taken)
        again = () if choice.intent is None else self._read_again(choice.intent, spec, program)
        outputs = replace(
            outputs, topics={**outputs.topics, **{each.table.handle: each.table.topics for each in again}}
        )
        order = _order(spec, choice, outputs, step)
        setup = setup_of(program, outputs, self.start.setup, revision=number, first=choice.first)
        former = None if choice.former is None else self.document(choice.former).numbered
        return Running(
            key=key,
            spec=spec,
            setup=setup,
            identities=identities,
            answers=document.numbered,
            made_with=document.made_with,
            counted=choice.counted,
            order=order,
            again=again,
            before=former,
        )

    def _read_again(
        self, intent: RevisionIntent, spec: PipelineSpec, program: ProgramDocument
    ) -> tuple[InputTopic, ...]:
        """The sources of a program that are read again, each as its project defines it. `spec`: the former one, which names the topics that
        match a pattern now."""
        handles = [source.handle for source in program.sources if is_read_again(source.handle)]
        if not handles:
            return ()
        following = former_project(self.document_of(intent), self.files)
        named = {OF_FORMER + each.table.handle: each for each in spec.inputs}
        named |= {OF_NEXT + each.table.handle: each for each in following.inputs}
        topics = {*spec.input_topics, *(each.topic for each in intent.again)}
        return tuple(source_read_again(named[handle], handle, topics) for handle in handles)

    def handles_read_again(self, intent: RevisionIntent) -> set[str]:
        """Returns the handles of the sources of the next project that are read again, as that project calls them."""
        sources = self.documents.program(intent.plans.filling).sources
        return {handle_of_project(each.handle) for each in sources if each.handle.startswith(OF_NEXT)}

    def resolved_next(self, intent: RevisionIntent, topics: Topics, known: Mapping[str, TopicIdentity]) -> Resolved:
        """Looks at the topics and registers the schemas of the project to which a transition leads, and creates topics that are missing. It may
        run in the background. `known`: the topics that the step log has. Raises the fault that would end the step of the switch."""
        spec = with_matching_topics(former_project(self.document_of(intent), self.files), topics, known)
        return spec, *resolved_outputs(spec, topics, known)

    def look_at_taken_back(
        self, before: RevisionRecord, intent: RevisionIntent, topics: Topics, known: Mapping[str, TopicIdentity]
    ) -> None:
        """Looks at topics and registers schemas as `resolved_next` does, for outputs of the former project whose content is to be taken back.
        Raises what would end the step of the switch."""
        if taken_back := self.facts(intent).taken_back:
            resolved_outputs(self._taken_back(before, taken_back), topics, known)

    def _taken_back(self, former: RevisionRecord, handles: Collection[str]) -> PipelineSpec:
        """The former project with nothing but these outputs."""
        project = former_project(self.document(former), self.files)
        outputs = tuple(output for output in project.outputs if output.handle in handles)
        return replace(project, inputs=(), outputs=outputs)

    def _resolve_taken_back(self, former: RevisionRecord, handles: Collection[str]) -> Resolved:
        """The outputs of the former project that take their content back, under the handles that they have in the step of the switch."""
        spec = self._taken_back(former, handles)
        identities, found = resolved_outputs(spec, self._topics, self._writer.state.topics)
        renamed = replace(
            found,
            partitions={TAKEN_BACK + handle: count for handle, count in found.partitions.items()},
            schema_ids={TAKEN_BACK + handle: ids for handle, ids in found.schema_ids.items()},
        )
        named = tuple(replace(output, handle=TAKEN_BACK + output.handle) for output in spec.outputs)
        return replace(spec, outputs=named), identities, renamed

    def take_resolved(self, intent: RevisionIntent, resolved: Resolved) -> None:
        """What `resolved_next` has found."""
        self._resolved[intent.number] = resolved

    def _resolve(self, revision: RevisionRecord) -> Resolved:
        """The project of a revision with its topics, which are looked at once."""
        if revision.number not in self._resolved:
            document, known = self.document(revision), self._writer.state.topics
            spec = with_matching_topics(former_project(document, self.files), self._topics, known)
            try:
                self._resolved[revision.number] = (spec, *resolved_outputs(spec, self._topics, known))
            except TopicChanged:
                refuse_lost_log(spec, self._writer, self.log_id)
                raise
        return self._resolved[revision.number]

    def _program_choice(self, step: int) -> _ProgramChoice:
        program = self._writer.state.revisions.program_of(step, 0, 0)
        match program:
            case PresentProgram(revision):
                assert revision is not None
                return self._present(revision)
            case FillingProgram(revision, intent):
                passage = self._writer.state.revisions.passage_that_fills(step)
                assert passage is not None
                counted = self.facts(intent).counted
                plans = intent.plans
                return _ProgramChoice(
                    revision=revision,
                    program=plans.filling,
                    readable=_readable(intent),
                    first=passage.first,
                    counted=counted,
                    intent=intent,
                    later=(plans.switching,),
                )
            case SwitchingProgram(revision, intent):
                switching = self._writer.state.revisions.passage_that_switches(step)
                assert switching is not None and switching.switch is not None
                first, plans = switching.switch, intent.plans
                switched = RevisionRecord(epoch=intent.epoch, number=intent.number, plan=intent.plan, step=first)
                return _ProgramChoice(
                    revision=switched,
                    program=plans.switching,
                    readable=_readable(intent),
                    first=first,
                    former=revision,
                    taken_back=self.facts(intent).taken_back,
                )

    def _present(self, revision: RevisionRecord) -> _ProgramChoice:
        """A revision alone is run again by workers that have run a transition from it or to it."""
        revisions = self._writer.state.revisions
        intents = [passage.intent for passage in revisions.passages]
        intents += [] if revisions.phase is None else [revisions.phase.intent]
        for intent in reversed(intents):
            plans = intent.plans
            if intent.plan == revision.plan and intent.number == revision.number:
                return _ProgramChoice(revision=revision, program=plans.following, readable=_readable(intent))
            if intent.number == revision.number + 1:
                return _ProgramChoice(revision=revision, program=plans.present, readable=_readable(intent))
        raise AssertionError(f"no transition leads to revision {revision.number} or from it")

    def revision_at(self, step: int) -> int:
        """The revision whose views a version has that was taken before this step."""
        key = self._writer.state.program_key(max(0, step - 1))
        return key.number or self.start.key.number

    def answers_of(self, number: int) -> NumberedCircuit:
        """The circuit of a revision that the transition under way leads from or to, or that is in force."""
        record = self._other_revision(number)
        return self.start.answers if record is None else self.document(record).numbered

    def made_with_of(self, number: int) -> ImplementationVersions:
        """The implementation versions of what it computes with (engine/analysis/release.py)."""
        record = self._other_revision(number)
        return self.start.made_with if record is None else self.document(record).made_with

    def marks_of(self, number: int) -> Marks:
        """The marks of its views (coordinator/revisions/marks.py)."""
        record = self._other_revision(number)
        return self.start.spec.marks if record is None else self.document(record).marks

    def _other_revision(self, number: int) -> RevisionRecord | None:
        """Returns the record of a revision; None if it is the one with which the workers were started. A restore leads back to steps of
        revisions from before transitions that have ended."""
        revisions = self._writer.state.revisions
        known = [passage.before for passage in revisions.passages]
        known += [] if revisions.phase is None else [revisions.phase.before]
        for record in (revisions.in_force, *known):
            if record is not None and record.number == number and number != self.start.key.number:
                return record
        assert number == self.start.key.number, f"revision {number} is not known"
        return None

    def document(self, revision: RevisionRecord) -> PlanDocument:
        return self.documents.plan(revision.plan)

    def document_of(self, intent: RevisionIntent) -> PlanDocument:
        """Returns the plan document of the project to which a transition leads."""
        return self.documents.plan(intent.plan)

    def switching(self, intent: RevisionIntent) -> Program:
        """What the step of the switch runs."""
        return self.documents.program(intent.plans.switching).program

    def facts(self, intent: RevisionIntent) -> TransitionFacts:
        return self.documents.facts(intent.plans.facts)


def _resolved_at_start(start: Running) -> Resolved:
    facts, topics = start.setup.facts, {each.table.handle: tuple(each.table.topics) for each in start.spec.inputs}
    return (
        start.spec,
        start.identities,
        Outputs(topics=topics, partitions=facts.partitions, schema_ids=facts.schema_ids),
    )


def _with_taken_back(resolved: Resolved, taken: Resolved) -> Resolved:
    """A project in the step of the switch, which also writes to topics that it does not have."""
    (spec, identities, outputs), (more, topics, found) = resolved, taken
    named = {each.topic: each for each in (*identities, *topics)}
    written = replace(
        outputs,
        partitions={**outputs.partitions, **found.partitions},
        schema_ids={**outputs.schema_ids, **found.schema_ids},
    )
    return (
        replace(spec, outputs=(*spec.outputs, *more.outputs)),
        tuple(identity for _, identity in sorted(named.items())),
        written,
    )


def _readable(intent: RevisionIntent) -> Mapping[int, str]:
    """The documents of the two revisions of a transition, whose views a version may have."""
    return {intent.number - 1: intent.plans.present, intent.number: intent.plans.following}


def _order(spec: PipelineSpec, choice: _ProgramChoice, outputs: Outputs, step: int) -> AdoptProgram:
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
