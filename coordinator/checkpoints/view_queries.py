"""Queries of views by other threads: the workers are asked what kept views hold.

    asked -> under way with the present crew -> answered: all workers read the same version
     |          ^    |
     |          +----+ workers read different versions, because a fold is going on; or the crew was replaced
     +-> refused: it is about the next revision, whose views cannot be read

Guarantees: an answer belongs to one checkpoint of all workers. The loop never waits for an answer, and steps go on meanwhile. One question is
under way at a time. Whoever asks waits for a bounded time, and receives a fault if the run ends first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from base.fault import ExitCode, Fault
from base.logger import Logger
from base.short_text import short_text
from base.slots import why_no_partition
from coordinator.checkpoints.view_rows import ViewRows, check_rows
from coordinator.inbox import Inbox
from engine.resident.crew import Crew
from engine.resident.roster import RECOVERABLE

_log = Logger("coordinator.checkpoints.view_queries")


class NoAnswer(Fault):
    """The workers did not answer a question."""

    exit_code = ExitCode.STATE


@dataclass(eq=False)
class _Question:
    """`next_of`: the fingerprint of the circuit of the next revision, if the question is about that one."""

    views: tuple[str, ...]
    next_of: str | None
    rows: ViewRows | None = None


class NextRevision(Protocol):
    """What can be read of the next revision at this moment. All raise NoAnswer if nothing can be."""

    def number(self, fingerprint: str, views: Sequence[str]) -> int:
        """Returns the number of the revision whose circuit has the fingerprint. Raises NoAnswer also if one of the views cannot be read yet."""

    def is_in(self, step: int) -> bool:
        """Whether a version that was taken before this step has it."""

    def check_answers(self, views: Sequence[str], step: int) -> None:
        """Raises NoAnswer if one of the views has no answer in such a version."""


class ViewQueries:
    """Questions of threads that ask, which the loop has the workers answer one after the other. `wake` ends a wait of the loop."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._inbox = Inbox[_Question](wake, NoAnswer, "Ask again; `stepwell status` shows what the service does.")
        self._asked_of: Crew | None = None  # by which the first question is being answered
        self._revision = 0  # of which that question is

    def ask(self, views: Sequence[str], seconds: float, next_of: str | None = None) -> ViewRows:
        """The rows of the views, which the circuit must have. `next_of`: the fingerprint of the circuit of the next revision, to read that
        one. Waits for at most `seconds`. Raises NoAnswer, or the fault of a worker."""
        asked = self._inbox.put(_Question(tuple(views), next_of))
        asked.done.wait(seconds)
        self._inbox.forget(asked)
        if asked.fault is not None:
            raise asked.fault
        if asked.request.rows is not None:
            return asked.request.rows
        raise NoAnswer(
            f"the workers have not answered within {seconds:g} s: they start, or stand at different checkpoints.",
            "Ask again; `stepwell status` shows what the service does.",
        )

    @property
    def are_waiting(self) -> bool:
        return not self._inbox.is_empty

    def serve(self, crew: Crew, revision_at: Callable[[int], int], upcoming: NextRevision, step: int) -> bool:
        """Called by the loop between its actions: takes answers that have come, and asks the next question. `revision_at(step)`: the revision
        whose views a version has that was taken before this step. `step`: that of the last complete checkpoint. Returns whether the question
        waits for another checkpoint. Raises TaskLost."""
        first = self._inbox.first()
        if first is None:
            return False
        question = first.request
        try:
            if self._asked_of is not crew:
                return self._begin(question, crew, revision_at, upcoming, step)
            self._take_answer(question, crew, revision_at, upcoming)
        except NoAnswer as refused:
            self._answer(refused)
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
            self._answer(fault)
            return
        if found is None:
            return
        self._asked_of = None
        check_rows(question.views, found)
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
            question.rows = ViewRows(version, parts)
            self._answer(None)

    def end(self) -> None:
        """The run is over: nobody answers any more."""
        self._inbox.end()

    def _answer(self, fault: Exception | None) -> None:
        self._asked_of = None
        self._inbox.answer_first(fault)
