"""Requests of other threads: one that waits gets an answer, also if nobody takes it any more."""

from __future__ import annotations

from typing import Any

import pytest

from base.fault import Fault
from coordinator.requests import Inbox, Requests


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
