"""Damaged bytes and full disks lead to a typed error that names the place, and the last version stays intact."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from types import UnionType

import pytest

from base.slots import ALL_SLOTS
from base.version import EMPTY, VersionId
from faults.points import Crash, CrashOrder, arm
from storage import environments, errors, record_parts
from storage.database import Database
from storage.description import RECORDS
from tests.storage.helpers import FAILED, ME, commit, committed, content, fresh, in_child, key, step, wait

NAMED = 7
"""Exit status of a child that got an error which names the place and what to do."""

BRANCH_PAGE = b"\x01\x00"
"""The flags in the header of an LMDB page."""

PAGE_BYTES, UPPER_BOUND_HIGH = 4096, 15
"""Of LMDB's pages, and where in their headers the higher byte of the end of the free space is."""

LOUD = (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT)

MARK = b"a value that is easy to find"


def damage(file: Path) -> None:
    """Changes one byte of each copy of MARK in the file."""
    Database.close_all()
    text = file.read_bytes()
    assert MARK in text
    file.write_bytes(text.replace(MARK, MARK[:-1] + b"X"))


def layer(path: Path) -> Path:
    (folder,) = path.glob("layer-*")
    return folder / "data.mdb"


def test_a_damaged_committed_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"good": b"1", "bad": MARK})
    commit(database, 1, 1)
    damage(path / "committed" / "data.mdb")
    with database.read() as view:
        good = view.get(key("good"))
        assert good is not None and bytes(good) == b"1"
        for immutable in (False, True):
            with pytest.raises(errors.CorruptRecord, match=f"{ME.database}.*version=1.*table 1 shard 0 {b'bad'.hex()}"):
                view.get(key("bad"), immutable=immutable)
            with pytest.raises(errors.CorruptRecord):
                view.get_many([key("bad")], immutable=immutable)
            with pytest.raises(errors.CorruptRecord):
                list(view.scan(b"", immutable=immutable))


@pytest.mark.usefixtures("one_record_a_piece")
def test_a_damaged_frozen_record_is_not_folded(tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"before": b"1"})
    v1 = commit(database, 1, 1)
    database = Database.open(path, v1, epoch=1, identity=ME)
    step(database, {"a": b"2", "bad": MARK})
    file = layer(path)
    database.freeze(VersionId(2, 2, "c2"))
    damage(file)
    with pytest.raises(errors.CorruptRecord, match="frozen"):
        database.fold()
    assert Database.versions(path) == (v1,)
    assert committed(path) == (v1, {key("before"): b"1"})


def test_a_damaged_undo_log_refuses_the_rollback(tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"bad": MARK})
    v1 = commit(database, 1, 1)
    step(database, {"bad": b"2"})
    v2 = commit(database, 2, 2)
    damage(path / "committed" / "data.mdb")
    with pytest.raises(errors.CorruptRecord, match="undo"):
        Database.open(path, v1, epoch=2, identity=ME)
    assert Database.versions(path) == (v1, v2)
    assert committed(path) == (v2, {key("bad"): b"2"})


@pytest.mark.usefixtures("one_record_a_piece")
def test_a_lost_part_of_the_later_version_does_not_block_the_rollback(tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"large": b"1"})
    v1 = commit(database, 1, 1)
    step(database, {"large": bytes(20_000)})
    v2 = commit(database, 2, 2)
    with environments.open_environment(path / "committed", synced=True) as environment, environment.write(1) as writer:
        lost = [spaced for spaced, _ in writer.items(record_parts.PARTS)][2]
        writer.delete(lost)
    with pytest.raises(errors.CorruptFile):
        Database.open(path, v2, epoch=2, identity=ME)
    Database.open(path, v1, epoch=2, identity=ME)
    assert committed(path) == (v1, {key("large"): b"1"})
    with environments.open_environment(path / "committed", synced=True) as environment, environment.read() as reader:
        assert not list(reader.items(record_parts.PARTS))


