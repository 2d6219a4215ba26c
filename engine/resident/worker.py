"""One worker: carries out the coordinator's orders one after the other, and answers each.

    bound -> [Remove, Create] -> Fence -> Open(version) -> [Enter(step)] -> Join(members) -> RunStep | Freeze | Fold | Pause | Resume ...
    -> Stop(step) | Leave

Orders are carried out in the order in which they arrive, by one thread. A fold runs beside them in a thread of its own. So do a read of
views, weighing (slots.py) and copying (copies.py). Another thread sends heartbeats (pulse.py). The worker ends when it was stopped, when its
coordinator is gone, or after an exception that is no Fault, because its state is then unknown. It never decides anything else by itself.

A worker belongs to one term. After a fault that the run recovers from, the coordinator starts new workers instead of going on with this one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import structlog

from base.fault import Fault
from base.slots import NO_SLOTS
from base.term import Term
from base.version import VersionId
from engine.analysis.withholding import withholding_of
from engine.errors import StaleTask
from engine.model.placement import Placement
from engine.resident import faults
from engine.resident.copies import SlotCopier
from engine.resident.frames import Buffer, Frame
from engine.resident.mesh import WAIT_SECONDS, Mesh
from engine.resident.messages import (
    Beat,
    Contents,
    Copies,
    Copy,
    Create,
    Created,
    Enter,
    Entered,
    Failed,
    Fence,
    Fenced,
    Fold,
    Folded,
    Freeze,
    Frozen,
    GiveSlots,
    Hurry,
    Join,
    Joined,
    Leave,
    Left,
    Message,
    Open,
    Opened,
    Pause,
    Paused,
    Ping,
    Place,
    Read,
    Released,
    ReleaseSlots,
    Remove,
    Removed,
    Resume,
    Resumed,
    RunStep,
    Staged,
    StepDone,
    Stop,
    Stopped,
    TakeSlots,
    Unstage,
    Unstaged,
    Weigh,
    Weighed,
    WireFault,
)
from engine.resident.messages import (
    StepAbandoned as Abandoned,
)
from engine.resident.slots import SlotMover
from engine.resident.states import Life, State
from engine.resident.transport import Arrived, Connection, Ended, Event, Events, Transport
from engine.run.contents import read_views
from engine.run.exchange import to_buffer
from engine.run.sources import DEAD_LETTER_SCHEMA
from engine.run.tasks import Reader, StepAbandoned, StepInput, StepOutcome, StepTask, TaskSetup
from storage.database import Database
from storage.errors import DatabaseExists
from storage.host_folder import HostFolder
from storage.identity import Identity

_log = structlog.get_logger("engine.resident.worker")

LOOKS_AT_FOLDS = (2, 3)
"""After these folds since its database was opened, or since slots have left, a worker looks whether the file is to be compacted. Folds during a
change of the layout do not count. In the first one what has left comes into the undo log. After the last one, free pages are those that a fold
needs."""


BETWEEN_ORDERS = "wait"
"""What a worker says it was doing if a fault came while it had no order."""


class CoordinatorGone(Exception):
    """The connection to the coordinator has ended, so nobody needs this worker."""


@dataclass
class Progress:
    """What the heartbeat reports. The worker's thread writes it, and the thread of the heartbeat reads it."""

    cpu_s: Callable[[], float]
    """What the worker's thread has used."""
    transport: Transport
    step: int = -1
    stage: int = -1
    waiting: bool = True

    def beat(self) -> Beat:
        return Beat(
            step=self.step,
            stage=self.stage,
            cpu_ms=int(1e3 * self.cpu_s()),
            bytes_moved=self.transport.bytes_moved,
            waiting=self.waiting,
        )


