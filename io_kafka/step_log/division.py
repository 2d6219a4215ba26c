"""The division of input into steps: which offsets of every input partition a step reads.

Guarantees: `divide` is a function of (start, end, limits) alone, so equal topics give equal divisions. A division has at
most `limits.rows` offsets and leaves no gap to the one before. No partition waits for ever behind another.

It is a pure function so that two runs over the same topics have the same steps, and their outputs can be compared byte for
byte. Shares follow max-min fairness ("water filling"): a partition with a short backlog is read completely, and the rest of
its share goes to the others. The last few offsets, which cannot be shared equally, go to the longest backlogs. So a
partition that gets less now gets more later, and the function does not need the number of the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from io_kafka.errors import OffsetGone
from io_kafka.offsets import OffsetRange, TopicPartition

STEP_ROWS_MAX = 320_000
"""The default of `stepwell.step.rows.max`. A higher bound raises the throughput under a backlog, the time of a step, and the memory: a
service of two workers takes 1.25 GB with this bound, and 1.4 GB with 400,000 rows."""

MESSAGE_BYTES_ASSUMED = 256
"""The assumed bytes of a message that was not read yet."""


@dataclass(frozen=True)
class StepLimits:
    """Bounds of one step. `message_bytes` is the assumed size of a message. It is a constant and not a measurement, because a division is
    chosen before its messages are read. If they turn out to have more than `bytes_max` bytes, the step is divided again, by the sizes of
    its own messages (io_kafka/step_log/byte_bound.py)."""

    rows_max: int = STEP_ROWS_MAX
    bytes_max: int | None = None
    message_bytes: int = MESSAGE_BYTES_ASSUMED

    def __post_init__(self) -> None:
        assert self.rows_max >= 1, "a step of no rows would never get anywhere"
        assert self.bytes_max is None or self.bytes_max >= 1
        assert self.message_bytes >= 1

    @property
    def rows(self) -> int:
        """The bound in offsets. It is at least one; otherwise a small bound in bytes would stop the pipeline."""
        if self.bytes_max is None:
            return self.rows_max
        return max(1, min(self.rows_max, self.bytes_max // self.message_bytes))


@dataclass(frozen=True)
class Division:
    """The input of one step. `ranges` has every input partition once, in order of (topic, partition), also those with nothing to read,
    because the next division starts where this one ends. Invariant of those that `divide` makes: at least one range is not empty. Why a
    step without input may be due says Inputs in coordinator/stepping/inputs.py."""

    step: int
    ranges: tuple[OffsetRange, ...]

    @property
    def rows(self) -> int:
        """The number of offsets in all ranges."""
        return sum(r.length for r in self.ranges)

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The end of each range, where the next division starts."""
        return {r.where: r.end for r in self.ranges}

    def check(self) -> None:
        """Asserts the invariants; a failure is a bug in Stepwell."""
        assert self.step >= 0
        for r in self.ranges:
            r.check()
        partitions = [r.where for r in self.ranges]
        assert partitions == sorted(set(partitions)), f"division of step {self.step}: partitions out of order or twice"
        assert self.rows > 0 or self.step == 0, f"division of step {self.step} holds nothing"


def divide(
    step: int, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limits: StepLimits
) -> Division | None:
    """The division of `step`, which reads from `starts` and at most up to `ends` (last stable offsets). None if there is nothing to read.
    `starts` and `ends` have the same partitions.

    Raises OffsetGone if a partition ends before its start: its topic was recreated or has lost data."""
    assert starts.keys() == ends.keys(), f"partitions differ: {sorted(starts.keys() ^ ends.keys())}"
    partitions = sorted(starts)
    for partition in partitions:
        if ends[partition] < starts[partition]:
            raise OffsetGone(partition.topic, partition.partition, starts[partition], 0, ends[partition])
    shares = _fair_shares([ends[partition] - starts[partition] for partition in partitions], limits.rows)
    if not any(shares):
        return None
    ranges = tuple(
        OffsetRange(partition.topic, partition.partition, starts[partition], starts[partition] + share)
        for partition, share in zip(partitions, shares, strict=True)
    )
    division = Division(step, ranges)
    division.check()
    return division


def _fair_shares(backlogs: list[int], rows: int) -> list[int]:
    """Splits `rows` over the backlogs. Each gets min(backlog, level), with the highest level that fits. The rest, less than one for each,
    goes to the longest backlogs, and among equal ones to the first."""
    shares = [0] * len(backlogs)
    left, waiting = rows, len(backlogs)
    level = 0
    # Short backlogs determine the level of the others.
    for index in sorted(range(len(backlogs)), key=lambda i: backlogs[i]):
        level = left // waiting
        if backlogs[index] > level:
            break
        shares[index] = backlogs[index]
        left -= backlogs[index]
        waiting -= 1
    else:
        return shares
    longest_first = sorted((i for i in range(len(backlogs)) if backlogs[i] > level), key=lambda i: (-backlogs[i], i))
    for rank, index in enumerate(longest_first):
        shares[index] = level + (rank < left - level * waiting)
    return shares
