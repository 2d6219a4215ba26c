"""What the step log of a copy begins with.

    of the source                                   in the copy
    --------------------------------------------    -----------
    step and version                                the same: they are in the databases and in the names of their versions
    positions of inputs, and where they began       the same: the same topics are read
    project in force, with its number               without its outputs, and without topics for malformed messages
    owners of slots                                 the same, as the first workers of a new pipeline: layout 0, births 0, generation 0
    epochs                                          higher ones
    topics and ends of outputs, former revisions    left out
    batch tables                                    the same rows in topics of the copy (tables.py)

The numbers of steps stay, because each database says which step is its next one, and so does each object in the checkpoint store. The outputs
are left out, because nothing of them was written to topics of the copy: a transition to the project of the files finds them new, and fills them
whole, as it fills any new output. So no way leads from the copy to a topic of the source.

The epochs of the copy begin behind those of the source, because a database has the number of its last cut, which has an epoch and only grows: a
worker takes a lower number for a cut that it has made already.

The numbers of outputs become free with that. Their tables are empty, because no version is copied in which outputs withhold rows (source.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from coordinator.cloning.source import CopySource
from coordinator.revisions.document import PlanDocument
from coordinator.specification import InputTopic
from coordinator.starting.layouts import layout_of, layout_with, record_of
from coordinator.starting.workers.database_names import DatabaseName
from engine.analysis.without_outputs import without_outputs
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.layout_records import LayoutRecord, Ownership
from io_kafka.step_log.numbered import Numbered
from io_kafka.step_log.plans import digest_of
from io_kafka.step_log.records import CheckpointStored, Claim, Copied, RevisionRecord, TableRecord
from io_kafka.step_log.revision_state import RevisionState
from io_kafka.step_log.state import StepLogState
from storage.identity import FIRST_BIRTH, Identity

Loads = Mapping[str, TableRecord]
"""The loads of batch tables as the copy has them, by the topics that the source has them in."""


@dataclass(frozen=True)
class CopyPlace:
    """Whose state the copy is: the pipeline, and the topic id of its step log."""

    pipeline: str
    log_id: str

    def identity(self, worker: int) -> Identity:
        """Returns the identity of a database of the copy."""
        return Identity(self.pipeline, worker, DatabaseName(self.log_id, 0, worker, FIRST_BIRTH).text)


def loads_of(source: CopySource) -> dict[str, TableRecord]:
    """The loads that the project reads, by topic, as they are."""
    read = {topic for each in source.document.inputs if each.is_table for topic in each.table.topics}
    return {topic: load for topic, load in source.at.tables.items() if topic in read}


def copied_document(source: CopySource, loads: Loads) -> PlanDocument:
    """The project of the version without its outputs. A malformed message ends a run of it, because its topic for them is the source's; the
    files say what the copy does with them."""
    numbered = without_outputs(source.document.circuit, source.document.numbers)
    inputs = tuple(
        _with_load(each, loads) if each.is_table else _without_dead_letters(each) for each in source.document.inputs
    )
    return replace(
        source.document,
        circuit=numbered.circuit,
        numbers=numbered.numbers,
        inputs=inputs,
        outputs=(),
        fingerprint_of_files="",
    )


def _without_dead_letters(source: InputTopic) -> InputTopic:
    kept = replace(source, dead_letter_topic=None)
    return replace(kept, on_error="fail") if source.on_error == "dead-letter" else kept


def _with_load(source: InputTopic, loads: Loads) -> InputTopic:
    (topic,) = source.table.topics
    load = loads[topic]
    starts = json.dumps({load.topic.topic: {str(r.partition): r.start for r in load.ranges}})
    table = replace(source.table, topics=(load.topic.topic,), partitions=frozenset(r.where for r in load.ranges))
    return replace(source, table=table, starting_offsets=starts)


def ownership_of_copy(source: CopySource) -> Ownership:
    """The slots of each worker. Members without slots are left out, because they have no database."""
    placed = source.stored.manifest.placed
    owned = {worker: slots for worker, slots in placed.owned.items() if worker in placed.owners}
    return Ownership.of(dict.fromkeys(owned, FIRST_BIRTH), owned)


def _layout(source: CopySource, placed: Ownership, epoch: int) -> LayoutRecord:
    policy = layout_of(source.at.current_layout).policy
    layout = layout_with(placed.owned, 0, policy)
    record = record_of(layout, placed.births, epoch=epoch, asked=len(layout.members), outcome="first")
    assert record.placed == placed, f"{record.placed} and {placed}"
    return record


def _with_loads(offsets: Mapping[TopicPartition, int], loads: Loads, *, ends: bool) -> dict[TopicPartition, int]:
    """The offsets, with the ends or the starts of what is loaded in place of those of the source's loads."""
    found = {where: offset for where, offset in offsets.items() if where.topic not in loads}
    for topic, load in loads.items():
        for r in load.ranges:
            if TopicPartition(topic, r.partition) in offsets:
                found[r.where] = r.end if ends else r.start
    return found


def copied_state(
    source: CopySource, topic: str, text: str, loads: Loads, *, manifest: tuple[str, str], epoch: int
) -> StepLogState:
    """What the log in `topic` says with the copy, but for its claim. `text`: of the copy's plan document. `manifest`: the name and the digest of
    the copy's own, in the checkpoint store."""
    at, version, step = source.at, source.stored.manifest.version, source.step
    placed = ownership_of_copy(source)
    name, digest = manifest
    assert at.revision is not None
    revision = RevisionRecord(epoch=epoch, number=at.revision.number, plan=digest_of(text), step=step)
    positions = _with_loads(source.positions, loads, ends=True)
    firsts = {where: first for where, first in at.firsts.items() if where in source.positions}
    topics = {name: each for name, each in at.topics.items() if any(where.topic == name for where in positions)}
    topics |= {load.topic.topic: load.topic for load in loads.values()}
    return StepLogState(
        topic,
        divisions=Numbered(step),
        step_records=Numbered(step),
        next_offsets=positions,
        firsts=_with_loads(firsts, loads, ends=False),
        topics=topics,
        checkpoints=(version,),
        placed={version: placed},
        layout=_layout(source, placed, epoch),
        revisions=RevisionState(root=revision, in_force=revision),
        tables={load.topic.topic: load for load in loads.values()},
        grown=at.grown & topics.keys(),
        stored=CheckpointStored(epoch=epoch, version=version, placed=placed, manifest=name, digest=digest),
        origin=source.origin,
        clock_us=at.clock_us,
    )


def record_of_copy(state: StepLogState, claim: Claim) -> Copied:
    """The record with which a log that has this claim alone gets the state."""
    return Copied(epoch=claim.epoch, state=replace(state, claim=claim).snapshot())
