"""One worker: carries out the coordinator's orders one after the other, and answers each.

    bound -> [Remove, Create, RestoreDatabase] -> FenceDatabase -> OpenDatabase(version) -> [Enter(step)] -> JoinPeers(members)
    -> RunStep and all other orders, in any number -> Stop(step) | Leave

Orders are carried out in the order in which they arrive, by one thread. Those that derive from `BackgroundOrder` only begin in it: their work,
such as a fold or a read of views, runs in a thread of its own (background.py). Another thread sends heartbeats (pulse.py). The worker ends when
it was stopped, when its coordinator is gone, or after an exception that is no Fault, because its state is then unknown. It never decides
anything else by itself.

A worker belongs to one term. After a fault that the run recovers from, the coordinator starts new workers instead of going on with this one.
"""

from __future__ import annotations

from base.fault import Fault
from base.memory import Rest
from engine.resident.copies import SlotCopier
from engine.resident.folds import Folds
from engine.resident.frames import Buffer
from engine.resident.mesh import WAIT_SECONDS, Mesh
from engine.resident.messages import Accompany, Answer, Copies, CopyReceived, Message, Ping, Refuse, Welcome, kinds
from engine.resident.progress import WorkerProgress
from engine.resident.readers import MakeReader, WorkerReaders
from engine.resident.slot_weights import SlotWeights
from engine.resident.slots import SlotMover
from engine.resident.states import State
from engine.resident.storing import StoreAccess
from engine.resident.worker.assignment import WorkerAssignment
from engine.resident.worker.background import BackgroundThreads
from engine.resident.worker.checkpoint_orders import CheckpointOrders
from engine.resident.worker.connections import WorkerConnections
from engine.resident.worker.coordinator_link import CoordinatorGone, CoordinatorLink
from engine.resident.worker.end_orders import EndOrders
from engine.resident.worker.handlers import Handlers, Later
from engine.resident.worker.program_orders import ProgramOrders
from engine.resident.worker.slot_orders import SlotOrders
from engine.resident.worker.start_orders import StartOrders
from engine.resident.worker.state import WorkerState
from engine.resident.worker.step_orders import StepOrders
from engine.resident.worker.store_orders import StoreOrders
from storage.database import Database

PARTS = (StartOrders, StepOrders, ProgramOrders, CheckpointOrders, StoreOrders, SlotOrders, EndOrders)
"""The classes whose methods carry out orders. A worker has one object of each."""

HANDLERS = Handlers(PARTS, kinds(), others=(Accompany, Welcome, Refuse, Ping))

BETWEEN_ORDERS = "wait"
"""What a worker says it was doing if a fault came while it had no order."""


class Worker:
    """One worker in its process. `make_reader` makes a reader of Kafka."""

    def __init__(
        self,
        worker_assignment: WorkerAssignment,
        connections: WorkerConnections,
        make_reader: MakeReader,
        progress: WorkerProgress,
    ) -> None:
        setup, outside = worker_assignment.setup, worker_assignment.setup.kafka.outside
        state = self._state = WorkerState.of(worker_assignment)
        control = self._control = CoordinatorLink(connections.control, state.term, state.number)
        self._events, self._outside, self._progress = connections.events, outside, progress
        self._rest = Rest(outside.give_back_memory)
        self._background = BackgroundThreads(control, outside)
        self._mesh = Mesh(
            connections.transport,
            connections.events,
            state.term,
            worker_assignment.token,
            setup.plan,
            others=control.take,
            now=outside.monotonic,
            copies=self._take_copies,
        )
        self._readers = WorkerReaders(make_reader, setup.kafka)
        self._weights = SlotWeights()
        self._copier = SlotCopier(
            self._mesh,
            state.number,
            self._weights,
            outside,
            answer=control.answer,
            answer_now=control.answer_now,
            wire_fault=control.wire_fault,
        )
        self._parts: dict[type, object] = {type(part): part for part in self._make_parts()}
        assert self._parts.keys() == set(PARTS), "an order would have a method, and nothing to call it on"

    def _make_parts(self) -> tuple[object, ...]:
        """The objects whose methods carry out orders, one of each class of PARTS."""
        state, control, mesh, readers, outside = self._state, self._control, self._mesh, self._readers, self._outside
        store = StoreAccess(
            place=state.setup.store,
            folder=state.host_folder,
            identity=state.identity,
            birth=state.birth,
            epoch=state.term.number,
            outside=outside,
        )
        folds = Folds(state.number, state.term.number, state.host_folder.free_bytes, before=store.spool_frozen)
        mover = SlotMover(mesh, state.number, self._weights, self._copier)
        return (
            StartOrders(state=state, mesh=mesh, copier=self._copier, folds=folds, outside=outside),
            StepOrders(state=state, control=control, mesh=mesh, readers=readers, progress=self._progress),
            ProgramOrders(state=state, mesh=mesh, readers=readers),
            CheckpointOrders(state=state, folds=folds),
            StoreOrders(store=store),
            SlotOrders(state=state, weights=self._weights, copier=self._copier, mover=mover, folds=folds),
            EndOrders(state=state, control=control),
        )

    def run(self) -> None:
        """Returns after a stop. Raises CoordinatorGone."""
        while self._state.step_state.state is not State.STOPPED:
            try:
                order = self._next_order()
            except Fault as fault:  # a peer has sent what cannot be right
                self._control.answer(self._control.failure(BETWEEN_ORDERS, fault))
            else:
                self._carry_out(order)

    def close(self) -> None:
        """Frees what outlives the worker in its process, which Spark may use for another task."""
        self._readers.close()
        Database.close(self._state.folder)
        self._outside.release_memory()

    def _next_order(self) -> Message:
        self._rest.work()
        while not self._control.has_order:
            self._progress.waiting = True
            self._note_rest()
            event = self._events.next(WAIT_SECONDS)
            if event is not None and not self._mesh.take(event):
                self._control.take(event)
        self._progress.waiting = False
        return self._control.next_order()

    def _note_rest(self) -> None:
        """The worker rests as soon as nothing runs beside its orders either."""
        if self._background.is_busy():
            self._rest.work()
        else:
            self._rest.wait(self._outside.monotonic())

    def _take_copies(self, peer: int, message: Copies | CopyReceived, buffers: tuple[Buffer, ...]) -> None:
        self._copier.take(peer, message, buffers, lambda: self._state.open_database)

    def _carry_out(self, order: Message) -> None:
        try:
            found = HANDLERS.find(order)
            assert found is not None, f"worker {self._state.number} got {order.kind}, which is no order"
            part, method = found
            reply = getattr(self._parts[part], method)(order)
        except CoordinatorGone:
            raise
        except Exception as error:
            self._control.answer(self._control.failure(order.kind, error))
            if not isinstance(error, Fault):
                raise  # this is a bug in Stepwell: the state of this process is unknown
        else:
            if isinstance(reply, Answer):
                self._control.answer(reply)
            elif reply is not None and reply is not Later.LATER:
                self._background.begin(order.kind, reply)
