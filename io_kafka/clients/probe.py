"""The question whether any broker answers, by a client of its own. It asks for nothing but the brokers of the cluster, for which no right is
needed."""

from __future__ import annotations

from confluent_kafka import KafkaException

from io_kafka.clients.settings import KafkaSettings

ANSWER_SECONDS_MAX = 2.0
"""A broker answers this question within milliseconds, a loaded one within a second."""


class BrokerProbe:
    """It must not be used by two threads at once."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._reports = settings.reports()
        self._admin = settings.outside.admin({**settings.admin_config(), "error_cb": self._reports.note})

    def ask(self) -> str | None:
        """Why no broker answers; None if one does."""
        try:
            self._admin.describe_cluster(request_timeout=ANSWER_SECONDS_MAX).result()
        except KafkaException as error:
            self._admin.poll(0)
            return self._reports.reason or error.args[0].str()
        self._admin.poll(0)
        self._reports.answered()
        return None
