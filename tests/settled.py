"""A partition, and the step log, once nothing is under way: a broker acknowledges a commit before every partition has its marker, and until
then a reader sees the partition end before it."""

from __future__ import annotations

import time

from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import StepLogReader
from io_kafka.step_log.state import StepLogState

ANSWER_SECONDS_MAX = 30.0
SETTLED_SECONDS_MAX = 3.0
"""It takes milliseconds; what a killed writer left open stays so for a minute, and is never seen."""


def settled_log(settings: KafkaSettings, topic: str) -> StepLogState:
    """Everything that was committed to a log."""
    settle(settings, topic, 0)
    return StepLogReader(settings, topic).read()


def settle(settings: KafkaSettings, topic: str, partition: int) -> None:
    """Waits until markers have decided everything in a partition, for at most SETTLED_SECONDS_MAX."""
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    where = ClientPartition(topic, partition)

    def end(level: IsolationLevel) -> int:
        asked = admin.list_offsets({where: OffsetSpec.latest()}, isolation_level=level)
        return int(asked[where].result(ANSWER_SECONDS_MAX).offset)

    deadline = time.monotonic() + SETTLED_SECONDS_MAX
    while end(IsolationLevel.READ_COMMITTED) < end(IsolationLevel.READ_UNCOMMITTED) and time.monotonic() < deadline:
        pass
