"""The placement: slot -> worker, input partition -> worker. All workers of a step have the same one.

A placement is what routing needs of a layout. Every slot has exactly one owner. While a layout changes, placements follow each other from one
layout to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from base.slots import ALL_SLOTS, NO_SLOTS, SLOT_BITS, SlotSet
from engine.model.layout import Layout
from engine.rows.hashing import HASH_BITS, Hashes

Workers = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Placement:
    """`owned[worker]`: the slots of a worker; the keys are the workers' numbers, which may have gaps."""

    owned: Mapping[int, SlotSet]

    @staticmethod
    def of(layout: Layout) -> Placement:
        return Placement({member: layout.slots_of(member) for member in layout.members})

    @cached_property
    def workers(self) -> tuple[int, ...]:
        """Their numbers, ascending."""
        return tuple(sorted(self.owned))

    @cached_property
    def keyless_worker(self) -> int:
        """The owner of slot 0, to which rows without a key belong."""
        return next(worker for worker, slots in self.owned.items() if 0 in slots)

    def check(self) -> None:
        union = NO_SLOTS
        for worker, slots in self.owned.items():
            assert union.intersection(slots) == NO_SLOTS, f"worker {worker} owns slots of another one"
            union = union.union(slots)
        assert union == ALL_SLOTS, f"nobody owns {ALL_SLOTS.minus(union)}"

    def worker_of(self, routing: Hashes) -> Workers:
        """The worker of each routing hash."""
        result: Workers = self._worker_of_slot[(routing >> np.uint64(HASH_BITS - SLOT_BITS)).astype(np.intp)]
        return result

    @cached_property
    def _worker_of_slot(self) -> Workers:
        table = np.empty(len(ALL_SLOTS), np.int32)
        for worker, slots in self.owned.items():
            for first, end in slots.ranges:
                table[first:end] = worker
        return table

    def partition_owners(self, partitions: Mapping[str, int]) -> dict[tuple[str, int], int]:
        """(topic, partition) -> worker. `partitions`: the number of partitions of each topic. Partitions are assigned to the workers in turn,
        in the order of topic and number. The assignment changes no output, so it is not recorded."""
        every = [(topic, number) for topic in sorted(partitions) for number in range(partitions[topic])]
        return {partition: self.workers[index % len(self.workers)] for index, partition in enumerate(every)}