@pytest.mark.usefixtures("one_record_a_piece")
@pytest.mark.parametrize("half", [False, True])
def test_a_record_damaged_before_the_fold_refuses_the_rollback(tmp_path: Path, half: bool) -> None:
    """The version that replaced the record is not lost with it, and a reader does not see half a fold through it."""
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"bad": MARK, "good": b"1"})
    v1 = commit(database, 1, 1)
    Database.close_all()
    damage(path / "committed" / "data.mdb")
    step(database, {"bad": b"2", "more": b"2"})
    v2 = VersionId(2, 2, "c2")
    database.freeze(v2)
    if half:
        with arm(CrashOrder("fold.piece", "raise", visit=4)), pytest.raises(Crash):
            database.fold()
        with pytest.raises(errors.CorruptRecord, match="undo"):
            committed(path)
    database.fold()
    with pytest.raises(errors.CorruptRecord, match="undo"):
        Database.open(path, v1, epoch=2, identity=ME)
    Database.open(path, v2, epoch=2, identity=ME)
    assert committed(path) == (v2, {key("bad"): b"2", key("good"): b"1", key("more"): b"2"})


@pytest.mark.usefixtures("one_record_a_piece")
def test_a_frozen_record_that_looks_like_a_deletion_is_noticed(tmp_path: Path) -> None:
    """A bit in the size of a record changes after the first walk has removed what is deleted. The second walk must not
    skip the record."""
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"a": b"1111", "b": b"2222"})
    file = layer(path)
    database.freeze(VersionId(1, 1, "c1"))
    with arm(CrashOrder("fold.piece", "raise", visit=2)), pytest.raises(Crash):
        database.fold()
    Database.close_all()
    text = bytearray(file.read_bytes())
    # A node of a leaf page: size of the value (low, high), flags, size of the key, key. All copies of the page are changed.
    node = b"".join((bytes([12, 0, 0, 0, 0, 0]), len(key("b")).to_bytes(2, "little"), key("b")))
    assert node in text
    file.write_bytes(text.replace(node, bytes([4]) + node[1:]))
    with pytest.raises(errors.CorruptRecord, match="frozen"):
        database.fold()


def test_an_immutable_record_is_verified_once(tmp_path: Path) -> None:
    """Also if the layers above it are others than when it was read first."""
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"run": MARK})
    commit(database, 1, 1)
    with database.read() as view:
        view.get(key("run"), immutable=True)
    step(database, {"other": b"x"})
    commit(database, 2, 2)
    with (path / "committed" / "data.mdb").open("r+b") as file:  # under the open environment
        text = file.read()
        for place in range(len(text)):
            if text.startswith(MARK, place):
                file.seek(place)
                file.write(b"X")
    with database.read() as view:
        view.get(key("run"), immutable=True)
        with pytest.raises(errors.CorruptRecord):
            view.get(key("run"))
    Database.close_all()
    with database.read() as view, pytest.raises(errors.CorruptRecord):
        view.get(key("run"), immutable=True)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "database"
    fresh(path)
    Database.close_all()
    file = path / "committed" / "data.mdb"
    file.write_bytes(b"rubbish" * 2000)
    with pytest.raises(errors.CorruptFile, match=str(path)):
        Database.versions(path)


def several_checkpoints(path: Path) -> dict[VersionId, dict[bytes, bytes]]:
    """Creates records on leaves and in overflow pages, below branch pages, with an undo log. Returns the content of
    each version."""
    contents = {}
    database = fresh(path)
    for number in range(1, 5):
        step(database, {f"{number}-{part}": bytes([number]) * (50 + 400 * (part % 3)) for part in range(40)})
        step(database, {"large": bytes([number]) * 20_000}, (f"{number - 1}-7",))
        version = commit(database, number, 2 * number)
        contents[version] = committed(path)[1]
    Database.close_all()
    return contents


def fold_half(path: Path) -> None:
    """Folds half of a further version. Then the records are a mixture, and the last version is visible through the undo
    log."""
    version = Database.versions(path)[-1]
    database = Database.open(path, version, epoch=1, identity=ME)
    step(database, {"large": b"x" * 20_000, **{f"4-{part}": b"x" * 100 for part in range(0, 40, 2)}})
    database.freeze(VersionId(version.version + 1, version.step + 1, "half"))
    with arm(CrashOrder("fold.piece", "raise", visit=12)), pytest.raises(Crash):
        database.fold()
    Database.close_all()


def what_is_read(path: Path, back: bool) -> tuple[VersionId, dict[bytes, bytes]]:
    """A version and its whole content. It is read again after another checkpoint, which may overwrite pages that a
    damaged list calls free."""
    version = Database.versions(path)[0 if back else -1]
    database = Database.open(path, version, epoch=2, identity=ME)
    with database.read() as view:
        found = content(view)
        for name in found:
            assert view.get(name) == found[name]
    step(database, {"new": b"1"})
    database = Database.open(path, commit(database, version.version + 1, version.step + 1), epoch=3, identity=ME)
    with database.read() as view:
        assert content(view) == {**found, key("new"): b"1"}
    return version, found


