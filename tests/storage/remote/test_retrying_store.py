"""A store that breaks off is read on, and one that stays away is given up."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from storage.remote.errors import ObjectMissing, StoreUnreachable
from storage.remote.retrying_store import STORE_SECONDS_MAX, WAIT_SECONDS_MAX, RetryingStore
from tests.storage.remote.stores import MemoryStore


class Flaky(MemoryStore):
    """Breaks off after so many pieces of each reading; from then on never. `now`: the time, in seconds."""

    def __init__(self, breaks: list[int]) -> None:
        super().__init__()
        self.breaks, self.now = breaks, 0.0

    def read(self, name: str) -> Iterator[bytes]:
        left = self.breaks.pop(0) if self.breaks else 1 << 30
        for piece in super().read(name):
            if not left:
                raise StoreUnreachable(self.root, f"read {name}", "it broke off")
            left -= 1
            yield piece

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def patient(self) -> RetryingStore:
        return RetryingStore(self, monotonic=lambda: self.now, sleep=self.sleep)


@pytest.mark.parametrize("breaks", [[], [0], [3, 0, 0, 2, 9, 4], [1] * 10])
def test_each_byte_is_given_once(breaks: list[int]) -> None:
    store = Flaky(list(breaks))
    content = random.Random(1).randbytes(9_500)
    store.write("a", [content])
    assert b"".join(store.patient().read("a")) == content
    assert not store.breaks and (store.now > 0) == bool(breaks)


def test_a_store_that_stays_away_is_given_up() -> None:
    store = Flaky([2] + [0] * 1000)
    store.write("a", [bytes(5000)])
    reading = store.patient().read("a")
    with pytest.raises(StoreUnreachable, match="it broke off"), capture_logs() as told:
        for _ in reading:
            pass
    tries = 1001 - len(store.breaks)
    assert tries > 5 and [line["log_level"] for line in told] == ["warning"] * (tries - 1), "the last one is raised"
    assert "it broke off" in told[0]["fault"] and told[0]["seconds"] == 0
    assert STORE_SECONDS_MAX - WAIT_SECONDS_MAX <= store.now <= STORE_SECONDS_MAX


def test_what_waiting_does_not_help_is_told_at_once() -> None:
    store = Flaky([])
    with pytest.raises(ObjectMissing):
        next(store.patient().read("a"))
    assert store.now == 0
