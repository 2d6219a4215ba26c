"""One worker: carries out the coordinator's orders one after the other, and answers each.

    bound -> [Remove, Create, Restore] -> Fence -> Open(version) -> [Enter(step)] -> Join(members) -> RunStep and all other orders, in any number
    -> Stop(step) | Leave

Orders are carried out in the order in which they arrive, by one thread. Those that derive from `Beside` only begin in it: their work, such as a
fold or a read of views, runs in a thread of its own. Another thread sends heartbeats (pulse.py). The worker ends when it was stopped, when its
coordinator is gone, or after an exception that is no Fault, because its state is then unknown. It never decides anything else by itself.

A worker belongs to one term. After a fault that the run recovers from, the coordinator starts new workers instead of going on with this one.
"""

from __future__ import annotations

from collections import deque
from contextlib import closing, suppress
from dataclasses import dataclass, replace

from base.fault import Fault
from base.memory import Rest
from base.slots import NO_SLOTS
from base.term import Term
from engine.analysis.filling import Program
from engine.errors import StaleTask
from engine.model.placement import Placement
from engine.resident import faults
from engine.resident.copies import SlotCopier
from engine.resident.folds import Folds
from engine.resident.frames import Buffer, Frame
from engine.resident.handlers import Handlers, Job, Later
from engine.resident.mesh import WAIT_SECONDS, Mesh
from engine.resident.messages import (
    Accompany,
    Adopt,
    Adopted,
    Answer,
    Clear,
    Cleared,
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
    Foresee,
    Foreseen,
    Freeze,
    Frozen,
    Given,
    GiveSlots,
    Hurry,
    Join,
    Joined,
    Leave,
    Left,
    Measure,
    Measured,
    Message,
    Open,
    Opened,
    Pause,
    Paused,
    Ping,
    Place,
    Read,
    Refuse,
    Released,
    ReleaseSlots,
    Remove,
    Removed,
    Restore,
    Restored,
    Resume,
    Resumed,
    RunStep,
    Size,
    Staged,
    StepAbandoned,
    Stop,
    Stopped,
    Store,
    Stored,
    Taken,
    TakeSlots,
    Unstage,
    Unstaged,
    Weigh,
    Weighed,
    Welcome,
    WireFault,
    kinds,
)
from engine.resident.programs import Programs
from engine.resident.progress import Progress, WatchedMesh
from engine.resident.readers import MakeReader, WorkerReaders
from engine.resident.slot_weights import SlotWeights
from engine.resident.slots import SlotMover
from engine.resident.states import Life, State
from engine.resident.step_report import step_done
from engine.resident.storing import StoreAccess
from engine.resident.transport import Arrived, Connection, Ended, Event, Events, Transport
from engine.run.clearing import clear_tables
from engine.run.contents import read_views
from engine.run.differences import measure
from engine.run.exchange import to_buffer
from engine.run.program_document import Outputs, setup_of
from engine.run.tasks import PeerFailed, Readers, StepTask, TaskSetup
from io_kafka.outside import Thread
from storage.database import Database
from storage.errors import DatabaseExists
from storage.host_folder import HostFolder
from storage.identity import Identity, UnneededDatabase

carries_out = Handlers()

BETWEEN_ORDERS = "wait"
"""What a worker says it was doing if a fault came while it had no order."""


class CoordinatorGone(Exception):
    """The connection to the coordinator has ended, so nobody needs this worker."""


@dataclass(frozen=True, kw_only=True)
class Appointment:
    """What the coordinator has made of a task. `folder`: that of the host, with the databases of all its workers."""

    setup: TaskSetup
    term: Term
    token: str
    identity: Identity
    birth: str
    folder: HostFolder


@dataclass(frozen=True)
class Lines:
    """How a worker is connected. `control`: to the coordinator."""

    transport: Transport
    events: Events
    control: Connection


