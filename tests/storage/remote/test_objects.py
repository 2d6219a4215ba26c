"""What every checkpoint store guarantees: in a folder, in S3, and as in HDFS, by the same code over a file system of pyarrow's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs
from xxhash import xxh3_128_hexdigest

from storage.remote.buckets import BucketStore
from storage.remote.errors import ObjectMissing
from storage.remote.filesystems import Clients
from storage.remote.objects import open_store
from storage.remote.objects_protocol import PIECE_BYTES_MAX, ObjectInfo, ObjectStore, WrittenObject
from storage.remote.uri import parse_store_uri

MIB = 1 << 20
ODD = "a/\N{SNOWMAN} +%2F?#'\"&=~;: .x"


@pytest.fixture(params=["file", "s3", "hdfs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "s3":
        return open_store(request.getfixturevalue("s3"))
    if request.param == "hdfs":
        local = fs.LocalFileSystem()
        return BucketStore(parse_store_uri(f"hdfs://{tmp_path}/store/deep"), lambda uri: Clients(local, local))
    return open_store(f"file://{tmp_path}/store/deep")


def content(store: ObjectStore, name: str) -> bytes:
    return b"".join(store.read(name))


def names(store: ObjectStore, prefix: str = "") -> set[str]:
    return {each.name for each in store.list(prefix)}


def test_an_object_is_read_as_it_was_written(store: ObjectStore) -> None:
    assert store.write("a/b", [b"one", b"", b"two"]) == WrittenObject(6, xxh3_128_hexdigest(b"onetwo"))
    assert content(store, "a/b") == b"onetwo"
    assert store.write("a/b", [b"3"]) == WrittenObject(1, xxh3_128_hexdigest(b"3"))
    assert content(store, "a/b") == b"3", "the later one replaces it"
    assert store.write("a/empty", []) == WrittenObject(0, xxh3_128_hexdigest(b""))
    assert content(store, "a/empty") == b""
    assert set(store.list("a")) == {ObjectInfo("a/b", 1), ObjectInfo("a/empty", 0)}


def test_only_what_is_below_the_folder_is_listed(store: ObjectStore) -> None:
    assert names(store) == names(store, "a") == set()
    for name in ("a/b/c/1", "a/b/2", "ab/3.gz", "4", ODD):
        store.write(name, [name.encode()])
    assert names(store) == {"a/b/c/1", "a/b/2", "ab/3.gz", "4", ODD}
    assert names(store, "a") == names(store, "a/") == {"a/b/c/1", "a/b/2", ODD}
    assert names(store, "a/b/c") == {"a/b/c/1"}
    assert names(store, "a/x") == names(store, "4") == set()
    assert content(store, ODD) == ODD.encode()
    assert content(store, "ab/3.gz") == b"ab/3.gz", "the name means no compression"


def test_what_is_deleted_is_gone_and_what_is_missing_is_no_error(store: ObjectStore) -> None:
    store.delete(["a/b/1"])
    for name in ("a/b/1", "a/b/2", "a/c", ODD):
        store.write(name, [b"x"])
    store.delete(iter(["a/b/1", "a/b/2", "none", ODD]))
    assert names(store) == {"a/c"}
    for name in ("a/b/1", "none", "c/none"):
        with pytest.raises(ObjectMissing) as caught:
            next(store.read(name))
        assert name in str(caught.value) and store.root in str(caught.value)
    store.write("a/b/1", [b"again"])
    assert content(store, "a/b/1") == b"again"


def test_a_folder_is_no_object(store: ObjectStore) -> None:
    if store.root.startswith("s3:"):
        return  # S3 has no folders; the server of the tests shows those of its disk as empty objects
    store.write("a/b/1", [b"x"])
    store.delete(["a/b", "a/b/1/x"])
    for name in ("a/b", "a/b/1/x"):
        with pytest.raises(ObjectMissing):
            next(store.read(name))
    assert names(store) == {"a/b/1"}


@pytest.mark.long
def test_a_large_object_comes_in_pieces(store: ObjectStore) -> None:
    block = os.urandom(MIB)
    wanted = b"".join(block[n:] + block[:n] for n in range(20))
    assert store.write("large", (wanted[n : n + 700_001] for n in range(0, len(wanted), 700_001))) == WrittenObject(
        20 * MIB, xxh3_128_hexdigest(wanted)
    )
    pieces = [*store.read("large")]
    assert b"".join(pieces) == wanted
    assert max(map(len, pieces)) <= PIECE_BYTES_MAX and len(pieces) < 50


@pytest.mark.parametrize("mib", [0, 12])
def test_pieces_that_raise_leave_what_was_there(store: ObjectStore, mib: int) -> None:
    def broken() -> Iterator[bytes]:
        for _ in range(mib):
            yield bytes(MIB)
        raise OSError("the disk under the pieces")

    with pytest.raises(OSError, match="under the pieces"):
        store.write("a/new", broken())
    assert names(store) == set()
    store.write("a/old", [b"old"])
    with pytest.raises(OSError, match="under the pieces"):
        store.write("a/old", broken())
    assert content(store, "a/old") == b"old"


def test_a_name_that_leaves_the_root_is_a_mistake(store: ObjectStore) -> None:
    for name in ("../a", "/a", "a//b", "", "a/./b"):
        with pytest.raises(AssertionError):
            store.write(name, [])
