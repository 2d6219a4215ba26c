"""Topics that are lost while a change leads to a project without them: the former project stands still until the switch.

    topic deleted, or created again  ->  the next project does not name it  ->  the former one reads nothing and writes nothing
                                                                             ->  its new nodes are filled, and the switch comes

The revision in force runs until the switch of a transition, and its start looks at all of its topics. A topic that is lost would stop that
start for ever, although nobody needs it any more. So a project that **stands still** takes the identity of each topic from the step log, and its
inputs end where the last division has ended. Nothing is asked of a lost topic.

Guarantees: no message of a lost topic is read, so one that was created again is not taken for the one of before; and no message is written to
it. Where a step since the last checkpoint has read it, or a divided step may still write to it, the project cannot stand still, and the start
is refused as if there were no change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace

from base.fault import Fault
from coordinator.specification import InputTopic, PipelineSpec
from coordinator.starting.errors import TopicChanged
from io_kafka.clients.lost_topics import lost_topics
from io_kafka.clients.topics import Topics
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import DivisionRecord
from io_kafka.step_log.value import LogValue

WAY_OUT = (
    " If the project can do without it, there is a way that keeps all other state: take what names the topic out of the project, and start with "
    "`stepwell run --apply`."
)


def standing_still_if_lost(
    spec: PipelineSpec, following: PipelineSpec, topics: Topics, log: LogValue, *, numbers: Collection[int] | None
) -> PipelineSpec:
    """The project of a revision, which stands still if topics of it are lost that `following`, to which the change leads, does not name.
    Otherwise it is as it was, and the start says what is wrong with its topics. `numbers`: of its nodes; None if no step of it is run
    that has no output yet."""
    lost = _find_lost(spec, topics, log)
    if (
        not lost
        or any(_names(following, name) for name in lost)
        or not (numbers is None or _may_stand_still(spec, lost, log, numbers))
    ):
        return spec
    return replace(spec, lost_topics=lost)


def name_way_out(fault: Fault, spec: PipelineSpec, topics: Topics, log: LogValue, *, numbers: Collection[int]) -> None:
    """Adds to what a user can do whose topic is lost that the project may leave it, where that works. `numbers`: of the project's nodes."""
    lost = _find_lost(spec, topics, log)
    is_named = any(name in fault.message for name in lost)
    is_settled = log.layout is not None and log.revisions.phase is None
    if is_named and is_settled and _may_stand_still(spec, lost, log, numbers):
        fault.what_to_do += WAY_OUT


def cannot_go_on(lost: Iterable[str]) -> TopicChanged:
    """The end of a run whose transition was taken back, so that the project that stands still has nothing to go on with."""
    names = ", ".join(sorted(lost))
    return TopicChanged(
        f"the transition is over, and the revision in force cannot go on, because these of its topics were deleted or created again: {names}. "
        "Nothing else is lost.",
        "`stepwell run --apply`, with a project that does not name them, begins another transition.",
    )


def _find_lost(spec: PipelineSpec, topics: Topics, log: LogValue) -> frozenset[str]:
    own = {topic for source in spec.inputs for topic in _topics_read(source, spec, log)}
    own |= {output.topic for output in spec.outputs}
    known = [log.topics[name] for name in sorted(own & log.topics.keys())]
    there = topics.describe(topics.existing(identity.topic for identity in known))
    return lost_topics(known, there).names


def _topics_read(source: InputTopic, spec: PipelineSpec, log: LogValue) -> Iterable[str]:
    """The topics that it has read, also by its pattern. Those of batch tables are Stepwell's own."""
    if source.is_table:
        return ()
    if source.table.pattern is None:
        return source.table.topics
    read = {where.topic for where in log.next_offsets} - spec.written_topics
    return filter(re.compile(source.table.pattern).fullmatch, sorted(read))


def _names(spec: PipelineSpec, name: str) -> bool:
    """Whether the project reads or writes this topic, or would if there were one."""
    patterns = (source.table.pattern for source in spec.inputs if source.table.pattern is not None)
    return (
        name in spec.input_topics
        or name in spec.written_topics
        or any(re.fullmatch(pattern, name) is not None for pattern in patterns)
    )


def _may_stand_still(spec: PipelineSpec, lost: frozenset[str], log: LogValue, numbers: Collection[int]) -> bool:
    since = log.checkpoints[-1].step if log.checkpoints else 0
    replayed = [log.divisions[step] for step in range(max(since, log.first), log.division_next)]
    if not _has_begun(spec, log) or any(_reads(record, lost) for record in replayed):
        return False
    if lost.isdisjoint(output.topic for output in spec.outputs):
        return True
    # Steps without input may have output too: where time passes, or where outputs were withheld. The nodes of a transition do not matter.
    is_withheld = not {*numbers}.isdisjoint(log.counted)
    return not any(_has_input(record) for record in log.pending) and log.clock_us is None and not is_withheld


def _has_begun(spec: PipelineSpec, log: LogValue) -> bool:
    """Whether the log knows where each input goes on."""
    for source in spec.inputs:
        names = source.table.topics if source.is_table else tuple(_topics_read(source, spec, log))
        for name in names:
            count = log.topics[name].partitions if name in log.topics else 1
            mine = filter(source.table.reads, (TopicPartition(name, number) for number in range(count)))
            if not all(where in log.next_offsets for where in mine):
                return False
    return True


def _reads(record: DivisionRecord, lost: frozenset[str]) -> bool:
    return any(part.topic in lost and part.start < part.end for part in (*record.ranges, *record.again))


def _has_input(record: DivisionRecord) -> bool:
    return any(part.start < part.end for part in record.ranges)