class Worker:
    """`make_reader` makes a reader of Kafka."""

    def __init__(
        self,
        appointment: Appointment,
        lines: Lines,
        make_reader: MakeReader,
        progress: Progress,
    ) -> None:
        setup, self._term = appointment.setup, appointment.term
        self._setup, self._identity, self._number = setup, appointment.identity, appointment.identity.worker
        self._programs = Programs(setup.revision, Program.of(setup.plan.circuit, setup.facts.numbers))
        self._birth, self._host_folder = appointment.birth, appointment.folder
        self._folder = self._host_folder.of_worker(self._number, self._birth)
        self._placement: Placement | None = None
        self._events, self._control, self._outside = lines.events, lines.control, setup.kafka.outside
        self._rest = Rest(setup.kafka.outside.give_back_memory)
        self._beside: list[Thread] = []  # what has begun to run beside the orders
        self._mesh = Mesh(
            lines.transport,
            lines.events,
            self._term,
            appointment.token,
            setup.plan,
            others=self._take,
            now=self._outside.monotonic,
            copies=self._take_copies,
        )
        self._readers = WorkerReaders(make_reader, setup.kafka)
        self._weights = SlotWeights()
        self._copier = SlotCopier(
            self._mesh,
            self._number,
            self._weights,
            self._outside,
            answer=self._answer,
            answer_now=self._answer_now,
            wire_fault=self._wire_fault,
        )
        self._slots = SlotMover(self._mesh, self._number, self._weights, self._copier)
        self._store = StoreAccess(
            place=setup.store,
            folder=self._host_folder,
            identity=self._identity,
            birth=self._birth,
            epoch=self._term.number,
            outside=setup.kafka.outside,
        )
        self._folds = Folds(
            self._number, self._term.number, self._host_folder.free_bytes, before=self._store.spool_frozen
        )
        self._orders: deque[Message] = deque()
        self._database: Database | None = None
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
        self._readers.close()
        Database.close(self._folder)
        self._outside.release_memory()

    def _next_order(self) -> Message:
        self._rest.work()
        while not self._orders:
            self.progress.waiting = True
            self._note_rest()
            event = self._events.next(WAIT_SECONDS)
            if event is not None and not self._mesh.take(event):
                self._take(event)
        self.progress.waiting = False
        return self._orders.popleft()

    def _note_rest(self) -> None:
        """It rests as soon as nothing runs beside its orders either."""
        self._beside = [thread for thread in self._beside if thread.is_alive()]
        if self._beside:
            self._rest.work()
        else:
            self._rest.wait(self._outside.monotonic())

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
        """Sends an answer, from any thread."""
        self._control.send_now(Frame(self._term, message, buffers))

    def _carry_out(self, order: Message) -> None:
        try:
            name = carries_out.name_of(order)
            assert name is not None, f"worker {self._number} got {order.kind}, which is no order"
            reply = getattr(self, name)(order)
        except CoordinatorGone:
            raise
        except Exception as error:
            self._answer(Failed(doing=order.kind, fault=self._wire_fault(error)))
            if not isinstance(error, Fault):
                raise  # a mistake of ours: the state of this process is unknown
        else:
            if isinstance(reply, Answer):
                self._answer(reply)
            elif reply is not None and reply is not Later.LATER:
                beside = self._outside.start_thread(order.kind, lambda: self._run_beside(order.kind, reply))
                self._beside.append(beside)

    def _run_beside(self, kind: str, job: Job[Answer]) -> None:
        """Runs in a thread of its own, beside the steps. Every fault is an answer."""
        buffers: tuple[Buffer, ...] = ()
        try:
            self._outside.lower_priority()
            answer, buffers = job()
        except Exception as error:
            answer = Failed(doing=kind, fault=self._wire_fault(error))
        self._answer_now(answer, buffers)

    def _wire_fault(self, error: Exception) -> WireFault:
        return faults.to_wire(faults.lost_without_memory(error, self._number) or error)

    @property
    def _open_database(self) -> Database:
        assert self._database is not None, "the database is not open"
        return self._database

    # The start and the end

    @carries_out
    def _remove(self, order: Remove) -> Removed:
        self._host_folder.finish_removals()
        return Removed(workers=tuple(each.worker for each in order.databases if self._host_folder.remove(each)))

    @carries_out
    def _create(self, order: Create) -> Created:
        # A worker of an older run may have been faster; the fence tells whose database it is.
        with suppress(DatabaseExists):
            Database.create(self._folder, self._identity, self._term.number, order.new.owned, order.new.base)
        return Created()

    @carries_out
    def _fence(self, order: Fence) -> Fenced:
        found = Database.fence(self._folder, epoch=self._term.number, identity=self._identity)
        return Fenced(versions=found.versions, number=found.number)

    @carries_out
    def _open(self, order: Open) -> Opened:
        database = self._database = Database.open(
            self._folder, order.version, epoch=self._term.number, identity=self._identity, fenced=order.fenced
        )
        self._copier.discard(database)
        self._folds.restart()
        self.life.start(order.version.step)
        self._outside.freeze_memory()
        with database.read() as state:
            owned = state.get_owned()
        return Opened(
            step=order.version.step,
            owned=owned,
            state_bytes=sum(database.statistics().table_bytes.values()),
            free_bytes=self._host_folder.free_bytes(),
        )

    @carries_out
    def _enter(self, order: Enter) -> Entered:
        self.life.enter(order.step)
        with self._open_database.transaction() as transaction:
            transaction.set_step(order.step)
        return Entered(step=order.step)

    @carries_out
    def _join(self, order: Join) -> Joined:
        self._mesh.join(self._number, order.members)
        self._placement = order.placement
        return Joined()

    @carries_out
    def _leave(self, order: Leave) -> Left:
        with self._open_database.read() as state:
            assert state.get_owned() == NO_SLOTS, f"worker {self._number} is to leave and owns {state.get_owned()}"
        self._database = None
        Database.close(self._folder)
        self._host_folder.remove(UnneededDatabase(self._number, self._birth, self._identity))
        self.life.stop(self.life.step)
        return Left()

    @carries_out
    def _stop(self, order: Stop) -> Later:
        self.life.stop(order.step)
        self._answer_if_stopped()
        return Later.LATER

    def _answer_if_stopped(self) -> None:
        if self.life.state is State.STOPPED:
            self._answer(Stopped(step=self.life.step))

    # Steps

    @carries_out
    def _step(self, order: RunStep) -> Later:
        given, step = order.given, order.given.step
        if not self._setup.plan.has_state and step == self.life.step - 1:
            # Such a step waits for no peer. So this worker may have finished one that was too large for another worker, and is to be run again.
            self.life.repeat_step(step)
        self.life.begin_step(step)
        self._mesh.begin_step(order.serial)
        placement = self._placement
        if placement is None or placement.number != order.placement:
            raise StaleTask(
                f"worker {self._number} has placement {placement and placement.number}, and step {step} has {order.placement}; "
                "nothing was changed."
            )
        if order.program != self._programs.name:
            raise StaleTask(
                f"worker {self._number} has program {self._programs.name!r}, and step {step} has {order.program!r}; nothing was changed."
            )
        task = StepTask(self._setup, placement, given, self._number, WatchedMesh(self._mesh, self.progress))
        self.progress.step, self.progress.stage = step, 0
        try:
            outcome = task.run(
                Readers(self._readers.present, lambda: self._readers.again(self._setup.kafka_again)),
                self._open_database,
            )
        except PeerFailed:
            self._answer(StepAbandoned(step=step))
            return Later.LATER
        self.life.end_step()
        self._answer(*step_done(step, outcome))
        self._answer_if_stopped()
        return Later.LATER

    @carries_out
    def _pause(self, order: Pause) -> Paused:
        return Paused(step=self.life.pause())

    @carries_out
    def _resume(self, order: Resume) -> Resumed:
        return Resumed(step=self.life.resume())

    # Programs

    @carries_out
    def _adopt(self, order: Adopt) -> Adopted:
        assert self.life.at_boundary and order.step == self.life.step, f"{order.kind} before step {self.life.step}"
        ids = {handle: each.ids() for handle, each in order.schema_ids.items()}
        outputs = Outputs(topics=order.topics, partitions=order.partitions, schema_ids=ids)
        document = self._programs.adopt(order, self._readers.present)
        self._setup = setup_of(document, outputs, self._setup, revision=order.revision, first=order.first)
        self._readers.follow(self._setup.kafka)
        self._mesh.adopt(self._setup.plan)
        with self._open_database.transaction() as transaction:
            transaction.set_step(order.step)  # steps without state have left it alone
        return Adopted(step=order.step)

    @carries_out
    def _foresee(self, order: Foresee) -> Job[Foreseen]:
        # The consumer of the steps is not asked, because they go on. What is read again has another one, and nothing is read again yet.
        settings = replace(self._setup.kafka, is_second=True)

        def foresee() -> tuple[Foreseen, tuple[Buffer, ...]]:
            with closing(self._readers.make(settings)) as reader:
                self._programs.foresee(order, reader)
            return Foreseen(digests=order.digests), ()

        return foresee

    @carries_out
    def _clear(self, order: Clear) -> Cleared:
        with self._open_database.transaction() as transaction:
            return Cleared(is_done=clear_tables(transaction, order.numbers, order.bytes_max))

    @carries_out
    def _measure(self, order: Measure) -> Measured:
        with self._open_database.transaction() as transaction:
            sizes = measure(self._setup, transaction, self.life.step, order.numbers)
        return Measured(sizes=tuple(Size(*size) for size in sizes))

    # Checkpoints

    @carries_out
    def _freeze(self, order: Freeze) -> Frozen:
        version = order.version
        assert self.life.at_boundary and version.step == self.life.step, f"{order} before step {self.life.step}"
        self._set_aside(order)
        return Frozen(version=version)

    def _set_aside(self, order: Freeze) -> None:
        database = self._open_database
        with database.transaction() as transaction:
            if not self._setup.plan.has_state:
                transaction.set_step(order.version.step)
            elif (step := transaction.get_step()) != order.version.step:
                raise StaleTask(
                    f"worker {self._number} is at step {step}, but the checkpoint is for step {order.version.step}; nothing was changed."
                )
            if order.in_error is not None and transaction.get_in_error() != frozenset(order.in_error):
                transaction.set_in_error(frozenset(order.in_error))
        database.freeze(order.version)

    @carries_out
    def _fold(self, order: Fold) -> Job[Folded]:
        looks = self._folds.begin(may_rewrite=order.may_rewrite)
        return lambda: (self._folds.fold(self._open_database, looks=looks), ())

    @carries_out
    def _upload(self, order: Store) -> Job[Stored]:
        return lambda: (self._store.store(order), ())

    @carries_out
    def _restore(self, order: Restore) -> Job[Restored]:
        return lambda: (self._store.restore(order), ())

    @carries_out
    def _hurry(self, order: Hurry) -> None:
        self._folds.hurry()

    @carries_out
    def _read(self, order: Read) -> Job[Contents]:
        program = self._programs.of_revision(order.revision)

        def read() -> tuple[Contents, tuple[Buffer, ...]]:
            found = read_views(
                self._folder, program.plan, program.numbers, order.views, checks_errors=order.checks_errors
            )
            return Contents(version=found.version, owned=found.owned), tuple(map(to_buffer, found.tables))

        return read

    # Slots

    @carries_out
    def _place(self, order: Place) -> None:
        self._placement = order.placement

    @carries_out
    def _weigh(self, order: Weigh) -> Job[Weighed]:
        def weigh() -> tuple[Weighed, tuple[Buffer, ...]]:
            return Weighed(total_bytes=self._weights.count(self._open_database, order.slots)), ()

        return weigh

    @carries_out
    def _copy(self, order: Copy) -> Later:
        self._copier.copy(order, self._open_database)
        return Later.LATER

    @carries_out
    def _unstage(self, order: Unstage) -> Unstaged:
        self._copier.discard(self._open_database)
        return Unstaged()

    @carries_out
    def _give(self, order: GiveSlots) -> Given:
        return self._slots.give(order, self._open_database)

    @carries_out
    def _take_over(self, order: TakeSlots) -> Taken:
        return self._slots.take(order, self._open_database)

    @carries_out
    def _release(self, order: ReleaseSlots) -> Released:
        self._slots.release(order, self._open_database)
        self._folds.restart()
        return Released()


carries_out.check(kinds(), others=(Accompany, Welcome, Refuse, Ping))
