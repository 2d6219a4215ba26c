"""Where the simulated world takes the place of the real one: names in modules of the project, and nothing inside a function.

Everything else that runs is the project's own code.
"""

from __future__ import annotations

import gc
import logging
import random
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol
from unittest import mock

import pyarrow as pa
import structlog
import tenacity
import tenacity.nap
import tenacity.wait

from base.slots import SlotSet
from base.term import Term
from coordinator.rescale import beside_steps, cut_budget, slot_copies
from coordinator.storing import storing as of_run
from coordinator.transition import transitions
from engine.errors import DataError
from engine.model.filling import ContentFeed, Difference, Switched, is_read_again
from engine.model.rows import Source
from engine.resident import copies, crew, entry, folds, mesh, registration, slots
from engine.resident import storing as of_worker
from engine.resident.crew.slots import CrewSlots
from engine.resident.worker import program_orders
from engine.run import cut, hidden_copies, tasks
from engine.run.stage import StageResult, WorkerStep
from faults import points
from io_kafka.clients import connection_faults, consumed, positioned_consumer, reader, time_bound
from io_kafka.outside import Outside
from storage import committed, database, durable, folding, host_folder, layer_folders, new_database
from storage.remote import pack, restoring, retrying_store, spool, uploading
from tests.simulator import circuit, clients, environments, stages
from tests.simulator.disk import Disk, SimPath
from tests.simulator.scheduler import Process, Strand
from tests.simulator.story import StoryLog

CUT_BYTES = 24
"""Of one cut of a change of the layout: two or three records."""

CLEARED_BYTES = 60
"""Two or three records, so a transition clears at several boundaries."""

TIME_END_MS = 1 << 15
"""Most worlds are over by then. The search for a timestamp asks fewer questions."""

LOCK_LOOK_SECONDS = 1.0
"""How long a strand waits at once for a lock. It goes on as soon as the lock is free."""

_ROOM = SimpleNamespace(free=1 << 40)
"""The simulated disks never become full."""

PIECE_BYTES = 60
"""Two or three records of a state of some dozen: so a fold takes several transactions."""

BLOCK_BYTES, PACK_BYTES = 300, 600
"""Of what is uploaded: so a pack has a few blocks, and a base a few packs."""

DELTA_BYTES, SPOOL_BYTES = 500, 3000
"""A chain gets a new base now and then, and the spool is emptied if the store is away for some checkpoints."""

STORE_STOP_SECONDS, STORE_START_SECONDS = 4.0, 20.0
"""How long a run waits for the store when it ends or begins: a world's store is away for less or for more."""


class Surroundings(clients.Net, Protocol):
    """All that the replacements ask of their world."""

    disk: Disk

    def acting(self) -> Process: ...
    def reached(self, point: str, worker: int | None) -> None: ...
    def bound(self, made: crew.Crew) -> None: ...
    def fails(self, step: int, what: str) -> bool: ...
    def is_switch(self, step: int) -> bool: ...
    def gave(self, term: Term, slots: SlotSet) -> None: ...
    def spawn(self, name: str, process: Process, work: Callable[[], None]) -> Strand: ...
    def wait_for(self, until: Callable[[], bool], seconds: float) -> bool: ...


class Thread:
    """A strand of the acting process: the fold of a worker, or the pulse of a worker or a coordinator."""

    def __init__(self, world: Surroundings, name: str, work: Callable[[], None]) -> None:
        process = world.acting()
        self._world, self._strand = world, world.spawn(f"{name} of {process.name}", process, work)

    def is_alive(self) -> bool:
        return not self._strand.done

    def join(self, timeout: float) -> None:
        self._world.wait_for(lambda: not self.is_alive(), timeout)


QUICK = ("plan a transition", "look at topics", "prefetch_programs")
"""What is done beside the steps of a transition. In most worlds it is over before anything else happens: a world has a few hundred points, and
the loop would spend most of them on waiting for it."""

QUICK_SHARE = 0.8


class Lock:
    """Of a consumer, which the strands of a process share. A strand that waits for it lets the one go on that holds it."""

    def __init__(self, world: Surroundings) -> None:
        self._world, self._is_held = world, False

    def acquire(self) -> None:
        while self._is_held:
            self._world.wait_for(lambda: not self._is_held, LOCK_LOOK_SECONDS)
        self._is_held = True

    def release(self) -> None:
        assert self._is_held
        self._is_held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


@dataclass(frozen=True)
class Over:
    """A thread that has ended."""

    def is_alive(self) -> bool:
        return False

    def join(self, timeout: float) -> None:
        pass


