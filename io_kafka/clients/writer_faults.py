"""How a transaction of the writer ends without being committed, and which of the client's errors lead there."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from base.fault import ExitCode
from io_kafka.errors import BrokerUnreachable, CannotConnect, KafkaFault, NoLeader, ReadDeadline
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import Claim


class Fenced(KafkaFault):
    """Another run has taken over the pipeline. Every further write of this run is rejected."""

    exit_code = ExitCode.HELD

    def __init__(self, transactional_id: str, epoch: int, holder: Claim | None) -> None:
        self.transactional_id, self.epoch, self.holder = transactional_id, epoch, holder
        who = "" if holder is None else f": epoch {holder.epoch}, process {holder.pid} on {holder.host}"
        super().__init__(
            f"another run of this pipeline ({transactional_id!r}) has taken over from epoch {epoch}{who}. This run "
            "has stopped and has written nothing since.",
            "If that was not intended, stop the other run and start this one.",
        )


LARGER = (
    "Raise `max.message.bytes` of the topic, and `kafka.message.max.bytes` if you have set it, and run again: the run goes on with this step. "
    "The limit can be lowered again when the step is written."
)

SHORTER = (
    "Lower `kafka.transaction.timeout.ms` in spark-pipeline.yml, or raise `transaction.max.timeout.ms` of the brokers, and run again: the run "
    "goes on where this one stopped."
)


KEYED = (
    "A topic whose cleanup.policy has compact takes no message without a key, such as a record of the step log or a row of an output with mode "
    "append. Set cleanup.policy=delete on the topic, and run again: the run goes on where this one stopped."
)


class WriteRefused(KafkaFault):
    """The broker refuses a message of a transaction, and would refuse it again."""

    def __init__(self, what: str, where: TopicPartition | None, cause: KafkaError) -> None:
        self.where = where
        place = "" if where is None else f", topic {where.topic!r} partition {where.partition}"
        advice = _ADVICE.get(cause.code(), "Correct the topic or the permissions, and run again.")
        super().__init__(
            f"{what}{place}: Kafka refuses to write it: {cause.str().rstrip('.')}. Nothing of it was written.", advice
        )


class OutcomeUnknown(KafkaFault):
    """The broker was unreachable for too long, so the outcome of a transaction is unknown."""

    def __init__(self, what: str, seconds: float, reason: str) -> None:
        super().__init__(
            f"{what}: no answer from Kafka for {seconds:g} s ({reason}), so it is not known whether it was committed.",
            "Nothing is lost: once the broker is back, `stepwell run` reads the step log and goes on from there.",
        )


class NotCommitted(Exception):
    """The log has no record of the transaction, so it can be written again. It never leaves transactions.py."""


def code_of(error: KafkaException) -> int:
    return int(error.args[0].code())


def is_retriable(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and bool(error.args[0].retriable())


def may_pass(error: BaseException) -> bool:
    """Whether a retry may succeed: after no answer, but not after a refusal."""
    if isinstance(error, KafkaException):
        return code_of(error) not in REFUSED_CODES
    return isinstance(error, (*AWAY, NotCommitted))


AWAY = (BrokerUnreachable, CannotConnect, NoLeader, ReadDeadline)
"""Faults of a broker that does not answer for the step log, or not yet: after a restart it has no leaders for some seconds. The log was read
with the same settings before, so a login that fails now may go well again."""

FENCED_CODES = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}

TOO_LARGE_CODES = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}

_ADVICE = {
    **dict.fromkeys(TOO_LARGE_CODES, LARGER),
    KafkaError.INVALID_RECORD: KEYED,
    KafkaError.INVALID_TRANSACTION_TIMEOUT: SHORTER,
}

REFUSED_CODES = {
    *TOO_LARGE_CODES,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
}
"""Errors that a retry does not fix."""
