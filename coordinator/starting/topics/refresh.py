"""A full refresh: state and outputs are rebuilt from startingOffsets, as `spark-pipelines` does it.

Guarantees: after a crash at any instruction the next run finishes the refresh, whatever its flags. Afterwards the output topics hold the
output of the new generation alone. A run that was fenced meanwhile removes only output of the old generation.

    refresh(g)  the step log names the topics to empty, and their ends      after this, only a reset lets steps follow
       |        upsert topics: a tombstone for every live key               transactions, each with a taken_back record
       |        all others: messages below the recorded ends are deleted    not fenced, and need not be: the ends are fixed
    reset(g)    steps begin again at 0                                       databases of older generations are removed (workers/bind_workers.py)

The **generation** (g) is the number of full refreshes. It is part of the identity of every database.

The old output is removed idempotently: a key with a tombstone is no longer live, and deleted messages stay deleted. Only topics that the
step log knows as outputs are touched. An output topic that the log does not know and that holds messages is refused before anything is
changed: its messages belong to another program or to a lost step log, and the two cannot be distinguished.

What a consumer of the outputs has to do is described in io_kafka/step_log/state.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from base.logger import Logger
from coordinator.specification import PipelineSpec
from coordinator.starting.errors import TopicChanged
from coordinator.starting.topics.patterns import with_matching_topics
from coordinator.starting.topics.positions import starting_positions
from io_kafka.clients.lost_topics import lost_topics
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.rights import Operation, refuse_without
from io_kafka.clients.topics import TopicFacts, Topics
from io_kafka.clients.writer import HandleOutput, PipelineWriter
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.digest import MESSAGES_SCHEMA
from io_kafka.step_log.records import PartitionOffset, Refresh, Reset, TopicIdentity

_log = Logger("coordinator.starting.topics.refresh")

READ_OFFSETS_MAX = 100_000
"""Offsets in one read while live keys are collected: some tens of MB of messages at most sizes."""

TOMBSTONES_MAX = 100_000
"""Tombstones in one transaction: about a second of writing, far below the broker's transaction timeout."""


def rebuild(spec: PipelineSpec, writer: PipelineWriter, topics: Topics) -> None:
    """Begins a refresh, or continues one that an earlier run began, and ends it with the reset. It runs after the claim, and before any
    database is touched."""
    if writer.state.refresh is None:
        refuse_wrong_starts(spec, topics)
        plan_of_it = _plan(spec, writer, topics)
        refuse_without(spec.kafka, topics, _rights(spec, plan_of_it), "a full refresh")
        writer.log.append([plan_of_it])
    plan = writer.state.refresh
    assert plan is not None
    facts = _still_there(plan.topics, topics)
    for name in plan.tombstones:
        if name in facts:
            _write_tombstones(spec, writer, topics, facts[name])
    ends = {TopicPartition(e.topic, e.partition): e.offset for e in plan.ends if e.topic in facts}
    topics.delete_below(ends)
    kept = tuple(fact.identity for _, fact in sorted(facts.items()))
    writer.log.append([Reset(epoch=writer.epoch, generation=plan.generation, topics=kept)])
    _log.info("outputs taken back", generation=plan.generation, topics=sorted(facts))


def _plan(spec: PipelineSpec, writer: PipelineWriter, topics: Topics) -> Refresh:
    state = writer.state
    written = {where.topic for where in state.ends}
    facts = _still_there(tuple(state.topics[name] for name in sorted(written)), topics)
    refuse_foreign_messages({output.topic for output in spec.outputs} - facts.keys(), topics)
    upserts = {output.topic for output in spec.outputs if output.compacted}
    tombstones = tuple(name for name in sorted(facts) if facts[name].compacted or name in upserts)
    ends = topics.end_offsets(name for name in facts if name not in tombstones)
    return Refresh(
        epoch=writer.epoch,
        generation=state.generation + 1,
        topics=tuple(fact.identity for _, fact in sorted(facts.items())),
        tombstones=tombstones,
        ends=tuple(PartitionOffset(topic=w.topic, partition=w.partition, offset=end) for w, end in ends.items()),
    )