def _started(world: Surroundings, chance: random.Random, name: str, work: Callable[[], None]) -> Thread | Over:
    if name not in QUICK or chance.random() >= QUICK_SHARE:
        return Thread(world, name, work)
    work()
    return Over()


def outside(world: Surroundings, chance: random.Random) -> Outside:
    """What a run of this world asks of its machine and of the network. It is given with the Kafka settings."""
    return Outside(
        producer=partial(clients.Producer, world),
        consumer=partial(clients.Consumer, world),
        admin=partial(clients.AdminClient, world),
        monotonic=lambda: world.now,
        wall_clock=lambda: world.now,
        sleep=world.pass_time,
        random=chance.random,
        new_id=lambda: uuid.UUID(int=chance.getrandbits(128)).hex,
        pid=lambda: world.acting().pid,
        hostname=lambda: world.acting().host,
        start_thread=partial(_started, world, chance),
        thread_clock=lambda: float,  # no strand uses CPU
        lower_priority=_nothing,
        freeze_memory=_nothing,
        release_memory=_nothing,
        give_back_memory=_nothing,
    )


@contextmanager
def installed(world: Surroundings, chance: random.Random) -> Iterator[None]:
    """The project runs in this world while the body does. What is replaced here, by name, is what no object carries:

    - the operators: they are not simulated (tasks), nor is how traces are cut (cut), nor is Arrow between two workers (mesh), nor
    confluent_kafka's class of messages (consumed);
    - how much one cut may move, and how often a file is looked at (slots, preparing, folds): a state has a dozen records;
    - the times of a step's parts, by which the coordinator knows how long a step may take (tasks): none takes any time;
    - the libraries of a worker, which are those of this process: to ask for them takes as long as a step (registration, entry);
    - LMDB and the disk below it, which are a room of their own (database, layer_folders, new_database, folding, host_folder, spool, restoring);
    - how much is one block, pack or transaction of the checkpoint store, and how long a run waits for it (pack, uploading, restoring, storing);
    - what the coordinator knows of the hosts' databases when it gives the numbers, and which slots its cuts move: the oracle looks at it (crew);
    - crash points, which are armed in a process and not in an object (points);
    - a process's consumers, which outlive what uses them (reader), and their locks (positioned_consumer), whom a broker has answered
    (connection_faults), and the logs of modules.
    """
    clock = SimpleNamespace(monotonic=lambda: world.now, sleep=world.pass_time)
    order = SimpleNamespace(point="output.half" if chance.random() < 0.5 else "")
    replaced: list[tuple[Any, dict[str, Any]]] = [
        (consumed, {"Message": clients.Message}),
        (reader, {"_CONSUMERS": {}}),
        (positioned_consumer, {"threading": SimpleNamespace(Lock=partial(Lock, world), Event=threading.Event)}),
        (connection_faults, {"_ANSWERED": set()}),
        (
            database,
            {
                "environments": environments,
                "boot_id": lambda: world.disk.boot(world.acting().host),
            },
        ),
        (layer_folders, {"environments": environments, "shutil": SimpleNamespace(rmtree=_remove)}),
        (committed, {"environments": environments, "swap_folders": SimPath.exchange}),
        (new_database, {"environments": environments, "shutil": SimpleNamespace(rmtree=_remove)}),
        (spool, {"environments": environments}),
        (pack, {"BLOCK_BYTES": BLOCK_BYTES}),
        (uploading, {"PACK_BYTES_MAX": PACK_BYTES, "DELTA_BYTES_MIN": DELTA_BYTES, "DELTAS_MAX": 4}),
        (
            restoring,
            {
                "environments": environments,
                "TRANSACTION_BYTES_MAX": 4 * PIECE_BYTES,
                "SYNC_BYTES": 8 * PIECE_BYTES,
                "MERGED_MAX": 3,
            },
        ),
        (of_worker, {"SPOOL_BYTES_MIN": SPOOL_BYTES}),
        (of_run, {"STOP_SECONDS_MAX": STORE_STOP_SECONDS}),
        (retrying_store, {"STORE_SECONDS_MAX": STORE_START_SECONDS}),
        (durable, {"sync": SimPath.sync}),
        (folding, {"PIECE_BYTES_MAX": PIECE_BYTES}),
        (cut, {"moves": circuit.Moves}),
        (hidden_copies, {"moves": circuit.Moves}),
        (slots, {"FRAME_BYTES_MIN": 1}),
        (cut_budget, {"COLD_CUT_BYTES": CUT_BYTES, "LIVE_CUT_BYTES_MIN": CUT_BYTES, "STEP_MS_FIRST": 0.0}),
        (
            cut_budget,
            {"PORTION_BYTES_FIRST": 2 * CUT_BYTES, "PORTION_BYTES_MIN": CUT_BYTES, "PORTION_BYTES_MAX": 4 * CUT_BYTES},
        ),
        (beside_steps, {"MOVED_BYTES_MAX": 2 * CUT_BYTES}),
        (slot_copies, {"COPY_BYTES": 2 * CUT_BYTES}),
        (folds, {"LOOKS_AT_FOLDS": (1, 2, 3)}),
        (copies, {"FRAME_BYTES_MIN": 1, "STORE_BYTES": CUT_BYTES}),
        (mesh, {"to_buffer": _same, "received_table": _as_it_is}),
        (host_folder, {"shutil": SimpleNamespace(rmtree=_remove, disk_usage=lambda folder: _ROOM)}),
        (registration, {"fingerprint": _nothing_differs}),
        (
            crew.Crew,
            {"bind": _watched(world, crew.Crew.bind)},
        ),
        (CrewSlots, {"cut": _watched_cuts(world, CrewSlots.cut)}),
        (entry, {"fingerprint": _nothing_differs}),
        (
            tasks,
            {
                "time": SimpleNamespace(perf_counter=float),
                "run_stage": _failing(world, stages.run_stage),
                "read_sources": circuit.read_sources,
            },
        ),
        (program_orders, {"measure": stages.measure}),
        (transitions, {"CLEARED_BYTES_MAX": CLEARED_BYTES}),
        (time_bound, {"TIME_END_MS": TIME_END_MS}),
        (points, {"_obey": world.reached, "_orders": [order]}),
        (tenacity, {"time": clock}),
        (tenacity.nap, {"time": clock}),
        (tenacity.wait, {"random": chance}),
    ]
    with ExitStack() as stack:
        for module, names in replaced:
            stack.enter_context(mock.patch.multiple(module, **_known(module, names)))
        stack.enter_context(logs_in(world))
        if gc.isenabled():
            gc.disable()  # a world leaves few cycles, and full rounds take as long as worlds
            stack.callback(gc.enable)
        yield


