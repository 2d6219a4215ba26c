"""What a run knows of the topics that it reads: where they begin and end, how many partitions they have, and whether they have grown.

Guarantees: a partition that was added to a topic has no offset here before the identities count it, and the next division announces those. A
run that ends with its input sees no message that arrived after its start.

The step log remembers what was divided. This is what the log cannot know: the first offsets of partitions that were never divided, and what the
broker says now.
"""

from __future__ import annotations

from collections.abc import Mapping

from base.logger import Logger
from coordinator.goal import Goal
from coordinator.specification import PipelineSpec
from coordinator.starting.topics.batch_tables import ends_of_tables
from coordinator.starting.topics.positions import starting_positions
from coordinator.starting.topics.same_topics import check_topics, way_out_if_deleted
from coordinator.status import StatusBoard
from coordinator.stepping.offsets import (
    as_large_as_known,
    ends_of_run,
    of_announced_partitions,
    offsets_after,
    offsets_if_known,
    partition_counts,
    with_partitions,
)
from coordinator.stepping.open_transactions import OpenTransactions
from io_kafka.clients.topics import TopicFacts, Topics
from io_kafka.errors import UnknownTopic
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import TopicIdentity
from io_kafka.step_log.state import StepLogState

_log = Logger("coordinator.stepping.input_topics")


class InputTopics:
    """The topics of the inputs in one run of one program. `identities`: those of all topics of the pipeline, as `prepare` found them. `former`:
    what the same run knew before a recovery or another program. The run goes on up to the ends that it found at its start."""

    def __init__(
        self,
        spec: PipelineSpec,
        topics: Topics,
        board: StatusBoard,
        identities: tuple[TopicIdentity, ...],
        log: StepLogState,
        *,
        goal: Goal,
        former: InputTopics | None = None,
    ) -> None:
        self._spec, self._topics, self._board = spec, topics, board
        self._monotonic = spec.kafka.outside.monotonic
        self.goal = goal
        self._identities = as_large_as_known(identities, log.topics, spec.input_topics)
        self._is_announced = False
        self.table_ends = ends_of_tables(spec, log)
        self.offsets_since = topics.offsets_since
        # Within a run no question to the broker, which would be part of the pause in which a project changes.
        self._stands_still = bool(spec.lost_topics)  # then the inputs end where the next division starts
        is_known = former is not None or self._stands_still
        starts = offsets_if_known(log.next_offsets, spec.inputs, self._identities) if is_known else None
        self._starts = self._find_starts(log.next_offsets) if starts is None else starts
        self._until = self._ends_of_run(log, former) if goal.ends_with_input else None
        self._growth_checked_at = self._monotonic()
        self._open_transactions: OpenTransactions = (
            OpenTransactions(topics, board) if former is None else former._open_transactions
        )

    @property
    def ends_now(self) -> bool:
        """Whether the run reads only what was there at its start."""
        return self._until is not None

    @property
    def partitions(self) -> dict[str, int]:
        """The number of partitions of each input topic."""
        known = partition_counts(self._identities)
        return {name: known[name] for name in self._spec.input_topics}

    @property
    def to_announce(self) -> tuple[TopicIdentity, ...]:
        """The topics that the next division names: all of them in the first one of a run, and in the first one after a topic has grown."""
        return () if self._is_announced else self._identities

    def note_announced(self) -> None:
        """The record of a division that names the topics is in the log."""
        self._is_announced = True

    def next_offsets(self, log: StepLogState) -> dict[TopicPartition, int]:
        """Where the next division starts."""
        return self.offsets_after(log.next_offsets)

    def offsets_after(self, divided: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where a division starts after one with these ends."""
        return offsets_after(self._starts, divided)

    def ends(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The last stable offsets of all partitions; in a run that ends with its input, those at its start. Shows the lag. An end before its
        offset is left as it is, for `divide` to refuse."""
        if self._stands_still:
            return dict(offsets)
        ends = self._ends_of(offsets) if self._until is None else self._until
        lag = {str(partition): ends[partition] - offsets[partition] for partition in ends}
        self._board.update(lag=lag)
        self._board.measures.note_lag(sum(lag.values()))
        return ends

    def check(self) -> dict[str, TopicFacts]:
        """The facts of all topics now, but for those that a project which stands still has lost. Raises TopicChanged if one was recreated since
        the start, and UnknownTopic if one was deleted."""
        try:
            names = {identity.topic for identity in self._identities}
            facts = self._topics.describe(names - self._spec.lost_topics)
        except UnknownTopic as fault:
            if fault.topic in self._spec.written_topics:  # one of this name that a user creates would be another one
                fault.what_to_do = way_out_if_deleted(self._spec, fault.topic)
            raise
        check_topics(self._spec, facts, {identity.topic: identity for identity in self._identities})
        return facts

    def check_if_due(self, log: StepLogState) -> None:
        """Looks, now and then, whether an input topic has got partitions, and whether messages wait behind an open transaction. Raises
        TopicChanged as `check` does."""
        if (
            self._until is None
            and not self._stands_still
            and self._monotonic() - self._growth_checked_at > self._spec.pace.growth_seconds
        ):
            self._check_for_growth(log)
            self._open_transactions.look(self._spec.input_topics)

    def _check_for_growth(self, log: StepLogState) -> None:
        self._growth_checked_at = self._monotonic()
        counts = {name: fact.partitions for name, fact in self.check().items()}
        found = with_partitions(self._identities, counts, self._spec.input_topics)
        if found == self._identities:
            return
        self._identities, self._is_announced = found, False
        self._starts = self._find_starts(self.next_offsets(log))
        _log.info("an input topic has grown", partitions=len(self._starts))

    def _find_starts(self, known: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return of_announced_partitions(starting_positions(self._topics, self._spec.inputs, known), self._identities)

    def _ends_of_run(self, log: StepLogState, former: InputTopics | None) -> dict[TopicPartition, int]:
        """Returns where a run ends that reads only what was there at its start. A project that stands still has no ends of its own: what the
        next one would have found at the start, it finds at the switch."""
        if self._stands_still:
            return {}
        starts, found = self.next_offsets(log), None if former is None else former._until
        return ends_of_run(self._ends_of(starts), starts, found or {})

    def _ends_of(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The last stable offsets; of a batch table, where its load has ended."""
        return {**self._topics.end_offsets_of(sorted(asked)), **self.table_ends}
