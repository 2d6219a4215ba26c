"""Requests to the broker, which are repeated while the broker is not ready.

Guarantee: a question takes `timeout_s` at most, however many requests it needs. All of them are made in one loop, which has one deadline.

A client sends to the leader, or to the controller, that it knows. If that broker is dead, the client waits for it and does not look for its
successor. So a request is given up after a while, and sent again by a new client, which learns who leads now. Each new client gets twice the
time of the last one, because the broker may only be slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from io_kafka.clients.client_faults import NO_ANSWER, OLD_EPOCH, fault_of
from io_kafka.clients.settings import KafkaSettings
from io_kafka.errors import BrokerUnreachable, KafkaFault, NoLeader

REQUEST_SECONDS_MAX = 30.0
"""The time for one question to the broker, long enough for its restart. After that the operator should know."""

AWAY_SECONDS_MAX = 120.0
"""The time for each question of a run, also for those beside its steps. A run waits as long for a broker that does not answer as its writer does
(`WriterLimits`): a host restarts in that time. Then the run ends, and what has started it decides."""

ANSWER_SECONDS_MIN = 2.0
"""How long a request of the first client may take."""

FIRST_ANSWER_SECONDS = 1.0
"""How long a request of the first client may take before any broker has answered. A client knows after a third of a second why a login fails,
and it is not asked earlier."""

PASSING_SECONDS = 0.1
"""The pause before a request is repeated because the broker was not ready; it is ready within milliseconds."""

_S = TypeVar("_S")
_T = TypeVar("_T")

Request = Callable[[AdminClient, float], Mapping[Any, Future[Any]]]
"""Sends a request, which may take these seconds. Returns a future for each thing that it is about."""


@dataclass(frozen=True)
class Attempt:
    """One attempt to answer a question, with one client. Its requests are not repeated."""

    settings: KafkaSettings
    admin: AdminClient
    doing: str
    """It completes the sentence "while ..."."""
    patience_s: float
    """How long each request may take."""
    deadline: float
    """When the question must be answered, on the clock of the settings."""

    @property
    def seconds(self) -> float:
        """How long a request may take that is sent now."""
        left_s = self.deadline - self.settings.outside.monotonic()
        return min(self.patience_s, max(left_s, PASSING_SECONDS))

    def ask(self, request: Request, name_of: Callable[[Any], _S]) -> dict[_S, Any]:
        """Sends a request and waits for all its answers. Errors of a topic become faults of io_kafka/errors.py. Raises KafkaFault and
        KafkaException."""
        answers = request(self.admin, self.seconds)
        return {name_of(key): self._result(future, key) for key, future in answers.items()}

    def _result(self, future: Future[Any], key: Any) -> Any:
        try:
            return future.result()
        except KafkaException as error:
            servers = self.settings.bootstrap_servers
            if isinstance(key, ClientPartition):
                raise fault_of(error, servers, self.doing, key.topic, key.partition) from error
            name = key.name if isinstance(key, ConfigResource) else str(key)
            raise fault_of(error, servers, self.doing, name) from error


class BrokerRequests:
    """Asks with one client after the other. It must not be used in a forked process, and not by two threads at once."""

    def __init__(self, settings: KafkaSettings, *, timeout_s: float = REQUEST_SECONDS_MAX) -> None:
        self._settings, self._timeout_s = settings, timeout_s
        self.reports = settings.reports()
        self.admin = self.new_admin()

    def new_admin(self) -> AdminClient:
        """A client whose reports are collected here."""
        return self._settings.outside.admin({**self._settings.admin_config(), "error_cb": self.reports.note})

    def ask(self, doing: str, request: Request, name_of: Callable[[Any], _S]) -> dict[_S, Any]:
        """The answers to one request, by the name of what each is about. See `repeat`."""
        return self.repeat(doing, lambda attempt: attempt.ask(request, name_of))

    def repeat(
        self, doing: str, answer: Callable[[Attempt], _T], may_pass: Callable[[Exception], bool] | None = None
    ) -> _T:
        """Tries `answer` until it succeeds, for at most `timeout_s`, as long as its error is transient, or `may_pass` holds for it. A client
        that has not brought success within its time is replaced. Errors of the client become faults of io_kafka/errors.py. Raises CannotConnect
        at once if no broker has ever answered and none will."""
        outside = self._settings.outside
        began = client_began = outside.monotonic()
        deadline = began + self._timeout_s
        patience_s = ANSWER_SECONDS_MIN if self.reports.has_answered else FIRST_ANSWER_SECONDS
        while True:
            left_s = deadline - outside.monotonic()
            try:
                found = answer(Attempt(self._settings, self.admin, doing, patience_s, deadline))
            except (KafkaFault, KafkaException) as error:
                self.admin.poll(0)  # serves the callback with the reasons
                code = _code_of(error)
                if code in NO_ANSWER and (refusal := self.reports.refusal()) is not None:
                    raise refusal from error
                is_passing = _is_transient(error) or (may_pass is not None and may_pass(error))
                if not is_passing or left_s <= PASSING_SECONDS:
                    raise self._fault(error, doing) from (
                        error if isinstance(error, KafkaException) else error.__cause__
                    )
                if code in OLD_EPOCH:
                    self.admin = self.new_admin()  # a client with an outdated leader epoch sends it in every request
            else:
                self.admin.poll(0)
                self.reports.answered()
                return found
            outside.sleep(PASSING_SECONDS)
            if outside.monotonic() - client_began >= patience_s:
                self.admin, client_began, patience_s = self.new_admin(), outside.monotonic(), 2 * patience_s

    def _fault(self, error: KafkaFault | KafkaException, doing: str) -> KafkaFault:
        fault = error if isinstance(error, KafkaFault) else fault_of(error, self._settings.bootstrap_servers, doing)
        return self.reports.explain(fault) if isinstance(fault, BrokerUnreachable) else fault


def has_no_leader(error: Exception) -> bool:
    return isinstance(error, NoLeader)


def _is_transient(error: Exception) -> bool:
    """Whether the error is that of a broker that is up and not ready yet, or that of a broker for which another one may answer soon."""
    return _code_of(error) in (
        *OLD_EPOCH, *NO_ANSWER, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_CONTROLLER,
    )  # fmt: skip


def _code_of(error: Exception) -> int | None:
    """The client's code of an error, or of the error that a fault stands for; None if there is none."""
    cause = error.__cause__ if isinstance(error, KafkaFault) else error
    return int(cause.args[0].code()) if isinstance(cause, KafkaException) else None
