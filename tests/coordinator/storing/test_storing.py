"""What the loop asks of the store's side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from coordinator.status import StatusBoard
from coordinator.storing.machine import StoringMachine
from coordinator.storing.storing import Storing
from storage.remote.answers import fault_of
from storage.remote.errors import StoreUnreachable


def test_a_manifest_that_nobody_waits_for_is_still_written() -> None:
    """A run records that it has ended only if no thread of it is at work any more."""
    storing = Storing.__new__(Storing)
    storing._collector = cast(Any, SimpleNamespace(is_under_way=False))
    storing._abandoned_writes, storing._upload = [], None
    assert not storing.acts_in_background
    writing = SimpleNamespace(is_over=False)
    storing._upload = cast(Any, SimpleNamespace(description=SimpleNamespace(writing=writing)))
    for _ in range(2):  # two recoveries
        storing._abandon_upload()
        assert storing._upload is None and storing.acts_in_background
    writing.is_over = True
    assert not storing.acts_in_background
    storing._abandon_upload()
    assert not storing._abandoned_writes


def test_the_status_counts_the_rights_that_the_store_refuses() -> None:
    """`backup create` waits for a store that is away, and not for one that refuses."""
    board = StatusBoard("p")
    storing = Storing.__new__(Storing)
    storing.machine, storing._abandoned_writes, storing._upload, storing._fault = StoringMachine(60.0), [], None, ""
    storing._board, storing._is_late, storing._uploaded_bytes, storing._refusals = board, False, 0, 0
    storing._settings = cast(Any, SimpleNamespace(place=SimpleNamespace(uri="s3://b")))
    storing._writer = cast(Any, SimpleNamespace(state=SimpleNamespace(stored=None)))
    storing._outside = cast(Any, SimpleNamespace(monotonic=lambda: 0.0))
    denied = fault_of(OSError("AWS Error ACCESS_DENIED during PutObject operation"), "s3://b", "write", "a")
    for fault, refusals in ((StoreUnreachable("s3://b", "write a", "it is away"), 0), (denied, 1), (denied, 2)):
        storing._give_up(fault, 0.0)
        storing._show()
        shown = board.show()["store"]
        assert (shown["refusals"], shown["fault"]) == (refusals, str(fault))
