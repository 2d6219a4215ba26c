"""Named crash points. The code calls `reached` at each of them; that costs one comparison as long as none is armed.

The environment arms points in a process and all that it starts:

    STEPWELL_CRASH="output.half@3=kill, fold.inside/1=stop"

    POINT[/WORKER][@N]=ACTION     at the N-th visit (default: the first) of this process, at WORKER's only if one is named
        kill     SIGKILL to this process: nothing is flushed, closed or told
        stop     SIGSTOP to this process, which SIGCONT lets go on: a zombie
        raise    raises `Crash`, which no handler of faults catches

A test arms points of its own process with `arm`. Each order is obeyed once a process; once in all where STEPWELL_CRASH_ONCE names a folder, for
a worker that Spark forks anew would come by again.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "STEPWELL_CRASH"
ONCE_VARIABLE = "STEPWELL_CRASH_ONCE"

START = (
    "start.fenced",  # no older writer can commit any more
    "start.log_read",
    "claim.sent",
    "claim.committed",
    "create.done",  # a worker's database was made
)
RECOVERY = (
    "recovery.versions",  # every worker has told its versions
    "recovery.chosen",
    "open.before",
    "open.undone",  # inside open's last transaction, v+1 is rolled back
    "open.done",
    "recovery.opened",  # all workers
    "replay.compared",  # a replayed step's output was found equal
)
STEP = (
    "division.chosen",  # end offsets were read
    "log.begun",
    "log.sent",
    "log.committed",
    "step.begun",
    "source.read",
    "source.done",
    "region.before",
    "region.inside",  # all of the step is in the open transaction of a worker's database
    "region.committed",
    "step.gathered",
    "output.begun",  # of a new step: one that was written before is only compared
    "output.half",
    "output.sent",  # with its records; the commit was not sent
    "output.committed",
    "step.complete",
)
CHECKPOINT = (
    "checkpoint.paused",
    "checkpoint.intended",
    "freeze.inside",  # a worker's working layer is set aside, in the open transaction of its database
    "freeze.done",
    "checkpoint.frozen",  # all workers
    "fold.piece",  # a piece of a worker's frozen layer is merged, or its undo log dropped, and committed
    "fold.inside",  # all of it is in the open transaction
    "fold.synced",
    "fold.done",  # the frozen layer is removed
    "checkpoint.folded",  # all workers
    "checkpoint.completed",
    "checkpoint.snapshot",
    "checkpoint.truncated",
)
POINTS = START + RECOVERY + STEP + CHECKPOINT


class Crash(BaseException):
    """Not an Exception: what handles faults must not take it for one."""


@dataclass(eq=False)
class Order:
    """One thing to do, once."""

    point: str
    action: str
    visit: int = 1
    worker: int | None = None
    visits: int = 0

    def __post_init__(self) -> None:
        assert self.point in POINTS, f"{self.point} is no crash point"
        assert self.action in _ACTIONS, f"{self.action} is none of {', '.join(_ACTIONS)}"
        assert self.visit >= 1

    def concerns(self, point: str, worker: int | None) -> bool:
        """Whether it is due now."""
        if point != self.point or (self.worker is not None and worker != self.worker):
            return False
        self.visits += 1
        return self.visits == self.visit


_lock = threading.Lock()
_orders: list[Order] = []


def reached(point: str, worker: int | None = None) -> None:
    """The code is at this point, of this worker where it is one's."""
    if _orders:
        _obey(point, worker)


def is_armed(point: str) -> bool:
    """Whether an order waits there: for what makes a point worth dying at and would cost too much without."""
    return any(order.point == point for order in _orders)


def _obey(point: str, worker: int | None) -> None:
    with _lock:  # tasks run in threads
        due = [order for order in _orders if order.concerns(point, worker)]
    for order in due:
        if not _first_in_all(order):
            continue
        _ACTIONS[order.action](f"{point} (worker {worker}, visit {order.visit})")


def _first_in_all(order: Order) -> bool:
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


_ACTIONS = {"kill": _kill, "stop": _stop, "raise": _raise}


@contextmanager
def arm(*orders: Order) -> Iterator[Sequence[Order]]:
    """Arms points of this process while the body runs; gives the orders, whose `visits` tell how often each was reached."""
    _orders.extend(orders)
    try:
        yield orders
    finally:
        for order in orders:
            _orders.remove(order)


_FORM = re.compile(r"\s*([a-z_.]+)(?:/(\d+))?(?:@(\d+))?=([a-z]+)\s*")


def parse(text: str) -> list[Order]:
    """The orders of STEPWELL_CRASH. Raises ValueError for what is none."""
    orders = []
    for item in filter(str.strip, text.split(",")):
        found = _FORM.fullmatch(item)
        if found is None or found[1] not in POINTS or found[4] not in _ACTIONS:
            raise ValueError(
                f"{VARIABLE}: {item.strip()!r} is no POINT[/WORKER][@N]=ACTION; points are {', '.join(POINTS)}"
            )
        worker = None if found[2] is None else int(found[2])
        orders.append(Order(found[1], found[4], int(found[3] or 1), worker))
    return orders


_orders.extend(parse(os.environ.get(VARIABLE, "")))
