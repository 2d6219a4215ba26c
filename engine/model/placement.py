"""Where rows live: shard -> worker, input partition -> worker, as every task of a step must see it.

A placement is the part of a layout that routing needs. Every shard has exactly one owner; the sizes differ by at most one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from engine.rows.hashing import SHARDS_DEFAULT, Hashes, shard_of


@dataclass(frozen=True)
class Placement:
    """`owners[shard]` is the worker of a shard."""

    workers: int
    owners: tuple[int, ...]

    @staticmethod
    def even(workers: int, shards: int = SHARDS_DEFAULT) -> Placement:
        """Contiguous slices, within one shard of each other in size."""
        return Placement(workers, tuple(shard * workers // shards for shard in range(shards)))

    @property
    def shards(self) -> int:
        return len(self.owners)

    @property
    def keyless_worker(self) -> int:
        """The owner of the shard in which rows without a key live."""
        return int(self.worker_of(np.zeros(1, np.uint64))[0])

    def check(self) -> None:
        assert self.shards & (self.shards - 1) == 0, f"{self.shards} shards: not a power of two"
        assert set(self.owners) <= set(range(self.workers)), "a shard is owned by a worker that is not there"

    def worker_of(self, hashes: Hashes) -> npt.NDArray[np.int64]:
        result: npt.NDArray[np.int64] = self._owner_of_shard[shard_of(hashes, self.shards)]
        return result

    @cached_property
    def _owner_of_shard(self) -> npt.NDArray[np.int64]:
        return np.array(self.owners, dtype=np.int64)

    def partition_owners(self, partitions: Mapping[str, int]) -> dict[tuple[str, int], int]:
        """(topic, partition) -> worker, for topics with so many partitions each: dealt out in order of name and number.
        Who reads what changes no output, so this need not be recorded."""
        every = [(topic, number) for topic in sorted(partitions) for number in range(partitions[topic])]
        return {partition: index % self.workers for index, partition in enumerate(every)}
