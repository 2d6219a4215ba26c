"""Reading exactly the messages of given ranges of offsets.

Guarantee: `RangeReader.read` returns, for each range, the committed messages with an offset in it: all of them, once, in
order.

The reader knows that it has read a range by *position*: it has seen a message, a transaction marker or the end of the log
at or beyond the range's end. It cannot count messages, because markers, aborted and compacted records occupy offsets too.

There is one consumer per process and settings, and it keeps its place in each partition (positioned_consumer.py). A range that begins
where the last one of its partition ended costs no request.

    missing --assign at start--> in place --read--> in place at end
       ^                            |
       +---- another start, ahead by more than a surplus, or any fault ----+

With `bytes_max`, ranges whose messages have more bytes are not handed out. `StepTooLarge` says where they have to end
(io_kafka/step_log/byte_bound.py), and the messages that were delivered wait for the next read. So memory is bounded by
`bytes_max`, by what may be read ahead, and by one call for each partition, whatever the size of the messages.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from io_kafka.clients.consumed import of_client
from io_kafka.clients.partition_position import PartitionPosition
from io_kafka.clients.positioned_consumer import SURPLUS_BYTES_MAX, PositionedConsumer
from io_kafka.clients.raw import RawBatch, raw_batch
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.timestamps import Times
from io_kafka.clients.topics import Topics
from io_kafka.errors import (
    BrokerRefused,
    BrokerUnreachable,
    NoLeader,
    OffsetGone,
    ReadDeadline,
    StepTooLarge,
    UnknownTopic,
)
from io_kafka.extras import Extras
from io_kafka.messages import Messages, join_messages
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.byte_bound import level_of, undecided_ranges
from io_kafka.step_log.plans import PlanMissing, text_in

STALL_SECONDS_MAX = 60.0
"""A read fails after so long without progress. A restart of a broker and the election of a leader take less."""

MARKER_SECONDS = 0.02
"""Between two looks for a document whose transaction is acknowledged and whose marker is on its way. It comes within milliseconds."""

SHORT_LOG_SECONDS_MAX = 5.0
"""If a log ends below a range's end for so long, it has lost messages: a new leader catches up sooner."""

CONNECT_SECONDS_MAX = 2.0
"""How long a consumer tries to connect before its reasons are looked at, in a process that no broker has ever answered."""

_CONSUMERS: dict[tuple[int, KafkaSettings], PositionedConsumer] = {}
"""By process id, because a client does not survive a fork. An entry with another id belongs to the parent and is never touched."""

_CONSUMERS_LOCK = threading.Lock()


