"""Where the checkpoint store is, as all processes of a run are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from storage.remote.objects import open_store
from storage.remote.objects_protocol import ObjectStore


@dataclass(frozen=True)
class StorePlace:
    """Where the checkpoint store is. `uri`: without secrets. `opener` opens it; a test has another one."""

    uri: str
    opener: Callable[[str], ObjectStore] = open_store

    def open(self) -> ObjectStore:
        """Raises StoreFault."""
        return self.opener(self.uri)
