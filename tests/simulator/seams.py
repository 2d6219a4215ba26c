"""Where the simulated world takes the place of the real one: names in modules of the project, and nothing inside a function.

Everything else that runs is the project's own code.
"""

from __future__ import annotations

import gc
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol
from unittest import mock

import tenacity
import tenacity.nap
import tenacity.wait

from coordinator import background_fold, circuit_file, loop, start, truncation
from coordinator.core import Action, Core
from engine.run import region, tasks
from faults import points
from io_kafka.clients import consumed, reader, step_log_reader, topics, transactions
from storage import database, folding
from tests.simulator import circuit, clients, environments
from tests.simulator.disk import Disk, SimPath, use
from tests.simulator.scheduler import Process, Strand
from tests.simulator.story import StoryLog

PIECE_BYTES = 60
"""Two or three records of a state of some dozen: so a fold takes several transactions."""


class Outside(clients.Net, Protocol):
    """All that real code would ask of the operating system and of the network."""

    disk: Disk

    def acting(self) -> Process: ...
    def reached(self, point: str, worker: int | None) -> None: ...
    def spawn(self, name: str, process: Process, work: Callable[[], None]) -> Strand: ...
    def wait_for(self, until: Callable[[], bool], seconds: float) -> bool: ...


class CheckedCore(Core):
    """Proves the core's invariants around every question."""

    def next(self) -> Action:
        self.check()
        action = super().next()
        self.check()
        return action


class Thread:
    """As threading.Thread, for the fold of a checkpoint."""

    def __init__(self, outside: Outside, target: Callable[[], None], name: str, daemon: bool) -> None:
        self._outside, self._target, self._name = outside, target, name
        self._strand: Strand | None = None

    def start(self) -> None:
        process = self._outside.acting()
        self._strand = self._outside.spawn(f"{self._name} of {process.name}", process, self._target)

    def is_alive(self) -> bool:
        return self._strand is not None and not self._strand.done

    def join(self, seconds: float) -> None:
        self._outside.wait_for(lambda: not self.is_alive(), seconds)


@contextmanager
def installed(outside: Outside, *, snapshot_steps: int, truncate_steps: int) -> Iterator[None]:
    """The project runs in this world while the body does."""
    clock = SimpleNamespace(
        monotonic=lambda: outside.now,
        perf_counter=lambda: outside.now,
        time=lambda: outside.now,
        sleep=outside.pass_time,
    )
    chance = random.Random(outside.rng.random())
    ids = SimpleNamespace(uuid4=lambda: uuid.UUID(int=chance.getrandbits(128)))
    log = StoryLog(outside.tell)
    order = SimpleNamespace(point="output.half" if chance.random() < 0.5 else "")
    system = SimpleNamespace(getpid=lambda: outside.acting().pid)
    replaced: list[tuple[Any, dict[str, Any]]] = [
        (consumed, {"Message": clients.Message}),
        (transactions, {"Producer": _client(clients.Producer, outside), "uuid": ids, "_log": log}),
        (step_log_reader, {"Consumer": _client(clients.Consumer, outside), "time": clock}),
        (
            reader,
            {
                "Consumer": _client(clients.Consumer, outside),
                "time": clock,
                "os": system,
                "_POSITIONED": {},
            },
        ),
        (topics, {"AdminClient": _client(clients.AdminClient, outside)}),
        (
            loop,
            {
                "time": clock,
                "uuid": ids,
                "os": system,
                "socket": SimpleNamespace(gethostname=lambda: "machine"),
                "gc": SimpleNamespace(collect=_nothing, freeze=_nothing, unfreeze=_nothing, set_threshold=_nothing),
                "_log": log,
                "Core": CheckedCore,
                "GROWTH_SECONDS": 0.2,
                "snapshot_due": partial(truncation.snapshot_due, steps_min=snapshot_steps),
                "truncate": partial(truncation.truncate, steps_min=truncate_steps),
            },
        ),
        (start, {"_log": log}),
        (circuit_file, {"os": system}),
        (truncation, {"_log": log}),
        (background_fold, {"threading": SimpleNamespace(Thread=partial(Thread, outside))}),
        (
            database,
            {
                "environments": environments,
                "shutil": SimpleNamespace(rmtree=_remove),
                "_sync": SimPath.sync,
                "_boot_id": lambda: f"boot{outside.disk.boots}",
            },
        ),
        (folding, {"PIECE_BYTES_MAX": PIECE_BYTES}),
        (region, {"run_stage": circuit.run_stage}),
        (tasks, {"run_stage": circuit.run_stage, "read_sources": circuit.read_sources}),
        (points, {"_obey": outside.reached, "_orders": [order]}),
        (tenacity, {"time": clock}),
        (tenacity.nap, {"time": clock}),
        (tenacity.wait, {"random": chance}),
    ]
    with ExitStack() as stack:
        for module, names in replaced:
            stack.enter_context(mock.patch.multiple(module, **_known(module, names)))
        stack.callback(use, None)
        use(outside.disk)
        if gc.isenabled():
            gc.disable()  # a world leaves few cycles, and full rounds take as long as worlds
            stack.callback(gc.enable)
        yield


def _known(module: ModuleType, names: dict[str, Any]) -> dict[str, Any]:
    """A name that is not there any more would be replaced in vain."""
    for name in names:
        assert hasattr(module, name), f"{module.__name__} has no {name}: the simulator's seam is gone"
    return names


def _client(kind: Callable[..., Any], outside: Outside) -> Callable[..., Any]:
    return lambda config, logger=None: kind(outside, config)


def _remove(path: SimPath, ignore_errors: bool = False) -> None:
    path.rmtree()


def _nothing(*_: object) -> None:
    return None
