"""The division of input into steps: which offsets of every input partition a step reads.

Guarantees: `divide` is a function of (start, end, limits) and of nothing else, so equal topics give equal divisions; it
takes at most `limits.rows` offsets; it never leaves a gap; and no partition waits for ever behind another.

Why a function: a run and a re-run over the same topics then have the same steps, and their outputs can be compared byte
for byte. Why fair by level ("water filling"): a partition with little to read is read whole, and what it leaves goes to
the others. Where the last few offsets cannot be shared equally they go to the longest backlogs, so that a partition
which goes short now is ahead later, without the step's number entering the function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from io_kafka.errors import OffsetGone
from io_kafka.offsets import OffsetRange, TopicPartition

STEP_ROWS_MAX = 100_000
"""A bound for who sets none. Above it the rate still rises by a tenth to a half, and the time of a step
threefold; a service sets `stepwell.step.rows.max`."""

MESSAGE_BYTES_ASSUMED = 256
"""What a message is taken to weigh before it is read."""


@dataclass(frozen=True)
class Limits:
    """Bounds of one step. `message_bytes` is the assumed size of a message: a setting and not a measurement, for a division is chosen
    before anybody has read its messages. Where they turn out to be larger than `bytes_max` allows, the step is divided again, by the
    sizes of its own messages (io_kafka/step_log/byte_bound.py)."""

    rows_max: int = STEP_ROWS_MAX
    bytes_max: int | None = None
    message_bytes: int = MESSAGE_BYTES_ASSUMED

    def __post_init__(self) -> None:
        assert self.rows_max >= 1, "a step of no rows would never get anywhere"
        assert self.bytes_max is None or self.bytes_max >= 1
        assert self.message_bytes >= 1

    @property
    def rows(self) -> int:
        """The bound in offsets; at least one, or a small bound in bytes would stop the pipeline."""
        if self.bytes_max is None:
            return self.rows_max
        return max(1, min(self.rows_max, self.bytes_max // self.message_bytes))


@dataclass(frozen=True)
class Division:
    """`ranges` has every input partition once, in order of (topic, partition), also those with nothing to read: the
    next division starts where this one ends. Invariant: at least one range is not empty,
    but in step 0, which may speak for constants before there is any input."""

    step: int
    ranges: tuple[OffsetRange, ...]

    @property
    def rows(self) -> int:
        """How many offsets the step spans."""
        return sum(r.length for r in self.ranges)

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Where the next division starts."""
        return {r.where: r.end for r in self.ranges}

    def check(self) -> None:
        """Proves the invariants; a failure is our own mistake."""
        assert self.step >= 0
        for r in self.ranges:
            r.check()
        places = [r.where for r in self.ranges]
        assert places == sorted(set(places)), f"division of step {self.step}: partitions out of order or twice"
        assert self.rows > 0 or self.step == 0, f"division of step {self.step} holds nothing"


def divide(
    step: int, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limits: Limits
) -> Division | None:
    """The division of `step`, which reads from `starts` and at most up to `ends` (last stable offsets); None where
    there is nothing to read. `starts` and `ends` name the same partitions.

    Raises OffsetGone where a partition ends before it starts: its topic was recreated or has lost data."""
    assert starts.keys() == ends.keys(), f"partitions differ: {sorted(starts.keys() ^ ends.keys())}"
    places = sorted(starts)
    for place in places:
        if ends[place] < starts[place]:
            raise OffsetGone(place.topic, place.partition, starts[place], 0, ends[place])
    shares = _fair_shares([ends[place] - starts[place] for place in places], limits.rows)
    if not any(shares):
        return None
    ranges = tuple(
        OffsetRange(place.topic, place.partition, starts[place], starts[place] + share)
        for place, share in zip(places, shares, strict=True)
    )
    division = Division(step, ranges)
    division.check()
    return division


def _fair_shares(backlogs: list[int], rows: int) -> list[int]:
    """Splits `rows` over the backlogs: each gets min(backlog, level), with the highest level that fits; what is then
    left (less than one each) goes to the longest backlogs, the first of equals."""
    shares = [0] * len(backlogs)
    left, waiting = rows, len(backlogs)
    level = 0
    for index in sorted(
        range(len(backlogs)), key=lambda i: backlogs[i]
    ):  # short backlogs settle the level of the others
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
