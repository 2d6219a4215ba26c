"""Looks every few seconds whether a broker answers, and says so on the status board and in the log: once when none does, and once when one does
again.

The coordinator waits for Kafka within its clients, and its workers wait in theirs, so none of them can say that all of them wait. A request that
nobody needs can: it asks for nothing but the brokers of the cluster. It runs in a thread of its own, which decides nothing.

    up ---- no answer in ANSWER_SECONDS_MAX ----> away: phase "waiting for Kafka", rates 0, lag stale
     ^                                             |
     +----------------- an answer -----------------+
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from base.logger import Logger
from coordinator.status import StatusBoard
from io_kafka.clients.probe import ANSWER_SECONDS_MAX, BrokerProbe
from io_kafka.clients.settings import KafkaSettings

_log = Logger("stepwell.service.kafka_watch")

LOOK_SECONDS = 1.5
"""Between two questions. With ANSWER_SECONDS_MAX it makes less than five seconds, within which a loss has to be seen."""


class KafkaWatch:
    """The states and what is said of them. `ask` returns why no broker answers; None if one does."""

    def __init__(self, ask: Callable[[], str | None], board: StatusBoard) -> None:
        self._ask, self._board = ask, board
        self._away_since: float | None = None

    def look(self) -> None:
        asked_at, reason = time.time(), self._ask()
        if reason is not None and self._away_since is None:
            self._away_since = asked_at
            _log.warning("no Kafka broker answers; waiting for one", reason=reason)
        if reason is not None and self._away_since is not None:
            self._board.kafka_is_away(self._away_since, reason)
        elif self._away_since is not None:
            _log.warning("Kafka answers again", away_s=round(time.time() - self._away_since, 1))
            self._away_since = None
            self._board.kafka_is_back()


@contextmanager
def kafka_watched(settings: KafkaSettings, board: StatusBoard) -> Iterator[None]:
    """Watches while the body runs."""
    watch, ended = KafkaWatch(BrokerProbe(settings).ask, board), threading.Event()

    def run() -> None:
        while not ended.wait(LOOK_SECONDS):
            watch.look()

    thread = threading.Thread(target=run, name="watch of Kafka", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(2 * ANSWER_SECONDS_MAX)
