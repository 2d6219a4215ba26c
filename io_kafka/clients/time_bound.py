"""Up to where several partitions are read together, so that all of them are read up to one time of their messages.

A query with event time leaves out rows that are late. If each partition were read at its own pace, the watermark would follow the one that is
ahead, and rows of the others would be late although they came in time. So a time bound holds for all partitions: what is read are the messages
with earlier timestamps, as the broker finds them (offsets_for_times). Where many messages have one timestamp or none, the partitions are read in
proportion to what they have left.

So are messages that were all written within the tolerance, which is the delay of the watermark: no order in which they are read makes a row late
whose event time is near its timestamp. A topic that a user has just loaded, one partition after the other, is read evenly then.

A partition whose next message has an impossible timestamp, such as microseconds in place of milliseconds, has its part beside the others from
the next bound on.

Guarantee: a bound is never beyond the ends, and at least one message is read if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from io_kafka.offsets import TopicPartition

Offsets = dict[TopicPartition, int]

OffsetsSince = Callable[[Sequence[TopicPartition], int], Mapping[TopicPartition, int | None]]
"""A function such as Topics.offsets_since, which gives the first offset of each partition whose message has this timestamp, in milliseconds, or
a later one."""

TIME_END_MS = 1 << 43
"""The year 2248, which is later than every timestamp."""

PROBES_MAX = 64
"""How often the broker is asked for the offsets of a timestamp for one bound. It bounds what a topic with strange timestamps can cost; about
forty questions find any millisecond, and with the last bound as a guide two or three do."""

AIMED_AT = 0.8
"""The part of what may be read at which the first question aims. A time before which there is too much costs two or three questions more."""

PARTS = 1 << 30
"""In so many parts `evenly` divides what a partition has: one is less than a message of nearly every backlog."""

FULL_ENOUGH = 0.5
"""A time before which there is such a part of what may be read is taken as it is."""


class _Bracket(NamedTuple):
    """Two times in milliseconds, and the first offsets from them on. Before the low one are few enough messages, and before the high one too
    many. `none_ms`: the latest time before which no message was found."""

    none_ms: int
    low_ms: int
    at_low: Offsets
    high_ms: int
    at_high: Offsets


@dataclass
class TimeBound:
    """The bounds up to which one group of partitions is read, one after another. `tolerance_ms`: if all that waits has timestamps within less
    than this, it is read in proportion. `time_ms`: the last bound. `width_ms`: how much time the next one probably has; 0 if that is not
    known."""

    offsets_since: OffsetsSince
    tolerance_ms: int = 0
    time_ms: int = 0
    width_ms: int = 0
    _timeless: set[TopicPartition] = field(default_factory=set)

    def find_ends(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], rows: int) -> Offsets:
        """The ends of at most `rows` messages from `starts` on, and at most up to `ends`; if more are there, of about half as many at least.
        The search is for the latest time before which there are at most `rows` messages, and begins where the last bound suggests."""
        waiting = {where: start for where, start in starts.items() if start < ends[where]}
        whole = count(waiting, ends)
        if whole <= rows:
            return dict(ends)
        timeless = {where: start for where, start in waiting.items() if where in self._timeless}
        timed = {where: start for where, start in waiting.items() if where not in self._timeless}
        if not timed:
            return {**starts, **proportional(timeless, ends, rows)}
        share = min(rows - 1, rows * count(timeless, ends) // whole)
        apart = proportional(timeless, ends, share) if share else {}
        return {**starts, **apart, **self._find_timed_ends(timed, ends, rows - share)}

    def _find_timed_ends(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], rows: int
    ) -> Offsets:
        """Returns the ends that `find_ends` returns, for partitions that all have messages with usable times."""
        if len(starts) == 1 or count(starts, ends) <= rows:
            return proportional(starts, ends, rows)
        chosen = self._by_time(starts, {where: ends[where] for where in starts}, rows)
        if left := [where for where, start in starts.items() if chosen[where] == start]:
            far = self.offsets_since(left, TIME_END_MS)
            self._timeless.update(where for where in left if far.get(where) == starts[where])
        return chosen

    def _by_time(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], rows: int) -> Offsets:
        found = self._search(
            _Bracket(self.time_ms, self.time_ms, dict(starts), TIME_END_MS, dict(ends)),
            self.width_ms or 1,
            rows,
            ends,
        )
        if found.low_ms == self.time_ms:
            found = self._search_below(found, rows, starts, ends)
        if self._is_within_tolerance(found, starts, ends):
            return proportional(starts, ends, rows)
        read = count(starts, found.at_low)
        self.time_ms, width_ms = found.low_ms, found.low_ms - found.none_ms
        self.width_ms = int(width_ms * AIMED_AT * rows / read) if read else 0
        if read >= FULL_ENOUGH * rows:
            return found.at_low
        return proportional(found.at_low, found.at_high, rows - read)

    def _search(self, within: _Bracket, stride: int, rows: int, ends: Mapping[TopicPartition, int]) -> _Bracket:
        """The bracket around the latest time before which there are at most `rows` messages, or one that ends full enough. `stride`: how far
        from the low end the search begins, in milliseconds; 1 if nothing is known, which only separates messages of one time."""
        none, low, at_low, high, at_high = within
        starts = dict(at_low)
        for _ in range(PROBES_MAX):
            if high - low <= 1:
                break
            guess = low + stride if 0 < stride < high - low else (low + high) // 2
            found = self._at(guess, starts, ends)
            read = count(starts, found)
            if read > rows:
                high, at_high, stride = guess, found, 0
                continue
            low, at_low, stride = guess, found, 2 * stride if stride > 1 else 0
            none = none if read else guess
            if read >= FULL_ENOUGH * rows:
                break
        return _Bracket(none, low, at_low, high, at_high)

    def _search_below(
        self, found: _Bracket, rows: int, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> _Bracket:
        """If nothing fits after the last bound, messages with an earlier time may have come since, or what it bounded was not read."""
        at_time = self._at(self.time_ms, starts, ends)
        earlier = count(starts, at_time)
        if earlier > rows:
            return self._search(_Bracket(0, 0, dict(starts), self.time_ms, at_time), 0, rows, ends)
        return found._replace(at_low=at_time)

    def _is_within_tolerance(
        self, found: _Bracket, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> bool:
        last_ms = found.none_ms + self.tolerance_ms - 1
        return found.low_ms <= last_ms and self._at(last_ms + 1, starts, ends) == dict(ends)

    def _at(self, time_ms: int, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
        """The first offsets from this time on, within the bounds."""
        found = self.offsets_since([where for where in starts if starts[where] < ends[where]], time_ms)
        every = {where: ends[where] if (at := found.get(where)) is None else at for where in starts}
        return {where: min(max(every[where], start), ends[where]) for where, start in starts.items()}


def count(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """The number of offsets between `starts` and `ends`."""
    return sum(ends[where] - start for where, start in starts.items())


def proportional(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], rows: int) -> Offsets:
    """At most `rows` more in all, but at least one: of each partition the same part of what it has."""
    whole = count(starts, ends)
    if whole <= rows:
        return {where: ends[where] for where in starts}
    chosen = {where: start + (ends[where] - start) * rows // whole for where, start in starts.items()}
    if chosen == dict(starts):
        largest = max(sorted(starts), key=lambda where: ends[where] - starts[where])
        chosen[largest] += 1
    return chosen


def evenly(
    begins: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    rows: int,
) -> Offsets:
    """At most `rows` more in all, but at least one: so that all partitions have the same part of what they had since `begins`, where those that
    are ahead wait for the others."""

    def at(part: int) -> Offsets:
        return {
            where: max(start, begins[where] + (ends[where] - begins[where]) * part // PARTS)
            for where, start in starts.items()
        }

    if count(starts, ends) <= rows:
        return {where: ends[where] for where in starts}
    low, high = 0, PARTS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(starts, at(middle)) <= rows else (low, middle)
    chosen, too_many = at(low), at(high)
    left = rows - count(starts, chosen)
    for where in sorted(starts, key=lambda each: chosen[each] - begins[each]):
        more = min(left, too_many[where] - chosen[where])
        chosen[where] += more
        left -= more
    return chosen
