"""The function that a Spark task runs for the whole life of a worker.

The task connects to the coordinator, shows the run's token, and becomes the worker that the coordinator names. It ends when the worker was
stopped, when it is refused, or when the coordinator is gone.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

from base.term import Term
from engine.resident.fingerprint import fingerprint
from engine.resident.frames import Frame
from engine.resident.mesh import WAIT_SECONDS
from engine.resident.messages import Address, Refuse, Register, Welcome
from engine.resident.pulse import WorkerPulse
from engine.resident.sockets import SocketTransport
from engine.resident.transport import Arrived, Connection, Ended, Events, Transport
from engine.resident.worker import CoordinatorGone, Worker
from engine.run.tasks import Reader, TaskSetup
from io_kafka.clients.reader import RangeReader

CONNECT_SECONDS_MAX = 10.0
"""For the connection to the coordinator, which listens before it starts a task."""

REGISTER_SECONDS_MAX = 60.0
"""For the answer to a registration. The coordinator answers within milliseconds unless the machine is overloaded."""

GONE_EXIT_CODE = 17
"""Of a process that ended because its coordinator was gone. It distinguishes this end from others in Spark's log."""


@dataclass(frozen=True)
class Assignment:
    """What a task needs to become a worker. Spark hands it out inside the task's closure, so the token travels on Spark's own channel.
    `silence_s`: after so long without a sign of life the coordinator counts as gone."""

    setup: TaskSetup
    term: Term
    coordinator: Address
    token: str
    silence_s: float


def resident_task(assignment: Assignment, _: Iterable[int]) -> Iterator[int]:
    """The body of the Spark job of a worker."""
    transport = SocketTransport(_host_towards(assignment.coordinator))
    with closing(transport):
        live(assignment, transport, lambda: RangeReader(assignment.setup.kafka), end_process)
    return iter(())


def live(
    assignment: Assignment,
    transport: Transport,
    make_reader: Callable[[], Reader],
    end_process: Callable[[str], None],
) -> None:
    """Registers, and works until the worker is stopped or refused. Calls `end_process` if the coordinator is gone."""
    outside = assignment.setup.kafka.outside
    events = Events(transport)
    try:
        control = transport.connect(assignment.coordinator, CONNECT_SECONDS_MAX)
        number = register(assignment, transport, events, control)
    except (OSError, CoordinatorGone) as fault:
        end_process(f"no coordinator answers at {assignment.coordinator}: {fault}")
        return
    if number is None:
        return
    worker = Worker(
        assignment.setup, number, assignment.term, assignment.token, transport, events, control, make_reader, outside
    )
    pulse = WorkerPulse(control, assignment.term, worker.progress.beat, assignment.silence_s, end_process, outside)
    pulse.start()
    try:
        worker.run()
        pulse.over = True
        linger(events, control)
    except CoordinatorGone as gone:
        pulse.over = True
        end_process(str(gone))
    finally:
        pulse.over = True
        worker.close()


def register(assignment: Assignment, transport: Transport, events: Events, control: Connection) -> int | None:
    """The number of the worker that this process is; None if it was refused. Raises CoordinatorGone."""
    outside = assignment.setup.kafka.outside
    message = Register(
        token=assignment.token,
        host=outside.hostname(),
        pid=outside.pid(),
        address=transport.address,
        fingerprint=fingerprint(),
    )
    control.send(Frame(assignment.term, message))
    deadline = outside.monotonic() + REGISTER_SECONDS_MAX
    while (left := deadline - outside.monotonic()) > 0:
        match events.next(left):
            case Arrived(connection, Frame(_, Welcome(worker=worker))) if connection is control:
                return worker
            case Arrived(connection, Frame(_, Refuse(reason=reason))) if connection is control:
                print(f"stepwell: this task was refused: {reason}", file=sys.stderr)
                return None
            case Ended(connection, reason) if connection is control:
                raise CoordinatorGone(reason)
            case _:
                pass  # a ping; peers join only when all workers are registered
    raise CoordinatorGone(f"no answer within {REGISTER_SECONDS_MAX:g} s")


def linger(events: Events, control: Connection) -> None:
    """Sends what is queued, until the coordinator closes the connection: a socket that is closed too early discards it."""
    while not control.is_gone():
        event = events.next(WAIT_SECONDS)
        if isinstance(event, Ended) and event.connection is control:
            return


def end_process(reason: str) -> None:
    print(f"stepwell: worker process {os.getpid()} ends: {reason}", file=sys.stderr, flush=True)
    os._exit(GONE_EXIT_CODE)


def _host_towards(coordinator: Address) -> str:
    """The address of this host on the route to the coordinator. On one machine it is loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((coordinator.host, coordinator.port or 1))
        return str(probe.getsockname()[0])
