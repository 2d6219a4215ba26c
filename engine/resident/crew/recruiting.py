"""The tasks of a crew, from their start until they are candidates.

A task that has registered is a *candidate*. It becomes a worker only when enough candidates are there, because the coordinator gives the numbers
by the databases that the candidates' hosts hold (coordinator/starting/workers/binding.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from base.logger import Logger
from base.term import Term
from engine.errors import TaskLost
from engine.resident.entry import Assignment, OtherWireVersion
from engine.resident.frames import Frame
from engine.resident.launcher import Job, Launcher
from engine.resident.messages import Accompany
from engine.resident.registration import ENOUGH, Candidate, Registration
from engine.resident.roster import POLL_SECONDS
from engine.resident.start_faults import NoSlots, UnequalReleases
from engine.resident.transport import Connection, Event
from io_kafka.outside import Outside

_log = Logger("engine.resident.crew")

FAILURE_CHARACTERS_MAX = 2000
"""How many characters of the text about a failed job are kept. Spark's text has the stack traces of the JVM."""

_OTHER_WIRE = re.compile(rf"{OtherWireVersion.__name__}: (?P<what>.*)")
"""In the text of a failed job: Spark gives the exception of a task as text."""

SPARES_MAX = 64
"""Candidates beyond the number of workers. Each occupies a task slot and some 60 MB until the numbers are given."""

EXTRA_SECONDS = 1.0
"""Between two additional tasks, after the first ones: as many as there are workers come as fast as they register. Spark may go on placing tasks
where they do not help, so the later ones only wait for a host that comes back."""


@dataclass(frozen=True)
class Shrink:
    """When a start makes up for task slots that are missing. `after_s`: so many seconds after it has begun. `companions` says how many
    companions of each candidate let the run go on; None if no number does."""

    after_s: float
    companions: Callable[[], Mapping[Candidate, int] | None]


