"""What the loop asks of the store's side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from coordinator.storing.storing import Storing


def test_a_manifest_that_nobody_waits_for_is_still_written() -> None:
    """A run records that it has ended only if no thread of it is at work any more."""
    storing = Storing.__new__(Storing)
    storing._collector = cast(Any, SimpleNamespace(is_under_way=False))
    storing._left, storing._upload = [], None
    assert not storing.acts_beside
    writing = SimpleNamespace(is_over=False)
    storing._upload = cast(Any, SimpleNamespace(description=SimpleNamespace(writing=writing)))
    for _ in range(2):  # two recoveries
        storing._leave()
        assert storing._upload is None and storing.acts_beside
    writing.is_over = True
    assert not storing.acts_beside
    storing._leave()
    assert not storing._left
