"""Named crash points. The code calls `reached` at each of them, which costs one comparison as long as no point is armed.

An environment variable arms points in a process and in all processes that it starts:

    STEPWELL_CRASH="output.half@3=kill, fold.inside/1=stop"

    POINT[/WORKER][@N]=ACTION     at this process's N-th visit (default: the first); with WORKER, only that worker's visits count
    FIRST>POINT...=ACTION         the same, of the visits after the first one to the point FIRST in this process
        kill     sends SIGKILL to this process: nothing is flushed, closed or reported
        stop     sends SIGSTOP to this process; after SIGCONT it continues, as a zombie does
        raise    raises `Crash`, which no handler of faults catches

A test arms points of its own process with `arm`. Each order is obeyed once per process. If STEPWELL_CRASH_ONCE names a folder, it is obeyed once
altogether, because a new worker process of Spark would reach the point again.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

VARIABLE = "STEPWELL_CRASH"
ONCE_VARIABLE = "STEPWELL_CRASH_ONCE"

StartPoint = Literal[
    "start.fenced",  # from here on no older writer can commit
    "start.log_read",
    "claim.sent",
    "claim.committed",
    "create.done",  # a worker's database was created
]
RevisionPoint = Literal[
    "revision.finished",  # a checkpoint has all steps of the revision in force, and the next revision is not recorded
    "revision.recorded",
]
TransitionPoint = Literal[
    "plan.written",  # a transition is planned, and its documents are not written
    "revision.intended",
    "program.adopted",  # all workers run what the next step runs
    "switch.ready",  # all is filled, and the differences are measured
    "switch.recorded",
    "turn.written",  # the transition goes another way
    "clear.inside",  # tables are gone, and no checkpoint is without them
    "revision.settled",
]
RecoveryPoint = Literal[
    "recovery.versions",  # every worker has reported its versions
    "recovery.chosen",
    "open.before",
    "open.undone",  # inside open's transaction, after the rollback of v+1
    "open.done",
    "recovery.opened",  # all workers
    "replay.compared",  # the output of a replayed step was equal
]
StepPoint = Literal[
    "division.chosen",  # end offsets were read
    "log.begun",
    "log.sent",
    "log.committed",
    "step.begun",
    "source.read",
    "source.done",
    "stages.before",
    "stages.inside",  # the whole step is in the open transaction of a worker's database
    "stages.committed",
    "step.gathered",
    "output.begun",  # of a new step; the output of a replayed step is only compared
    "output.half",
    "output.sent",  # with its records; the commit was not sent yet
    "output.committed",
    "step.complete",
]
CheckpointPoint = Literal[
    "checkpoint.paused",
    "checkpoint.intended",
    "freeze.inside",  # the working layer of a worker is set aside, in the open transaction of its database
    "freeze.done",
    "checkpoint.frozen",  # all workers
    "fold.piece",  # a piece of a worker's frozen layer is merged and committed, or its undo log is dropped
    "fold.inside",  # the whole layer is merged, in the open transaction
    "fold.synced",
    "fold.done",  # the frozen layer is removed
    "checkpoint.folded",  # all workers
    "compact.copied",  # the committed environment was copied without its free pages
    "compact.exchanged",  # the copy is in its place, and the former one is still there
    "checkpoint.completed",
    "checkpoint.snapshot",
    "checkpoint.truncated",
]
StorePoint = Literal[
    "spool.half",  # a part of what is to be uploaded is set aside before a fold
    "pack.half",  # a part of an object is written to the checkpoint store
    "pack.uploaded",
    "manifest.written",  # all objects of a version are in the store, and the log has no record of that
    "stored.recorded",
    "backup.named",  # a backup names a version whose objects may be deleted
    "collect.half",  # some objects are deleted that no version needs
    "restore.half",  # a part of a database is made of what the store has
    "restore.done",
]
CopyPoint = Literal[
    "copy.sent",  # a part of what a live change copies has left its source
    "copies.inside",
]
LayoutPoint = Literal[
    "layout.intended",
    "workers.created",  # the databases of a change's new workers are made and opened
    "workers.joined",
    CopyPoint,
    "cut.exported",
    "absorb.inside",
    "absorb.done",
    "release.inside",
    "release.done",
    "cut.done",
    "settle.completed",
    "bury.renamed",  # the folder of a database that nobody needs any more
]
ClonePoint = Literal[
    "clone.topics",  # a new pipeline has its step log, and nothing of the one that is copied
    "clone.loaded",  # the rows of batch tables are copied
    "clone.pack",  # an object of the state is copied
    "clone.copied",  # all of them
    "clone.described",  # the manifest is written, and the log has no record of that
    "clone.claimed",
    "clone.recorded",
]
Point = Literal[
    StartPoint,
    RevisionPoint,
    TransitionPoint,
    RecoveryPoint,
    StepPoint,
    CheckpointPoint,
    StorePoint,
    LayoutPoint,
    ClonePoint,
]
"""The name of a crash point. The type is closed: mypy rejects `reached` with any other name."""

START: tuple[Point, ...] = get_args(StartPoint)
RECOVERY: tuple[Point, ...] = get_args(RecoveryPoint)
STEP: tuple[Point, ...] = get_args(StepPoint)
CHECKPOINT: tuple[Point, ...] = get_args(CheckpointPoint)
STORE: tuple[Point, ...] = get_args(StorePoint)
COPYING: tuple[Point, ...] = get_args(CopyPoint)
LAYOUT: tuple[Point, ...] = get_args(LayoutPoint)
REVISION: tuple[Point, ...] = get_args(RevisionPoint)
CLONE: tuple[Point, ...] = get_args(ClonePoint)
TRANSITION: tuple[Point, ...] = get_args(TransitionPoint)
POINTS: tuple[Point, ...] = get_args(Point)
RUN_POINTS: tuple[Point, ...] = tuple(point for point in POINTS if point not in CLONE)
"""Those that runs reach. The others are of commands."""


Action = Literal["kill", "stop", "raise"]
"""What happens at an armed point; the module's docstring says what each one does."""


