"""Questions of other threads to the workers: what do kept views hold?

    asked -> under way with the present crew -> answered: all workers read the same version
     |          ^    |
     |          +----+ workers read different versions, because a fold is going on; or the crew was replaced
     +-> refused: it is about the next revision, whose views cannot be read

Guarantees: an answer belongs to one checkpoint of all workers. The loop never waits for an answer, and steps go on meanwhile. One question is
under way at a time. Whoever asks waits for a bounded time, and gets a fault if the run ends first.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import structlog

from base.fault import ExitCode, Fault
from base.short_text import short_text
from base.slots import why_no_partition
from base.version import VersionId
from engine.errors import TaskLost
from engine.resident.crew import Crew
from engine.resident.frames import Buffer
from engine.resident.messages import Contents
from engine.resident.received import received_table
from engine.resident.roster import RECOVERABLE

_log = structlog.get_logger("coordinator.checkpoints.questions")

WAITING_MAX = 16
"""Questions that wait. Each may take a second of all workers' time, and its answer stays in memory until it is taken."""


class NoAnswer(Fault):
    """The workers did not answer a question."""

    exit_code = ExitCode.STATE


@dataclass(frozen=True)
class ViewRows:
    """The rows of some views as of `version`. `parts[i]` has one Arrow IPC stream per worker for the i-th view."""

    version: VersionId
    parts: tuple[tuple[Buffer, ...], ...]


@dataclass(eq=False)
class _Question:
    """`next_of`: the fingerprint of the circuit of the next revision, if the question is about that one."""

    views: tuple[str, ...]
    next_of: str | None
    done: threading.Event = field(default_factory=threading.Event)
    answer: ViewRows | Exception | None = None

    def answer_with(self, answer: ViewRows | Exception) -> None:
        self.answer = answer
        self.done.set()


class NextRevision(Protocol):
    """What can be read of the next revision at this moment. All raise NoAnswer if nothing can be."""

    def number(self, fingerprint: str, views: Sequence[str]) -> int:
        """Returns the number of the revision whose circuit has the fingerprint. Raises NoAnswer also if one of the views cannot be read yet."""

    def is_in(self, step: int) -> bool:
        """Whether a version that was taken before this step has it."""

    def check_answers(self, views: Sequence[str], step: int) -> None:
        """Raises NoAnswer if one of the views has no answer in such a version."""


class Questions:
    """A queue between threads that ask and the loop that serves. `wake` ends a wait of the loop."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: deque[_Question] = deque()
        self._asked_of: Crew | None = None  # by which the first question is being answered
        self._revision = 0  # of which that question is
        self._is_over = False

    def ask(self, views: Sequence[str], seconds: float, next_of: str | None = None) -> ViewRows:
        """The rows of the views, which the circuit must have. `next_of`: the fingerprint of the circuit of the next revision, to read that
        one. Waits for at most `seconds`. Raises NoAnswer, or the fault of a worker."""
        question = _Question(tuple(views), next_of)
        with self._lock:
            if self._is_over or len(self._waiting) >= WAITING_MAX:
                raise NoAnswer("the service is ending, or has too many questions to answer.", "Ask again.")
            self._waiting.append(question)
        self._wake()
        question.done.wait(seconds)
        with self._lock:
            if question in self._waiting and question is not self._waiting[0]:
                self._waiting.remove(question)
        if isinstance(question.answer, ViewRows):
            return question.answer
        if question.answer is not None:
            raise question.answer
        raise NoAnswer(
            f"the workers have not answered within {seconds:g} s: they start, or stand at different checkpoints.",
            "Ask again; `stepwell status` shows what the service does.",
        )

    @property
    def are_waiting(self) -> bool:
        return bool(self._waiting)

    def serve(self, crew: Crew, revision_at: Callable[[int], int], upcoming: NextRevision, step: int) -> bool:
        """Called by the loop between its actions: takes answers that have come, and asks the next question. `revision_at(step)`: the revision
        whose views a version has that was taken before this step. `step`: that of the last complete checkpoint. Returns whether the question
        waits for another checkpoint. Raises TaskLost."""
        if not self._waiting:
            return False
        question = self._waiting[0]
        try:
            if self._asked_of is not crew:
                return self._begin(question, crew, revision_at, upcoming, step)
            self._take_answer(question, crew, revision_at, upcoming)
        except NoAnswer as refused:
            self._answer(question, refused)
        return False

    def _begin(
        self, question: _Question, crew: Crew, revision_at: Callable[[int], int], upcoming: NextRevision, step: int
    ) -> bool:
        if question.next_of is None:
            revision = revision_at(step)
        else:
            revision = upcoming.number(question.next_of, question.views)
            if not upcoming.is_in(step):
                return True
        if revision in crew.programs.readable:  # otherwise the workers learn it when the replay comes to it
            self._asked_of, self._revision = crew, revision
            crew.checkpoints.begin_read(question.views, revision, checks_errors=question.next_of is None)
        return False

    def _take_answer(
        self, question: _Question, crew: Crew, revision_at: Callable[[int], int], upcoming: NextRevision
    ) -> None:
        try:
            found = crew.checkpoints.poll_read()
        except RECOVERABLE:
            raise
        except Exception as fault:  # of a read, which has changed nothing
            _log.warning("a question was not answered", fault=short_text(fault))
            self._answer(question, fault)
            return
        if found is None:
            return
        self._asked_of = None
        _check(question.views, found)
        versions = {contents.version for contents, _ in found.values()}
        owned = {worker: contents.owned for worker, (contents, _) in found.items()}
        if len(versions) > 1 or why_no_partition(owned) is not None:
            return
        (version,) = versions
        if question.next_of is None:
            is_read_right = revision_at(version.step) == self._revision
        else:
            is_next = upcoming.number(question.next_of, question.views) == self._revision
            is_read_right = is_next and upcoming.is_in(version.step)
        if is_read_right:
            if question.next_of is not None:
                upcoming.check_answers(question.views, version.step)
            parts = tuple(zip(*(buffers for _, buffers in found.values()), strict=True))
            self._answer(question, ViewRows(version, parts))

    def end(self) -> None:
        """The run is over: nobody answers any more."""
        with self._lock:
            self._is_over = True
            ended, self._waiting = list(self._waiting), deque()
        for question in ended:
            question.answer_with(
                NoAnswer("the service has ended.", "Start it again with `stepwell run`, or see `stepwell status`.")
            )

    def _answer(self, question: _Question, answer: ViewRows | Exception) -> None:
        self._asked_of = None
        with self._lock:
            self._waiting.popleft()
        question.answer_with(answer)


def _check(views: Sequence[str], found: Mapping[int, tuple[Contents, tuple[Buffer, ...]]]) -> None:
    """Raises TaskLost if the rows of a worker cannot be read, or have other columns than those of the first one."""
    schemas: dict[int, pa.Schema] = {}
    for worker, (_, buffers) in found.items():
        if len(buffers) != len(views):
            raise TaskLost(
                f"worker {worker} has answered a question about {len(views)} views with {len(buffers)} tables"
            )
        for position, (view, buffer) in enumerate(zip(views, buffers, strict=True)):
            table = received_table(buffer, schemas.get(position), f"worker {worker} has sent rows of view {view}")
            schemas.setdefault(position, table.schema)


def tables_of(rows: ViewRows) -> list[pa.Buffer]:
    """One Arrow IPC stream for each view, with the rows of all workers."""
    return [_join(parts) for parts in rows.parts]


def _join(parts: Sequence[Buffer]) -> pa.Buffer:
    tables = [pa.ipc.open_stream(part).read_all() for part in parts]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    return sink.getvalue()
