"""The strand that runs next: one at a time, chosen by the seed.

A *strand* is a flow of control of a simulated process: the coordinator's loop, a worker, its fold, a pulse. Real code has frames of its own, so
a strand is a greenlet. Strands change at *points* alone: before and after whatever another process, a disk, a network or a broker could notice.
So the order of everything is the scheduler's, which draws it from the seed, and a seed gives the same run again.

Time is a number. It grows a little at every point, and jumps to the next deadline where all strands wait.

A process is killed by a mark. A strand that acts for a dead process gets `Killed` at the point where it stands or that it comes to, and
nothing that it does on its way out (a `finally`, a rollback) has an effect, for every effect goes through a point.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from greenlet import getcurrent, greenlet

POINT_SECONDS = 0.0004
"""What passes from one point to the next: about a request to a broker on the same host."""

SHORT_SECONDS = 0.004
"""A wait that ends so soon, mostly for a frame that is under way, is not idleness."""

Hook = Callable[[str], None]


class Killed(BaseException):
    """Not an Exception: what handles faults must not take it for one."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.name)
        self.process = process


class Abandoned(BaseException):
    """A strand of a world that is over: a check failed elsewhere."""


class Process:
    """`host`: where it runs; empty while Spark has not placed it. `epoch`: what its coordinator claimed, -1 before. `attempt`: that of a
    worker's term. `stopped`: as by SIGSTOP. `is_given_up`: its coordinator goes on without it. `companions`: the processes that it has started
    beside itself; `is_companion`: whether it is one, and takes no task slot."""

    def __init__(self, name: str, pid: int, owner: Process | None = None) -> None:
        self.name, self.pid = name, pid
        self.owner = owner  # the coordinator that started it; its death kills no task at once
        self.host = ""
        self.alive, self.stopped = True, False
        self.attempt, self.is_given_up = 0, False
        self.companions: list[Process] = []
        self.is_companion = False
        self._epoch = -1

    @property
    def epoch(self) -> int:
        return self._epoch if self.owner is None else self.owner.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch = epoch

    @property
    def term(self) -> tuple[int, int]:
        return self.epoch, self.attempt


class Strand:
    """`acting`: the process it acts for; the director acts for none. `flow` is None until the strand is first chosen."""

    def __init__(self, name: str, process: Process | None, body: Callable[[], None] | None) -> None:
        self.name, self.body = name, body
        self.acting = [] if process is None else [process]
        self.flow: greenlet | None = None
        self.until: Callable[[], bool] | None = None
        self.deadline: float | None = None
        self.done = False
        self.fault: BaseException | None = None

    def is_ready(self, now: float) -> bool:
        if self.done:
            return False
        for process in self.acting:
            if not process.alive:
                return True  # to unwind
            if process.stopped:
                return False
        if self.until is None and self.deadline is None:
            return True
        return (self.until is not None and self.until()) or (self.deadline is not None and now >= self.deadline)

    @property
    def waits_with_deadline(self) -> bool:
        return not self.done and self.deadline is not None and not any(process.stopped for process in self.acting)