class Crash(BaseException):
    """The exception of the action `raise`. It is not an `Exception`, so that no handler of faults catches it."""


@dataclass(eq=False)
class CrashOrder:
    """One action at one point, which is obeyed once. `after`: a point before the first visit to which no visit counts."""

    point: Point
    action: Action
    visit: int = 1
    worker: int | None = None
    visits: int = 0
    after: Point | None = field(default=None, kw_only=True)
    is_due: bool = field(default=False, init=False)
    """Whether the visits count."""

    def __post_init__(self) -> None:
        assert self.point in POINTS, f"{self.point} is no crash point"
        assert self.action in _ACTIONS, f"{self.action} is none of {', '.join(_ACTIONS)}"
        assert self.visit >= 1 and (self.after is None or self.after in POINTS)
        self.is_due = self.after is None

    def count_visit(self, point: Point, worker: int | None) -> bool:
        """Counts the visit, and returns whether the order is due now."""
        if not self.is_due:
            self.is_due = point == self.after
            return False
        if point != self.point or (self.worker is not None and worker != self.worker):
            return False
        self.visits += 1
        return self.visits == self.visit


_lock = threading.Lock()
_orders: list[CrashOrder] = []


def reached(point: Point, worker: int | None = None) -> None:
    """Called when the code is at this point. `worker`: the worker it acts for, if it acts for one."""
    if _orders:
        _obey(point, worker)


def is_armed(point: Point) -> bool:
    """Whether an order waits at this point. Code asks this before work that only a crash there makes useful."""
    return any(order.point == point for order in _orders)


def _obey(point: Point, worker: int | None) -> None:
    with _lock:  # a fold runs in a thread
        due = [order for order in _orders if order.count_visit(point, worker)]
    for order in due:
        if not _first_in_all(order):
            continue
        _ACTIONS[order.action](f"{point} (worker {worker}, visit {order.visit})")


def _first_in_all(order: CrashOrder) -> bool:
    folder = os.environ.get(ONCE_VARIABLE)
    if folder is None:
        return True
    try:
        Path(folder, f"{order.point}-{order.worker}-{order.visit}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _kill(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop(_: str) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _raise(place: str) -> None:
    raise Crash(place)


_ACTIONS: dict[Action, Callable[[str], None]] = {"kill": _kill, "stop": _stop, "raise": _raise}


@contextmanager
def arm(*orders: CrashOrder) -> Iterator[Sequence[CrashOrder]]:
    """Arms points of this process while the body runs. Yields the orders, whose `visits` say how often each point was reached."""
    _orders.extend(orders)
    try:
        yield orders
    finally:
        for order in orders:
            _orders.remove(order)


_FORM = re.compile(r"\s*(?:([a-z_.]+)>)?([a-z_.]+)(?:/(\d+))?(?:@(\d+))?=([a-z]+)\s*")


def parse(text: str) -> list[CrashOrder]:
    """The orders in a value of STEPWELL_CRASH. Raises ValueError if one has another form."""
    orders = []
    for item in filter(str.strip, text.split(",")):
        found = _FORM.fullmatch(item)
        point = None if found is None else _point_called(found[2])
        after = None if found is None or found[1] is None else _point_called(found[1])
        action = None if found is None else next((known for known in _ACTIONS if known == found[5]), None)
        if found is None or point is None or action is None or (after is None) != (found[1] is None):
            raise ValueError(
                f"{VARIABLE}: {item.strip()!r} is no [FIRST>]POINT[/WORKER][@N]=ACTION; points are {', '.join(POINTS)}"
            )
        worker = None if found[3] is None else int(found[3])
        orders.append(CrashOrder(point, action, int(found[4] or 1), worker, after=after))
    return orders


def _point_called(name: str) -> Point | None:
    return next((known for known in POINTS if known == name), None)


_orders.extend(parse(os.environ.get(VARIABLE, "")))
