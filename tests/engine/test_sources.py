"""Who reads what: every range of a step is read by one worker, those of partitions that came later too."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.model.placement import Placement
from engine.run.sources import of_worker
from io_kafka.offsets import OffsetRange


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_every_range_is_read_by_one_worker(workers: int) -> None:
    owners = Placement.even(workers).partition_owners({"in": 2, "other": 1})
    there = [OffsetRange("in", 0, 0, 5), OffsetRange("in", 1, 2, 3), OffsetRange("other", 0, 1, 4)]
    came_later = [OffsetRange("in", number, 0, 1) for number in (2, 3, 4)]
    nothing_in_it = [OffsetRange("other", 1, 7, 7)]
    readers = Counter(
        span for worker in range(workers) for span in of_worker(there + came_later + nothing_in_it, owners, worker)
    )
    assert readers == Counter(there + came_later)
