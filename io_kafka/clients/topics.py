"""Questions to the broker about topics: which exist, their configuration, and their offsets; and their creation.

Guarantees: `end_offsets` returns the last stable offset. Everything below it is committed or aborted, so a range that ends
there can be read without waiting. With the high watermark, one open transaction of a producer could stall a step. Missing
topics are created, and existing ones are never altered.

A topic is identified by its id, not by its name, because a topic that was deleted and created again has another id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    ListOffsetsResultInfo,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_exponential,
)

from io_kafka.clients.settings import KafkaSettings
from io_kafka.errors import (
    BrokerRefused,
    BrokerUnreachable,
    KafkaFault,
    LoginRefused,
    NoLeader,
    NotAuthorized,
    UnknownTopic,
)
from io_kafka.offsets import TopicPartition

# The settings that decide whether a topic can serve as input or output. All others are left to the user.
WATCHED_CONFIG = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "min.insync.replicas",
    "max.message.bytes",
    "delete.retention.ms",
    "message.timestamp.type",
)

# The time for one request to the broker, long enough for its restart. After that the operator should know.
REQUEST_SECONDS_MAX = 30.0

# `_NOENT`: the client's own metadata has no leader. OFFSET_NOT_AVAILABLE: a new leader does not know yet what is committed. The others come
# from a broker that has just learned of a new topic or a new leader.
NO_LEADER = (
    KafkaError._NOENT,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
)

# The broker that was asked is gone, or slow. Another one may answer for it. `_DESTROY_BROKER`: the client has just heard that it is gone.
NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._DESTROY_BROKER)

OLD_EPOCH = (KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH)

# The broker that was asked does not know the topic, or not this partition of it.
UNKNOWN_TOPIC = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
)

# How long a request may take at first. A client sends to the leader, or to the controller, that it knows. If that broker is dead, the client
# waits for it and does not look for its successor. So the request is given up, and sent again by a new client, which learns who leads now.
# Each new client gets twice the time of the last one, because the broker may only be slow.
ANSWER_SECONDS_MIN = 2.0

# The same before any broker has answered. A client knows after a third of a second why a login fails, and nobody asks it before.
FIRST_ANSWER_SECONDS = 1.0

# The pause before a request is repeated because the broker was not ready; it is ready within milliseconds.
PASSING_SECONDS = 0.1

_S = TypeVar("_S")
_T = TypeVar("_T")


@dataclass(frozen=True)
class TopicFacts:
    """What the broker reports of a topic. `partitions` is their number. `config` has the settings of WATCHED_CONFIG that the broker reports, as
    the broker writes them."""

    name: str
    topic_id: str
    partitions: int
    config: Mapping[str, str]

    @property
    def compacted(self) -> bool:
        return "compact" in self.config.get("cleanup.policy", "")


class Topics:
    """One connection for requests about topics. It must not be used in a forked process."""

    def __init__(self, settings: KafkaSettings, *, timeout_s: float = REQUEST_SECONDS_MAX) -> None:
        self._settings, self._servers = settings, settings.bootstrap_servers
        self._timeout_s = timeout_s
        self._reports = settings.reports()
        self._admin = self._new_admin()

    def _new_admin(self) -> AdminClient:
        return self._settings.outside.admin({**self._settings.admin_config(), "error_cb": self._reports.note})

    def describe(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        """The facts of every topic in `names`. Raises UnknownTopic for the first one that is missing."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        doing = f"describing the topics {', '.join(wanted)}"
        ids = self._ask(
            doing, lambda seconds: self._admin.describe_topics(TopicCollection(wanted), request_timeout=seconds), str
        )
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in wanted]
        configs = self._ask(
            doing,
            lambda seconds: self._admin.describe_configs(resources, request_timeout=seconds),
            lambda resource: str(resource.name),
        )
        facts = {}
        for name in wanted:
            entries = {str(entry.name): entry.value for entry in configs[name].values()}
            kept = {key: str(entries[key]) for key in WATCHED_CONFIG if entries.get(key) is not None}
            facts[name] = TopicFacts(name, str(ids[name].topic_id), len(ids[name].partitions), kept)
        return facts

    def names(self) -> set[str]:
        """The names of all topics that the user may see, without Kafka's internal ones."""
        return {str(name) for name in self._listed().topics if not name.startswith("__")}

    def cluster_id(self) -> str:
        return str(self._listed().cluster_id)

    def _listed(self) -> ClusterMetadata:
        doing = "listing the topics"
        try:
            return self._repeated(lambda seconds: self._admin.list_topics(timeout=seconds), _is_transient)
        except KafkaException as error:
            raise self._fault(error, doing) from error

    def allowed(self, name: str) -> frozenset[str] | None:
        """The operations that the user may do with this topic, such as "DescribeConfigs"; None if the broker does not say. Raises UnknownTopic,
        and NotAuthorized without the right to describe it."""
        found = self._ask(
            f"describing the topic {name}",
            lambda seconds: self._admin.describe_topics(
                TopicCollection([name]), include_authorized_operations=True, request_timeout=seconds
            ),
            str,
        )[name].authorized_operations
        words = [operation.name.title().replace("_", "") for operation in found or ()]
        return frozenset(words) or None

    def may_describe_config(self, name: str) -> bool:
        """Whether the user may read the configuration of this topic."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        try:
            self._ask(
                f"describing the topic {name}",
                lambda seconds: self._admin.describe_configs([resource], request_timeout=seconds),
                lambda found: str(found.name),
            )
        except NotAuthorized:
            return False
        except UnknownTopic:
            return True
        return True

    def may_create(self, name: str) -> bool:
        """Whether the user may create this topic, if it is not there. It is not created."""
        new = NewTopic(name, num_partitions=1, replication_factor=-1)
        try:
            self._ask(
                f"creating the topic {name}",
                lambda seconds: self._admin.create_topics([new], validate_only=True, request_timeout=seconds),
                str,
            )
        except NotAuthorized:
            return False
        except (
            _Exists,
            BrokerRefused,
        ):  # a broker that would refuse it for another reason has looked at the right before
            return True
        return True

    def ensure(
        self, name: str, partitions: int, config: Mapping[str, str] | None = None, *, replication: int = -1
    ) -> TopicFacts:
        """The facts of the topic, which is created with these settings if it is missing. A `replication` of -1 is the broker's default."""
        try:
            return self.describe([name])[name]
        except UnknownTopic:
            pass
        doing = f"creating the topic {name}"
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(config or {}))
        with suppress(_Exists):  # another process was faster
            self._ask(
                doing,
                lambda seconds: self._admin.create_topics([new], request_timeout=seconds, operation_timeout=seconds),
                str,
            )
        return self._appeared(name)

    def _appeared(self, name: str) -> TopicFacts:
        """Waits until a topic that was just created can be used. The controller confirms it before every broker knows of it, and before its
        partitions have leaders."""
        tries: Retrying = Retrying(
            retry=retry_if_exception_type((UnknownTopic, NoLeader)),
            wait=wait_exponential(multiplier=0.01, max=0.5),
            stop=stop_after_delay(self._timeout_s),
            reraise=True,
        )

        def ready() -> TopicFacts:
            self.begin_offsets([name])
            return self.describe([name])[name]

        return tries(ready)

    def end_offsets(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """The last stable offset of every partition."""
        return self.end_offsets_of(self.partitions(topics))

    def begin_offsets(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """The first offset that each partition still holds."""
        return self._offsets(self.partitions(topics), OffsetSpec.earliest(), "reading the first offsets")

    def offsets_since(
        self, partitions: Iterable[TopicPartition], milliseconds: int
    ) -> dict[TopicPartition, int | None]:
        """The first offset of each partition whose message has this timestamp or a later one. None if there is no such message."""
        wanted, spec, doing = (
            tuple(partitions),
            OffsetSpec.for_timestamp(milliseconds),
            "reading the offsets of a timestamp",
        )
        found = self._repeated(lambda _: self._list_offsets(wanted, spec, doing), _has_no_leader) if wanted else {}
        return {where: int(info.offset) if info.offset >= 0 else None for where, info in sorted(found.items())}

    def end_offsets_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """As `end_offsets`, of known partitions. It takes one request instead of two, because every step asks."""
        return self._offsets(partitions, OffsetSpec.latest(), "reading the end offsets")

    def high_watermarks(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """The end of every partition, with what no marker has decided yet. A transaction that was acknowledged as committed may be above the
        last stable offset for a moment."""
        return self._offsets(
            self.partitions(topics),
            OffsetSpec.latest(),
            "reading the high watermarks",
            isolation=IsolationLevel.READ_UNCOMMITTED,
        )

    def delete_below(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Deletes every record below these offsets for good. Records that are gone already are not an error."""
        asked = [ClientPartition(where.topic, where.partition, offset) for where, offset in sorted(offsets.items())]
        if asked:
            doing = f"deleting records of {', '.join(sorted({where.topic for where in offsets}))}"
            self._repeated(
                lambda _: self._ask(
                    doing,
                    lambda seconds: self._admin.delete_records(
                        asked, request_timeout=seconds, operation_timeout=seconds
                    ),
                    lambda partition: TopicPartition(partition.topic, partition.partition),
                ),
                _has_no_leader,
            )

    def delete(self, names: Iterable[str]) -> None:
        """Deletes these topics for good. One that is gone already is not an error."""
        for name in sorted(set(names)):
            with suppress(UnknownTopic):
                self._delete(name)

    def _delete(self, name: str) -> None:
        self._ask(
            f"deleting the topic {name}",
            lambda seconds: self._admin.delete_topics([name], request_timeout=seconds, operation_timeout=seconds),
            str,
        )

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of the topics, in order."""
        wanted = sorted(set(topics))
        if not wanted:
            return []
        found = self._ask(
            f"describing the topics {', '.join(wanted)}",
            lambda seconds: self._admin.describe_topics(TopicCollection(wanted), request_timeout=seconds),
            str,
        )
        return sorted(TopicPartition(name, part.id) for name in wanted for part in found[name].partitions)

    def _offsets(
        self,
        partitions: Iterable[TopicPartition],
        spec: OffsetSpec,
        doing: str,
        *,
        isolation: IsolationLevel | None = None,
    ) -> dict[TopicPartition, int]:
        """The offsets of these partitions. A broker that restarts has no leaders for a moment, or answers without an offset, so it is
        asked again until `timeout_s`. `isolation`: None for what is committed or aborted alone."""
        wanted = tuple(partitions)
        if not wanted:
            return {}
        return self._repeated(lambda _: self._offsets_now(wanted, spec, doing, isolation), _has_no_leader)

    def _offsets_now(
        self, asked_for: Sequence[TopicPartition], spec: OffsetSpec, doing: str, isolation: IsolationLevel | None
    ) -> dict[TopicPartition, int]:
        try:
            found = self._list_offsets(asked_for, spec, doing, isolation)
        except NoLeader:
            # The client reports the same for a partition that does not exist.
            for where in sorted(set(asked_for) - set(self.partitions(where.topic for where in asked_for))):
                raise UnknownTopic(*where) from None
            raise
        for where, info in sorted(found.items()):
            if info.offset < 0:  # the client's number for no offset
                raise NoLeader(where.topic, where.partition, doing)
        return {where: int(info.offset) for where, info in sorted(found.items())}

    def _list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        spec: OffsetSpec,
        doing: str,
        isolation: IsolationLevel | None = None,
    ) -> dict[TopicPartition, ListOffsetsResultInfo]:
        asked = {ClientPartition(where.topic, where.partition): spec for where in partitions}
        return self._ask(
            doing,
            lambda seconds: self._admin.list_offsets(
                asked,
                isolation_level=IsolationLevel.READ_COMMITTED if isolation is None else isolation,
                request_timeout=seconds,
            ),
            lambda partition: TopicPartition(partition.topic, partition.partition),
        )

    def _repeated(self, action: Callable[[float], _T], may_pass: Callable[[Exception], bool]) -> _T:
        """Does `action` until it succeeds, for at most `timeout_s`, as long as `may_pass` holds for its error. `action` gets the seconds that
        it may take. A client that has not brought success in that time is replaced. Raises CannotConnect at once if no broker has ever answered
        and none will."""
        outside = self._settings.outside
        began = client_began = outside.monotonic()
        patience_s = ANSWER_SECONDS_MIN if self._reports.has_answered else FIRST_ANSWER_SECONDS
        while True:
            left_s = began + self._timeout_s - outside.monotonic()
            try:
                found = action(min(patience_s, max(left_s, PASSING_SECONDS)))
            except Exception as error:
                self._admin.poll(0)  # serves the callback with the reasons
                if _code_of(error) in NO_ANSWER and (refusal := self._reports.refusal()) is not None:
                    raise refusal from error
                if not may_pass(error) or left_s <= PASSING_SECONDS:
                    raise
            else:
                self._admin.poll(0)
                self._reports.answered()
                return found
            outside.sleep(PASSING_SECONDS)
            if outside.monotonic() - client_began >= patience_s:
                self._admin, client_began, patience_s = self._new_admin(), outside.monotonic(), 2 * patience_s

    def _ask(
        self, doing: str, request: Callable[[float], Mapping[Any, Future[Any]]], name_of: Callable[[Any], _S]
    ) -> dict[_S, Any]:
        """Sends a request and waits for all its answers. Errors of the client become faults of io_kafka/errors.py. After a transient
        error, such as that of a new topic without a leader, and without an answer, the request is repeated until `timeout_s`. `request` gets
        the seconds that it may take."""

        def ask(seconds: float) -> dict[_S, Any]:
            try:
                return {
                    name_of(key): _result(future, key, self._servers, doing) for key, future in request(seconds).items()
                }
            except (KafkaFault, KafkaException) as error:
                if _code_of(error) in OLD_EPOCH:
                    self._admin = self._new_admin()  # a client with an outdated leader epoch sends it in every request
                raise

        try:
            return self._repeated(ask, _is_transient)
        except BrokerUnreachable as fault:
            raise self._reports.explained(fault) from fault.__cause__
        except KafkaException as error:
            raise self._fault(error, doing) from error

    def _fault(self, error: KafkaException, doing: str) -> KafkaFault:
        fault = fault_of(error, self._servers, doing)
        return self._reports.explained(fault) if isinstance(fault, BrokerUnreachable) else fault


def _is_transient(error: Exception) -> bool:
    """Whether the error is that of a broker that is up and not ready yet, or that of a broker for which another one may answer soon."""
    return _code_of(error) in (
        *OLD_EPOCH, *NO_ANSWER, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_CONTROLLER,
    )  # fmt: skip


def _has_no_leader(error: Exception) -> bool:
    return isinstance(error, NoLeader)


def _code_of(error: Exception) -> int | None:
    """The client's code of an error, or of the error that a fault stands for; None if there is none."""
    cause = error.__cause__ if isinstance(error, KafkaFault) else error
    return int(cause.args[0].code()) if isinstance(cause, KafkaException) else None


class _Exists(KafkaFault):
    """The topic to create exists already. It never leaves this module."""


def fault_of(
    error: KafkaException, servers: str, doing: str, topic: str | None = None, partition: int | None = None
) -> KafkaFault:
    """The fault for an error of the client. `doing` completes the sentence "while ..."; `topic` and `partition` are what it was about."""
    cause: KafkaError = error.args[0]
    code = cause.code()
    if topic is not None and code in UNKNOWN_TOPIC:
        return UnknownTopic(topic, partition)
    if topic is not None and code in NO_LEADER:
        return NoLeader(topic, partition, doing)
    if code in (*NO_ANSWER, KafkaError._RESOLVE):
        return BrokerUnreachable(servers, doing, cause.str())
    if code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
        return NotAuthorized(f"topic {topic!r}" if topic else servers, doing, cause.str())
    if code in (KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION):
        return LoginRefused(
            f"Kafka at {servers} refuses the login: {cause.str()}.", "Correct the `kafka.sasl` settings."
        )
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return _Exists(cause.str())
    return BrokerRefused(doing, f"{cause.name()}: {cause.str()}")


def _result(future: Future[Any], key: Any, servers: str, doing: str) -> Any:
    try:
        return future.result()
    except KafkaException as error:
        if isinstance(key, ClientPartition):
            raise fault_of(error, servers, doing, key.topic, key.partition) from error
        name = key.name if isinstance(key, ConfigResource) else str(key)
        raise fault_of(error, servers, doing, name) from error
