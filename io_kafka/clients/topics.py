"""Questions to the broker about topics: which exist, their configuration, and their offsets; and their creation.

Guarantees: `end_offsets` returns the last stable offset. Everything below it is committed or aborted, so a range that ends
there can be read without waiting. With the high watermark, one open transaction of a producer could stall a step. Missing
topics are created, and existing ones are never altered.

A topic is identified by its id, not by its name, because a topic that was deleted and created again has another id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    ListOffsetsResultInfo,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from io_kafka.clients.broker_requests import REQUEST_SECONDS_MAX, Attempt, BrokerRequests, has_no_leader
from io_kafka.clients.client_faults import TopicExists
from io_kafka.clients.settings import KafkaSettings
from io_kafka.errors import BrokerRefused, NoLeader, NotAuthorized, UnknownTopic
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.form import TopicIdentity

WATCHED_CONFIG = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "min.insync.replicas",
    "max.message.bytes",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "message.timestamp.type",
)
"""The settings that decide whether a topic can serve as input or output. All others are left to the user."""

LARGE_MESSAGE_BYTES = 8 * 1024 * 1024
"""The largest message of the topics that Stepwell creates for what may be larger than Kafka's default of 1 MiB. Hosted services allow no more. A
topic that is there already keeps its own limit."""

LARGE_MESSAGES = {"max.message.bytes": str(LARGE_MESSAGE_BYTES)}

EXPIRY_CONFIG = ("retention.ms", "retention.bytes")
"""The age at which messages expire, and the size of a partition above which its oldest messages do. -1 is no limit."""


@dataclass(frozen=True)
class TopicFacts:
    """What the broker reports of a topic. `partitions` is their number. `config` has the settings of WATCHED_CONFIG that the broker reports, as
    the broker writes them."""

    name: str
    topic_id: str
    partitions: int
    config: Mapping[str, str]

    @property
    def identity(self) -> TopicIdentity:
        """What a record says of it."""
        return TopicIdentity(topic=self.name, id=self.topic_id, partitions=self.partitions)

    @property
    def compacted(self) -> bool:
        return "compact" in self.config.get("cleanup.policy", "")

    @property
    def expiry(self) -> Mapping[str, int]:
        """The limits beyond which the broker deletes messages, whatever their keys: those of EXPIRY_CONFIG that are in force. A topic may be
        compacted and have some too."""
        if "delete" not in self.config.get("cleanup.policy", "delete"):
            return {}
        limits = {name: int(self.config.get(name, "-1")) for name in EXPIRY_CONFIG}
        return {name: limit for name, limit in limits.items() if limit >= 0}


class Topics:
    """One connection for requests about topics. It must not be used in a forked process. Every question takes `timeout_s` at most."""

    def __init__(self, settings: KafkaSettings, *, timeout_s: float = REQUEST_SECONDS_MAX) -> None:
        self._requests = BrokerRequests(settings, timeout_s=timeout_s)

    def describe(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        """The facts of every topic in `names`. Raises UnknownTopic for the first one that is missing."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        return self._requests.repeat(_describing(wanted), lambda attempt: _facts(attempt, wanted))

    def names(self) -> set[str]:
        """The names of all topics that the user may see, without Kafka's internal ones."""
        return {str(name) for name in self._cluster().topics if not name.startswith("__")}

    def existing(self, names: Iterable[str]) -> set[str]:
        """Which of these topics are there. One that the user may not see is not taken for one that is gone: raises NotAuthorized."""
        wanted = set(names)
        found = wanted & self.names() if wanted else wanted
        for name in sorted(wanted - found):
            with suppress(UnknownTopic):
                self.partitions([name])
                found.add(name)
        return found

    def cluster_id(self) -> str:
        return str(self._cluster().cluster_id)

    def broker_setting(self, name: str) -> str | None:
        """This setting of one broker, which stands for all; None if the broker does not report it, or not to this user."""
        number = str(min(self._cluster().brokers))
        resource = ConfigResource(ResourceType.BROKER, number)
        try:
            found = self._requests.ask(
                f"asking broker {number} for {name}",
                lambda admin, seconds: admin.describe_configs([resource], request_timeout=seconds),
                lambda asked: str(asked.name),
            )
        except NotAuthorized:
            return None
        entry = found[number].get(name)
        return None if entry is None or entry.value is None else str(entry.value)

    def _cluster(self) -> ClusterMetadata:
        return self._requests.repeat(
            "listing the topics", lambda attempt: attempt.admin.list_topics(timeout=attempt.seconds)
        )

    def allowed_operations(self, name: str) -> frozenset[str] | None:
        """The operations that the user may do with this topic, such as "DescribeConfigs"; None if the broker does not say. Raises UnknownTopic,
        and NotAuthorized without the right to describe it."""
        found = self._requests.ask(
            f"describing the topic {name}",
            lambda admin, seconds: admin.describe_topics(
                TopicCollection([name]), include_authorized_operations=True, request_timeout=seconds
            ),
            str,
        )[name].authorized_operations
        words = [operation.name.title().replace("_", "") for operation in found or ()]
        return frozenset(words) or None

    def may_describe_config(self, name: str) -> bool:
        """Whether the user may read the configuration of this topic."""
        try:
            self._requests.repeat(f"describing the topic {name}", lambda attempt: _configs(attempt, [name]))
        except NotAuthorized:
            return False
        except UnknownTopic:
            return True
        return True

    def may_create(self, name: str) -> bool:
        """Whether the user may create this topic, if it is not there. It is not created."""
        new = NewTopic(name, num_partitions=1, replication_factor=-1)
        try:
            self._requests.ask(
                f"creating the topic {name}",
                lambda admin, seconds: admin.create_topics([new], validate_only=True, request_timeout=seconds),
                str,
            )
        except NotAuthorized:
            return False
        except (TopicExists, BrokerRefused):
            return True  # a broker that would refuse it for another reason has looked at the right before
        return True

    def ensure(
        self, name: str, partitions: int, config: Mapping[str, str] | None = None, *, replication: int = -1
    ) -> TopicFacts:
        """The facts of the topic, which is created with these settings if it is missing. A `replication` of -1 is the broker's default."""
        try:
            return self.describe([name])[name]
        except UnknownTopic:
            pass
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(config or {}))
        with suppress(TopicExists):  # another process was faster
            self._requests.ask(
                f"creating the topic {name}",
                lambda admin, seconds: admin.create_topics([new], request_timeout=seconds, operation_timeout=seconds),
                str,
            )
        return self._wait_until_usable(name)

    def _wait_until_usable(self, name: str) -> TopicFacts:
        """The facts of a topic that was just created. The controller confirms it before every broker knows of it, and before its partitions
        have leaders."""

        def facts(attempt: Attempt) -> TopicFacts:
            _offsets(attempt, _partitions(attempt, [name]), OffsetSpec.earliest())
            return _facts(attempt, [name])[name]

        return self._requests.repeat(
            _describing([name]), facts, lambda error: isinstance(error, UnknownTopic | NoLeader)
        )

    def end_offsets(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """The last stable offset of every partition."""
        return self._offsets_of_topics(topics, OffsetSpec.latest(), "reading the end offsets")

    def begin_offsets(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """The first offset that each partition still holds."""
        return self._offsets_of_topics(topics, OffsetSpec.earliest(), "reading the first offsets")

    def high_watermarks(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """The end of every partition, with what no marker has decided yet. A transaction that was acknowledged as committed may be above the
        last stable offset for a moment."""
        return self._offsets_of_topics(
            topics, OffsetSpec.latest(), "reading the high watermarks", isolation=IsolationLevel.READ_UNCOMMITTED
        )

    def end_offsets_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the last stable offset of each of these known partitions, as `end_offsets` does. It takes one request instead of two, because
        every step asks."""
        wanted = tuple(partitions)
        if not wanted:
            return {}
        return self._requests.repeat(
            "reading the end offsets", lambda attempt: _offsets(attempt, wanted, OffsetSpec.latest()), has_no_leader
        )

    def offsets_since(
        self, partitions: Iterable[TopicPartition], milliseconds: int
    ) -> dict[TopicPartition, int | None]:
        """The first offset of each partition whose message has this timestamp or a later one. None if there is no such message."""
        wanted, spec = tuple(partitions), OffsetSpec.for_timestamp(milliseconds)
        if not wanted:
            return {}
        found = self._requests.repeat(
            "reading the offsets of a timestamp", lambda attempt: _list_offsets(attempt, wanted, spec), has_no_leader
        )
        return {where: int(info.offset) if info.offset >= 0 else None for where, info in sorted(found.items())}

    def delete_below(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Deletes every record below these offsets for good. Records that are gone already are not an error."""
        asked = [ClientPartition(where.topic, where.partition, offset) for where, offset in sorted(offsets.items())]
        if asked:
            self._requests.repeat(
                f"deleting records of {', '.join(sorted({where.topic for where in offsets}))}",
                lambda attempt: attempt.ask(
                    lambda admin, seconds: admin.delete_records(
                        asked, request_timeout=seconds, operation_timeout=seconds
                    ),
                    _where,
                ),
                has_no_leader,
            )

    def delete(self, names: Iterable[str]) -> None:
        """Deletes these topics for good. One that is gone already is not an error."""
        for name in sorted(set(names)):
            with suppress(UnknownTopic):
                self._delete(name)

    def _delete(self, name: str) -> None:
        self._requests.ask(
            f"deleting the topic {name}",
            lambda admin, seconds: admin.delete_topics([name], request_timeout=seconds, operation_timeout=seconds),
            str,
        )

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of the topics, in order."""
        wanted = sorted(set(topics))
        if not wanted:
            return []
        return self._requests.repeat(_describing(wanted), lambda attempt: _partitions(attempt, wanted))

    def _offsets_of_topics(
        self, topics: Iterable[str], spec: OffsetSpec, doing: str, *, isolation: IsolationLevel | None = None
    ) -> dict[TopicPartition, int]:
        wanted = sorted(set(topics))
        if not wanted:
            return {}
        return self._requests.repeat(
            doing, lambda attempt: _offsets(attempt, _partitions(attempt, wanted), spec, isolation), has_no_leader
        )


# What an attempt asks


def _describing(names: Sequence[str]) -> str:
    return f"describing the topics {', '.join(names)}"


def _facts(attempt: Attempt, names: Sequence[str]) -> dict[str, TopicFacts]:
    described, configs = _descriptions(attempt, names), _configs(attempt, names)
    facts = {}
    for name in names:
        entries = {str(entry.name): entry.value for entry in configs[name].values()}
        kept = {key: str(entries[key]) for key in WATCHED_CONFIG if entries.get(key) is not None}
        facts[name] = TopicFacts(name, str(described[name].topic_id), len(described[name].partitions), kept)
    return facts


def _descriptions(attempt: Attempt, names: Sequence[str]) -> dict[str, TopicDescription]:
    asked = TopicCollection(list(names))
    return attempt.ask(lambda admin, seconds: admin.describe_topics(asked, request_timeout=seconds), str)


def _configs(attempt: Attempt, names: Sequence[str]) -> dict[str, dict[str, ConfigEntry]]:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    return attempt.ask(
        lambda admin, seconds: admin.describe_configs(resources, request_timeout=seconds),
        lambda resource: str(resource.name),
    )


def _partitions(attempt: Attempt, topics: Sequence[str]) -> list[TopicPartition]:
    found = _descriptions(attempt, topics)
    return sorted(TopicPartition(name, part.id) for name in topics for part in found[name].partitions)


def _offsets(
    attempt: Attempt, partitions: Sequence[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel | None = None
) -> dict[TopicPartition, int]:
    """The offsets of these partitions. A broker that restarts has no leaders for a moment, or answers without an offset; both is NoLeader.
    `isolation`: None for what is committed or aborted alone."""
    try:
        found = _list_offsets(attempt, partitions, spec, isolation)
    except NoLeader:
        # The client reports the same for a partition that does not exist.
        topics = sorted({where.topic for where in partitions})
        for where in sorted(set(partitions) - set(_partitions(attempt, topics))):
            raise UnknownTopic(*where) from None
        raise
    for where, info in sorted(found.items()):
        if info.offset < 0:  # the client's number for no offset
            raise NoLeader(where.topic, where.partition, attempt.doing)
    return {where: int(info.offset) for where, info in sorted(found.items())}


def _list_offsets(
    attempt: Attempt, partitions: Iterable[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel | None = None
) -> dict[TopicPartition, ListOffsetsResultInfo]:
    asked = {ClientPartition(where.topic, where.partition): spec for where in partitions}
    return attempt.ask(
        lambda admin, seconds: admin.list_offsets(
            asked,
            isolation_level=IsolationLevel.READ_COMMITTED if isolation is None else isolation,
            request_timeout=seconds,
        ),
        _where,
    )


def _where(partition: ClientPartition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)