class Recruiting:
    """The tasks that the crew starts, until each of them is the task of a worker. `tasks`: how many tasks the start needs. `register_s`: how
    long it may take until they have registered, in seconds. `poll` takes what arrives, and waits for it at most so many seconds."""

    def __init__(
        self,
        tasks: int,
        launcher: Launcher,
        assignment: Assignment,
        *,
        register_s: float,
        outside: Outside,
        poll: Callable[[float], None],
    ) -> None:
        self._tasks, self._launcher, self._assignment = tasks, launcher, assignment
        self._register_s, self._outside, self._poll = register_s, outside, poll
        self._jobs: list[Job] = []
        self._recruits_from = 0
        self._registration = self._new_registration()
        self._register_until = 0.0

    def _new_registration(self) -> Registration:
        return Registration(self._assignment.term, self._assignment.token, self._outside.monotonic)

    @property
    def _term(self) -> Term:
        return self._assignment.term

    @property
    def candidates(self) -> list[Candidate]:
        """The candidates that have reported what their hosts hold, in the order of their registration."""
        return self._registration.candidates

    @property
    def connections(self) -> list[Connection]:
        return self._registration.connections

    def take(self, event: Event) -> None:
        """An event of a connection that belongs to no worker."""
        self._registration.take(event)

    def expire(self) -> None:
        """Ends connections on which nobody has registered in time."""
        self._registration.expire()

    # The start

    def launch(self) -> None:
        """Starts the workers' jobs. Raises NoSlots if it is known that there are too few task slots."""
        slots = self._launcher.slots
        if slots is not None and slots < self._tasks:
            raise NoSlots(self._tasks, 0, slots, 0.0)
        if slots == self._tasks and self._term.attempt == 0:
            _log.warning(
                "the workers take all task slots of Spark",
                slots=slots,
                what_to_do="a worker that replaces a lost one may have to wait, and a change of the layout finds none: give Spark at least one "
                "more (spark.master), or run with fewer workers",
            )
        for _ in range(self._tasks):
            self._start_task()

    def _start_task(self) -> None:
        looks = self._assignment.setup.state_location.on_cluster or not self._jobs
        self._jobs.append(self._launcher.start(replace(self._assignment, looks=looks)))

    def wait_for_candidates(self, shrink: Shrink | None = None) -> None:
        """Waits until there are as many candidates as the start needs. `shrink`: when companions make up for those that are missing; None if
        they never do. Raises NoSlots or TaskLost."""
        began = self._outside.monotonic()
        wait_s = self._register_s if shrink is None else max(self._register_s, shrink.after_s)
        self._register_until = began + wait_s
        if shrink is not None:
            self._start_missing_companions(shrink, began)
        self._wait_for_all(wait_s)

    def _wait_for_all(self, wait_s: float) -> None:
        """Raises NoSlots or TaskLost."""
        if not self._wait_for_count(self._tasks):
            raise NoSlots(self._tasks, len(self.candidates), self._launcher.slots_now(), wait_s)

    def _start_missing_companions(self, shrink: Shrink, began: float) -> None:
        """Has candidates start the tasks that are missing, as soon as that is due and they suffice."""
        self._wait_for_count(self._tasks, began + shrink.after_s)
        while (count := len(self.candidates)) < self._tasks:
            if self.start_companions(shrink.companions()) or not self._wait_for_count(count + 1):
                return

    def start_companions(self, companions: Mapping[Candidate, int] | None) -> bool:
        """Has each of these candidates start so many companions. From now on they are waited for as all tasks are at the start. There may be
        none, because the candidates are enough. Returns False for None: no companions would help."""
        if companions is None:
            return False
        for candidate, count in companions.items():
            _log.warning("a task starts companions", host=candidate.registered.host, companions=count)
            candidate.connection.send(Frame(self._term, Accompany(count=count)))
        self._tasks = len(self.candidates) + sum(companions.values())
        self._register_until = self._outside.monotonic() + self._register_s
        return True

    def wait_for_companions(self) -> None:
        """Until all have registered that were asked for. Raises NoSlots or TaskLost."""
        self._wait_for_all(self._register_s)

    def wait_for_another(self, seconds: float | None = None) -> bool:
        """Starts one task more, and waits until it is a candidate. Returns False if it did not register before the deadline of all and within
        `seconds`, or if there are SPARES_MAX already. Raises TaskLost."""
        count = len(self.candidates)
        if count >= self._tasks + SPARES_MAX:
            return False
        if count >= 2 * self._tasks:
            self._wait_for_count(count + 1, self._outside.monotonic() + EXTRA_SECONDS)  # a late one may come
        self._start_task()
        return self._wait_for_count(count + 1, None if seconds is None else self._outside.monotonic() + seconds)

    def _wait_for_count(self, count: int, until: float | None = None) -> bool:
        """Whether there are so many candidates before the deadline."""
        deadline = self._register_until if until is None else min(until, self._register_until)
        while len(self.candidates) < count:
            left = deadline - self._outside.monotonic()
            if left <= 0:
                return False
            self._check_jobs()
            self._poll(min(POLL_SECONDS, left))
        return True

    def _check_jobs(self) -> None:
        for job in self._jobs:
            if job.failure is not None:
                if (mismatch := _release_mismatch(job.failure)) is not None:
                    raise mismatch from job.failure
                raise TaskLost(
                    f"the Spark job of a worker ended before all workers had registered: {_text_of(job.failure)}"
                ) from job.failure

    # While steps run

    def recruit(self, count: int) -> None:
        """Starts so many tasks that are to become workers. `candidates` has those that are ready."""
        self._registration = self._new_registration()
        self._recruits_from = len(self._jobs)
        for _ in range(count):
            self._start_task()

    @property
    def failed_recruits(self) -> list[str]:
        """Why tasks have ended that were to become workers: what each failure says."""
        failures = (job.failure for job in self._jobs[self._recruits_from :])
        return [_text_of(failure) for failure in failures if failure is not None]

    def recruit_another(self) -> None:
        """Starts one more such task."""
        self._start_task()

    def dismiss(self) -> None:
        """Sends the recruits away: no worker is needed."""
        for candidate in self._registration.end():
            self.send_away(candidate)

    def close_registration(self) -> list[Candidate]:
        """All candidates, which are to become workers or to be sent away. No further one is accepted."""
        return self._registration.end()

    def send_away(self, candidate: Candidate) -> None:
        self._registration.refuse(candidate.connection, ENOUGH)

    def cancel(self) -> None:
        """Ends all jobs, without waiting for them."""
        for job in self._jobs:
            job.cancel()


def _release_mismatch(failure: Exception) -> UnequalReleases | None:
    """The fault of a task that has ended because its release has other messages; None if it has ended for another reason."""
    other = _OTHER_WIRE.search(str(failure))
    return None if other is None else UnequalReleases(other["what"])


def _text_of(failure: Exception) -> str:
    mismatch = _release_mismatch(failure)
    return mismatch.message if mismatch is not None else str(failure)[:FAILURE_CHARACTERS_MAX] or type(failure).__name__
