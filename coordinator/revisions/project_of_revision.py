"""The project of a recorded revision, as a run of today's files runs its steps.

What decides rows and messages is recorded: the circuit, of which nodes are frozen that this release cannot run, and the formats and topics of
sources and outputs. Everything else is as the files have
it now: what is done with malformed messages and truncations, the dead-letter topic, and where a registry is. The recorded values of these are
those of the day on which the revision was recorded, and any start may have changed them since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from coordinator.revisions.document import PlanDocument
from coordinator.revisions.leaves import leaf_key
from coordinator.specification import InputTopic, OutputTopic, PipelineSpec
from engine.model.from_now import handle_of_files
from engine.run.source_table import extras_of_all


def project_of_revision(document: PlanDocument, files: PipelineSpec) -> PipelineSpec:
    """Returns the project of the document with the settings of the files."""
    sources = {leaf_key(source): source for source in reversed(files.inputs)}
    sources |= {source.table.handle: source for source in files.inputs}
    outputs = {output.topic: output for output in files.outputs}
    inputs = tuple(_source(source, sources, files.registry_auth) for source in document.inputs)
    return replace(
        files,
        kafka=replace(files.kafka, extras=extras_of_all(source.table for source in inputs)),
        circuit=document.runnable,
        inputs=inputs,
        outputs=tuple(_output(output, outputs.get(output.topic), files.registry_auth) for output in document.outputs),
        places=document.places,
        versions=document.versions,
        marks=document.marks,
        fingerprint_of_files=document.fingerprint_of_files,
        lost_topics=frozenset(),
    )


def _source(recorded: InputTopic, files: Mapping[str, InputTopic], auth: str | None) -> InputTopic:
    """`files`: by handle, and by what else a source is known by."""
    if recorded.is_table:  # it has a load, which the files do not name
        return recorded
    whole = replace(
        recorded, table=replace(recorded.table, handle=handle_of_files(recorded.table.handle), counts_from=None)
    )
    now = files.get(whole.table.handle) or files.get(leaf_key(whole))
    if now is None:
        return recorded.with_auth(auth)
    policies = replace(
        recorded,
        starting_offsets=now.starting_offsets,
        on_error=now.on_error,
        dead_letter_topic=now.dead_letter_topic,
        truncate=now.truncate,
    )
    return policies.with_registry_of(now).with_auth(auth)


def _output(recorded: OutputTopic, now: OutputTopic | None, auth: str | None) -> OutputTopic:
    """`now`: the output of today with the same topic."""
    return (recorded if now is None else replace(recorded, registry=now.registry)).with_auth(auth)
