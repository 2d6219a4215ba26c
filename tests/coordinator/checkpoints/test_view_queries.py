"""Queries of views by the workers: one at a time, one version, and always an answer or a fault."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from base.version import VersionId
from coordinator import inbox
from coordinator.checkpoints.view_queries import NoAnswer, ViewQueries
from coordinator.checkpoints.view_rows import ViewRows, tables_of
from engine.errors import DataError, TaskLost
from engine.resident.messages import Contents
from engine.run.exchange import from_buffer, to_buffer
from tests.io_kafka.layouts import owned_by

V1, V2, V3 = VersionId(1, 1, "a"), VersionId(2, 2, "b"), VersionId(3, 3, "c")
ROWS = [to_buffer(pa.table({"a": [n]})) for n in range(2)]
SECONDS = 20.0


class Workers:
    """Two workers. `rounds`: what `contents` says, one after the other. `revisions`: of which each question was."""

    def __init__(self, *rounds: Any) -> None:
        self.rounds, self.asked = list(rounds), list[tuple[str, ...]]()
        self.revisions: list[int] = []
        self.checkpoints = self.programs = self
        self.readable = {1, 2, 3}

    def begin_read(self, views: Sequence[str], revision: int, *, checks_errors: bool) -> None:
        assert checks_errors == (revision != 3), "a database does not know the errors of the next revision"
        self.asked.append(tuple(views))
        self.revisions.append(revision)

    def poll_read(self) -> Any:
        found = self.rounds.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def at(*versions: VersionId) -> Any:
    return {
        worker: (Contents(version=version, owned=owned_by(0, 1)[worker]), (ROWS[worker],))
        for worker, version in enumerate(versions)
    }


class Upcoming:
    """Revision 3, which versions have that were taken before step `since` or a later one. `refusals`: how often each method is called before
    it refuses."""

    def __init__(self, since: int = 0, **refusals: int) -> None:
        self.since, self.refusals = since, refusals

    def number(self, fingerprint: str, views: Sequence[str]) -> int:
        assert (fingerprint, tuple(views)) == ("next", ("v",))
        self._refuse("number")
        return 3

    def is_in(self, step: int) -> bool:
        return step >= self.since

    def check_answers(self, views: Sequence[str], step: int) -> None:
        self._refuse("check_answers")

    def _refuse(self, what: str) -> None:
        if what in self.refusals:
            self.refusals[what] -= 1
            if self.refusals[what] < 0:
                raise NoAnswer(what)


class Asking:
    """A question in a thread of its own."""

    def __init__(self, known: ViewQueries, next_of: str | None) -> None:
        self.next_of = next_of
        self.result: ViewRows | Exception | None = None
        self.thread = threading.Thread(target=self._ask, args=(known,))
        self.thread.start()

    def _ask(self, known: ViewQueries) -> None:
        try:
            self.result = known.ask(["v"], SECONDS, self.next_of)
        except Exception as fault:
            self.result = fault

    def over(self) -> ViewRows | Exception | None:
        self.thread.join(SECONDS)
        return self.result


@pytest.fixture
def known() -> Any:
    woken = threading.Event()
    made = ViewQueries(woken.set)
    made.woken = woken  # type: ignore[attr-defined]
    return made


def asked(known: Any, next_of: str | None = None) -> Asking:
    asking = Asking(known, next_of)
    assert known.woken.wait(SECONDS), "the loop is not woken"
    known.woken.clear()
    return asking


def revision_at(step: int) -> int:
    """The second revision begins with step 2."""
    return 1 if step <= 2 else 2


def serve(known: ViewQueries, crew: Workers, times: int, step: int = 2, upcoming: Upcoming | None = None) -> list[bool]:
    """Whether another checkpoint is needed, each time."""
    return [
        known.serve(crew, revision_at, upcoming or Upcoming(), step)  # type: ignore[arg-type]
        for _ in range(times)
    ]


def test_an_answer_has_the_rows_of_all_workers(known: Any) -> None:
    asking, crew = asked(known), Workers(None, at(V1, V1))
    serve(known, crew, 3)
    found = asking.over()
    assert isinstance(found, ViewRows) and found.version == V1
    assert from_buffer(tables_of(found)[0]).column("a").to_pylist() == [0, 1]
    serve(known, crew, 3)
    assert crew.asked == [("v",)] and not known.are_waiting


def test_workers_at_different_versions_are_asked_again(known: Any) -> None:
    asking, crew = asked(known), Workers(at(V1, V2), at(V2, V2))
    serve(known, crew, 4)
    found = asking.over()
    assert isinstance(found, ViewRows) and found.version == V2 and len(crew.asked) == 2


def test_a_version_of_another_revision_is_asked_again(known: Any) -> None:
    """A checkpoint becomes complete in the workers while they are asked, and its views are those of the next project."""
    asking, crew = asked(known), Workers(at(V3, V3), at(V3, V3))
    serve(known, crew, 2)
    assert asking.result is None, "it has the views of the former project"
    serve(known, crew, 2, step=3)
    found = asking.over()
    assert isinstance(found, ViewRows) and found.version == V3
    assert crew.revisions == [1, 2]


def test_the_next_revision_is_read_from_a_version_that_has_it(known: Any) -> None:
    """The last checkpoint is too old, and while the workers read the next one, some of them still have it."""
    asking, crew = asked(known, "next"), Workers(at(V1, V1), at(V2, V2))
    assert serve(known, crew, 2, step=1, upcoming=Upcoming(since=2)) == [True, True] and not crew.asked
    assert serve(known, crew, 4, step=2, upcoming=Upcoming(since=2)) == [False] * 4
    found = asking.over()
    assert isinstance(found, ViewRows) and found.version == V2
    assert crew.revisions == [3, 3]


@pytest.mark.parametrize("refused", [{"number": 0}, {"number": 1}, {"check_answers": 0}])
def test_a_refusal_of_the_next_revision_is_the_answer(known: Any, refused: dict[str, int]) -> None:
    """Also if the transition is taken back while the workers read."""
    asking, crew = asked(known, "next"), Workers(at(V1, V1))
    serve(known, crew, 2, upcoming=Upcoming(**refused))
    assert isinstance(asking.over(), NoAnswer) and not known.are_waiting
    after = asked(known)
    crew.rounds = [at(V1, V1)]
    serve(known, crew, 2)
    assert isinstance(after.over(), ViewRows)


def test_new_workers_are_asked_what_the_lost_ones_have_not_answered(known: Any) -> None:
    asking, lost, new = asked(known), Workers(TaskLost("gone")), Workers(at(V1, V1))
    serve(known, lost, 1)
    with pytest.raises(TaskLost):
        serve(known, lost, 1)
    serve(known, new, 2)
    assert isinstance(asking.over(), ViewRows) and new.asked == [("v",)]


@pytest.mark.parametrize(
    ("buffers", "said"),
    [
        ((b"rubbish",), "worker 1 has sent rows of view v, which cannot be read"),
        ((), "worker 1 has answered a question about 1 views with 0 tables"),
        ((ROWS[0], ROWS[0]), "worker 1 has answered a question about 1 views with 2 tables"),
        ((to_buffer(pa.table({"b": [1]})),), "worker 1 has sent rows of view v, which have other columns"),
    ],
    ids=["no table", "none", "two", "other columns"],
)
def test_an_answer_that_cannot_be_read_is_a_loss_of_its_worker_and_the_new_ones_are_asked(
    known: Any, buffers: tuple[Any, ...], said: str
) -> None:
    told = at(V1, V1)
    told[1] = (told[1][0], buffers)
    asking, liars, new = asked(known), Workers(told), Workers(at(V1, V1))
    serve(known, liars, 1)
    with pytest.raises(TaskLost, match=said):
        serve(known, liars, 1)
    serve(known, new, 2)
    assert isinstance(asking.over(), ViewRows) and new.asked == [("v",)]


def test_a_fault_of_a_read_is_the_answer_and_the_next_question_is_asked(known: Any) -> None:
    first, crew = asked(known), Workers(DataError("no such view"), at(V1, V1))
    second = asked(known)
    serve(known, crew, 4)
    ends = [first.over(), second.over()]
    assert sorted(type(end).__name__ for end in ends) == ["DataError", "ViewRows"] and len(crew.asked) == 2


def test_the_end_of_the_run_is_an_answer(known: Any) -> None:
    asking = asked(known)
    known.end()
    assert isinstance(asking.over(), NoAnswer)
    with pytest.raises(NoAnswer, match="ending"):
        known.ask(["v"], SECONDS)


def test_questions_and_their_time_are_bounded(known: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoAnswer, match="within 0 s"):
        known.ask(["v"], 0.0)
    monkeypatch.setattr(inbox, "WAITING_MAX", 1)
    with pytest.raises(NoAnswer, match="too many"):
        known.ask(["w"], 0.0)
    crew = Workers(at(V1, V1))
    serve(known, crew, 3)  # nobody waits for it any more
    assert not known.are_waiting
