"""The faults between Stepwell and Kafka, one class per cause. Each names the place and says what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from base.fault import ExitCode, Fault
from io_kafka.offsets import TopicPartition

LOCAL_HOSTS = ("127.", "localhost", "[::1]")


def is_local(servers: str) -> bool:
    """Whether the first of these servers is on this machine."""
    return servers.rsplit("://", 1)[-1].startswith(LOCAL_HOSTS)


class KafkaFault(Fault):
    """The base class of all faults of Kafka and of the step log."""

    exit_code = ExitCode.KAFKA


class JarsUnavailable(KafkaFault):
    """Kafka's own jars, or Java, are not on this machine and could not be fetched."""

    exit_code = ExitCode.MACHINE


class LocalBrokerFault(KafkaFault):
    """The local broker cannot be started, found or stopped."""


class BadOption(KafkaFault):
    """An option `kafka.*` that is unknown, contradicts what exactly-once needs, or cannot be translated."""

    exit_code = ExitCode.PROJECT


class BrokerUnreachable(KafkaFault):
    """No broker answered before the deadline."""

    def __init__(self, servers: str, doing: str, reason: str) -> None:
        self.servers, self.doing = servers, doing
        local = ", or start the local one with `stepwell dev up`" if is_local(servers) else ""
        super().__init__(
            f"no Kafka broker answered at {servers} while {doing}: {reason}.",
            f"Check that it runs and that `kafka.bootstrap.servers` and the `kafka.` security settings are right{local}.",
        )


class CannotConnect(KafkaFault):
    """The base class of the reasons for which no connection to Kafka is possible with these settings, whatever the broker's health."""


class LoginRefused(CannotConnect):
    """The broker does not accept the user, the password, the token or the mechanism."""


class BrokerNotTrusted(CannotConnect):
    """The broker's certificate cannot be verified, or TLS fails otherwise."""


class CertificateRefused(CannotConnect):
    """The broker does not accept the client's certificate, or there is none."""


class WrongProtocol(CannotConnect):
    """The port speaks TLS and the settings do not say so, or the other way round."""


class UnknownHost(CannotConnect):
    """The name of the broker's host cannot be resolved."""


class NotAuthorized(KafkaFault):
    """The broker refuses the operation to the user of the settings."""

    def __init__(self, what: str, doing: str, reason: str) -> None:
        self.what = what
        super().__init__(
            f"{what}: the broker refuses {doing}: {reason.rstrip('.')}.",
            "Grant it to the user of the `kafka.` settings. `stepwell doctor` says which rights are missing, and how to grant them.",
        )


class RightsMissing(KafkaFault):
    """The user of the settings lacks rights without which something must not begin."""


class UnknownTopic(KafkaFault):
    """A topic, or one of its partitions, does not exist."""

    def __init__(self, topic: str, partition: int | None = None) -> None:
        self.topic, self.partition = topic, partition
        place = f"topic {topic!r}" if partition is None else f"topic {topic!r} partition {partition}"
        super().__init__(
            f"{place} does not exist on this broker.",
            "Create it, or correct the table's `subscribe` or `topic`. If it was read before and was deleted, its messages are gone, and a "
            "new topic of that name is another one: rebuild from what there is with `stepwell run --full-refresh`.",
        )


class NoTopicMatches(KafkaFault):
    """No topic has a name that a source's pattern matches."""

    def __init__(self, handle: str, pattern: str) -> None:
        self.handle, self.pattern = handle, pattern
        super().__init__(
            f"{handle}: no topic on this broker matches the pattern {pattern}.",
            "Create one, or correct `subscribePattern`.",
        )


class NothingSince(KafkaFault):
    """A source is to begin at a timestamp, and a partition has no message of that time or later."""

    def __init__(self, topic: str, partition: int, milliseconds: int) -> None:
        self.topic, self.partition, self.milliseconds = topic, partition, milliseconds
        super().__init__(
            f"topic {topic!r} partition {partition} has no message since {milliseconds} (ms since 1970), where `startingTimestamp` begins.",
            "Set startingOffsetsByTimestampStrategy = latest to begin at the end of such a partition.",
        )


class NoSuchStart(KafkaFault):
    """A source is to begin at an offset that its partition does not hold, or in a partition that does not exist. `source`: its name for users.
    `held`: the first offset that is there, and the end; None if there is no such partition."""

    def __init__(self, source: str, where: TopicPartition, offset: int, held: tuple[int, int] | None) -> None:
        self.source, self.where, self.offset, self.held = source, where, offset, held
        place = f"topic {where.topic!r} partition {where.partition}"
        found = "does not exist" if held is None else f"holds [{held[0]}, {held[1]})"
        super().__init__(
            f"{source}: its startingOffsets begin {place} at offset {offset}, and the partition {found}.",
            "Correct startingOffsets: -2 begins at the first message that is there, and -1 at the end. A partition that they leave out begins "
            "at its first message.",
        )


