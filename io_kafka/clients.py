"""How Kafka's clients are configured and made. First form; the settings follow."""

from __future__ import annotations

import logging

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from io_kafka.errors import BrokerUnreachable

_QUIET = logging.getLogger("io_kafka.librdkafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


def first_answer(bootstrap_servers: str, *, timeout_s: float) -> None:
    """Returns if a broker answers a metadata request; raises BrokerUnreachable otherwise."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "reconnect.backoff.max.ms": 200}, logger=_QUIET)
    try:
        admin.list_topics(timeout=timeout_s)
    except KafkaException as error:
        raise BrokerUnreachable(bootstrap_servers, "waiting for the broker", str(error)) from error
