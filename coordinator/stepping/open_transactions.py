"""Tells of input partitions in which a producer's transaction stays open.

A run reads up to the last stable offset, and the lag counts up to there too. So a producer that never ends its transaction stops a partition
while the lag is 0.
"""

from __future__ import annotations

from collections.abc import Collection

from base.logger import Logger
from coordinator.status import StatusBoard
from io_kafka.clients.blocked_partitions import Undecided, blocked_partitions, undecided_parts
from io_kafka.clients.topics import Topics
from io_kafka.offsets import TopicPartition

_log = Logger("coordinator.stepping.open_transactions")


class OpenTransactions:
    """The watch over open transactions. It is asked now and then, with some seconds in between: what two looks after each other find at one
    place counts."""

    def __init__(self, topics: Topics, board: StatusBoard) -> None:
        self._topics, self._board = topics, board
        self._before: dict[TopicPartition, Undecided] = {}
        self._told: set[TopicPartition] = set()

    def look(self, names: Collection[str]) -> None:
        """Shows how many messages of these topics wait. Raises faults of Kafka."""
        now = undecided_parts(self._topics, names)
        waiting, self._before = blocked_partitions(self._before, now), now
        self._board.update(blocked={str(where): found.end - found.stable for where, found in sorted(waiting.items())})
        for where in sorted(waiting.keys() - self._told):
            _log.warning(
                "messages wait behind a transaction that its producer has not ended",
                partition=str(where),
                read_up_to=waiting[where].stable,
                end=waiting[where].end,
            )
        self._told = set(waiting)