@contextmanager
def logs_in(world: Surroundings) -> Iterator[None]:
    """What modules log belongs to the story."""
    former = structlog.get_config()
    structlog.configure(
        processors=[StoryLog(world.tell)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),  # whatever a test before has configured
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**former)


def _known(module: ModuleType | type, names: dict[str, Any]) -> dict[str, Any]:
    """A name that is not there any more would be replaced in vain."""
    for name in names:
        assert hasattr(module, name), f"{module.__name__} has no {name}: the simulator's seam is gone"
    return names


def _watched(world: Surroundings, bind: Callable[..., None]) -> Callable[..., None]:
    def watched(self: crew.Crew, workers: Mapping[int, int], databases: Mapping[int, tuple[str, str]]) -> None:
        world.bound(self)
        bind(self, workers, databases)

    return watched


def _failing(world: Surroundings, run_stage: Callable[..., StageResult]) -> Callable[..., StageResult]:
    """What only a transition has fails where the world says so."""

    def run(task: WorkerStep, stage: int, *rest: Any) -> StageResult:
        nodes = task.plan.circuit.nodes
        what = "the switch" if world.is_switch(task.step.division.number) else "new nodes"
        kinds = (Switched, ContentFeed) if what == "the switch" else (Difference, Source)
        for index in task.plan.nodes_of(stage):
            node = nodes[index]
            is_new = isinstance(node, kinds) and (not isinstance(node, Source) or is_read_again(node.handle))
            if is_new and world.fails(task.step.division.number, what):
                raise DataError(f"{what} cannot do that.", "").locate(
                    owner="view", step=task.step.division.number, node=index
                )
        return run_stage(task, stage, *rest)

    return run


def _watched_cuts(world: Surroundings, give: Callable[..., tuple[SlotSet, int]]) -> Callable[..., tuple[SlotSet, int]]:
    def watched(self: CrewSlots, *order: Any, bytes_max: int) -> tuple[SlotSet, int]:
        slots, moved_bytes = give(self, *order, bytes_max=bytes_max)
        world.gave(self._workers.roster._term, slots)
        return slots, moved_bytes

    return watched


def _remove(path: SimPath, ignore_errors: bool = False) -> None:
    path.rmtree()


def _nothing(*_: object) -> None:
    return None


def _same(rows: Any) -> Any:
    return rows


def _as_it_is(rows: Any, schema: pa.Schema, what: str) -> Any:
    return rows


def _nothing_differs() -> str:
    return "{}"
