"""A broker's logs and its transaction coordinator, as far as a transactional client can notice.

Kept: offsets that markers and aborted records occupy; the last stable offset; a transaction's outcome that is decided before its markers
reach the partitions, one by one; one open transaction a transactional.id; `init` that ends what is open and raises the producer's epoch;
refusal of every request of an older epoch; a request to end a transaction that arrives late, and then ends the *next* transaction if the
producer kept its epoch; a timeout after which the broker aborts and fences. tests/simulator/test_kafka_twin.py compares all this with a
real broker.

Left out: replicas and leaders, sequence numbers (nothing here resends a batch that arrived), groups, batches as the unit of storage.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from confluent_kafka import KafkaError

Outcome = Literal["commit", "abort"]
Where = tuple[str, int]
Row = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]
"""Key, value, headers."""


class Refused(Exception):
    """The broker's answer, by the code of its error."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(eq=False)
class Transaction:
    """`outcome`: once it is decided. `first`: by partition, the offset of its first record; `unmarked`: partitions without its marker."""

    transactional_id: str
    producer: int
    epoch: int
    began: float
    writer: object = None
    outcome: Outcome | None = None
    first: dict[Where, int] = field(default_factory=dict)
    unmarked: list[Where] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.outcome is not None and not self.unmarked


class Entry(NamedTuple):
    """`marker` of a transaction, or a record, of a transaction or of none. `time_ms`: its timestamp; that of a marker is never asked for."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    transaction: Transaction | None
    marker: bool = False
    time_ms: int = 0

    @property
    def is_committed(self) -> bool:
        return not self.marker and (self.transaction is None or self.transaction.outcome == "commit")

    def is_since(self, time_ms: int) -> bool:
        return not self.marker and self.time_ms >= time_ms


@dataclass
class Partition:
    """`begin`: what is below was deleted. `open`: transactions whose marker is not here yet, with their first offset here."""

    begin: int = 0
    entries: list[Entry] = field(default_factory=list)
    open: dict[Transaction, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The high watermark."""
        return len(self.entries)

    @property
    def stable(self) -> int:
        """The last stable offset: nothing below it is undecided."""
        return min(self.open.values(), default=len(self.entries))

    def committed(self, start: int, end: int) -> list[tuple[int, Entry]]:
        """What a read_committed consumer gets of these offsets, if they are below the last stable one."""
        return [(o, e) for o, e in enumerate(self.entries[start:end], start) if e.is_committed]


@dataclass
class Topic:
    topic_id: str
    config: dict[str, str]
    partitions: list[Partition]


@dataclass
class Producer:
    """What the coordinator knows of one transactional.id."""

    number: int
    epoch: int = -1
    transaction: Transaction | None = None


@dataclass(eq=False)
class Request:
    """On its way, to arrive when the seed says so; perhaps refused then, and nobody is there for the answer."""

    what: str
    arrive: Callable[[], None]


class Broker:
    """`decided(transaction)` is called when a commit is durable; markers come after it."""

    def __init__(self, decided: Callable[[Transaction], None] = lambda transaction: None) -> None:
        self.topics: dict[str, Topic] = {}
        self.producers: dict[str, Producer] = {}
        self.under_way: list[Request] = []
        self._decided, self._made = decided, 0

    # Topics

    def create(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        if name in self.topics:
            raise Refused(KafkaError.TOPIC_ALREADY_EXISTS)
        self._made += 1
        topic_id = uuid.uuid5(uuid.NAMESPACE_OID, f"{name}/{self._made}").hex
        self.topics[name] = Topic(topic_id, dict(config or {}), [Partition() for _ in range(partitions)])

    def partition(self, where: Where) -> Partition:
        topic = self.topics.get(where[0])
        if topic is None or where[1] >= len(topic.partitions):
            raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return topic.partitions[where[1]]

    def append(self, where: Where, key: bytes | None, value: bytes | None, time_ms: int = 0) -> int:
        """A record of no transaction; its offset."""
        partition = self.partition(where)
        partition.entries.append(Entry(key, value, (), None, time_ms=time_ms))
        return partition.end - 1

    def since(self, where: Where, time_ms: int) -> int | None:
        """The first offset below the last stable one whose record has this timestamp or a later one; None if there is none."""
        partition = self.partition(where)
        found = (
            offset for offset in range(partition.begin, partition.stable) if partition.entries[offset].is_since(time_ms)
        )
        return next(found, None)

    # Transactions

    def init(self, transactional_id: str) -> tuple[int, int]:
        """Ends what is open, and gives (producer, epoch) of which every older epoch is refused from now on."""
        known = self.producers.setdefault(transactional_id, Producer(len(self.producers)))
        if known.transaction is not None and known.transaction.outcome is None:
            self._decide(known.transaction, "abort")
        self.finish(known.transaction)
        known.epoch += 1
        known.transaction = None
        return known.number, known.epoch

    def produce(
        self,
        transactional_id: str,
        epoch: int,
        where: Where,
        rows: list[Row],
        *,
        now: float,
        writer: object = None,
        time_ms: int = 0,
    ) -> int:
        """The offset of the first of these records. Begins a transaction where none is open."""
        known = self._current(transactional_id, epoch)
        partition = self.partition(where)
        if known.transaction is not None and known.transaction.outcome is not None:
            self.finish(known.transaction)  # a client waits for the markers of its last transaction
            known.transaction = None
        if known.transaction is None:
            known.transaction = Transaction(transactional_id, known.number, epoch, now, writer)
        transaction = known.transaction
        first = partition.end
        if where not in transaction.first:
            transaction.first[where] = first
            partition.open[transaction] = first
        partition.entries += [Entry(key, value, headers, transaction, time_ms=time_ms) for key, value, headers in rows]
        return first

    def end(self, transactional_id: str, epoch: int, outcome: Outcome) -> None:
        """Decides the open transaction; the markers come later. To say the same again is no error."""
        known = self._current(transactional_id, epoch)
        transaction = known.transaction
        if transaction is None or transaction.outcome not in (None, outcome):
            raise Refused(KafkaError.INVALID_TXN_STATE)
        if transaction.outcome is None:
            self._decide(transaction, outcome)

    def time_out(self, transactional_id: str) -> bool:
        """Aborts what is open and fences its producer; whether anything was open."""
        known = self.producers[transactional_id]
        if known.transaction is None or known.transaction.outcome is not None:
            return False
        self._decide(known.transaction, "abort")
        known.epoch += 1
        return True

    def undone(self) -> list[Transaction]:
        """Decided, with markers still to come."""
        producers = (producer.transaction for producer in self.producers.values())
        return [t for t in producers if t is not None and t.outcome is not None and t.unmarked]

    def mark_one(self, transaction: Transaction, index: int) -> None:
        """The marker reaches one more partition."""
        where = transaction.unmarked.pop(index)
        partition = self.partition(where)
        partition.entries.append(Entry(None, None, (), transaction, True))
        del partition.open[transaction]

    def finish(self, transaction: Transaction | None) -> None:
        while transaction is not None and transaction.unmarked:
            self.mark_one(transaction, 0)

    def _decide(self, transaction: Transaction, outcome: Outcome) -> None:
        transaction.outcome = outcome
        transaction.unmarked = list(transaction.first)
        if outcome == "commit":
            self._decided(transaction)

    def _current(self, transactional_id: str, epoch: int) -> Producer:
        known = self.producers.get(transactional_id)
        if known is None:
            raise Refused(KafkaError.INVALID_PRODUCER_ID_MAPPING)
        if epoch != known.epoch:
            raise Refused(KafkaError.INVALID_PRODUCER_EPOCH)
        return known
