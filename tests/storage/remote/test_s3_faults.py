"""What a store in S3 does when the server refuses, fails or is away: which fault, and that no half of an object appears."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from tempfile import SpooledTemporaryFile

import pytest

from stepwell.doctor.store import store_checks
from storage.remote import buckets, filesystems
from storage.remote.errors import BadStoreUri, ObjectMissing, StoreDenied, StoreFault, StoreFull, StoreUnreachable
from storage.remote.objects import open_store
from storage.remote.objects_protocol import ObjectStore
from storage.remote.rights import check_rights
from tests.storage.remote.faulty_proxy import FaultyProxy, Rule
from tests.storage.remote.s3_server import BUCKET

MIB = 1 << 20

OPERATIONS: dict[str, Callable[[ObjectStore, str], object]] = {
    "write": lambda store, name: store.write(name, [b"x"]),
    "read": lambda store, name: [*store.read(name)],
    "list": lambda store, name: [*store.list("")],
    "delete": lambda store, name: store.delete([name]),
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in production, but for how long a silent server is waited for."""
    monkeypatch.setattr(filesystems, "SILENCE_TIMEOUT_S", 1.0)


@pytest.fixture
def store(s3: str, proxy: FaultyProxy) -> ObjectStore:
    store = open_store(s3)
    store.write("there", [b"x"])
    proxy.requests.clear()
    return store


def faults(store: ObjectStore) -> Iterator[tuple[str, StoreFault]]:
    for operation, act in OPERATIONS.items():
        with pytest.raises(StoreFault) as caught:
            act(store, "there")
        assert store.root in str(caught.value) and "secret" not in str(caught.value)
        yield operation, caught.value