@pytest.mark.parametrize("back", [False, True])
def test_a_record_that_is_not_found_by_its_key_is_reported(tmp_path: Path, back: bool) -> None:
    """Where the last version is opened, and where the version before it is restored."""
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"always": b"1", "found": b"1"})
    v1 = commit(database, 1, 1)
    step(database, {"found": b"2"})
    v2 = commit(database, 2, 2)
    Database.close_all()
    file = path / "committed" / "data.mdb"
    text, place = file.read_bytes(), RECORDS + key("always")
    assert place in text
    file.write_bytes(text.replace(place, place[:-1] + b"t"))
    with pytest.raises(errors.CorruptFile, match="are missing, or are not found by their keys"):
        Database.open(path, v1 if back else v2, epoch=2, identity=ME)
    Database.close_all()
    file.write_bytes(text)
    Database.open(path, v1 if back else v2, epoch=2, identity=ME)


def test_a_search_that_goes_past_a_record_is_noticed(tmp_path: Path) -> None:
    """A separator in a branch page is larger than the first key of its page. A walk finds that key, but a search does
    not."""
    path = tmp_path / "database"
    right = several_checkpoints(path)
    last = max(right)
    file = path / "committed" / "data.mdb"
    text = file.read_bytes()
    noticed = 0
    for page in range(0, len(text), 4096):
        if text[page + 10 : page + 12] != BRANCH_PAGE:
            continue
        for separator in (RECORDS + name for name in right[last]):
            at = text.find(separator, page, page + 4096)
            if at < 0:
                continue
            end = at + len(separator)
            file.write_bytes(text[: end - 1] + bytes([text[end - 1] + 1]) + text[end:])
            try:
                database = Database.open(path, last, epoch=2, identity=ME)
                with database.read() as view:  # that page belongs to an earlier version
                    assert all(view.get(name) == value for name, value in right[last].items())
            except errors.CorruptFile as fault:
                assert "not found by their keys" in str(fault)
                noticed += 1
            Database.close_all()
            file.write_bytes(text)
    assert noticed >= 3


def status_with_a_flipped_bit(
    path: Path,
    right: Mapping[VersionId, Mapping[bytes, bytes]],
    place: int,
    *,
    bit: int,
    back: bool,
    faults: type[Exception] | UnionType,
) -> int:
    """How a child ends that reads a copy of the database whose committed file is damaged at the byte `place`: NAMED by one of these `faults`,
    which says where the damage is and what to do; 0 with the right content; or LOUD, by LMDB."""
    copy = path.parent / "copy"
    shutil.copytree(path, copy)
    file = copy / "committed" / "data.mdb"
    text = bytearray(file.read_bytes())
    text[place] ^= 1 << bit
    file.write_bytes(text)

    def look() -> None:
        try:
            version, found = what_is_read(copy, back)
        except errors.StorageError as fault:
            is_named = isinstance(fault, faults) and str(copy) in str(fault) and "full-refresh" in str(fault)
            os._exit(NAMED if is_named else FAILED)
        assert found == right[version], version

    status = wait(in_child(look))
    shutil.rmtree(copy)
    assert status in (0, NAMED, *LOUD), (
        f"bit {bit} of byte {place % PAGE_BYTES} of page {place // PAGE_BYTES}, {back=}: {status}"
    )
    return status


@pytest.mark.usefixtures("one_record_a_piece")
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("flips", [25, pytest.param(2000, marks=pytest.mark.soak)])
def test_no_flipped_bit_hides_a_record(shared_memory: Path, flips: int, half: bool) -> None:
    """A bit is flipped anywhere in the committed file, also in LMDB's own pages. The result is an error of ours, or the
    unchanged content of a version (where the page of the last transaction is damaged, LMDB shows the one before). A
    child reads it, because LMDB follows whatever it finds in a page: about one flip in a hundred ends the process,
    which is noticed too."""
    path = shared_memory / "database"
    right = several_checkpoints(path)
    if half:
        fold_half(path)
    r = random.Random(flips)
    size = (path / "committed" / "data.mdb").stat().st_size
    named = loud = 0
    for _ in range(flips):
        place, bit, back = r.randrange(size), r.randrange(8), r.random() < 0.5
        status = status_with_a_flipped_bit(path, right, place, bit=bit, back=back, faults=errors.StorageError)
        named += status == NAMED
        loud += status in LOUD
    assert loud <= max(1, 0.02 * flips)
    assert 0.2 * flips < named < 0.9 * flips, "flips in free pages do no harm; the others do"


