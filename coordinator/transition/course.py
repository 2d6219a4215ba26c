"""What the steps run: from a program of the step log to the project, the topics and the setup of workers.

    step log: program of step s  ->  its documents (program_choice.py)  ->  the project with its topics (resolved_projects.py)
        ->  RunningProgram  ->  AdoptProgram, to all workers  ->  divisions and steps

A run begins with what it was started with, which is the revision in force alone. Every other program has its documents in the topic of plan
documents. The project of a revision has the settings of the files, as `project_of_revision` says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from coordinator.revisions.document import PlanDocument, Revision
from coordinator.revisions.project_of_revision import project_of_revision
from coordinator.specification import InputTopic, PipelineSpec
from coordinator.transition.documents import Documents
from coordinator.transition.plan import TransitionFacts
from coordinator.transition.program_choice import choose_program, order_of
from coordinator.transition.reread_portions import source_read_again
from coordinator.transition.resolved_projects import Resolved, ResolvedProjects, with_taken_back
from engine.analysis.filling import Program
from engine.analysis.marking import Marks
from engine.analysis.release import ImplementationVersions
from engine.model.filling import OF_FORMER, OF_NEXT, handle_of_project, is_read_again
from engine.model.numbers import NumberedCircuit
from engine.resident.messages import AdoptProgram
from engine.run.program_document import Outputs, ProgramDocument, setup_of
from engine.run.task_setup import TaskSetup
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.programs import ProgramKey
from io_kafka.step_log.records import TopicIdentity
from io_kafka.step_log.revision_records import RevisionIntent, RevisionRecord


@dataclass(frozen=True, kw_only=True)
class RunningProgram:
    """A program of the step log with all that its steps need. `key`: which program of the log it is. `spec`: the project whose inputs are read
    and whose outputs are written. `setup`: what the tasks of workers are set up with. `identities`: of the topics. `answers`: the circuit of the
    project whose views have answers. `made_with`: the implementation versions of its nodes and functions. `counted`: the numbers of new nodes
    whose error rows every step counts. `order`: by which workers adopt the program; None if they were started with it. `reread_sources`: the
    sources that are read again, with the handles that they have there. `before`: in the steps of a switch, the circuit of the former project."""

    key: ProgramKey
    spec: PipelineSpec
    setup: TaskSetup
    identities: tuple[TopicIdentity, ...]
    answers: NumberedCircuit
    made_with: ImplementationVersions
    counted: tuple[int, ...] = ()
    order: AdoptProgram | None = None
    reread_sources: tuple[InputTopic, ...] = ()
    before: NumberedCircuit | None = None


class Course:
    """The programs that the steps of one run run, each with its project, its topics and its setup of workers. `start`: what the workers are
    started with. `files`: the project of the files. `log_id`: the topic id of the step log."""

    def __init__(
        self, files: PipelineSpec, writer: PipelineWriter, topics: Topics, log_id: str, start: RunningProgram
    ) -> None:
        self._writer, self.log_id, self.start = writer, log_id, start
        self.documents = Documents(RangeReader(files.kafka), files.plan_topic)
        self.projects = ResolvedProjects(files, writer, topics, self.documents, log_id=log_id)
        self.projects.note_resolved(start.key.number, _resolved_at_start(start))

    @property
    def files(self) -> PipelineSpec:
        """The project of the files, or that to which the last transition leads which was asked for in this run."""
        return self.projects.files

    def add_document(self, revision: Revision) -> None:
        """Takes over the plan document of the revision in force, which was read already."""
        record = self._writer.state.revision
        if record is not None and record.number == revision.number:
            self.documents.add_parsed(record.plan, revision.document)

    def at(self, step: int, has_adopted: bool) -> RunningProgram:
        """What this step runs. `has_adopted`: whether the workers have adopted another program than that of the start."""
        key = self._writer.state.program_key(step)
        if key == self.start.key and not has_adopted:
            return self.start
        choice = choose_program(self._writer.state.revisions, self.documents, step)
        document = self.plan_of(choice.revision)
        spec, identities, outputs = self.projects.resolve(choice.revision)
        program, number = self.documents.program(choice.program), choice.revision.number
        if choice.former is not None and choice.taken_back:
            taken = self.projects.resolve_taken_back(choice.former, choice.taken_back)
            spec, identities, outputs = with_taken_back((spec, identities, outputs), taken)
        again = () if choice.intent is None else self._read_again(choice.intent, spec, program)
        outputs = replace(
            outputs, topics={**outputs.topics, **{each.table.handle: each.table.topics for each in again}}
        )
        order = order_of(spec, choice, outputs, step)
        setup = setup_of(program, outputs, self.start.setup, revision=number, first=choice.first)
        former = None if choice.former is None else self.plan_of(choice.former).numbered
        return RunningProgram(
            key=key,
            spec=spec,
            setup=setup,
            identities=identities,
            answers=document.numbered,
            made_with=document.made_with,
            counted=choice.counted,
            order=order,
            reread_sources=again,
            before=former,
        )

    def _read_again(
        self, intent: RevisionIntent, spec: PipelineSpec, program: ProgramDocument
    ) -> tuple[InputTopic, ...]:
        """The sources of a program that are read again, each as its project defines it. `spec`: the previous one, which names the topics that
        match a pattern now."""
        handles = [source.handle for source in program.sources if is_read_again(source.handle)]
        if not handles:
            return ()
        following = project_of_revision(self.plan_of_next(intent), self.files)
        named = {OF_FORMER + each.table.handle: each for each in spec.inputs}
        named |= {OF_NEXT + each.table.handle: each for each in following.inputs}
        topics = {*spec.input_topics, *(each.topic for each in intent.again)}
        return tuple(source_read_again(named[handle], handle, topics) for handle in handles)

    def handles_read_again(self, intent: RevisionIntent) -> set[str]:
        """Returns the handles of the sources of the next project that are read again, as that project calls them."""
        sources = self.documents.program(intent.plans.filling).sources
        return {handle_of_project(each.handle) for each in sources if each.handle.startswith(OF_NEXT)}

    def revision_at(self, step: int) -> int:
        """The revision whose views a version has that was taken before this step."""
        key = self._writer.state.program_key(max(0, step - 1))
        return key.number or self.start.key.number

    def answers_of(self, number: int) -> NumberedCircuit:
        """The circuit of a revision that the transition under way leads from or to, or that is in force."""
        record = self._other_revision(number)
        return self.start.answers if record is None else self.plan_of(record).numbered

    def made_with_of(self, number: int) -> ImplementationVersions:
        """The implementation versions of what it computes with (engine/analysis/release.py)."""
        record = self._other_revision(number)
        return self.start.made_with if record is None else self.plan_of(record).made_with

    def marks_of(self, number: int) -> Marks:
        """The marks of its views (coordinator/revisions/marks.py)."""
        record = self._other_revision(number)
        return self.start.spec.marks if record is None else self.plan_of(record).marks

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

    def plan_of(self, revision: RevisionRecord) -> PlanDocument:
        """Returns the plan document of a revision."""
        return self.documents.plan(revision.plan)

    def plan_of_next(self, intent: RevisionIntent) -> PlanDocument:
        """Returns the plan document of the project to which a transition leads."""
        return self.documents.plan(intent.plan)

    def switching(self, intent: RevisionIntent) -> Program:
        """What the step of the switch runs."""
        return self.documents.program(intent.plans.switching).program

    def facts(self, intent: RevisionIntent) -> TransitionFacts:
        return self.documents.facts(intent.plans.facts)


def _resolved_at_start(start: RunningProgram) -> Resolved:
    facts, topics = start.setup.facts, {each.table.handle: tuple(each.table.topics) for each in start.spec.inputs}
    return (
        start.spec,
        start.identities,
        Outputs(topics=topics, partitions=facts.partitions, schema_ids=facts.schema_ids),
    )
