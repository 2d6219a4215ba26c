"""Fixtures of the checkpoint store's tests: sizes at which a few small records need everything that large states need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from storage import folding, parts
from storage.remote import pack, restoring, uploading


@contextmanager
def sizes_made_small() -> Iterator[None]:
    """A fold takes a transaction for each record. Blocks have one or two records, and packs some blocks. A chain has few deltas, and a restore
    merges two packs at once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(folding, "PIECE_BYTES_MAX", 1)
        patched.setattr(parts, "PART_BYTES_MIN", 1000)
        patched.setattr(pack, "BLOCK_BYTES", 100)
        patched.setattr(uploading, "PACK_BYTES_MAX", 300)
        patched.setattr(uploading, "DELTA_BYTES_MIN", 1000)
        patched.setattr(uploading, "DELTAS_MAX", 4)
        patched.setattr(restoring, "MERGED_MAX", 2)
        patched.setattr(restoring, "TRANSACTION_BYTES_MAX", 300)
        patched.setattr(restoring, "SYNC_BYTES", 500)
        yield


@pytest.fixture
def small_sizes() -> Iterator[None]:
    with sizes_made_small():
        yield
