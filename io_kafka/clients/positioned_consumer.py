"""One consumer that keeps its place in each partition (partition_position.py), and reads ahead of whoever asks it.

A place is only a cache: a read that begins elsewhere moves the consumer there. Messages that came before they were asked for wait in their
place, within bounds of their number and bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from io_kafka.client_log import CLIENT_LOG
from io_kafka.clients.client_faults import fault_of
from io_kafka.clients.consumed import Consumed, ConsumerEvent, source_of
from io_kafka.clients.partition_position import PartitionPosition
from io_kafka.clients.settings import KafkaSettings
from io_kafka.errors import BrokerUnreachable, NoLeader, OffsetGone, UnknownTopic
from io_kafka.offsets import OffsetRange, TopicPartition

CONSUME_MESSAGES_MIN, CONSUME_MESSAGES_MAX = 500, 10_000
"""A call for fewer messages costs more per message. A call for more has no effect but on memory."""

CALL_BYTES_MAX = 16 << 20
"""The bytes that one call should return at most, estimated from the messages before. A call copies what it returns."""

CONSUME_SECONDS_MAX = 0.25
"""The longest wait of one call, because a pending signal is handled only between calls."""

SURPLUS_MESSAGES_MAX = 2 * CONSUME_MESSAGES_MAX
"""A partition whose range is read goes on delivering while others are read. Beyond this it loses its place, to bound memory."""

SURPLUS_BYTES_MAX = 16 << 20
"""The bound of what is delivered while other partitions are read, in bytes over all partitions together; see SURPLUS_MESSAGES_MAX. A partition
may also exceed its share by so much while others are waited for."""

AHEAD_BYTES_MAX = 64 << 20
"""What a reader may fetch of the next ranges while the caller works on this one; never more than the bytes of one step. It is two steps of
the default size. With larger messages it is fewer messages, because bytes fill the memory."""

AHEAD_READS = 4
"""At most so many times the bytes that were just read are read ahead. More would take processor time from the steps and not be needed soon. When
new nodes began to read 1.3 GB of history beside steps of 1 MB, the first half second of 64 MB ahead made seven steps two to four times as
long."""

AHEAD_BYTES_MIN = 1 << 20

AHEAD_LOOK_BYTES_MIN = 128 << 10
"""A look of the thread that reads ahead which brings less is a small one: no backlog waits in the client, or the next fetch is under way."""

AHEAD_PAUSES_S = (0.001, 0.002, 0.004, 0.008, 0.016)
"""The pauses after small looks that follow each other. After the last one reading ahead stops until the next read: it is at the end of the log,
where the client has the messages anyway, and a read takes them in one call. A look costs a third of a millisecond of the interpreter, however
little it brings. With a look each millisecond, at 20,000 messages per second, looks took as much processor time as two thirds of the steps."""

DIAGNOSIS_SECONDS_MAX = 5.0
"""The time for the question which offsets a partition holds, which is asked only when a read fails."""

NO_ANSWER = "no answer"
"""The reason in the error of a read without progress, if the client reported none."""

_TRANSIENT = frozenset(
    (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._DESTROY_BROKER,
        KafkaError._RESOLVE,
        # A login is lost while a password is changed. `ConnectionReports` says when it is a reason to give up at once.
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._SSL,
        KafkaError._TIMED_OUT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.OFFSET_NOT_AVAILABLE,
        # The group is never used, so it does not matter whether we may use it.
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    )
)
"""The client recovers from these by itself. They become a fault only if a read makes no progress."""

_MISSING = frozenset((KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION))
_OF_ONE_TOPIC = _MISSING | frozenset((KafkaError.TOPIC_AUTHORIZATION_FAILED,))
"""A topic that is not there, or that the user may not read."""

_OUT_OF_RANGE = frozenset((KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION))


class PositionedConsumer:
    """One consumer and its places. It is used by one thread at a time, under `lock`, in the process that made it."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.lock = threading.Lock()
        self.positions: dict[TopicPartition, PartitionPosition] = {}
        self.wanted: frozenset[TopicPartition] = frozenset()
        self.trouble = NO_ANSWER
        self.refusal: KafkaError | None = None
        self.closed = False
        self.ahead_bytes_max = self.ahead_bytes_wanted = AHEAD_BYTES_MAX
        self.message_bytes = 1
        """The average bytes per message of the last call. It is an estimate for the size of the next call and decides nothing else."""
        self.read_ahead_failed = False
        """Whether reading ahead failed. The next read then begins with a new consumer, and fails at its own place if the fault persists."""
        self._asked = threading.Event()
        self._awaited = 0
        self._pump: threading.Thread | None = None
        self._servers, self._sleep = settings.bootstrap_servers, settings.outside.sleep
        self.reports = settings.reports()
        self._consumer = settings.outside.consumer({**settings.consumer_config(), "error_cb": self._note})
        self._source = source_of(self._consumer, settings.extras)

    @contextmanager
    def lock_for_reader(self) -> Iterator[None]:
        """Holds the lock for a reader. A reader has priority over the thread that reads ahead."""
        self._awaited += 1
        try:
            self.lock.acquire()
        finally:
            self._awaited -= 1
        try:
            yield
        finally:
            self.lock.release()

    def bound_ahead(self, bytes_max: int) -> None:
        """Reads ahead no more than that, nor than AHEAD_BYTES_MAX. `bytes_max`: of one step."""
        self.ahead_bytes_max = min(AHEAD_BYTES_MAX, bytes_max)

    def read_ahead(self, read_bytes: int) -> None:
        """Fetches the next messages into the places, in a thread, until there are enough or the next read begins. `read_bytes`: of the last
        read."""
        self.ahead_bytes_wanted = min(self.ahead_bytes_max, max(AHEAD_BYTES_MIN, AHEAD_READS * read_bytes))
        if self._pump is None:
            self._pump = threading.Thread(target=self._run_pump, name="read-ahead", daemon=True)
            self._pump.start()
        self._asked.set()

    def _run_pump(self) -> None:
        while not self.closed:
            self._asked.wait()
            self._asked.clear()
            pauses = iter(AHEAD_PAUSES_S)
            while not self._awaited:
                with self.lock:
                    if self.closed or self._ahead_bytes() >= self.ahead_bytes_wanted:
                        break
                    try:
                        consumed = self._source.take(self._most(CONSUME_MESSAGES_MAX), 0)
                        self._take_in(consumed)
                    except Exception as fault:
                        CLIENT_LOG.info("reading ahead met a fault: %s", fault)
                        self.read_ahead_failed = True
                        return
                if sum(stretch.messages.content_bytes for stretch in consumed.stretches) >= AHEAD_LOOK_BYTES_MIN:
                    pauses = iter(AHEAD_PAUSES_S)
                elif (pause_s := next(pauses, None)) is not None:
                    self._sleep(pause_s)
                else:
                    break

    def _ahead_bytes(self) -> int:
        return sum(position.ahead_bytes for position in self.positions.values())

    def _most(self, wanted: int) -> int:
        """How many of the `wanted` messages one call may ask for."""
        return max(1, min(wanted, CALL_BYTES_MAX // self.message_bytes))

    def await_pump(self) -> None:
        """Waits for the end of the thread that reads ahead. To be called after `close`, without the lock. A thread that still runs would keep
        the consumer from being freed."""
        if self._pump is not None:
            self._pump.join()

    def close(self) -> None:
        self.closed = True
        self._asked.set()
        self.positions.clear()
        self._source.close()
        self._consumer.close()

    def move_to(self, ranges: Sequence[OffsetRange]) -> None:
        """Gives the partition of each range a place at the range's start."""
        self.resume(list(self.positions))
        moved = [span for span in ranges if (p := self.positions.get(span.where)) is None or p.position != span.start]
        self.leave([span.where for span in moved])
        if moved:
            self._consumer.incremental_assign([ClientPartition(s.topic, s.partition, s.start) for s in moved])
            self.positions.update((span.where, PartitionPosition(span.start, span.start)) for span in moved)

    def leave(self, partitions: Iterable[TopicPartition]) -> None:
        held = [where for where in partitions if where in self.positions]
        if held:
            fetched = [where for where in held if not self.positions[where].is_paused]
            if fetched:
                self._consumer.incremental_unassign([ClientPartition(*where) for where in fetched])
            for where in held:
                del self.positions[where]

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stops fetching these partitions until `resume`. The messages that were delivered stay."""
        fetched = [where for where in partitions if not self.positions[where].is_paused]
        if fetched:
            self._consumer.incremental_unassign([ClientPartition(*where) for where in fetched])
            for where in fetched:
                self.positions[where].is_paused = True

    def pause_complete(self, ranges: Sequence[OffsetRange]) -> None:
        """Stops fetching the partitions that are far ahead of their range, which is complete, while others are waited for."""
        is_filled = self._pump is not None
        bytes_max = (self.ahead_bytes_max if is_filled else 0) + SURPLUS_BYTES_MAX
        for span in ranges:
            position = self.positions[span.where]
            offsets = position.reached - span.end
            if offsets <= 0 or (position.ahead_bytes <= bytes_max and (is_filled or offsets <= SURPLUS_MESSAGES_MAX)):
                continue
            surplus = position.ahead_bytes - position.amount_below(span.end).read_bytes
            if surplus > bytes_max or not is_filled:
                self.pause([span.where])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        paused = [where for where in partitions if self.positions[where].is_paused]
        if paused:
            self._consumer.incremental_assign(
                [ClientPartition(*where, self.positions[where].reached) for where in paused]
            )
            for where in paused:
                self.positions[where].is_paused = False

    def receive(self, missing: int) -> None:
        """Waits for messages and puts them into their places. It asks for not much more than the `missing` ones; otherwise one small step in
        ten would pay for reading the others' messages.

        A call for many messages waits its whole time for the last of them, so only a call for one message may wait.
        """
        most = self._most(min(max(missing, CONSUME_MESSAGES_MIN), CONSUME_MESSAGES_MAX))
        if not self._take_in(self._source.take(most, 0)) and self._take_in(self._source.take(1, CONSUME_SECONDS_MAX)):
            self._take_in(self._source.take(most, 0))

    def _take_in(self, consumed: Consumed) -> bool:
        """Puts messages into their places and handles events. Returns whether there were any."""
        for stretch in consumed.stretches:
            self.positions[stretch.where].deliver(stretch.messages, stretch.first_ms, stretch.last_ms)
        if consumed.stretches:
            self._answered()
            count = sum(stretch.messages.length for stretch in consumed.stretches)
            self.message_bytes = 1 + sum(stretch.messages.content_bytes for stretch in consumed.stretches) // count
        for event in consumed.events:
            self._event(event)
        self._pass_markers()
        if self.refusal is not None:
            self._raise_refusal(self.refusal)
        return bool(consumed)

    def give_up_surplus(self, wanted: Iterable[TopicPartition]) -> None:
        """Gives up the places of partitions that are not wanted now and are too far ahead. That is by number of messages, or by bytes of all
        together; then those with the most bytes go first."""
        keep = set(wanted)
        others = [(position.ahead_bytes, where) for where, position in self.positions.items() if where not in keep]
        is_filled = self._pump is not None  # then messages wait on purpose, up to `ahead_bytes_max`
        bytes_max = (self.ahead_bytes_max if is_filled else 0) + SURPLUS_BYTES_MAX
        surplus = sum(held for held, _ in others) - bytes_max
        for held, where in sorted(others, reverse=True):
            if surplus > 0 or (not is_filled and self.positions[where].ahead > SURPLUS_MESSAGES_MAX):
                surplus -= held
                self.leave([where])

    def _pass_markers(self) -> None:
        """Moves `reached` past transaction markers. The client delivers nothing for them, but its position passes them."""
        behind = [ClientPartition(*where) for where, position in self.positions.items() if not position.is_paused]
        for found in self._consumer.position(behind):
            position = self.positions[TopicPartition(found.topic, found.partition)]
            if found.offset > position.reached:
                position.reached = found.offset

    def _event(self, event: ConsumerEvent) -> None:
        error, where = event.error, event.where
        position = self.positions.get(where) if where else None
        if error.code() in _TRANSIENT or (where is not None and position is None):
            self._troubled_by(error)
        elif where is None or position is None:
            raise fault_of(KafkaException(error), self._servers, "reading")
        elif error.code() == KafkaError._PARTITION_EOF:
            self._answered()
            if event.offset >= position.reached:
                position.reached = position.log_end = event.offset
        elif error.code() in _OUT_OF_RANGE:
            # A place that is left from an earlier step, in a topic that was recreated or has expired since.
            if where not in self.wanted:
                self.leave([where])
                return
            self.trouble = error.str()
            try:
                begin, end = self.reported_range(where)
            except (BrokerUnreachable, NoLeader) as fault:  # the client reports it again once the broker is back
                self.trouble = str(fault)
            else:
                if not begin <= position.reached <= end:
                    raise OffsetGone(where.topic, where.partition, position.reached, begin, end)
            # The error concerns an earlier place, in a topic that was recreated since: assign it again at the present place.
            self._consumer.incremental_unassign([ClientPartition(*where)])
            self._consumer.incremental_assign([ClientPartition(*where, position.reached)])
        elif error.code() in _OF_ONE_TOPIC and where not in self.wanted:
            # A place that is left from an earlier step. Its topic need not be there any more: no project has to read it.
            self.leave([where])
        else:
            raise fault_of(KafkaException(error), self._servers, f"reading {where}", *where)

    def reported_range(self, where: TopicPartition) -> tuple[int, int]:
        """The first offset and the last stable offset that the broker reports now."""
        try:
            begin, end = self._consumer.get_watermark_offsets(ClientPartition(*where), timeout=DIAGNOSIS_SECONDS_MAX)
        except KafkaException as error:
            raise fault_of(error, self._servers, f"reading {where}", *where) from error
        return int(begin), int(end)

    def _troubled_by(self, error: KafkaError) -> None:
        """Keeps the error as the reason of a possible fault. The client reports "all brokers down" in addition to the actual
        reason, before it or after it, so that one does not replace another reason."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self.trouble == NO_ANSWER:
            self.trouble = error.str()

    def _answered(self) -> None:
        """A broker has answered, so no fault after this has its reason in what was reported before."""
        self.trouble = NO_ANSWER
        self.reports.answered()

    def _note(self, error: KafkaError) -> None:
        """The client's error callback. It runs within a call to the client and must not raise."""
        self._troubled_by(error)
        self.reports.note(error)
        if error.code() in _OF_ONE_TOPIC:
            self.refusal = error

    def _raise_refusal(self, error: KafkaError) -> None:
        """Raises the fault for an error of the callback. The callback names no partition, so the broker is asked which one is missing. One that
        is not wanted now loses its place, as in `_event`."""
        self.refusal = None
        code, left = error.code(), list[TopicPartition]()
        if code not in _MISSING:
            topics = ", ".join(sorted({where.topic for where in self.positions}))
            raise fault_of(KafkaException(error), self._servers, "reading", topics)
        for where in self.positions:
            try:
                found = self._consumer.list_topics(where.topic, timeout=DIAGNOSIS_SECONDS_MAX).topics[where.topic]
            except KafkaException:
                return  # the read goes on, if need be until its deadline
            if where.partition in found.partitions:
                continue
            if where in self.wanted:
                raise UnknownTopic(where.topic, where.partition if found.partitions else None)
            left.append(where)
        self.leave(left)
