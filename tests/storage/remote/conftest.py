"""What the tests of the checkpoint store share: one S3 server, which is started for the first test that needs it, and sizes at which a few small
records need everything that large states need."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage import folding, record_parts
from storage.remote import pack, restoring, uploading
from tests.storage.remote.faulty_proxy import FaultyProxy
from tests.storage.remote.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(Path(tmp_path_factory.mktemp("s3"))).start()
    yield server
    server.stop()


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a store of its own, with an environment in which it can be opened."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    return f"s3://{BUCKET}/{uuid.uuid4().hex}/deep"


@pytest.fixture
def proxy(s3_server: S3Server, s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """Stands between the stores that a test opens and the server. It needs `s3`."""
    between = FaultyProxy(s3_server.port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{between.port}")
    yield between
    between.close()


@contextmanager
def sizes_made_small() -> Iterator[None]:
    """A fold takes a transaction for each record. Blocks have one or two records, and packs some blocks. A chain has few deltas, and a restore
    merges two packs at once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(folding, "PIECE_BYTES_MAX", 1)
        patched.setattr(record_parts, "PART_BYTES_MIN", 1000)
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
