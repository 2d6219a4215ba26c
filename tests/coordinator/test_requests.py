"""Requests of other threads: one that waits receives an answer, also if nobody takes it any more, and only so many wait."""

from __future__ import annotations

from typing import Any

import pytest

from base.fault import Fault
from coordinator.inbox import WAITING_MAX, Inbox
from coordinator.requests import Requests


def test_nobody_waits_in_an_inbox_of_a_run_that_is_over() -> None:
    """Whatever is asked: an inbox that `end` does not name would let its users wait for their whole time."""
    requests = Requests()
    inboxes: list[Inbox[Any]] = [each for each in vars(requests).values() if isinstance(each, Inbox)]
    waiting = [inbox.put("a request") for inbox in inboxes]
    requests.end()
    assert inboxes and [asked.fault for asked in waiting if not isinstance(asked.fault, Fault)] == []
    for inbox in inboxes:
        with pytest.raises(Fault, match="the service is ending"):
            inbox.put("a later one")


def test_an_inbox_refuses_more_than_it_may_hold_until_something_was_taken() -> None:
    requests = Requests()
    inboxes: list[Inbox[Any]] = [each for each in vars(requests).values() if isinstance(each, Inbox)]
    for inbox in inboxes:
        for number in range(WAITING_MAX):
            inbox.put(number)
        with pytest.raises(Fault, match="too many requests to answer; this one was not taken"):
            inbox.put("one more")
        assert [asked.request for asked in inbox.take()] == list(range(WAITING_MAX))
        inbox.put("a later one")


def test_requests_without_an_answer_that_are_made_again_wait_once() -> None:
    requests = Requests()
    for _ in range(100):
        for name in ("pause", "stop", "hand-over", "checkpoint", "resume", "pause"):
            requests.ask(name)  # type: ignore[arg-type]
    assert requests.take() == ["stop", "hand-over", "checkpoint", "resume", "pause"]
    assert requests.take() == []