class RangeReader:
    """Reads ranges with one set of settings. It is cheap to make and can be pickled. Equal settings share a consumer."""

    def __init__(self, settings: KafkaSettings, *, stall_s: float = STALL_SECONDS_MAX) -> None:
        self._settings = settings
        self._stall_s = stall_s

    def read(
        self, ranges: Sequence[OffsetRange], *, ahead: bool = False, bytes_max: int | None = None
    ) -> list[RawBatch]:
        """One batch for each range, in the order of `ranges`, which have at most one range per partition. `ahead`: go on fetching the messages
        after the ranges in the background, for later reads. `bytes_max` bounds the bytes of keys, values and headers of all ranges together.

        Raises StepTooLarge, and hands out nothing, if the ranges have more bytes. Raises OffsetGone, UnknownTopic, NotAuthorized,
        BrokerUnreachable, or ReadDeadline if nothing arrived for `stall_s`.
        """
        for span in ranges:
            span.check()
        assert len({span.where for span in ranges}) == len(ranges), "two ranges of one partition"
        while True:
            held = self._own_consumer()
            with held.lock_for_reader():
                if held.closed:  # another thread's read failed while this one waited
                    continue
                if held.read_ahead_failed:
                    self._drop(held)
                    continue
                try:
                    if bytes_max is not None:
                        held.bound_ahead(bytes_max)
                    taken = self._take(held, [span for span in ranges if span.length], bytes_max)
                    if ahead:
                        parts = (part for each in taken.values() for part in each.parts)
                        held.read_ahead(sum(part.content_bytes for part in parts))
                    return [_batch(span, taken.pop(span.where, _NOTHING), self._settings.extras) for span in ranges]
                except StepTooLarge:
                    raise
                except BaseException:
                    self._drop(held)
                    raise

    def document(self, topic: str, digest: str) -> str:
        """The text of the plan document with this name (io_kafka/step_log/plans.py). Raises PlanMissing, and what `read` raises.

        A broker acknowledges a commit before its marker is in every partition. So what was written just now may still be undecided here, and
        then it is waited for."""
        where, outside = TopicPartition(topic, 0), self._settings.outside
        topics = Topics(self._settings, timeout_s=self._stall_s)
        began = outside.monotonic()
        try:
            end = topics.high_watermarks([topic])[where]
            while True:
                stable = topics.end_offsets([topic])[where]
                text = self._document(OffsetRange(topic, 0, topics.begin_offsets([topic])[where], stable), digest)
                if text is not None:
                    return text
                if stable >= end or outside.monotonic() - began >= self._stall_s:
                    raise PlanMissing(topic, digest)
                outside.sleep(MARKER_SECONDS)
        except UnknownTopic:
            raise PlanMissing(topic, digest) from None

    def _document(self, span: OffsetRange, digest: str) -> str | None:
        (batch,) = self.read([span])
        return text_in(zip(batch.messages.keys.to_pylist(), batch.messages.values.to_pylist(), strict=True), digest)

    def close(self) -> None:
        """Closes this process's consumer. The next read makes a new one."""
        held = _CONSUMERS.get((self._settings.outside.pid(), self._settings))
        if held is not None:
            with held.lock_for_reader():
                self._drop(held)
            held.await_pump()

    def _own_consumer(self) -> PositionedConsumer:
        key = (self._settings.outside.pid(), self._settings)
        with _CONSUMERS_LOCK:
            if key not in _CONSUMERS:
                _CONSUMERS[key] = PositionedConsumer(self._settings)
            return _CONSUMERS[key]

    def _drop(self, held: PositionedConsumer) -> None:
        key = (self._settings.outside.pid(), self._settings)
        with _CONSUMERS_LOCK:
            if _CONSUMERS.get(key) is held:
                del _CONSUMERS[key]
        if not held.closed:
            held.close()

    def _take(
        self, held: PositionedConsumer, ranges: Sequence[OffsetRange], bytes_max: int | None
    ) -> dict[TopicPartition, _Taken]:
        """Consumes until every range's end is reached. Raises StepTooLarge once it is known where ranges that are too large have to end."""
        held.wanted = frozenset(span.where for span in ranges)
        held.move_to(ranges)
        total, moved_at = -1, self._settings.outside.monotonic()
        while True:
            settled = set() if bytes_max is None else self._bound(held, ranges, bytes_max)
            missing = [s for s in ranges if held.positions[s.where].reached < s.end and s.where not in settled]
            if not missing:
                taken = {span.where: _take_up_to(held.positions[span.where], span.end) for span in ranges}
                held.give_up_surplus(())
                return taken
            held.give_up_surplus(held.wanted)
            held.pause_complete(ranges)
            before, total = total, sum(held.positions[span.where].reached for span in missing) - len(missing)
            if total != before:
                moved_at = self._settings.outside.monotonic()
            else:
                self._raise_if_stalled(held, missing, self._settings.outside.monotonic() - moved_at)
            held.receive(sum(span.end - held.positions[span.where].reached for span in missing))

    def _bound(self, held: PositionedConsumer, ranges: Sequence[OffsetRange], bytes_max: int) -> set[TopicPartition]:
        """The partitions whose ranges are too large and of which enough was read to know where they have to end. Raises StepTooLarge once that
        is known of all."""
        positions = [held.positions[span.where] for span in ranges]
        # Nearly every step ends here. Messages beyond the ranges are counted too, so this is an upper bound of the ranges' bytes.
        if sum(position.ahead_bytes for position in positions) <= bytes_max:
            return set()
        amounts = [position.amount_below(span.end) for position, span in zip(positions, ranges, strict=True)]
        if sum(amount.read_bytes for amount in amounts) <= bytes_max:
            return set()
        level = level_of(amounts, bytes_max)
        assert level is not None, "ranges with more bytes than the bound do not fit"
        open_ones = {ranges[index].where for index in undecided_ranges(amounts, level)}
        if not open_ones:
            ends = {
                span.where: position.end_within(span, level) for position, span in zip(positions, ranges, strict=True)
            }
            if all(ends[span.where] == span.end for span in ranges):
                return set()  # each range has one message, which is the least that a step can have
            raise StepTooLarge(bytes_max, ends)
        held.resume(open_ones)
        settled = {s.where for s, a in zip(ranges, amounts, strict=True) if not a.is_whole} - open_ones
        held.pause(where for where in settled if held.positions[where].ahead_bytes > level + SURPLUS_BYTES_MAX)
        return settled

    def _raise_if_stalled(self, held: PositionedConsumer, missing: Sequence[OffsetRange], still_s: float) -> None:
        """Ends a read that has made no progress for `still_s`, if that is too long: raises OffsetGone if a log is too short, and ReadDeadline
        after `stall_s`."""
        late = still_s > self._stall_s
        if still_s > CONNECT_SECONDS_MAX and (refusal := held.reports.refusal()) is not None:
            raise refusal
        for span in missing:
            position = held.positions[span.where]
            if (
                position.log_end is not None
                and position.log_end < span.end
                and (late or still_s > SHORT_LOG_SECONDS_MAX)
            ):
                try:
                    begin, end = held.reported_range(span.where)
                except (BrokerUnreachable, NoLeader):
                    break
                if end < span.end:
                    raise OffsetGone(span.topic, span.partition, span.end, begin, end)
        if late:
            span = missing[0]
            reached = held.positions[span.where].reached
            raise ReadDeadline(
                span.where, position=reached, end=span.end, deadline_s=self._stall_s, reason=held.trouble
            )


class _Taken(NamedTuple):
    parts: Sequence[Messages]
    times: Times | None


_NOTHING = _Taken((), None)


def _take_up_to(position: PartitionPosition, end: int) -> _Taken:
    return _Taken(position.take(end), position.timestamps.take(end))


def _batch(span: OffsetRange, taken: _Taken, extras: Extras) -> RawBatch:
    try:
        return raw_batch(span, join_messages(taken.parts or [of_client([], extras)]), taken.times)
    except pa.ArrowInvalid as error:  # the limit of a step is far below what Arrow can hold
        raise BrokerRefused(
            f"reading {span}", f"more than 2 GiB ({error}). Lower `stepwell.step.bytes.max`."
        ) from error
