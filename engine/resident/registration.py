"""How tasks register with the coordinator: from a connection of a stranger to a candidate that can become a worker.

    connection -> stranger -> Register: token, term, fingerprint, folder -> candidate -> Holds -> can be given a number
                  (else it is closed, or refused with a reason)

Guarantees: nobody becomes a candidate who does not know the run's token, belongs to another term, would compute other bytes, or has no folder
for a database. Frames of a candidate of another term are dropped. A candidate whose connection ends is a loss (TaskLost), because its task is
needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from base.logger import Logger
from base.term import Term
from engine.errors import TaskLost
from engine.resident.fingerprint import fingerprint
from engine.resident.frames import Frame
from engine.resident.messages import Beat, Holds, Message, Refuse, Register
from engine.resident.start_faults import NoHostFolder, UnequalWorkers
from engine.resident.strangers import Strangers
from engine.resident.tokens import same_token
from engine.resident.transport import Accepted, Arrived, Connection, Disconnected, Event
from storage.identity import FoundDatabase

_log = Logger("engine.resident.registration")

ENOUGH = "all workers have a task already"
"""The reason for which a task is sent away that is not needed."""


@dataclass(eq=False)
class Candidate:
    """A task that has registered and has no number yet. `serial`: the order of registration. `databases`: what its host holds; None until it
    has told."""

    serial: int
    connection: Connection
    registered: Register
    databases: tuple[FoundDatabase, ...] | None = None

    def __str__(self) -> str:
        return f"process {self.registered.pid} on {self.registered.host}"


class Registration:
    """Takes the events of all connections that belong to no worker."""

    def __init__(self, term: Term, token: str, now: Callable[[], float]) -> None:
        self._term, self._token = term, token
        self._strangers = Strangers(now)
        self._all: list[Candidate] = []
        self._registered = 0
        self._is_over = False

    @property
    def candidates(self) -> list[Candidate]:
        """The candidates that have reported what their hosts hold, in the order of their registration."""
        return [candidate for candidate in self._all if candidate.databases is not None]

    @property
    def connections(self) -> list[Connection]:
        """The connections of all candidates. Any thread may ask for them."""
        return [candidate.connection for candidate in list(self._all)]

    def expire(self) -> None:
        """Closes the connections of strangers that have not shown the token in time."""
        self._strangers.expire()

    def end(self) -> list[Candidate]:
        """From now on every task is refused. Returns the candidates, which belong to the caller now."""
        self._is_over = True
        ended, self._all = self._all, []
        return ended

    def take(self, event: Event) -> None:
        """Raises TaskLost, UnequalWorkers, NoHostFolder."""
        match event:
            case Accepted(connection):
                self._strangers.add(connection)
            case Arrived(connection, frame):
                candidate = self._of(connection)
                if candidate is None:
                    self._register(connection, frame)
                elif frame.term == self._term:
                    self._heard(candidate, frame.message)
            case Disconnected(connection, reason):
                candidate = self._of(connection)
                if not self._strangers.remove(connection) and candidate is not None:
                    raise TaskLost(f"{candidate}, which waits for its number: {reason}")

    def refuse(self, connection: Connection, reason: str) -> None:
        connection.send_now(Frame(self._term, Refuse(reason=reason)))
        connection.close()

    def _of(self, connection: Connection) -> Candidate | None:
        return next((candidate for candidate in self._all if candidate.connection is connection), None)

    def _heard(self, candidate: Candidate, message: Message) -> None:
        match message:
            case Holds(databases=databases) if candidate.databases is None:
                candidate.databases = databases
            case Beat():
                pass  # it counts as soon as the candidate is a worker; until then the deadline of all is enough
            case _:
                raise TaskLost(f"{candidate} has sent {message.kind} and is no worker yet")

    def _register(self, connection: Connection, frame: Frame) -> None:
        message = frame.message
        if not self._strangers.remove(connection):
            return
        if not isinstance(message, Register) or not same_token(message.token, self._token):
            connection.close()  # it does not know the run's token
            return
        refusal = self._refusal(frame.term, message)
        if refusal is not None:
            self.refuse(connection, refusal)
            return
        connection.trust()
        self._all.append(Candidate(self._registered, connection, message))
        self._registered += 1
        _log.info("task registered", pid=message.pid, host=message.host, folder=message.folder, term=str(self._term))

    def _refusal(self, term: Term, message: Register) -> str | None:
        if term != self._term:
            return f"it belongs to term {term}, and this is term {self._term}"
        if self._is_over:
            return ENOUGH
        own = fingerprint()
        if message.fingerprint != own:
            raise UnequalWorkers(message.host, message.fingerprint, own)
        if message.folder_fault is not None:
            raise NoHostFolder(message.host, message.folder_fault)
        return None
