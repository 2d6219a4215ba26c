"""The function that a Spark task runs for the whole life of a worker.

    connect -> Register, Holds -> wait as a candidate -> Welcome(worker)  -> carry out orders until stopped
                                                      -> Refuse           -> end
                                                      -> Accompany(count) -> start companions, and wait on

The task connects to the coordinator, shows the run's token, and tells which databases its host has. So far it is a *candidate*. When enough
candidates are there, the coordinator decides which worker each of them becomes. The task ends when the worker was stopped, when it is refused,
or when the coordinator is gone.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

from base.standard_streams import forgive_standard_error
from base.term import Term
from engine.resident.addresses import host_towards
from engine.resident.companions import Companions
from engine.resident.fingerprint import fingerprint, own_release
from engine.resident.frames import WIRE_VERSION, Frame
from engine.resident.mesh import WAIT_SECONDS
from engine.resident.messages import Accompany, Holds, Refuse, Register, SocketAddress, Welcome
from engine.resident.progress import WorkerProgress
from engine.resident.pulse import WorkerPulse
from engine.resident.sockets import SocketTransport
from engine.resident.tls import RunCertificate
from engine.resident.transport import Arrived, Connection, Disconnected, Events, Transport
from engine.resident.worker.assignment import WorkerAssignment
from engine.resident.worker.connections import WorkerConnections
from engine.resident.worker.coordinator_link import CoordinatorGone
from engine.resident.worker.worker import Worker
from engine.run.task_setup import TaskSetup
from engine.run.tasks import InputReader
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.settings import KafkaSettings
from storage.host_folder import LOCAL_DIR_VARIABLE, HostFolder
from storage.identity import FoundDatabase, Identity

CONNECT_SECONDS_MAX = 10.0
"""The time for the connection to the coordinator, which listens before it starts a task."""

LOCAL_FOLDER_NAME = "local"
"""The name of the one folder of local mode, which needs no file to be recognised."""

GONE_EXIT_CODE = 17
"""The exit code of a process that ended because its coordinator was gone. It distinguishes this end from others in Spark's log."""


@dataclass(frozen=True)
class Assignment:
    """What a task needs to become a worker. Spark hands it out inside the task's closure, so the token travels on Spark's own channel.
    `silence_s`: after so long without a sign of life the coordinator counts as gone. `looks`: whether the task looks which databases its host
    has. In local mode one task is enough, because all of them see the same folder. `certificate`: the run's, if its connections are encrypted;
    the launcher adds it. `is_companion`: whether another task has started this process (companions.py)."""

    setup: TaskSetup
    term: Term
    coordinator: SocketAddress
    token: str
    silence_s: float
    looks: bool
    certificate: RunCertificate | None = None
    is_companion: bool = False


class OtherWireVersion(Exception):
    """This host has a release of Stepwell whose messages the coordinator cannot read."""


def pack(assignment: Assignment) -> SimpleNamespace:
    """The assignment as Spark hands it out, with the version of the frames that the coordinator reads. A host of any release can unpickle this
    class of the standard library, and so compare the versions. It need not know the classes of the assignment, which are pickled once more."""
    return SimpleNamespace(wire=WIRE_VERSION, assignment=pickle.dumps(assignment))


def resident_task(given: SimpleNamespace, _: Iterable[int]) -> Iterator[int]:
    """The body of the Spark job of a worker, which Spark knows by its name. `given`: what `pack` has made. It keeps its task slot until its
    companions have ended too. Raises OtherWireVersion."""
    if given.wire != WIRE_VERSION:
        raise OtherWireVersion(
            f"host {socket.gethostname()} has Stepwell {own_release()} with wire version {WIRE_VERSION}, and the service has wire version "
            f"{given.wire}"
        )
    assignment: Assignment = pickle.loads(given.assignment)  # from the coordinator, as the closure around it
    companions = Companions(lambda: pickle.dumps(replace(assignment, is_companion=True)))
    live_here(assignment, companions.start)
    companions.wait()
    return iter(())


def live_here(assignment: Assignment, start_companion: Callable[[], None]) -> None:
    """The life of a worker in this process, over real sockets."""
    transport = SocketTransport(host_towards(*assignment.coordinator), assignment.certificate)
    variable = os.environ.get(LOCAL_DIR_VARIABLE)
    folder = assignment.setup.state_location.on_host(None if not variable else Path(variable))
    with closing(transport):
        refusal = live(
            assignment,
            transport,
            make_reader=RangeReader,
            end_process=end_process,
            folder=folder,
            start_companion=start_companion,
        )
    if refusal is not None:
        _say(f"this task was refused: {refusal}")