def refuse_wrong_starts(spec: PipelineSpec, topics: Topics) -> None:
    """Raises NoSuchStart or NothingSince if a source cannot begin as it says, before anything is taken back. The pipeline may have begun when
    its first offsets were there still. Topics that do not exist are looked at later."""
    given = tuple(source for source in spec.inputs if source.starting_offsets not in ("earliest", "latest"))
    if given:
        there, found = topics.names(), with_matching_topics(replace(spec, inputs=given), topics, {}).inputs
        starting_positions(topics, [source for source in found if there.issuperset(source.table.topics)], {})


def _rights(spec: PipelineSpec, plan: Refresh) -> dict[str, tuple[Operation, ...]]:
    """What taking back the outputs and writing them again needs, by topic. Without it the refresh would begin and could not end. A topic that
    the user may not even see is not in the plan, as if it were gone. So all outputs are looked at."""
    wanted: dict[str, tuple[Operation, ...]] = {output.topic: ("Write", "Create") for output in spec.outputs}
    wanted |= dict.fromkeys(spec.dead_letter_topics.values(), ("Write", "Create"))
    for topic in plan.topics:
        wanted[topic.topic] = ("Read", "Write") if topic.topic in plan.tombstones else ("Write", "Delete")
    return wanted


def _still_there(recorded: tuple[TopicIdentity, ...], topics: Topics) -> dict[str, TopicFacts]:
    """The facts of those recorded topics that still exist with the recorded id."""
    present = topics.names()
    facts = topics.describe(topic.topic for topic in recorded if topic.topic in present)
    lost = lost_topics(recorded, facts)
    return {t.topic: facts[t.topic] for t in recorded if t.topic not in lost.names}


def refuse_foreign_messages(names: set[str], topics: Topics) -> None:
    """Raises TopicChanged if one of these output topics holds messages. `names` are topics that the step log does not know."""
    if not names:
        return
    there = names & topics.names()
    begins, ends = topics.begin_offsets(there), topics.end_offsets(there)
    full = sorted({where.topic for where, end in ends.items() if end > begins[where]})
    if full:
        topics_named, hold = ("topic", "holds") if len(full) == 1 else ("topics", "hold")
        raise TopicChanged(
            f"output {topics_named} {', '.join(full)} {hold} messages, and the step log does not know who wrote them; nothing was changed.",
            f"Delete or empty the {topics_named} if the messages are not needed, or name another topic for the view. Then run again.",
        )


# Tombstones


def _write_tombstones(spec: PipelineSpec, writer: PipelineWriter, topics: Topics, fact: TopicFacts) -> None:
    generation = writer.state.generation + 1
    begins, ends = topics.begin_offsets([fact.name]), topics.end_offsets([fact.name])
    for where, end in ends.items():
        keys = live_keys(RangeReader(spec.kafka), OffsetRange(*where, begins[where], end))
        for start in range(0, len(keys), TOMBSTONES_MAX):
            part = keys[start : start + TOMBSTONES_MAX]
            columns = [pa.array(np.full(len(part), where.partition, np.int32)), part, pa.nulls(len(part), pa.binary())]
            messages = pa.Table.from_arrays(columns, schema=MESSAGES_SCHEMA)
            writer.take_back(generation, HandleOutput(fact.name, fact.name, fact.partitions, messages))


def live_keys(reader: RangeReader, whole: OffsetRange) -> pa.BinaryArray:
    """The keys whose last message in the range is not a tombstone. Messages without a key are not rows of an upsert topic."""
    live = pa.array([], pa.binary())
    for span in _pieces(whole):
        for batch in reader.read([span]):
            keys = pa.concat_arrays([live, batch.messages.keys])
            alive = np.concatenate(
                [np.ones(len(live), bool), batch.messages.values.is_valid().to_numpy(zero_copy_only=False)]
            )
            live = _last_alive(keys, alive)
    return live


def _pieces(whole: OffsetRange) -> Iterator[OffsetRange]:
    for start in range(whole.start, whole.end, READ_OFFSETS_MAX):
        yield OffsetRange(whole.topic, whole.partition, start, min(start + READ_OFFSETS_MAX, whole.end))


def _last_alive(keys: pa.BinaryArray, alive: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.BinaryArray:
    if len(keys) == 0:
        return keys
    keyed = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
    encoded = keys.take(pa.array(keyed)).dictionary_encode()
    last = np.full(len(encoded.dictionary), -1)
    np.maximum.at(last, encoded.indices.to_numpy(), keyed)
    return keys.take(pa.array(np.sort(last[alive[last]])))
