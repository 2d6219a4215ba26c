"""The question whether any broker answers, by a client of its own. It asks for nothing but the brokers of the cluster, for which no right is
needed."""

from __future__ import annotations

from confluent_kafka import KafkaException

from io_kafka.clients.broker_requests import FIRST_ANSWER_SECONDS
from io_kafka.clients.settings import KafkaSettings

ANSWER_SECONDS_MAX = 2.0
"""A broker answers this question within milliseconds, a loaded one within a second."""


class BrokerProbe:
    """It must not be used by two threads at once."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._reports = settings.reports()
        self._admin = settings.outside.admin({**settings.admin_config(), "error_cb": self._reports.note})

    def refuse_if_lasting(self) -> None:
        """Raises CannotConnect if no broker answers in FIRST_ANSWER_SECONDS and none will. A broker that may come is nobody's concern here."""
        if self.ask(FIRST_ANSWER_SECONDS) is not None and (refusal := self._reports.refusal()) is not None:
            raise refusal

    def ask(self, seconds: float = ANSWER_SECONDS_MAX) -> str | None:
        """Why no broker answers within this time; None if one does."""
        try:
            self._admin.describe_cluster(request_timeout=seconds).result()
        except KafkaException as error:
            self._admin.poll(0)
            return self._reports.reason or error.args[0].str()
        self._admin.poll(0)
        self._reports.answered()
        return None