def live(
    assignment: Assignment,
    transport: Transport,
    *,
    make_reader: Callable[[KafkaSettings], InputReader],
    end_process: Callable[[str], None],
    folder: HostFolder | None,
    start_companion: Callable[[], None],
) -> str | None:
    """Registers, and works until the worker is stopped or refused. Returns the reason if the task was refused. Calls `end_process` if the
    coordinator is gone. `folder`: that of this host; None if nothing names it. `start_companion` starts a process beside this one, with the same
    assignment."""
    outside = assignment.setup.kafka.outside
    events = Events(transport)
    progress = WorkerProgress(outside.thread_clock(), transport)
    try:
        control = transport.connect(assignment.coordinator, CONNECT_SECONDS_MAX)
    except OSError as fault:
        end_process(f"no coordinator answers at {assignment.coordinator}: {fault}")
        return None
    pulse = WorkerPulse(
        control=control,
        term=assignment.term,
        beat=progress.beat,
        silence_s=assignment.silence_s,
        end_process=end_process,
        outside=outside,
    )
    worker: Worker | None = None
    pulse.start()
    try:
        register(assignment, transport, control, folder)
        pulse.is_registered = True
        answer = wait_for_number(events, control, pulse, start_companion)
        if isinstance(answer, Refuse):
            return answer.reason
        assert folder is not None, "a task without a folder became a worker"
        connections = WorkerConnections(transport, events, control)
        worker = Worker(_appoint(assignment, answer, folder), connections, patient_readers(make_reader), progress)
        worker.run()
        pulse.over = True
        flush_until_closed(events, control)
    except CoordinatorGone as gone:
        pulse.over = True
        end_process(str(gone))
    finally:
        pulse.over = True
        if worker is not None:
            worker.close()
    return None


def _appoint(assignment: Assignment, answer: Welcome, folder: HostFolder) -> WorkerAssignment:
    """The assignment of the worker that the coordinator has made of this task."""
    setup = assignment.setup
    return WorkerAssignment(
        setup=setup,
        term=assignment.term,
        token=assignment.token,
        identity=Identity(setup.state_location.pipeline, answer.worker, answer.database),
        birth=answer.birth,
        folder=folder,
    )


def patient_readers(make_reader: Callable[[KafkaSettings], InputReader]) -> Callable[[KafkaSettings], InputReader]:
    """`make_reader`, for readers that wait for every broker. One has answered the coordinator, or there would be no worker: so a worker that is
    started while a broker is away does not take that for settings that are wrong."""

    def make(settings: KafkaSettings) -> InputReader:
        settings.reports().answered()
        return make_reader(settings)

    return make


def register(assignment: Assignment, transport: Transport, control: Connection, folder: HostFolder | None) -> None:
    """Sends the registration, and the databases of the host behind it."""
    outside = assignment.setup.kafka.outside
    name, fault, free_bytes = "", f"neither stepwell.local.dir nor {LOCAL_DIR_VARIABLE} of the executor is set", 0
    databases: tuple[FoundDatabase, ...] = ()
    if folder is not None:
        try:
            name = folder.name(outside.new_id) if assignment.setup.state_location.on_cluster else LOCAL_FOLDER_NAME
            databases = folder.look() if assignment.looks else ()
            free_bytes = folder.free_bytes()
        except OSError as error:
            name, fault = "", f"{folder.root}: {error}"
    registration = Register(
        token=assignment.token,
        host=outside.hostname(),
        pid=outside.pid(),
        address=transport.address,
        fingerprint=fingerprint(),
        release=own_release(),
        folder=str(folder.databases) if folder is not None and name else "",
        folder_name=name,
        folder_fault=None if name else fault,
        free_bytes=free_bytes,
        is_companion=assignment.is_companion,
    )
    control.send(Frame(assignment.term, registration))
    control.send(Frame(assignment.term, Holds(databases=databases)))


def wait_for_number(
    events: Events, control: Connection, pulse: WorkerPulse, start_companion: Callable[[], None]
) -> Welcome | Refuse:
    """The coordinator's answer to the registration: the worker that this process becomes, or why it is refused. Raises CoordinatorGone. The
    pulse bounds the wait."""
    while not pulse.over:
        event = events.next(WAIT_SECONDS)
        if isinstance(event, Disconnected) and event.connection is control:
            raise CoordinatorGone(event.reason)
        if not isinstance(event, Arrived) or event.connection is not control:
            continue  # peers join only when all workers have their numbers
        pulse.has_spoken = True
        match event.frame.message:
            case Welcome() | Refuse() as answer:
                return answer
            case Accompany(count=count):
                for _ in range(count):
                    start_companion()
            case _:
                pass  # a ping
    raise CoordinatorGone("the coordinator gives no sign of life")


def flush_until_closed(events: Events, control: Connection) -> None:
    """Sends what is queued, until the coordinator closes the connection: a socket that is closed too early discards it."""
    while not control.is_gone():
        event = events.next(WAIT_SECONDS)
        if isinstance(event, Disconnected) and event.connection is control:
            return


def end_process(reason: str) -> None:
    _say(f"worker process {os.getpid()} ends: {reason}")
    os._exit(GONE_EXIT_CODE)


def _say(text: str) -> None:
    forgive_standard_error()  # a full disk may not keep the process alive
    print(f"stepwell: {text}", file=sys.stderr, flush=True)
