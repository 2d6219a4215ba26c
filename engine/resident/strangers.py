"""Connections whose other end has not shown the token of the run yet.

Guarantee: there are at most COUNT_MAX of them, and none is older than SECONDS_MAX. So whoever can reach the listener cannot fill this process
with connections.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.resident.transport import Connection

COUNT_MAX = 2048
"""Twice the largest number of workers, which may all connect at once."""

SECONDS_MAX = 10.0
"""From the connection to the token, which is sent at once."""


class Strangers:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: dict[Connection, float] = {}

    def add(self, connection: Connection) -> None:
        """Closes the oldest stranger if there are too many."""
        self.expire()
        if len(self._since) >= COUNT_MAX:
            self._close(next(iter(self._since)))
        self._since[connection] = self._now()

    def remove(self, connection: Connection) -> bool:
        """Returns whether it was one."""
        return self._since.pop(connection, None) is not None

    def expire(self) -> None:
        """Closes those that have not shown the token in time."""
        latest = self._now() - SECONDS_MAX
        for connection in [connection for connection, since in self._since.items() if since < latest]:
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        del self._since[connection]
        connection.close()
