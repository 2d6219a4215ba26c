"""Whether the topics are those that the state was made of and that its output was written to. Missing output topics are created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from coordinator.specification import OutputTopic, PipelineSpec
from coordinator.starting.errors import TopicChanged
from coordinator.starting.topics.refresh import refuse_foreign_messages
from coordinator.starting.workers.expected_databases import expected_databases, refuse_other_log
from io_kafka.clients.lost_topics import lost_topics
from io_kafka.clients.topics import LARGE_MESSAGES, TopicFacts, Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.records import TopicIdentity

WITH_DELETION = "Rebuild with `stepwell run --full-refresh`: it deletes what was written, and writes to all partitions that there are now."

WITH_TOMBSTONES = (
    "Delete the topic, or name another one for the view. Then rebuild with `stepwell run --full-refresh`. In this topic a key's row could be in "
    "another partition than the tombstone that takes its former row back, and a consumer may read the tombstone last."
)

OTHER_LETTERS = (
    "Its letters are gone, and nothing else is: name another topic in `dead.letter.topic` of the table, and run again. The run goes on where "
    "the last one stopped."
)


def resolved_topics(spec: PipelineSpec, topics: Topics, known: Mapping[str, TopicIdentity]) -> dict[str, TopicFacts]:
    """The facts of all input, output and dead-letter topics. Missing output topics are created. `known`: the topics that were recorded. Raises
    TopicChanged unless each topic is the one that was recorded. Of a project that stands still, lost topics are not looked at.

    An output topic that was not recorded and that holds messages is refused too. The messages belong to another program, or they are the
    output of a lost step log, which would be written a second time: see `refuse_lost_log`."""
    lost = spec.lost_topics
    facts = topics.describe({*spec.input_topics} - lost)
    _refuse_deleted(spec, topics, known)
    refuse_foreign_messages({output.topic for output in spec.outputs} - known.keys(), topics)
    for output in (each for each in spec.outputs if each.topic not in lost):
        config = {"cleanup.policy": "compact"} if output.compacted else {}
        facts[output.topic] = topics.ensure(output.topic, output.partitions, config, replication=spec.replication)
    for name in spec.dead_letter_topics.values():
        facts[name] = topics.ensure(name, 1, LARGE_MESSAGES, replication=spec.replication)
    check_topics(spec, facts, known)
    return _as_recorded(facts, spec, known) if lost else facts


def _as_recorded(
    facts: Mapping[str, TopicFacts], spec: PipelineSpec, known: Mapping[str, TopicIdentity]
) -> dict[str, TopicFacts]:
    """The facts of a project that stands still: its lost topics are what they were, and none of its inputs has grown."""
    lost = {name: TopicFacts(name, known[name].id, known[name].partitions, {}) for name in spec.lost_topics}
    read = {
        name: replace(facts[name], partitions=known[name].partitions)
        for name in ({*spec.input_topics} & known.keys()) - lost.keys()
    }
    return {**facts, **read, **lost}


def _refuse_deleted(spec: PipelineSpec, topics: Topics, known: Mapping[str, TopicIdentity]) -> None:
    """A topic that was written to is not created again: whoever deleted it may restore it."""
    written = (spec.written_topics & known.keys()) - spec.lost_topics
    deleted = sorted(written - topics.existing(written))
    if deleted:
        raise TopicChanged(
            f"topic {deleted[0]}, which this pipeline has written to, was deleted.",
            way_out_if_deleted(spec, deleted[0]),
        )


def way_out_if_deleted(spec: PipelineSpec, name: str) -> str:
    """What a user can do whose topic is gone to which the pipeline has written."""
    if name in spec.dead_letter_topics.values():
        return OTHER_LETTERS
    return "Restore it, or rebuild with `stepwell run --full-refresh`, which writes all of it again."


def refuse_lost_log(spec: PipelineSpec, writer: PipelineWriter, log_id: str) -> None:
    """Why a topic is not the one that was recorded: raises Fenced if another run has taken over, and StateLost if a database on this host shows
    that the step log was lost."""
    writer.log.confirm()
    own = spec.state_location.on_host(None)
    if own is not None:
        expected = expected_databases(spec, writer.state, log_id)
        refuse_other_log(spec, expected, spec.kafka.outside.hostname(), str(own.databases), own.look())


def check_topics(spec: PipelineSpec, facts: Mapping[str, TopicFacts], known: Mapping[str, TopicIdentity]) -> None:
    """Raises TopicChanged if a topic is not the one that is `known` under its name. Topics that are not known pass."""
    outputs = {output.topic: output for output in spec.outputs}
    recreated = lost_topics((known[name] for name in facts if name in known), facts).recreated
    for name, fact in facts.items():
        if name in recreated:
            raise TopicChanged(
                f"{recreated[name]}.",
                OTHER_LETTERS
                if name in spec.dead_letter_topics.values()
                else "The messages that were read from it or written to it are gone: rebuild with `stepwell run --full-refresh`.",
            )
        if name in known:
            _check_partitions(fact, known[name], outputs.get(name))


def _check_partitions(fact: TopicFacts, known: TopicIdentity, output: OutputTopic | None) -> None:
    """`output`: what is written to the topic; None if it is no output."""
    if output is not None and known.partitions != fact.partitions:
        raise TopicChanged(
            f"output topic {fact.name} had {known.partitions} partitions and has {fact.partitions} now; keys would change their partition.",
            WITH_TOMBSTONES if fact.compacted or output.compacted else WITH_DELETION,
        )
