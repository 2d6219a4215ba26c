"""What runs in the background of a worker: a thread for each order that derives from `BackgroundOrder`, such as a fold or a read of views."""

from __future__ import annotations

from engine.resident.frames import Buffer
from engine.resident.messages import Answer
from engine.resident.worker.coordinator_link import CoordinatorLink
from engine.resident.worker.handlers import Job
from io_kafka.outside import Outside, Thread


class BackgroundThreads:
    """The threads of one worker. Its own thread begins them."""

    def __init__(self, control: CoordinatorLink, outside: Outside) -> None:
        self._control, self._outside = control, outside
        self._threads: list[Thread] = []

    def begin(self, kind: str, job: Job[Answer]) -> None:
        """Begins to carry out an order of this kind."""
        self._threads.append(self._outside.start_thread(kind, lambda: self._run(kind, job)))

    def is_busy(self) -> bool:
        """Whether something that was begun still runs."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        return bool(self._threads)

    def _run(self, kind: str, job: Job[Answer]) -> None:
        """Runs in a thread of its own. Every fault is an answer."""
        answer: Answer
        buffers: tuple[Buffer, ...] = ()
        try:
            self._outside.lower_priority()
            answer, buffers = job()
        except Exception as error:
            answer = self._control.failure(kind, error)
        self._control.answer_now(answer, buffers)
