"""The readers of Kafka that a worker has: one for its steps, and one for what a transition reads again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from engine.run.tasks import InputReader
from io_kafka.clients.settings import KafkaSettings

MakeReader: TypeAlias = Callable[[KafkaSettings], InputReader]


class WorkerReaders:
    """The readers of one worker: one for the steps, and one for what is read again. `make`: makes a reader with these settings. `present`:
    the reader of the steps. `settings`: its settings."""

    def __init__(self, make: MakeReader, settings: KafkaSettings) -> None:
        self.make, self.settings, self.present = make, settings, make(settings)
        self._again: tuple[KafkaSettings, InputReader] | None = None

    def again(self, settings: KafkaSettings) -> InputReader:
        """The reader of what is read again, which is made when it is asked for."""
        if self._again is None or self._again[0] != settings:
            self._close_again()
            self._again = settings, self.make(settings)
        return self._again[1]

    def follow(self, settings: KafkaSettings) -> None:
        """Another program is run. It reads nothing again, or something else."""
        if settings != self.settings:
            self.present.close()
            self.settings, self.present = settings, self.make(settings)
        self._close_again()

    def close(self) -> None:
        self.present.close()
        self._close_again()

    def _close_again(self) -> None:
        if self._again is not None:
            self._again[1].close()
            self._again = None
