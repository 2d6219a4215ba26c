"""Reading exactly the messages of given ranges of offsets.

`RangeReader.read` returns, for each range, the committed messages with an offset in it: all of them, once, in order.
That a range is read is known by *position*: by a message, a transaction's marker or the end of the log at or beyond
the range's end. A count of messages cannot tell, for markers, aborted and compacted records occupy offsets too.

A reader keeps one consumer a process, and the consumer keeps its place: a range that begins where the last one of its
partition ended costs no request. A place is a mere cache; a range that begins elsewhere moves the consumer there.

    missing --assign at start--> in place --read--> in place at end
       ^                            |
       +---- another start, ahead by more than SURPLUS_MESSAGES_MAX, or any fault ----+
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from io_kafka.clients.consumed import Chunk, Consumed, Event, source_of
from io_kafka.clients.raw import RawBatch, raw_batch
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import fault_of
from io_kafka.errors import BrokerRefused, BrokerUnreachable, OffsetGone, ReadDeadline, UnknownTopic
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.outside import CLIENT_LOG

# A call for fewer messages costs more a message; a larger one has no effect and holds more memory.
CONSUME_MESSAGES_MIN, CONSUME_MESSAGES_MAX = 500, 10_000

# How long one call may wait: a pending signal is served only between calls.
CONSUME_SECONDS_MAX = 0.25

# Without any progress for so long a read fails; a restart of a broker, and the election of a leader, take less.
STALL_SECONDS_MAX = 60.0

# A partition that is done goes on delivering while others are read. Beyond this it gives up its place, to bound memory.
SURPLUS_MESSAGES_MAX = 2 * CONSUME_MESSAGES_MAX

# What a reader may fetch of the next ranges while the caller works on this one. Two steps of the default size; with larger messages
# fewer of them, for their bytes are what fills the memory.
AHEAD_BYTES_MAX = 64 << 20

# A pump that finds nothing so often, a millisecond apart, is at the end of what there is, and rests until the next read.
AHEAD_EMPTY_LOOKS_MAX = 20

# The log's end below a range's end, for so long, is no lag of a new leader but a log that lacks what was recorded.
SHORT_LOG_SECONDS_MAX = 5.0

# For the question what a partition holds, asked only when a read fails.
DIAGNOSIS_SECONDS_MAX = 5.0

# The client goes on by itself after these; only a read that stands still is a fault.
_TRANSIENT = frozenset(
    (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.OFFSET_NOT_AVAILABLE,
        # The group is never used; whether we may use it does not matter.
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    )
)
_MISSING = frozenset((KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION))
_REFUSALS = _MISSING | frozenset(
    (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION)
)
_OUT_OF_RANGE = frozenset((KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION))


@dataclass
class _Place:
    """Where the consumer stands in one partition.

    `position`: all below it is handed out. `reached`: all below it has been delivered; `waiting` holds the messages in
    [position, reached). `log_end`: where the log ended when we last came to its end, None if there was more since.
    Invariant: position <= every offset in `waiting` < reached.
    """

    position: int
    reached: int
    waiting: list[Chunk] = field(default_factory=list)
    log_end: int | None = None

    def deliver(self, chunk: Chunk) -> None:
        first, last = chunk.offsets[0].as_py(), chunk.offsets[-1].as_py()
        assert self.reached <= first <= last, f"offset {first} was delivered after {self.reached}"
        self.waiting.append(chunk)
        self.reached = last + 1
        self.log_end = None

    def take(self, end: int) -> list[Chunk]:
        """The messages below `end`, which must have been reached."""
        assert self.reached >= end
        halves = [chunk.split(end) for chunk in self.waiting]
        self.waiting = [above for _, above in halves if len(above.offsets)]
        self.position = end
        return [below for below, _ in halves if len(below.offsets)]

    @property
    def ahead_bytes(self) -> int:
        return sum(chunk.values.nbytes for chunk in self.waiting)

    @property
    def ahead(self) -> int:
        """Messages that nobody has asked for yet."""
        return sum(len(chunk.offsets) for chunk in self.waiting)


class _Positioned:
    """One consumer and its places. Used by one thread at a time, under `lock`, in the process that made it."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.lock = threading.Lock()
        self.places: dict[TopicPartition, _Place] = {}
        self.wanted: frozenset[TopicPartition] = frozenset()
        self.trouble = "no answer"
        self.refusal: KafkaError | None = None
        self.closed = False
        self.spoilt = False
        """Reading ahead met a fault: the next read begins with a new consumer, and meets it at its own place if it is real."""
        self._asked = threading.Event()
        self._awaited = 0
        self._pump: threading.Thread | None = None
        self._servers, self._sleep = settings.bootstrap_servers, settings.outside.sleep
        self._consumer = settings.outside.consumer({**settings.consumer_config(), "error_cb": self._note})
        self._source = source_of(self._consumer)

    @contextmanager
    def held(self) -> Iterator[None]:
        """The lock, for a reader, which goes before the pump."""
        self._awaited += 1
        try:
            self.lock.acquire()
        finally:
            self._awaited -= 1
        try:
            yield
        finally:
            self.lock.release()

    def read_ahead(self) -> None:
        """Lets what comes next go to its places, in a thread, until there is enough of it or the next read begins."""
        if self._pump is None:
            self._pump = threading.Thread(target=self._run_pump, name="read-ahead", daemon=True)
            self._pump.start()
        self._asked.set()

    def _run_pump(self) -> None:
        while not self.closed:
            self._asked.wait()
            self._asked.clear()
            empty = 0
            while empty < AHEAD_EMPTY_LOOKS_MAX and not self._awaited:
                with self.lock:
                    if self.closed or sum(place.ahead_bytes for place in self.places.values()) >= AHEAD_BYTES_MAX:
                        break
                    try:
                        came = self._take_in(self._source.take(CONSUME_MESSAGES_MAX, 0))
                    except Exception as fault:
                        CLIENT_LOG.info("reading ahead met a fault: %s", fault)
                        self.spoilt = True
                        return
                empty = 0 if came else empty + 1
                if not came:
                    self._sleep(0.001)

    def await_pump(self) -> None:
        """After `close`, without the lock: a thread that a process leaves running keeps all that it refers to from being freed."""
        if self._pump is not None:
            self._pump.join()

    def close(self) -> None:
        self.closed = True
        self._asked.set()
        self.places.clear()
        self._source.close()
        self._consumer.close()

    def move_to(self, ranges: Sequence[OffsetRange]) -> None:
        """Afterwards every range's partition has a place at its start."""
        astray = [span for span in ranges if (p := self.places.get(span.where)) is None or p.position != span.start]
        self.leave([span.where for span in astray])
        if astray:
            self._consumer.incremental_assign([ClientPartition(s.topic, s.partition, s.start) for s in astray])
            self.places.update((span.where, _Place(span.start, span.start)) for span in astray)

    def leave(self, partitions: Iterable[TopicPartition]) -> None:
        held = [where for where in partitions if where in self.places]
        if held:
            self._consumer.incremental_unassign([ClientPartition(*where) for where in held])
            for where in held:
                del self.places[where]

    def receive(self, missing: int) -> None:
        """Wait for something, then let what has come go to its places: not much more than is `missing`, or one small step in ten would
        pay for the reading of all.

        A call for many messages would wait its whole time for the last of them, so only a call for one may wait.
        """
        most = min(max(missing, CONSUME_MESSAGES_MIN), CONSUME_MESSAGES_MAX)
        if not self._take_in(self._source.take(most, 0)) and self._take_in(self._source.take(1, CONSUME_SECONDS_MAX)):
            self._take_in(self._source.take(most, 0))

    def _take_in(self, consumed: Consumed) -> bool:
        """Whether anything came."""
        for where, chunk in consumed.runs:
            self.places[where].deliver(chunk)
        for event in consumed.events:
            self._event(event)
        self._pass_markers()
        if self.refusal is not None:
            self._refused(self.refusal)
        return bool(consumed)

    def shed(self, wanted: Iterable[TopicPartition]) -> None:
        """Leave the partitions that are not wanted now and have run far ahead."""
        keep = set(wanted)
        self.leave(
            w
            for w, p in list(self.places.items())
            if w not in keep
            and p.ahead > SURPLUS_MESSAGES_MAX
            and (self._pump is None or p.ahead_bytes > AHEAD_BYTES_MAX)
        )

    def _pass_markers(self) -> None:
        """The client's position moves over transaction markers, for which it delivers nothing."""
        behind = [ClientPartition(*where) for where in self.places]
        for found in self._consumer.position(behind):
            place = self.places[TopicPartition(found.topic, found.partition)]
            if found.offset > place.reached:
                place.reached = found.offset

    def _event(self, event: Event) -> None:
        error, where = event.error, event.where
        place = self.places.get(where) if where else None
        if error.code() in _TRANSIENT or (where is not None and place is None):
            self.trouble = error.str()
        elif where is None or place is None:
            raise fault_of(KafkaException(error), self._servers, "reading")
        elif error.code() == KafkaError._PARTITION_EOF:
            if event.offset >= place.reached:
                place.reached = place.log_end = event.offset
        elif error.code() in _OUT_OF_RANGE:
            if (
                where not in self.wanted
            ):  # a place left from an earlier step, in a topic that was made anew or expired since
                self.leave([where])
                return
            begin, end = self.held_range(where)
            if not begin <= place.reached <= end:
                raise OffsetGone(where.topic, where.partition, place.reached, begin, end)
            # Said of the place it had before, in a topic that has been made anew since: begin again where it stands.
            self.trouble = error.str()
            self._consumer.incremental_unassign([ClientPartition(*where)])
            self._consumer.incremental_assign([ClientPartition(*where, place.reached)])
        else:
            raise fault_of(KafkaException(error), self._servers, f"reading {where}", *where)

    def held_range(self, where: TopicPartition) -> tuple[int, int]:
        """First offset and last stable offset, as the broker says now."""
        try:
            begin, end = self._consumer.get_watermark_offsets(ClientPartition(*where), timeout=DIAGNOSIS_SECONDS_MAX)
        except KafkaException as error:
            raise fault_of(error, self._servers, f"reading {where}", *where) from error
        return int(begin), int(end)

    def _note(self, error: KafkaError) -> None:
        """The client's callback, within a call of `consume`: must not raise."""
        self.trouble = error.str()
        if error.code() in _REFUSALS:
            self.refusal = error

    def _refused(self, error: KafkaError) -> None:
        """The callback names no partition: ask which of ours is missing, and raise."""
        self.refusal = None
        code = error.code()
        if code not in _MISSING:
            topics = ", ".join(sorted({where.topic for where in self.places}))
            raise fault_of(KafkaException(error), self._servers, "reading", topics)
        for where in self.places:
            try:
                found = self._consumer.list_topics(where.topic, timeout=DIAGNOSIS_SECONDS_MAX).topics[where.topic]
            except KafkaException:
                return  # the read goes on, and to its deadline if need be
            if where.partition not in found.partitions:
                raise UnknownTopic(where.topic, where.partition if found.partitions else None)


