"""Whether the service lives, and whether it is ready, for whoever starts and watches it.

    GET /livez     200 as long as the service answers; 503 after a fault that ends it
    GET /readyz    200 if it does what it is there for, otherwise 503 with the reasons

Ready means: it has recovered, Kafka answers, and it keeps up, which is that the lag is within the bound or falls. They need no token, because
whoever probes has none, and they reveal nothing of the data.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.measures import Measures, lag_seconds
from coordinator.shown_status import READY_PHASES
from coordinator.status import StatusBoard
from stepwell.service.bodies import JsonAnswer

READY_LAG_SECONDS = 60.0
"""How late a pipeline that keeps up may be by default: a recovery, with its replay, takes less."""


class Probes:
    """The answers to probes of an orchestrator. `lag_s_max`: how old the newest message that was read may be while others wait."""

    def __init__(self, board: StatusBoard, lag_s_max: float) -> None:
        self._board, self._lag_s_max = board, lag_s_max

    @property
    def routes(self) -> list[Route]:
        return [Route("/livez", self._live), Route("/readyz", self._ready)]

    async def _live(self, request: Request) -> Response:
        phase, _ = self._board.of_probes()
        return JsonAnswer({"live": phase != "failed", "phase": phase}, 503 if phase == "failed" else 200)

    async def _ready(self, request: Request) -> Response:
        why = why_not_ready(*self._board.of_probes(), self._board.measures, self._lag_s_max)
        return JsonAnswer({"ready": not why, "why": why}, 503 if why else 200)


def why_not_ready(phase: str, lag: Mapping[str, int], measures: Measures, lag_s_max: float) -> list[str]:
    """Texts for users; none if the service is ready."""
    if phase not in READY_PHASES:
        return [f"the service is at: {phase}"]
    if measures.is_lag_falling:
        return []
    found = lag_seconds(lag, measures.newest_ms, time.time())
    unread = [where for where, messages in lag.items() if messages and where not in found]
    late = [where for where, seconds in found.items() if seconds > lag_s_max]
    why = (
        [f"{len(late)} input partitions are more than {lag_s_max:g} s late, and the lag does not fall"] if late else []
    )
    return why + (
        [f"{len(unread)} input partitions have messages, and none was read yet"] if unread and not late else []
    )