class NoLeader(KafkaFault):
    """A partition exists but has no leader now."""

    def __init__(self, topic: str, partition: int | None, doing: str) -> None:
        self.topic, self.partition = topic, partition
        super().__init__(
            f"topic {topic!r} partition {partition} has no leader while {doing}: the brokers that hold it are down.",
            "Start them; the step can be run again.",
        )


class OffsetGone(KafkaFault):
    """A recorded range begins before, or ends after, what the partition still holds."""

    def __init__(self, topic: str, partition: int, offset: int, begin: int, end: int) -> None:
        self.topic, self.partition, self.offset = topic, partition, offset
        self.begin, self.end = begin, end
        why = (
            "its messages have expired or were deleted; make the topic's retention longer than the time "
            "between checkpoints"
            if offset < begin
            else "the partition is shorter than recorded: the topic was recreated or lost data"
        )
        super().__init__(
            f"topic {topic!r} partition {partition}: offset {offset} does not exist, the partition holds "
            f"[{begin}, {end}): {why}.",
            "To rebuild from the messages that are there, without the missing ones, run `stepwell run --full-refresh`.",
        )


class ReadDeadline(KafkaFault):
    """A range could not be read to its end in time."""

    def __init__(self, where: TopicPartition, *, position: int, end: int, deadline_s: float, reason: str) -> None:
        self.topic, self.partition, self.position, self.end = *where, position, end
        super().__init__(
            f"topic {where.topic!r} partition {where.partition}: read up to offset {position} of {end}, and no further in "
            f"{deadline_s:g} s: {reason}.",
            "Check that the broker and the partition's leader are up; the step can be run again.",
        )


class StepTooLarge(KafkaFault):
    """The messages of a step's ranges have more bytes than a step may have. Nothing was handed out, so no state has changed, and the step is
    divided again. `ends` says where each range that is not empty has to end."""

    def __init__(self, bytes_max: int, ends: Mapping[TopicPartition, int]) -> None:
        self.bytes_max, self.ends = bytes_max, dict(ends)
        super().__init__(
            f"the messages of the ranges have more than {bytes_max} bytes; they would fit if they ended at "
            + ", ".join(f"{where} offset {end}" for where, end in sorted(ends.items()))
        )


class BrokerRefused(KafkaFault):
    """The broker answered with an error that has no class of its own here."""

    def __init__(self, doing: str, reason: str) -> None:
        super().__init__(f"Kafka failed while {doing}: {reason}")


class RegistryUnreachable(KafkaFault):
    """A schema registry gives no answer. `reason`: how that shows, for people."""

    def __init__(self, url: str, doing: str, reason: str) -> None:
        self.url, self.reason = url, reason
        super().__init__(
            f"the schema registry {url} gives no answer while {doing}: {reason}. Nothing of the step was written.",
            "Check that it runs, that a proxy before it reaches it, and that 'schema.registry.url' and `stepwell.registry.url` are right, with "
            "the path if its API has one; then run again, which goes on where this run stopped.",
        )


class RegistryRefused(KafkaFault):
    """A schema registry answers that it will not do what it was asked for, or what no registry answers."""

    REFUSED: ClassVar[str] = (
        "For 401 or 403, set `stepwell.registry.auth` to USER:PASSWORD. For 409, the subject has an incompatible schema: name another topic, or "
        "change the subject's compatibility."
    )

    def __init__(self, url: str, doing: str, reason: str, what_to_do: str = REFUSED) -> None:
        self.url = url
        super().__init__(f"the schema registry {url} refuses {doing}: {reason}", what_to_do)


class SchemaGone(RegistryRefused):
    """A step is replayed, and a schema registry does not have a schema any more that it had when the step ran first."""

    def __init__(self, url: str, number: int) -> None:
        self.number = number
        super().__init__(
            url,
            f"looking up schema id {number}",
            "it does not have it, and had it when the step ran first. Nothing was written.",
            "Give the registry its schemas back, with their ids, then run again, which goes on where this run stopped. Without them, rebuild "
            "with `stepwell run --full-refresh`.",
        )


CANNOT_READ = (OffsetGone, UnknownTopic, NotAuthorized)
"""Faults of reading that another try does not remove. They concern one topic; a broker that is away concerns all."""