@pytest.mark.usefixtures("one_record_a_piece")
def test_a_page_that_miscounts_its_free_space_is_reported(shared_memory: Path) -> None:
    """LMDB takes the count on trust until it writes to that page. So a rollback, which deletes, is the first to notice some of them."""
    path = shared_memory / "database"
    right = several_checkpoints(path)
    damage = errors.CorruptFile | errors.CorruptRecord
    named = 0
    for page in range(2, (path / "committed" / "data.mdb").stat().st_size // PAGE_BYTES):
        place = page * PAGE_BYTES + UPPER_BOUND_HIGH
        named += status_with_a_flipped_bit(path, right, place, bit=3, back=True, faults=damage) == NAMED
    assert named > 0


def fills_up(path: Path, database: Database, value: bytes) -> None:
    """Steps and commits until there is no space. The last complete version must stay intact."""
    v1 = commit(database, 1, 1)
    with pytest.raises(errors.StorageFull, match=str(path)):
        for number in range(1, 1000):
            step(database, {f"{number}-{part}": value for part in range(4)})
            if number % 4 == 0:
                database.freeze(VersionId(1 + number // 4, 1 + number, "c"))
                database.fold()
    present = Database.versions(path)
    with Database.read_committed(path) as (version, view):
        assert version == present[-1]
        assert content(view)[key("first")] == b"1"
        assert len(content(view)) == 1 + 4 * (version.step - v1.step)


def test_a_full_map_is_an_error_that_leaves_the_last_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.environments.MAP_BYTES_MAX", 1 << 20)
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"first": b"1"})
    fills_up(path, database, bytes(20_000))


@pytest.mark.parametrize("ballast", range(0, 80_000, 5_000))
@pytest.mark.usefixtures("one_record_a_piece")
def test_a_full_disk_is_an_error_that_leaves_the_last_version(small_disk: Path, ballast: int) -> None:
    """`ballast` shifts the moment at which the disk is full: in a step, a freeze or a fold."""
    path = small_disk / "database"
    database = fresh(path)
    (small_disk / "ballast").write_bytes(bytes(ballast))
    step(database, {"first": b"1"})
    fills_up(path, database, bytes(20_000))
    version = Database.versions(path)[-1]
    (small_disk / "ballast").unlink()
    database = Database.open(path, version, epoch=2, identity=ME)
    with database.read() as view:
        assert view.get_step() == version.step


def test_a_full_disk_leaves_no_half_created_database(small_disk: Path) -> None:
    (small_disk / "ballast").touch()
    with pytest.raises(OSError, match="No space"), (small_disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with pytest.raises(errors.StorageFull):
        Database.create(small_disk / "database", ME, epoch=1, owned=ALL_SLOTS)
    (small_disk / "ballast").unlink()
    Database.create(small_disk / "database", ME, epoch=1, owned=ALL_SLOTS)
    assert Database.versions(small_disk / "database") == (EMPTY,)


def test_what_the_system_refuses_is_named_once_and_the_files_stay(tmp_path: Path) -> None:
    """LMDB begins its text with the path. A folder in place of the file is refused as a mount without rights is."""
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"good": b"1"})
    version = commit(database, 1, 1)
    Database.close_all()
    file, aside = path / "committed" / "data.mdb", tmp_path / "aside"
    file.rename(aside)
    file.mkdir()
    with pytest.raises(errors.StorageError, match=r"cannot be used: Is a directory\. .* run again") as caught:
        Database.owned_by_version(path)
    assert type(caught.value) is errors.StorageError and caught.value.message.count(str(path)) == 1
    file.rmdir()
    aside.rename(file)
    assert Database.owned_by_version(path)[version] == ALL_SLOTS


@pytest.mark.parametrize(
    ("room", "told"),
    [
        (errors.DiskRoom(4096, 0), "4096 bytes, and no inodes for files, are free on that disk"),
        (errors.DiskRoom(0, 12), "0 bytes are free on that disk"),
        (errors.DiskRoom(7, None), "7 bytes are free on that disk"),
    ],
)
def test_a_full_disk_says_what_it_has_no_more(room: errors.DiskRoom, told: str) -> None:
    assert told in str(errors.StorageFull(Path("folder"), "No space left on device", room))
