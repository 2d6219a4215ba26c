"""A service whose loop is played by a test: the real endpoint and the real status, and answers of the test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from base.fault import Fault
from coordinator.inbox import PendingRequest
from coordinator.requests import Requests
from coordinator.revisions.requests import RevisionRequest
from coordinator.specification import PipelineSpec
from coordinator.status import StatusBoard
from engine.model.layout import DynamicShards, FixedShards
from stepwell.service.last_run import write_last_run
from stepwell.service.server import ControlServer
from tests.stepwell.unasked import unasked

LOOK_SECONDS = 0.01


class PlayedLoop:
    """`answer` is called for each request that concerns the revision, and its result is refused or, if None, accepted."""

    def __init__(
        self,
        folder: Path,
        answer: Callable[[PlayedLoop, Any], Fault | None],
        plan_files: Callable[[], PipelineSpec],
    ) -> None:
        self.requests, self.board, self.seen = Requests(), StatusBoard("test"), list[RevisionRequest]()
        policies = {"fixed": FixedShards(8), "dynamic": DynamicShards(0.5)}
        self.server = ControlServer(self.requests, self.board, 0, policies, plan_files=plan_files, answer_query=unasked)
        self._folder, self._answer, self._over = folder, answer, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._later: list[threading.Timer] = []
        self.board.update(revision=4, phase="run")

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, what)
        self._later.append(timer)
        timer.start()

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            for asked in self.requests.revision.take():
                self._settle(asked)

    def _settle(self, asked: PendingRequest[RevisionRequest]) -> None:
        self.seen.append(asked.request)
        asked.answer(self._answer(self, asked.request))

    def start(self) -> None:
        self._thread.start()
        self.server.start()
        self.server.endpoint.write(self._folder)

    def fail(self, error: str) -> None:
        """As a service that ends by itself."""
        self.board.update(phase="failed", error=error)
        write_last_run(self._folder, self.board.show())
        self.server.endpoint.remove(self._folder)

    def end(self) -> None:
        for timer in self._later:
            timer.join()
        self._over.set()
        self._thread.join()
        self.server.endpoint.remove(self._folder)
        self.server.close()