class Worker:
    """`control`: the connection to the coordinator, which has made this process the worker of this identity. `folder`: that of the host, with
    the databases of all its workers. `make_reader` makes the worker's reader of Kafka."""

    def __init__(
        self,
        setup: TaskSetup,
        identity: Identity,
        birth: str,
        folder: HostFolder,
        term: Term,
        token: str,
        transport: Transport,
        events: Events,
        control: Connection,
        make_reader: Callable[[], Reader],
        progress: Progress,
    ) -> None:
        self._setup, self._identity, self._number, self._term = setup, identity, identity.worker, term
        self._host_folder, self._folder = folder, folder.of_worker(identity.worker, birth)
        self._birth = birth
        self._placement: Placement | None = None
        self._events, self._control, self._outside = events, control, setup.kafka.outside
        now = self._outside.monotonic
        self._mesh = Mesh(transport, events, term, token, setup.plan, self._take, now, self._take_copies)
        self._reader = make_reader()
        self._copier = SlotCopier(
            self._mesh, identity.worker, self._outside, self._answer, self._answer_now, self._wire_fault
        )
        self._slots = SlotMover(self._mesh, identity.worker, self._copier)
        self._orders: deque[Message] = deque()
        self._database: Database | None = None
        self._folds = 0  # that were begun since the database was opened, or slots have left it, and in which the file may be rewritten
        self._is_hurried = False  # whether the coordinator waits for the fold
        self.life = Life()
        self.progress = progress

    def run(self) -> None:
        """Returns after a stop. Raises CoordinatorGone."""
        while self.life.state is not State.STOPPED:
            try:
                order = self._next_order()
            except Fault as fault:  # a peer has sent what cannot be right
                self._answer(Failed(doing=BETWEEN_ORDERS, fault=self._wire_fault(fault)))
            else:
                self._carry_out(order)

    def close(self) -> None:
        """Frees what outlives the worker in its process, which Spark may use for another task."""
        self._reader.close()
        Database.close(self._folder)
        self._outside.release_memory()

    def _next_order(self) -> Message:
        while not self._orders:
            self.progress.waiting = True
            event = self._events.next(WAIT_SECONDS)
            if event is not None and not self._mesh.take(event):
                self._take(event)
        self.progress.waiting = False
        return self._orders.popleft()

    def _take(self, event: Event) -> None:
        """An event that belongs to no peer."""
        if isinstance(event, Ended) and event.connection is self._control:
            raise CoordinatorGone(event.reason)
        match event:
            case Arrived(connection, Frame(term, message)) if connection is self._control and term == self._term:
                if not isinstance(message, Ping):
                    self._orders.append(message)

    def _take_copies(self, peer: int, message: Copies | Staged, buffers: tuple[Buffer, ...]) -> None:
        self._copier.take(peer, message, buffers, lambda: self._open_database)

    def _answer(self, message: Message, buffers: tuple[Buffer, ...] = ()) -> None:
        self._control.send(Frame(self._term, message, buffers))

    def _answer_now(self, message: Message, buffers: tuple[Buffer, ...] = ()) -> None:
        """From any thread."""
        self._control.send_now(Frame(self._term, message, buffers))

    def _carry_out(self, order: Message) -> None:
        try:
            self._do(order)
        except CoordinatorGone:
            raise
        except Exception as error:
            self._answer(Failed(doing=order.kind, fault=self._wire_fault(error)))
            if not isinstance(error, Fault):
                raise  # a mistake of ours: the state of this process is unknown

    def _wire_fault(self, error: Exception) -> WireFault:
        return faults.to_wire(faults.lost_without_memory(error, self._number) or error)

    def _do(self, order: Message) -> None:
        match order:
            case RunStep():
                self._step(order)
            case Remove(databases=databases):
                self._answer(Removed(workers=self._remove(databases)))
            case Create(new=new):
                # A worker of an older run may have been faster; the fence tells whose database it is.
                with suppress(DatabaseExists):
                    Database.create(self._folder, self._identity, self._term.number, new.owned, new.base)
                self._answer(Created())
            case Fence():
                found = Database.fence(self._folder, epoch=self._term.number, identity=self._identity)
                self._answer(Fenced(versions=found.versions, number=found.number))
            case Open(version=version, fenced=fenced):
                self._database = Database.open(
                    self._folder, version, epoch=self._term.number, identity=self._identity, fenced=fenced
                )
                self._copier.discard(self._database)
                self._folds = 0
                self.life.start(version.step)
                self._outside.settle_memory()
                self._answer(self._opened(self._database, version))
            case Enter(step=step):
                self.life.enter(step)
                with self._open_database.transaction() as transaction:
                    transaction.set_step(step)
                self._answer(Entered(step=step))
            case Join(members=members, placement=placement):
                self._mesh.join(self._number, members)
                self._placement = placement
                self._answer(Joined())
            case Place(placement=placement):
                self._placement = placement
            case Weigh():
                self._outside.start_thread("weigh", lambda: self._weigh(order))
            case Copy():
                self._copier.copy(order, self._open_database)
            case Unstage():
                self._copier.discard(self._open_database)
                self._answer(Unstaged())
            case GiveSlots():
                self._answer(self._slots.give(order, self._open_database))
            case TakeSlots():
                self._answer(self._slots.take(order, self._open_database))
            case ReleaseSlots():
                self._slots.release(order, self._open_database)
                self._folds = 0
                self._answer(Released())
            case Leave():
                self._leave()
            case Freeze(version=version):
                assert self.life.at_boundary and version.step == self.life.step, f"{order} before step {self.life.step}"
                self._freeze(order)
                self._answer(Frozen(version=version))
            case Fold(may_rewrite=may_rewrite):
                self._folds += may_rewrite
                self._is_hurried = False
                looks = may_rewrite and self._folds in LOOKS_AT_FOLDS
                self._outside.start_thread("fold", lambda: self._fold(looks=looks))
            case Hurry():
                self._is_hurried = True
            case Read():
                self._outside.start_thread("read", lambda: self._read(order))
            case Pause():
                self._answer(Paused(step=self.life.pause()))
            case Resume():
                self._answer(Resumed(step=self.life.resume()))
            case Stop(step=step):
                self.life.stop(step)
                self._answer_if_stopped()
            case _:
                raise AssertionError(f"worker {self._number} got {order.kind}, which is no order")

    def _opened(self, database: Database, version: VersionId) -> Opened:
        with database.read() as state:
            owned = state.get_owned()
        state_bytes = sum(database.statistics().table_bytes.values())
        return Opened(
            step=version.step, owned=owned, state_bytes=state_bytes, free_bytes=self._host_folder.free_bytes()
        )

    def _remove(self, databases: tuple[tuple[int, str, Identity | None], ...]) -> tuple[int, ...]:
        self._host_folder.finish_removals()
        return tuple(found[0] for found in databases if self._host_folder.remove(*found))

    def _leave(self) -> None:
        with self._open_database.read() as state:
            assert state.get_owned() == NO_SLOTS, f"worker {self._number} is to leave and owns {state.get_owned()}"
        self._database = None
        Database.close(self._folder)
        self._host_folder.remove(self._number, self._birth, self._identity)
        self.life.stop(self.life.step)
        self._answer(Left())

    @property
    def _open_database(self) -> Database:
        assert self._database is not None, "the database is not open"
        return self._database

    def _step(self, order: RunStep) -> None:
        if self._setup.plan.stages == 1 and order.step == self.life.step - 1:
            # A circuit of one stage waits for no peer. So this worker may have finished a step that was too large for another one, and is to be
            # run again.
            self.life.repeat_step(order.step)
        self.life.begin_step(order.step)
        self._mesh.begin_step(order.serial)
        placement = self._placement
        if placement is None or placement.number != order.placement:
            raise StaleTask(
                f"worker {self._number} has placement {placement and placement.number}, and step {order.step} has {order.placement}; "
                "nothing was changed."
            )
        withholding = withholding_of(self._setup.plan.circuit, order.counted, order.released)
        given = StepInput(order.step, order.ranges, order.on_error, order.grown, order.bytes_max, withholding)
        task = StepTask(self._setup, placement, given, self._number, _Watched(self._mesh, self.progress))
        self.progress.step, self.progress.stage = order.step, 0
        try:
            outcome = task.run(self._reader, self._open_database)
        except StepAbandoned:
            self._answer(Abandoned(step=order.step))
            return
        self.life.end_step()
        self._answer(*_done(order.step, outcome))
        self._answer_if_stopped()

    def _answer_if_stopped(self) -> None:
        if self.life.state is State.STOPPED:
            self._answer(Stopped(step=self.life.step))

    def _freeze(self, order: Freeze) -> None:
        database = self._open_database
        with database.transaction() as transaction:
            if self._setup.plan.stages == 1:
                transaction.set_step(order.version.step)  # a circuit without state has no stage that stores it
            elif (step := transaction.get_step()) != order.version.step:
                raise StaleTask(
                    f"worker {self._number} is at step {step}, but the checkpoint is for step {order.version.step}; nothing was changed."
                )
            if order.in_error is not None and transaction.get_in_error() != frozenset(order.in_error):
                transaction.set_in_error(frozenset(order.in_error))
        database.freeze(order.version)

    def _fold(self, *, looks: bool) -> None:
        """In a thread of its own, beside the steps. Every fault is an answer. `looks`: whether the file is to shrink if much of it is free."""
        try:
            self._outside.lower_priority()
            database = self._open_database
            database.fold()
            if looks:
                self._compact(database)
            sizes = database.statistics()
            message: Message = Folded(
                versions=Database.versions(database.path),
                table_bytes=sizes.table_bytes,
                disk_bytes=sizes.disk_bytes,
                free_bytes=self._host_folder.free_bytes(),
            )
            # Raises if a newer term has opened the database in the meantime: it may have discarded the version.
            Database.attach(database.path, epoch=self._term.number, identity=database.identity)
        except Exception as error:
            message = Failed(doing="fold", fault=self._wire_fault(error))
        self._answer_now(message)

    def _compact(self, database: Database) -> None:
        """The version is complete already, so no fault of this may fail the fold. What matters is found by the next transaction."""
        try:
            if database.compact(lambda: not self._is_hurried):
                _log.info("the file of the state was rewritten without its free pages", worker=self._number)
        except (Fault, OSError) as fault:
            _log.warning("the file of the state could not be rewritten", worker=self._number, fault=str(fault))

    def _weigh(self, order: Weigh) -> None:
        """In a thread of its own, beside the steps. Every fault is an answer."""
        try:
            self._outside.lower_priority()
            total_bytes, heavy = self._slots.weigh(self._open_database, order.slots, order.heavy_bytes)
            message: Message = Weighed(total_bytes=total_bytes, heavy=heavy)
        except Exception as error:
            message = Failed(doing="weigh", fault=self._wire_fault(error))
        self._answer_now(message)

    def _read(self, order: Read) -> None:
        """In a thread of its own, beside the steps. Every fault is an answer."""
        buffers: tuple[Buffer, ...] = ()
        try:
            self._outside.lower_priority()
            found = read_views(self._folder, self._setup.plan, order.views)
            message: Message = Contents(version=found.version, owned=found.owned)
            buffers = tuple(to_buffer(table) for table in found.tables)
        except Exception as error:
            message, buffers = Failed(doing="read", fault=self._wire_fault(error)), ()
        self._answer_now(message, buffers)