# By process, for a client does not survive a fork: an entry of another pid belongs to the parent and is never touched.
_POSITIONED: dict[tuple[int, KafkaSettings], _Positioned] = {}
_POSITIONED_LOCK = threading.Lock()


class RangeReader:
    """Reads ranges for one set of settings. Cheap to make, can be pickled; equal settings share a consumer."""

    def __init__(self, settings: KafkaSettings, *, stall_s: float = STALL_SECONDS_MAX) -> None:
        self._settings = settings
        self._stall_s = stall_s

    def read(self, ranges: Sequence[OffsetRange], *, ahead: bool = False) -> list[RawBatch]:
        """One batch a range, in the order of `ranges`; one range a partition at most. `ahead`: go on fetching what comes after them,
        in the background; it is handed out by later reads only.

        Raises OffsetGone, UnknownTopic, NotAuthorized, BrokerUnreachable, or ReadDeadline when nothing came for
        `stall_s`.
        """
        for span in ranges:
            span.check()
        assert len({span.where for span in ranges}) == len(ranges), "two ranges of one partition"
        while True:
            held = self._positioned()
            with held.held():
                if held.closed:  # another thread's read failed while this one waited
                    continue
                if held.spoilt:
                    self._drop(held)
                    continue
                try:
                    taken = self._take(held, [span for span in ranges if span.length])
                    if ahead:
                        held.read_ahead()
                    return [_batch(span, taken.get(span.where, [])) for span in ranges]
                except BaseException:
                    self._drop(held)
                    raise

    def close(self) -> None:
        """Close this process's consumer; the next read makes a new one."""
        held = _POSITIONED.get((self._settings.outside.pid(), self._settings))
        if held is not None:
            with held.held():
                self._drop(held)
            held.await_pump()

    def _positioned(self) -> _Positioned:
        key = (self._settings.outside.pid(), self._settings)
        with _POSITIONED_LOCK:
            if key not in _POSITIONED:
                _POSITIONED[key] = _Positioned(self._settings)
            return _POSITIONED[key]

    def _drop(self, held: _Positioned) -> None:
        with _POSITIONED_LOCK:
            if _POSITIONED.get((self._settings.outside.pid(), self._settings)) is held:
                del _POSITIONED[self._settings.outside.pid(), self._settings]
        if not held.closed:
            held.close()

    def _take(self, held: _Positioned, ranges: Sequence[OffsetRange]) -> dict[TopicPartition, list[Chunk]]:
        """Consume until every range's end is reached."""
        held.wanted = frozenset(span.where for span in ranges)
        held.move_to(ranges)
        taken: dict[TopicPartition, list[Chunk]] = {}
        missing = {span.where: span for span in ranges}
        total, moved_at = -1, self._settings.outside.monotonic()
        while True:
            for span in list(missing.values()):
                if held.places[span.where].reached >= span.end:
                    taken[span.where] = held.places[span.where].take(span.end)
                    del missing[span.where]
            held.shed(missing)
            if not missing:
                return taken
            before, total = total, sum(held.places[where].reached for where in missing) - len(missing)
            if total != before:
                moved_at = self._settings.outside.monotonic()
            else:
                self._judge(held, list(missing.values()), self._settings.outside.monotonic() - moved_at)
            held.receive(sum(span.end - held.places[where].reached for where, span in missing.items()))

    def _judge(self, held: _Positioned, missing: Sequence[OffsetRange], still_s: float) -> None:
        """A read stands still: raise if the log is too short, or if it has stood still too long."""
        late = still_s > self._stall_s
        for span in missing:
            place = held.places[span.where]
            if place.log_end is not None and place.log_end < span.end and (late or still_s > SHORT_LOG_SECONDS_MAX):
                try:
                    begin, end = held.held_range(span.where)
                except BrokerUnreachable:
                    break
                if end < span.end:
                    raise OffsetGone(span.topic, span.partition, span.end, begin, end)
        if late:
            span = missing[0]
            position = held.places[span.where].reached
            raise ReadDeadline(span.topic, span.partition, position, span.end, self._stall_s, held.trouble)


def _batch(span: OffsetRange, chunks: Sequence[Chunk]) -> RawBatch:
    if not chunks:
        chunks = [Chunk.of([])]
    try:
        keys, values, offsets = (pa.concat_arrays(columns) for columns in zip(*chunks, strict=True))
    except pa.ArrowInvalid as error:
        # Arrow's binary type counts bytes in 32 bits; a step is far smaller by its own limit.
        raise BrokerRefused(
            f"reading {span}", f"more than 2 GiB ({error}). Lower `stepwell.step.bytes.max`."
        ) from error
    return raw_batch(span, keys, values, offsets)