class Scheduler:
    """`interfere(place)` is called at some points, with the chance `interference`; `idle()` where nothing can run, and says whether it
    changed something. Both may kill, stop and start processes."""

    def __init__(self, rng: random.Random, points_max: int) -> None:
        self.rng, self.points_max = rng, points_max
        self.now, self.points = 0.0, 0
        self.interference, self.switching = 0.0, 0.0
        self.interfere: Hook = lambda place: None
        self.idle: Callable[[], bool] = lambda: False
        self.over: Callable[[], bool] = lambda: False
        self.violation: BaseException | None = None
        self.strands: list[Strand] = []
        self.director = Strand("director", None, None)
        self.current = self.director

    # For processes

    @property
    def process(self) -> Process:
        """For whom the current strand acts."""
        return self.current.acting[-1]

    def point(self, place: str) -> None:
        """Others may go on here, and anything may happen to this process. Raises Killed."""
        strand = self.current
        if not strand.acting:
            return  # the world itself looks
        self.points += 1
        self.now += POINT_SECONDS
        self._check(strand)
        chance = self.rng.random()
        if chance < self.interference:
            self.judged(self.interfere, place)
            self._check(strand)
        elif chance > 1 - self.switching or self.points > self.points_max:
            self._park(strand)
        if any(process.stopped for process in strand.acting):
            self._park(strand)

    def wait(self, until: Callable[[], bool] | None, seconds: float) -> bool:
        """Until it holds, so long at most; whether it holds."""
        strand = self.current
        self._check(strand)
        strand.until, strand.deadline = until, self.now + seconds
        try:
            self._park(strand)
        finally:
            strand.until = strand.deadline = None
        return until is not None and until()

    def spawn(self, name: str, process: Process, body: Callable[[], None]) -> Strand:
        """A strand that begins when it is chosen."""
        strand = Strand(name, process, body)
        self.strands.append(strand)
        return strand

    def judged(self, check: Callable[..., Any], *arguments: Any) -> Any:
        """Calls the world's own code, which may find that something is wrong; what runs above must not catch that."""
        try:
            return check(*arguments)
        except Exception as violation:
            if self.current is self.director:
                raise
            self.violate(violation)
            raise Abandoned from None

    # For the world

    def run_until(self, over: Callable[[], bool]) -> None:
        """Lets the strands run until `over()` holds at a point, or none is left. Raises what a check found."""
        assert self.current is self.director
        self.over = over
        self._transfer(self._choose())
        if self.violation is not None:
            raise self.violation

    def abandon(self) -> None:
        """Ends every strand, wherever it is."""
        if self.violation is None:
            self.violation = Abandoned()
        for strand in self.strands:
            if not strand.done:
                self._transfer(strand)

    # Inside

    def _check(self, strand: Strand) -> None:
        if self.violation is not None:
            raise Abandoned
        for process in strand.acting:
            if not process.alive:
                raise Killed(process)

    def violate(self, violation: BaseException) -> None:
        """The first one counts."""
        if self.violation is None:
            self.violation = violation

    def _park(self, strand: Strand) -> None:
        self._transfer(self._choose())
        self._check(strand)

    def _choose(self) -> Strand:
        while True:
            if self.violation is not None or self.over():
                return self.director
            self.strands = [strand for strand in self.strands if not strand.done]
            ready = [strand for strand in self.strands if strand.is_ready(self.now)]
            if ready:
                return ready[0] if len(ready) == 1 else self.rng.choice(ready)
            deadlines = [s.deadline for s in self.strands if s.waits_with_deadline and s.deadline is not None]
            if not deadlines or min(deadlines) > self.now + SHORT_SECONDS:
                try:
                    if self.judged(self.idle):
                        continue
                except Abandoned:
                    return self.director
                if not deadlines:
                    return self.director
            self.now = max(self.now, min(deadlines))

    def _transfer(self, target: Strand) -> None:
        me = self.current
        if target is me:
            return
        self.current = target
        if me is self.director:
            self._direct()
        else:
            via = target.flow or self.director.flow
            assert via is not None
            via.switch()

    def _direct(self) -> None:
        """Goes on with the current strand until it is the director again, which also begins strands: a greenlet begins as deep in the stack as
        the one that begins it, and strands that begin each other would come to its end."""
        self.director.flow = getcurrent()
        while (strand := self.current) is not self.director:
            strand.flow = strand.flow or greenlet(partial(self._run, strand))
            strand.flow.switch()

    def _run(self, strand: Strand) -> None:
        """The director goes on when it returns."""
        try:
            self._check(strand)
            assert strand.body is not None
            strand.body()
        except (Killed, Abandoned):
            pass  # the end of a process, not a fault
        except BaseException as fault:
            self.violate(fault)
        strand.done = True
        # Abandoned strands end one by one, each for the director.
        self.current = self.director if self.violation is not None else self._choose()
