"""HTTP for an address that anyone may reach: connections are bounded, in number and in time.

Guarantees: at most CONNECTIONS_MAX connections are open, and one more is accepted while the oldest that waits for its client is closed. So
whoever opens connections and says nothing takes no other client's place for longer than a moment, and a probe always gets in. Each request,
and each answer, has a deadline. uvicorn has a bound for requests only, beyond which it answers 503, and no deadline for a first request.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS_MAX = 64
"""At once. Prometheus has one, and each probe one for a moment; whoever else reaches the address must not fill the service's memory."""

REQUEST_SECONDS_MAX = 5.0
"""From the connection, or the last answer, to the end of a request. A client sends one at once; uvicorn keeps an idle connection as long."""

ANSWER_SECONDS_MAX = 30.0
"""From the end of a request to the end of its answer, which the client must read. Prometheus waits 10 s by default."""


class BoundedProtocol(H11Protocol):
    """One connection. All of them live in the server's loop, so nothing here needs a lock."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._since, self._is_answering = 0.0, False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request()
        others = [each for each in self.connections if isinstance(each, BoundedProtocol) and each is not self]
        if len(others) >= CONNECTIONS_MAX:
            min(others, key=lambda each: (each._is_answering, each._since)).end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_deadline(None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        cycle = self.cycle
        if not self._is_answering and cycle is not None and not cycle.more_body and not cycle.response_complete:
            self._is_answering = True
            self._set_deadline(ANSWER_SECONDS_MAX)

    def on_response_complete(self) -> None:
        self._await_request()  # before the call, which goes on with a request that has come meanwhile
        super().on_response_complete()

    def end(self) -> None:
        """Closes the connection at once, without what its client has not read."""
        self.connections.discard(self)
        self.transport.abort()

    def _await_request(self) -> None:
        self._is_answering, self._since = False, time.monotonic()
        self._set_deadline(REQUEST_SECONDS_MAX)

    def _set_deadline(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.end)
