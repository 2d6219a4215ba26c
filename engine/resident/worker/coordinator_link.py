"""A worker's connection to the coordinator: orders come over it, and answers go.

Guarantee: orders are handed out in the order in which they came. Frames of another term are dropped.
"""

from __future__ import annotations

from collections import deque

from base.term import Term
from engine.resident import faults
from engine.resident.frames import Buffer, Frame
from engine.resident.messages import Failed, Message, Ping, WireFault
from engine.resident.transport import Arrived, Connection, Disconnected, Event


class CoordinatorGone(Exception):
    """The connection to the coordinator has ended, so nobody needs this worker."""


class CoordinatorLink:
    """The connection of worker `worker`."""

    def __init__(self, connection: Connection, term: Term, worker: int) -> None:
        self.connection, self._term, self._worker = connection, term, worker
        self._orders: deque[Message] = deque()

    def take(self, event: Event) -> None:
        """Takes an event that belongs to no peer. Raises CoordinatorGone."""
        if isinstance(event, Disconnected) and event.connection is self.connection:
            raise CoordinatorGone(event.reason)
        match event:
            case Arrived(connection, Frame(term, message)) if connection is self.connection and term == self._term:
                if not isinstance(message, Ping):
                    self._orders.append(message)

    @property
    def has_order(self) -> bool:
        return bool(self._orders)

    def next_order(self) -> Message:
        """The first order that is waiting. There is one."""
        return self._orders.popleft()

    def answer(self, message: Message, buffers: tuple[Buffer, ...] = ()) -> None:
        self.connection.send(Frame(self._term, message, buffers))

    def answer_now(self, message: Message, buffers: tuple[Buffer, ...] = ()) -> None:
        """Sends an answer, from any thread."""
        self.connection.send_now(Frame(self._term, message, buffers))

    def failure(self, doing: str, error: Exception) -> Failed:
        """The answer that tells of an error. `doing`: the kind of the order, or what the worker did without one."""
        return Failed(doing=doing, fault=self.wire_fault(error))

    def wire_fault(self, error: Exception) -> WireFault:
        return faults.to_wire(faults.lost_without_memory(error, self._worker) or error)
