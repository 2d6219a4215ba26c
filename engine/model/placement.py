"""The placement: shard -> worker, input partition -> worker. All workers of a run have the same one.

A placement is the part of a layout that routing needs. Every shard has exactly one owner. The workers' numbers of shards differ by at most one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from base.arrays import Int64s
from engine.rows.hashing import SHARDS_DEFAULT, Hashes, shard_of


@dataclass(frozen=True)
class Placement:
    """`owners[shard]` is the worker that owns a shard."""

    workers: int
    owners: tuple[int, ...]

    @staticmethod
    def even(workers: int, shards: int = SHARDS_DEFAULT) -> Placement:
        """Each worker owns a contiguous range of shards. The sizes differ by at most one."""
        return Placement(workers, tuple(shard * workers // shards for shard in range(shards)))

    @property
    def shards(self) -> int:
        return len(self.owners)

    @property
    def keyless_worker(self) -> int:
        """The owner of the shard of the empty key, to which rows without a key belong."""
        return int(self.worker_of(np.zeros(1, np.uint64))[0])

    def check(self) -> None:
        assert self.shards & (self.shards - 1) == 0, f"{self.shards} shards: not a power of two"
        assert set(self.owners) <= set(range(self.workers)), "a shard is owned by a worker that does not exist"

    def worker_of(self, hashes: Hashes) -> Int64s:
        """The worker of each hash."""
        result: Int64s = self._owner_of_shard[shard_of(hashes, self.shards)]
        return result

    @cached_property
    def _owner_of_shard(self) -> Int64s:
        return np.array(self.owners, dtype=np.int64)

    def partition_owners(self, partitions: Mapping[str, int]) -> dict[tuple[str, int], int]:
        """(topic, partition) -> worker. `partitions`: the number of partitions of each topic. Partitions are assigned to the workers in turn,
        in the order of topic and number. The assignment changes no output, so it is not recorded."""
        every = [(topic, number) for topic in sorted(partitions) for number in range(partitions[topic])]
        return {partition: index % self.workers for index, partition in enumerate(every)}
