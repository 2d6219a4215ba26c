"""A program as a document: what a worker has to know to run the steps of a revision, or of a transition between two.

The coordinator makes it, writes it to the topic of plan documents, and orders the workers to adopt it by its name. So nothing of it comes over a
socket, and a later release runs the programs that were recorded instead of making them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from engine.analysis.filling import Program
from engine.analysis.release import ImplementationVersions, implementation_versions_of
from engine.model.filling import is_read_again
from engine.operators.facts import RunFacts
from engine.run import plan_document
from engine.run.source_table import SourceTable, extras_of_all
from engine.run.task_setup import TaskSetup
from io_kafka.formats.encodings import SchemaIds

PROGRAM_FORMAT: Literal[1] = 1
"""It grows when a field changes its meaning. A reader refuses documents of a newer format."""


@dataclass(frozen=True, kw_only=True)
class ProgramDocument:
    """A program with its sources, as it is recorded. `sources`: of the program. `clears`: the numbers of the nodes whose tables are removed
    in the first step of the program, because an attempt that was given up may have left some. `made_with`: the revisions of what it computes
    with, in the release that has made it."""

    program: Program
    sources: tuple[SourceTable, ...]
    clears: tuple[int, ...] = ()
    made_with: ImplementationVersions = field(default_factory=dict)
    format: Literal[1] = PROGRAM_FORMAT

    @classmethod
    def of(cls, program: Program, sources: tuple[SourceTable, ...], clears: tuple[int, ...] = ()) -> ProgramDocument:
        """Made by this release."""
        return cls(
            program=program, sources=sources, clears=clears, made_with=implementation_versions_of(program.circuit)
        )

    @property
    def text(self) -> str:
        return plan_document.text_of(self, ProgramDocument)


def program_of(text: str) -> ProgramDocument:
    """The document with this text. Raises BadDocument."""
    found = plan_document.value_of(text, ProgramDocument)
    try:
        found.program.circuit.check()
        assert len(found.program.numbers) == len(found.program.circuit.nodes)
    except AssertionError as error:
        raise plan_document.BadDocument(f"the parts do not fit each other: {error}") from error
    return found


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What only the coordinator knows of the topics of a program. `topics`: those of each source now, by handle, because those of a pattern
    come and go. `partitions`, `schema_ids`: see RunFacts."""

    topics: Mapping[str, tuple[str, ...]]
    partitions: Mapping[str, int]
    schema_ids: Mapping[str, SchemaIds]


def setup_of(document: ProgramDocument, outputs: Outputs, like: TaskSetup, *, revision: int, first: int) -> TaskSetup:
    """The setup of workers that run the program. `like`: their setup until now. `revision`: the one in force. `first`: the first step of the
    program."""
    program = document.program
    read = [source for source in document.sources if not is_read_again(source.handle)]
    return replace(
        like,
        plan=program.plan,
        kafka=replace(like.kafka, extras=extras_of_all(read)),
        tables={
            source.handle: replace(source, topics=outputs.topics[source.handle]).with_auth(like.registry_auth)
            for source in document.sources
        },
        facts=RunFacts(
            numbers=program.numbers,
            append_only=program.append_only,
            partitions=outputs.partitions,
            schema_ids=outputs.schema_ids,
            begins=program.begins,
            uncounted=program.silent,
        ),
        revision=revision,
        first=first,
        clears=document.clears,
    )