class _Watched:
    """The peers of a step, with notes for the heartbeat."""

    def __init__(self, mesh: Mesh, progress: Progress) -> None:
        self._mesh, self._progress = mesh, progress

    def swap(self, step: int, stage: int, rows: Any) -> Any:
        self._progress.stage, self._progress.waiting = stage, True
        try:
            return self._mesh.swap(step, stage, rows)
        finally:
            self._progress.stage, self._progress.waiting = stage + 1, False

    def abandon(self, step: int, stage: int) -> None:
        self._mesh.abandon(step, stage)


def _done(step: int, outcome: StepOutcome) -> tuple[StepDone, tuple[Buffer, ...]]:
    output = [(node, table) for node, tables in sorted(outcome.output.items()) for table in tables]
    dead = sorted(outcome.report.dead.items())
    buffers = [to_buffer(table) for _, table in output]
    for _, letters in dead:
        columns = [[letter.key for letter in letters], [letter.value for letter in letters]]
        arrays = [pa.array(column, pa.binary()) for column in columns]
        buffers.append(to_buffer(pa.Table.from_arrays(arrays, schema=DEAD_LETTER_SCHEMA)))
    message = StepDone(
        step=step,
        output=tuple(node for node, _ in output),
        dead=tuple(handle for handle, _ in dead),
        inputs=tuple(outcome.report.inputs),
        skipped=outcome.report.skipped,
        read_ms=outcome.read_ms,
        stages=tuple(outcome.stages),
        late=tuple(outcome.times.late.items()),
        watermarks=tuple(outcome.times.watermarks.items()),
        errors=tuple((node, e.rows, e.checksum, e.example) for node, e in sorted(outcome.errors.items())),
    )
    return message, tuple(buffers)