@pytest.mark.long
def test_a_wrong_secret_is_told_with_the_operation(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    for operation, fault in faults(open_store(s3)):
        assert isinstance(fault, StoreDenied)
        # Whether an object is there is asked before it is deleted.
        assert f"refuses to {'read' if operation == 'delete' else operation}" in str(fault)
        assert "docs/durability.md lists the rights" in fault.what_to_do


def test_an_unknown_access_key_is_told(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    assert {type(fault) for _, fault in faults(open_store(s3))} == {StoreDenied}


def test_an_unknown_bucket_is_a_wrong_setting(s3: str) -> None:
    store = open_store(s3.replace(BUCKET, "bouquet"))
    for _, fault in faults(store):
        assert isinstance(fault, BadStoreUri)
        assert "its bucket does not exist" in str(fault) and "correct `stepwell.store`" in fault.what_to_do


@pytest.mark.parametrize(
    ("status", "kind", "tries"),
    [(403, StoreDenied, 1), (507, StoreFull, 1), (500, StoreUnreachable, filesystems.ATTEMPTS_MAX)],
)
def test_what_a_status_means(
    store: ObjectStore, proxy: FaultyProxy, status: int, kind: type[StoreFault], tries: int
) -> None:
    rule = proxy.break_when(Rule("^PUT", "status", status))
    with pytest.raises(kind, match="write a/b"):
        store.write("a/b", [b"x"])
    assert rule.hits == tries or kind is StoreFull, (
        "a refusal is final; whether a full store is asked again is the client's affair"
    )
    proxy.heal()
    assert {each.name for each in store.list("")} == {"there"}


def test_a_busy_server_is_asked_again(store: ObjectStore, proxy: FaultyProxy) -> None:
    rules = [
        proxy.break_when(Rule(pattern, "status", 503, times=2))
        for pattern in ("^PUT", "^GET .*there", "^GET .*list-type")
    ]
    store.write("new", [b"y"])
    assert [*store.read("there")] == [b"x"]
    assert {each.name for each in store.list("")} == {"there", "new"}
    assert [rule.hits for rule in rules] == [2, 2, 2]


def test_a_slow_server_is_waited_for(store: ObjectStore, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystems, "SILENCE_TIMEOUT_S", 5.0)
    patient = open_store(store.root)
    slow = proxy.break_when(Rule("^HEAD", "delay", 1200))
    assert [*patient.read("there")] == [b"x"]
    assert slow.hits == 1


def test_a_server_that_is_silent_or_away_is_given_up(store: ObjectStore, proxy: FaultyProxy) -> None:
    """Three attempts, each as long as it may be silent. No clock is looked at: a test that hangs is one that fails."""
    silence = proxy.break_when(Rule("^HEAD", "silence"))
    with pytest.raises(StoreUnreachable, match="could not read there"):
        next(store.read("there"))
    assert silence.hits == filesystems.ATTEMPTS_MAX
    proxy.close()
    with pytest.raises(StoreUnreachable, match="could not write a/b"):
        store.write("a/b", [b"x"])


@pytest.mark.long
def test_a_part_that_fails_leaves_no_object(store: ObjectStore, proxy: FaultyProxy) -> None:
    """The server is well again when the stream is destroyed, which must not complete the upload without the part."""
    cut = proxy.break_when(Rule("partNumber=2", "cut request", 100_000, times=filesystems.ATTEMPTS_MAX))
    with pytest.raises(StoreUnreachable, match="write there"):
        store.write("there", (bytes(MIB) for _ in range(22)))
    assert cut.hits == filesystems.ATTEMPTS_MAX
    assert not [line for line in proxy.requests if line.startswith("POST") and "uploadId" in line]
    assert [*store.read("there")] == [b"x"]
    assert [(each.name, each.bytes) for each in store.list("")] == [("there", 1)]
    store.write("there", (bytes(MIB) for _ in range(12)))
    assert sum(map(len, store.read("there"))) == 12 * MIB


def test_an_upload_that_cannot_be_begun_is_not_begun_later(store: ObjectStore, proxy: FaultyProxy) -> None:
    """The server is well again when the stream is destroyed."""
    proxy.break_when(Rule("^POST .*uploads", "status", 500, times=filesystems.ATTEMPTS_MAX))
    with pytest.raises(StoreUnreachable, match="write there"):
        store.write("there", (bytes(MIB) for _ in range(22)))
    assert [(each.name, each.bytes) for each in store.list("")] == [("there", 1)]
    assert len([line for line in proxy.requests if line.startswith("POST")]) == filesystems.ATTEMPTS_MAX


def test_half_an_object_that_this_process_cannot_complete_is_deleted(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Held(SpooledTemporaryFile[bytes]):
        def read(self, *args: int) -> bytes:
            if self.tell() >= 12 * MIB:
                raise OSError(errno.EIO, "the disk of the temporary file")
            return super().read(*args)

    monkeypatch.setattr(buckets, "SpooledTemporaryFile", Held)
    with pytest.raises(StoreUnreachable, match="temporary file"):
        store.write("there", [bytes(22 * MIB)])
    assert [*store.list("")] == []


def test_an_upload_that_is_cut_once_is_sent_again(
    store: ObjectStore, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an object that is larger than what is held in memory and than what is in flight."""
    monkeypatch.setattr(buckets, "HELD_BYTES_MAX", 2 * MIB)
    monkeypatch.setattr(buckets, "IN_FLIGHT_BYTES_MAX", 5 * MIB)
    cut = proxy.break_when(Rule("partNumber=1", "cut request", 100_000, times=1))
    assert store.write("a", (bytes([n]) * MIB for n in range(12))).bytes == 12 * MIB
    assert cut.hits == 1
    assert b"".join(store.read("a")) == b"".join(bytes([n]) * MIB for n in range(12))


def test_a_download_that_is_cut_is_never_taken_for_the_whole(store: ObjectStore, proxy: FaultyProxy) -> None:
    wanted = b"".join(bytes([n]) * MIB for n in range(12))
    store.write("a", [wanted])
    once = proxy.break_when(Rule("^GET .*/a ", "cut answer", 3 * MIB, times=1))
    assert b"".join(store.read("a")) == wanted
    assert once.hits == 1
    proxy.break_when(Rule("^GET .*/a ", "cut answer", 3 * MIB))
    with pytest.raises(StoreUnreachable, match="read a"):
        b"".join(store.read("a"))


@pytest.mark.parametrize("cut", [50, 100, 200, 300])
def test_an_answer_that_is_cut_in_its_headers_is_not_taken_for_an_empty_one(
    store: ObjectStore, proxy: FaultyProxy, cut: int
) -> None:
    """S3's client does so: an object would be memory that nobody has written, and a folder with backups would have none."""
    content = os.urandom(3000)
    store.write("folder/a", [content])
    for pattern in ("^GET .*/a ", "^HEAD .*/a ", r"^GET /\w+\?"):
        proxy.break_when(Rule(pattern, "cut answer", cut, times=1))
        assert b"".join(store.read("folder/a")) == content, pattern
        with suppress(StoreUnreachable):
            assert [found.name for found in store.list("folder")] == ["folder/a"], pattern
        proxy.heal()
    proxy.break_when(Rule("^GET .*/a ", "cut answer", cut))
    with pytest.raises(StoreUnreachable, match="no content"):
        b"".join(store.read("folder/a"))


def test_missing_rights_are_named(store: ObjectStore, proxy: FaultyProxy) -> None:
    assert check_rights(store) == []
    assert {each.name for each in store.list("")} == {"there"}
    for right, pattern in (
        ("read", "^HEAD .*doctor|^GET .*doctor/"),
        ("list", "^GET .*list-type"),
        ("delete", "^DELETE"),
        ("write", "^PUT .*doctor/."),
    ):
        proxy.break_when(Rule(pattern, "status", 403))
        [missing] = check_rights(store)
        assert missing.right == right
        assert isinstance(missing.fault, StoreDenied) and f"refuses to {right} doctor" in str(missing.fault)
        [check] = store_checks(store.root)
        assert (check.level, check.what_to_do) == ("FAIL", missing.fault.what_to_do)
        assert check.found.startswith(f"cannot {right} in {store.root}: ")
        proxy.heal()
    left = {each.name for each in store.list("doctor")}
    assert len(left) == 4, "those that could not be read or deleted"
    store.delete(left)
    [check] = store_checks(store.root)
    assert (check.level, check.found) == ("OK", f"can write, read, list and delete in {store.root}")
    assert [*store.list("doctor")] == [] and store_checks(None) == []
    nowhere = check_rights(open_store(f"s3://none-{uuid.uuid4().hex}/a"))
    assert {each.right for each in nowhere} == set(OPERATIONS) and {type(each.fault) for each in nowhere} == {
        BadStoreUri
    }


def test_a_server_without_the_checksums_of_new_clients_is_told_apart(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of the tests is one of them."""
    monkeypatch.delenv("AWS_REQUEST_CHECKSUM_CALCULATION")
    advice = "AWS_REQUEST_CHECKSUM_CALCULATION=when_required"
    store = open_store(s3)
    [check] = store_checks(s3)
    assert check.level == "FAIL" and advice in check.what_to_do
    with pytest.raises(StoreDenied, match=advice):
        store.write("a", [bytes(12 * MIB)])
    assert [*store.list("")] == []


def test_a_missing_object_is_no_missing_bucket(store: ObjectStore) -> None:
    with pytest.raises(ObjectMissing):
        next(store.read("nothing"))
