"""From a request to a transition that can be recorded: what is waited for, and who is told what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.background_work import BackgroundWork
from coordinator.revisions.requests import ApplyRequest, TransitionRefused
from coordinator.transition.findings import NoFindings, Preparing, WantedTransition
from coordinator.transition.machine import AnyTransition, Transition
from coordinator.transition.preparation import Answer, Preparation
from coordinator.transition.reread_starts import Rereads
from io_kafka.offsets import TopicPartition
from tests.coordinator.transition.test_reread_portions import source

REQUEST: Any = ApplyRequest(spec=None, hold=False)  # type: ignore[arg-type]
PREPARED: Any = SimpleNamespace(plan=SimpleNamespace(texts=("a", "b"), program_names=("c",)))


class Story:
    """One preparation. `start`: runs what its thread does. `foreseen`: whether the workers have read the documents."""

    def __init__(self, found: Any, answer: Answer | None) -> None:
        self.told: list[Any] = []
        self.foreseen = False
        self.woken = 0
        self._threads: list[Any] = []
        outside: Any = SimpleNamespace(start_thread=lambda name, work: self._threads.append(work))
        self.preparation = Preparation(REQUEST, answer, lambda: self._found(found), outside, self._wake)
        self.machine: AnyTransition = Transition(known=Preparing(self.preparation))

    def _found(self, found: Any) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    def _wake(self) -> None:
        self.woken += 1

    def start(self) -> None:
        self._threads.pop()()

    def advance(self) -> bool:
        """Returns whether the preparation is over."""
        programs = SimpleNamespace(
            prefetch=lambda topic, names: self.told.append(("prefetch programs", names)),
            poll_prefetch=lambda: self.foreseen,
        )
        writer: Any = SimpleNamespace(append_plans=lambda topic, texts: self.told.append(("plans", texts)))
        crew: Any = SimpleNamespace(programs=programs)
        self.preparation.advance(writer, "plans", crew, self.machine)
        return not isinstance(self.machine.known, Preparing)


def test_steps_go_on_until_all_workers_have_read_the_documents() -> None:
    answers: list[Any] = []
    story = Story(PREPARED, answers.append)
    assert not story.advance() and not story.told, "it is planned beside the steps"
    story.start()
    assert story.woken == 1, "a loop that waits is woken"
    assert not story.advance()
    assert story.told == [("plans", ("a", "b")), ("prefetch programs", ("c",))]
    assert not answers, "nothing is recorded before the workers have the documents"
    story.preparation.accept()
    assert answers == [None]
    story.foreseen = True
    assert story.advance() and story.machine.known == WantedTransition(PREPARED)
    assert len(story.told) == 2, "nothing is written twice"


def test_new_workers_are_told_again() -> None:
    story = Story(PREPARED, lambda fault: None)
    story.start()
    story.advance()
    story.preparation.recovered()
    story.advance()
    assert [what for what, _ in story.told] == ["plans", "prefetch programs", "prefetch programs"]


def test_who_has_asked_is_told_why_not() -> None:
    answers: list[Any] = []
    refusal = TransitionRefused("no.")
    story = Story(refusal, answers.append)
    story.start()
    assert story.advance() and answers == [refusal]
    assert not story.told and story.machine.known == NoFindings()
    story.preparation.end()
    assert len(answers) == 1, "an answer is given once"


def test_a_refusal_that_nobody_waits_for_ends_the_run() -> None:
    story = Story(TransitionRefused("no."), None)
    story.start()
    with pytest.raises(TransitionRefused, match="no"):
        story.advance()


def test_a_mistake_of_ours_is_no_refusal() -> None:
    answers: list[Any] = []
    story = Story(KeyError("x"), answers.append)
    story.start()
    with pytest.raises(KeyError):
        story.advance()
    assert not answers


def test_a_run_that_ends_tells_who_waits() -> None:
    answers: list[Any] = []
    story = Story(PREPARED, answers.append)
    story.preparation.end()
    assert isinstance(answers[0], TransitionRefused)
    Story(PREPARED, None).preparation.end()


def test_what_is_done_beside_the_steps_raises_its_fault_where_it_is_asked_for() -> None:
    works: list[Any] = []
    outside: Any = SimpleNamespace(start_thread=lambda name, work: works.append(work))
    beside = BackgroundWork(outside, "work", lambda: 1 // 0, lambda: None)
    assert not beside.is_over
    works[0]()
    assert beside.is_over
    with pytest.raises(ZeroDivisionError):
        beside.result()


def test_a_partition_that_began_after_the_plan_was_made_is_read_again() -> None:
    """And no input comes to it any more, so no division tells of it."""
    old, new, foreign = TopicPartition("in", 0), TopicPartition("in", 1), TopicPartition("other", 0)
    rereads = Rereads([source("in")], [source("in"), source("other")], {old: 5}, frozenset(), ())
    log: Any = SimpleNamespace(firsts={old: 5, new: 2, foreign: 0}, next_offsets={old: 9, new: 3, foreign: 1})
    assert [(each.where, each.start, each.is_live) for each in rereads.at(log)] == [(old, 5, True), (new, 2, True)]
    fresh: Any = SimpleNamespace(firsts={}, next_offsets={})
    assert rereads.at(fresh) == (), "the first division says where both begin"
