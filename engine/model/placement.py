"""The placement: slot -> worker, input partition -> worker. All workers of a step have the same one.

A placement is what routing needs of a layout. Every slot has exactly one owner. While a layout changes, placements follow each other from one
layout to the next, and each has a number of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from base.slots import NO_SLOTS, SLOT_BITS, SLOTS, SlotSet, why_no_partition
from engine.model.layout import Layout, quota
from engine.rows.hashing import HASH_BITS, Hashes

Workers = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Placement:
    """Which worker owns which slots, and which one reads which partition of the input. `number`: counts the placements of a term from 0 on.
    `owned[worker]`: the slots of a worker; the keys are the workers' numbers, which may have gaps. A worker that has just joined owns no
    slots. `readers[topic][partition]`: the worker that reads it. That changes no output, so it is not recorded."""

    number: int
    owned: Mapping[int, SlotSet]
    readers: Mapping[str, tuple[int, ...]]

    @staticmethod
    def initial(owned: Mapping[int, SlotSet], partitions: Mapping[str, int]) -> Placement:
        """The first one of a term. `partitions`: the number of partitions of each input topic. They are given to the workers in turn, in the
        order of topic and number."""
        workers = sorted(owned)
        every = [(topic, number) for topic in sorted(partitions) for number in range(partitions[topic])]
        return Placement(0, owned, _by_topic(every, [workers[i % len(workers)] for i in range(len(every))]))

    @staticmethod
    def of(layout: Layout, partitions: Mapping[str, int]) -> Placement:
        """The first one of a layout to which nothing has to be moved."""
        return Placement.initial(layout.owned, partitions)

    def with_members(self, members: Iterable[int]) -> Placement:
        """The next one, with other workers. Those that are new own no slots yet, and those that leave own none any more. Partitions move as
        rarely as they can, because the worker that reads one reads ahead."""
        owned = {member: self.owned.get(member, NO_SLOTS) for member in sorted(members)}
        every = [(topic, number) for topic in sorted(self.readers) for number in range(len(self.readers[topic]))]
        readers = quota([self.readers[topic][number] for topic, number in every], owned)
        return Placement(self.number + 1, owned, _by_topic(every, readers))

    def with_moved(self, slots: SlotSet, source: int, destination: int) -> Placement:
        """The next one, after a cut."""
        owned = {
            **self.owned,
            source: self.owned[source].minus(slots),
            destination: self.owned[destination].union(slots),
        }
        return Placement(self.number + 1, owned, self.readers)

    @cached_property
    def workers(self) -> tuple[int, ...]:
        """The numbers of the workers, ascending."""
        return tuple(sorted(self.owned))

    @cached_property
    def keyless_worker(self) -> int:
        """The owner of slot 0, to which rows without a key belong."""
        return next(worker for worker, slots in self.owned.items() if 0 in slots)

    def check(self) -> None:
        why_not = why_no_partition(self.owned)
        assert why_not is None, why_not
        readers = {worker for workers in self.readers.values() for worker in workers}
        assert readers <= self.owned.keys(), f"{readers} read, and the workers are {self.workers}"

    def worker_of(self, routing: Hashes) -> Workers:
        """The worker of each routing hash."""
        result: Workers = self._worker_of_slot[(routing >> np.uint64(HASH_BITS - SLOT_BITS)).astype(np.intp)]
        return result

    @cached_property
    def _worker_of_slot(self) -> Workers:
        table = np.empty(SLOTS, np.int32)
        for worker, slots in self.owned.items():
            for first, end in slots.ranges:
                table[first:end] = worker
        return table

    def reader_of(self, topic: str, partition: int) -> int:
        """The worker that reads a partition. One that was added after the term began is given out by its number."""
        readers = self.readers.get(topic, ())
        return readers[partition] if partition < len(readers) else self.workers[partition % len(self.workers)]


def _by_topic(every: Iterable[tuple[str, int]], workers: Iterable[int]) -> dict[str, tuple[int, ...]]:
    readers: dict[str, tuple[int, ...]] = {}
    for (topic, _), worker in zip(every, workers, strict=True):
        readers[topic] = (*readers.get(topic, ()), worker)
    return readers
