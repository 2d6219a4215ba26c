"""A store that is waited for: a restore reads on when the store answers again.

Guarantees: what `read` yields is the object, each byte once, however often the store has broken off. An object is never changed, so it is read
again from its beginning, and what was yielded already is left out. Each failed try is told in the log. If the store
gives nothing new for STORE_SECONDS_MAX, its last fault is raised. Any other fault is raised at once, because waiting does not help.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from base.logger import Logger
from base.short_text import short_text
from storage.remote.errors import StoreUnreachable
from storage.remote.objects_protocol import ObjectInfo, ObjectStore, WrittenObject

_log = Logger("storage.remote.retrying_store")

STORE_SECONDS_MAX = 120.0
"""How long a store may be silent. One that restarts is back within a minute or two."""

WAIT_SECONDS_MIN, WAIT_SECONDS_MAX = 1.0, 10.0
"""Between two tries: twice as long after each."""


class RetryingStore:
    """Reads `store`. `monotonic`, `sleep`: the clock, in seconds."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store, self._monotonic, self._sleep = store, monotonic, sleep

    @property
    def root(self) -> str:
        return self._store.root

    def read(self, name: str) -> Iterator[bytes]:
        given, wait_s, last_at = 0, WAIT_SECONDS_MIN, self._monotonic()
        while True:
            at = 0
            try:
                for piece in self._store.read(name):
                    new = piece[max(0, given - at) :]
                    at += len(piece)
                    if new:
                        given, wait_s, last_at = at, WAIT_SECONDS_MIN, self._monotonic()
                        yield new
                return
            except StoreUnreachable as fault:
                silent_s = self._monotonic() - last_at
                if silent_s + wait_s > STORE_SECONDS_MAX:
                    raise
                _log.warning(
                    "the checkpoint store gives nothing; it is asked again",
                    seconds=round(silent_s),
                    seconds_max=round(STORE_SECONDS_MAX),
                    fault=short_text(fault),
                )
            self._sleep(wait_s)
            wait_s = min(2 * wait_s, WAIT_SECONDS_MAX)

    def write(self, name: str, pieces: Iterable[bytes]) -> WrittenObject:
        return self._store.write(name, pieces)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._store.list(prefix)

    def delete(self, names: Iterable[str]) -> None:
        self._store.delete(names)
