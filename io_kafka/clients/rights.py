"""What the user of the settings may do on a broker with an authorizer, and how to grant what is missing.

Guarantees: nothing is created, written or fenced to find it out. The broker names the operations that are allowed on a topic. A topic that is
not there is "created" with `validate_only`. A transactional id is asked for with a timeout that no broker allows: the broker looks at the right
first and at the timeout then, and touches nothing. A broker without an authorizer allows everything."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import KafkaError, KafkaException

from io_kafka.clients import kerberos
from io_kafka.clients.client_faults import fault_of
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.errors import KafkaFault, NotAuthorized, RightsMissing, UnknownTopic

Operation = Literal["Read", "Write", "Create", "Delete", "Describe", "DescribeConfigs"]
Kind = Literal["topic", "transactional-id"]

NO_TIMEOUT_MS = 2**31 - 1
"""The longest timeout of a transaction that a client can ask for. Brokers allow 15 minutes unless an administrator has set more."""

ANSWER_SECONDS_MAX = 5.0
"""A broker answers within milliseconds, and waits some seconds while it starts."""


@dataclass(frozen=True, order=True)
class Right:
    """An operation on a topic, a group or another resource of Kafka that a user may need. `is_prefix`: of everything whose name begins like
    that."""

    kind: Kind
    name: str
    operation: Operation
    is_prefix: bool = False

    def __str__(self) -> str:
        return f"{self.operation} on {self.kind} {self.name}{'*' if self.is_prefix else ''}"


def acl_lines(settings: KafkaSettings, rights: Iterable[Right]) -> list[str]:
    """The calls of Kafka's own tool that grant these rights, one for each resource."""
    by_resource: dict[tuple[Kind, str, bool], list[Operation]] = {}
    for right in sorted(rights):
        by_resource.setdefault((right.kind, right.name, right.is_prefix), []).append(right.operation)
    lines = []
    for (kind, name, is_prefix), operations in by_resource.items():
        granted = " ".join(f"--operation {operation}" for operation in operations)
        pattern = " --resource-pattern-type prefixed" if is_prefix else ""
        lines.append(
            f"kafka-acls.sh --bootstrap-server {settings.bootstrap_servers} --add --allow-principal {shlex.quote(principal_of(settings))} "
            f"{granted} --{kind} {shlex.quote(name)}{pattern}"
        )
    return lines


def principal_of(settings: KafkaSettings) -> str:
    """The user as Kafka's rights name it. The name of a certificate or of a token is the broker's to say."""
    options = dict(settings.options)
    user = kerberos.user_of(options) or options.get("sasl.username")
    return "User:NAME" if user is None else f"User:{user}"


def missing_on_topics(topics: Topics, wanted: Mapping[str, Collection[Operation]]) -> set[Right]:
    """Which of these rights are missing, by topic. Of a topic that is not there only Create is looked at."""
    missing: set[Right] = set()
    for name, operations in sorted(wanted.items()):
        try:
            allowed = topics.allowed_operations(name)
        except UnknownTopic:
            if "Create" in operations and not topics.may_create(name):
                missing.add(Right("topic", name, "Create"))
            continue
        except NotAuthorized:
            missing |= {Right("topic", name, each) for each in operations if not _is_allowed_unseen(topics, name, each)}
            continue
        if allowed is not None:
            missing |= {Right("topic", name, each) for each in operations if each != "Create" and each not in allowed}
    return missing


def _is_allowed_unseen(topics: Topics, name: str, operation: Operation) -> bool:
    """Whether the user may do this with a topic that it may not describe. Reading, writing and deleting would include that."""
    if operation == "Create":
        return topics.may_create(name)
    return operation == "DescribeConfigs" and topics.may_describe_config(name)


def refuse_without(
    settings: KafkaSettings, topics: Topics, wanted: Mapping[str, Collection[Operation]], doing: str
) -> None:
    """Raises RightsMissing if one of these rights is missing. `doing` begins the sentence that says what they are for."""
    missing = missing_on_topics(topics, wanted)
    if missing:
        raise rights_missing(settings, missing, doing)


def rights_missing(settings: KafkaSettings, missing: Collection[Right], doing: str) -> RightsMissing:
    shown = ", ".join(str(right) for right in sorted(missing))
    return RightsMissing(
        f"{doing}: the user of the `kafka.` settings has no right {shown}. Nothing was changed.",
        f"Grant it: {'; '.join(acl_lines(settings, missing))}. `stepwell doctor` looks at all rights.",
    )


def rights_refused(
    settings: KafkaSettings, cause: KafkaError, transactional_id: str, topics: Collection[str], doing: str
) -> RightsMissing | None:
    """The fault of a write that was refused for `cause`; None if that is not for a right, or if no right is known to be missing. The client says
    neither of which topic nor which right, so the broker is asked. `topics`: those that were to be written. `doing`: see `refuse_without`."""
    if cause.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return rights_missing(settings, {Right("transactional-id", transactional_id, "Write")}, doing)
    if cause.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        with suppress(KafkaFault):
            write: tuple[Operation, ...] = ("Write",)
            missing = missing_on_topics(Topics(settings), dict.fromkeys(topics, write))
            if missing:
                return rights_missing(settings, missing, doing)
    return None


def may_use_transactional_id(settings: KafkaSettings, name: str) -> bool:
    """Whether the user may write with this transactional id. Raises KafkaFault if no broker answers."""
    config = {**settings.producer_config(name), "transaction.timeout.ms": NO_TIMEOUT_MS}
    producer = settings.outside.producer(config)
    try:
        producer.init_transactions(ANSWER_SECONDS_MAX)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return True
        if error.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return False
        raise fault_of(error, settings.bootstrap_servers, f"asking for the transactional id {name}") from error
    return True
