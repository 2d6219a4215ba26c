"""The database's interface, as scripts: operations, and the state that they lead to."""

from __future__ import annotations

import random
import resource
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from base.slots import ALL_SLOTS
from base.version import EMPTY, VersionId
from faults.points import Crash, CrashOrder, arm
from storage import description, environments, errors, folding, record_parts
from storage.database import Database
from storage.description import RECORDS, UNDO
from storage.keys import KEY_BYTES_MAX, PREFIX_BYTES
from tests.storage.helpers import FAILED, ME, commit, committed, content, fresh, in_child, key, step, wait

PATH = "database"
LARGE_VALUES = 32


def test_a_new_database_has_one_empty_version(tmp_path: Path) -> None:
    Database.create(tmp_path / "a" / "b", ME, epoch=1, owned=ALL_SLOTS)
    assert Database.versions(tmp_path / "a" / "b") == (VersionId(0, 0, "empty"),)
    assert committed(tmp_path / "a" / "b") == (EMPTY, {})
    assert [folder.name for folder in (tmp_path / "a").iterdir()] == ["b"]


def test_create_refuses_what_is_there(tmp_path: Path) -> None:
    Database.create(tmp_path / PATH, ME, epoch=1, owned=ALL_SLOTS)
    with pytest.raises(errors.DatabaseExists):
        Database.create(tmp_path / PATH, ME, epoch=2, owned=ALL_SLOTS)


def test_nothing_is_created_by_looking(tmp_path: Path) -> None:
    for look in (Database.versions, lambda path: Database.open(path, EMPTY, epoch=1, identity=ME)):
        with pytest.raises(errors.NoDatabase, match="no database"):
            look(tmp_path / PATH)
    assert list(tmp_path.iterdir()) == []


def test_commit_keeps_both_versions_and_open_discards_one(tmp_path: Path) -> None:
    path = tmp_path / PATH
    database = fresh(path)
    step(database, {"kept": b"1", "changed": b"old", "deleted": b"d", "empty": b""})
    v1 = commit(database, 1, 1)
    step(database, {"changed": b"new", "added": b"a"}, deletes=("deleted",))
    v2 = commit(database, 2, 2)
    assert Database.versions(path) == (v1, v2)
    after = {key("added"): b"a", key("changed"): b"new", key("empty"): b"", key("kept"): b"1"}
    assert committed(path) == (v2, after)

    database = Database.open(path, v1, epoch=1, identity=ME)
    before = {key("changed"): b"old", key("deleted"): b"d", key("empty"): b"", key("kept"): b"1"}
    assert Database.versions(path) == (v1,)
    assert committed(path) == (v1, before)
    with database.read() as view:
        assert content(view) == before
        assert view.get_step() == 1
    with pytest.raises(errors.UnknownVersion):
        Database.open(path, v2, epoch=1, identity=ME)


def test_versions_of_one_number_are_distinguished(tmp_path: Path) -> None:
    database = fresh(tmp_path / PATH)
    made = commit(database, 1, 0)
    with pytest.raises(errors.UnknownVersion):
        Database.open(tmp_path / PATH, replace(made, checkpoint_id="another"), epoch=1, identity=ME)


def test_open_discards_what_was_not_completed(tmp_path: Path) -> None:
    path = tmp_path / PATH
    database = fresh(path)
    step(database, {"a": b"1"})
    database.freeze(VersionId(1, 1, "c"))
    step(database, {"b": b"2"})
    database = Database.open(path, EMPTY, epoch=1, identity=ME)
    with database.read() as view:
        assert content(view) == {} and view.get_step() == 0
    assert len([folder for folder in path.iterdir() if folder.name != "committed"]) == 1


def test_a_transaction_that_raises_leaves_nothing(tmp_path: Path) -> None:
    database = fresh(tmp_path / PATH)
    with pytest.raises(ZeroDivisionError), database.transaction() as transaction:
        transaction.put(key("a"), b"1")
        raise ZeroDivisionError
    with database.read() as view:
        assert content(view) == {}


def test_steps_go_on_over_a_frozen_layer(tmp_path: Path) -> None:
    database = fresh(tmp_path / PATH)
    step(database, {"a": b"committed", "b": b"committed", "c": b"committed", "d": b"committed"})
    commit(database, 1, 1)
    step(database, {"b": b"frozen", "c": b"frozen", "e": b"frozen"}, deletes=("d",))
    database.freeze(VersionId(2, 2, "c2"))
    step(database, {"c": b"working", "d": b"working"}, deletes=("a", "e"))
    whole = {key("b"): b"frozen", key("c"): b"working", key("d"): b"working"}
    names = ["a", "b", "c", "d", "e", "f"]
    for _ in range(2):
        with database.read() as view:
            assert content(view) == whole
            assert list(view.keys(b"")) == sorted(whole)
            assert [value and bytes(value) for value in view.get_many([key(name) for name in names])] == [
                whole.get(key(name)) for name in names
            ]
            assert [value and bytes(value) for value in (view.get(key(name)) for name in names)] == [
                whole.get(key(name)) for name in names
            ]
        database.fold()
    version, content_committed = committed(tmp_path / PATH)
    assert version.version == 2
    assert content_committed == {
        key("a"): b"committed", key("b"): b"frozen", key("c"): b"frozen", key("e"): b"frozen",
    }  # fmt: skip


def test_a_transaction_sees_its_own_changes_and_keeps_its_views(tmp_path: Path) -> None:
    database = fresh(tmp_path / PATH)
    step(database, {"a": b"1", "b": b"2"})
    with database.transaction() as transaction:
        view = transaction.get(key("a"))
        transaction.put_many([(key("a"), b"x"), (key("c"), memoryview(b"3"))])
        transaction.delete(key("b"))
        assert view is not None and bytes(view) == b"1"
        assert content(transaction) == {key("a"): b"x", key("c"): b"3"}
        assert [value and bytes(value) for value in transaction.get_many([key("a"), key("b")])] == [b"x", None]
        transaction.set_step(7)
        assert transaction.get_step() == 7


def test_scan_stays_within_its_prefix(tmp_path: Path) -> None:
    database = fresh(tmp_path / PATH)
    some = [key("x", table, shard) for table in (1, 2) for shard in (0, 255, 256)]
    with database.transaction() as transaction:
        transaction.put_many((k, b"") for k in reversed(some))
    with database.read() as view:
        assert list(view.keys(some[1][:2])) == some[:3]
        assert list(view.keys(some[1][:4])) == [some[1]]


def test_freeze_waits_for_fold_and_both_may_be_called_twice(tmp_path: Path) -> None:
    database = fresh(tmp_path / PATH)
    v1 = VersionId(1, 0, "c1")
    assert database.fold() == EMPTY
    database.freeze(v1)
    database.freeze(v1)
    with pytest.raises(errors.CheckpointPending):
        database.freeze(VersionId(2, 0, "c2"))
    assert database.fold() == database.fold() == v1
    database.freeze(v1)
    assert Database.versions(tmp_path / PATH) == (EMPTY, v1)


def test_freeze_must_name_the_next_version_and_step(tmp_path: Path) -> None:
    database = fresh(tmp_path / PATH)
    step(database, {})
    for wrong in (VersionId(2, 1, "c"), VersionId(1, 0, "c")):
        with pytest.raises(AssertionError):
            database.freeze(wrong)


def test_attach_joins_only_what_its_own_epoch_has_opened(tmp_path: Path) -> None:
    path = tmp_path / PATH
    Database.create(path, ME, epoch=3, owned=ALL_SLOTS)
    with pytest.raises(errors.NotOpen):
        Database.attach(path, epoch=3, identity=ME)
    Database.open(path, EMPTY, epoch=3, identity=ME)
    with pytest.raises(errors.NotOpen):
        Database.attach(path, epoch=4, identity=ME)
    with pytest.raises(errors.StaleEpoch):
        Database.attach(path, epoch=2, identity=ME)
    with pytest.raises(errors.StaleEpoch):
        Database.open(path, EMPTY, epoch=2, identity=ME)
    for other in (replace(ME, pipeline="x"), replace(ME, worker=1), replace(ME, database="x")):
        with pytest.raises(errors.WrongDatabase):
            Database.attach(path, epoch=3, identity=other)
        with pytest.raises(errors.WrongDatabase):
            Database.open(path, EMPTY, epoch=3, identity=other)
    step(Database.attach(path, epoch=3, identity=ME), {"a": b"1"})


def test_an_older_epoch_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / PATH
    zombie = fresh(path, epoch=1)
    step(zombie, {"a": b"1"})
    zombie.freeze(VersionId(1, 1, "zombie"))
    owner = Database.open(path, EMPTY, epoch=2, identity=ME)
    for act in (
        lambda: step(zombie, {"b": b"2"}),
        lambda: zombie.freeze(VersionId(1, 1, "zombie")),
        zombie.fold,
        lambda: Database.open(path, EMPTY, epoch=1, identity=ME),
    ):
        with pytest.raises(errors.StaleEpoch):
            act()
    with owner.read() as view:
        assert content(view) == {}
    assert Database.versions(path) == (EMPTY,)


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_fence_ends_all_others_before_a_version_is_chosen(tmp_path: Path, epoch: int) -> None:
    """What the fence returns stays true, although a task, a fold or an older coordinator continues."""
    path = tmp_path / PATH
    older = fresh(path, epoch=1)
    step(older, {"a": b"1"})
    v1 = VersionId(1, 1, "c1")
    older.freeze(v1)
    older.fold()
    step(older, {"b": b"2"})
    older.freeze(VersionId(2, 2, "c2"))
    assert Database.fence(path, epoch=epoch, identity=ME).versions == (EMPTY, v1)
    for act in (lambda: step(older, {"b": b"2"}), older.fold, lambda: older.freeze(VersionId(2, 2, "c2"))):
        with pytest.raises(errors.NotOpen if epoch == 1 else errors.StaleEpoch):
            act()
    if epoch == 2:
        with pytest.raises(errors.StaleEpoch):
            Database.open(path, EMPTY, epoch=1, identity=ME)
        with pytest.raises(errors.StaleEpoch):
            Database.fence(path, epoch=1, identity=ME)
    with pytest.raises(errors.NotOpen):
        Database.attach(path, epoch=epoch, identity=ME)  # not before it is opened
    assert Database.versions(path) == (EMPTY, v1)
    with Database.open(path, EMPTY, epoch=epoch, identity=ME).read() as view:
        assert content(view) == {}


def test_a_second_attempt_to_open_after_a_fence_changes_nothing(tmp_path: Path) -> None:
    """It may come after steps have run, while a checkpoint is in progress."""
    path = tmp_path / PATH
    fresh(path)
    fenced = Database.fence(path, epoch=2, identity=ME).number
    first = Database.open(path, EMPTY, epoch=2, identity=ME, fenced=fenced)
    step(first, {"a": b"1"})
    first.freeze(VersionId(1, 1, "c1"))
    again = Database.open(path, EMPTY, epoch=2, identity=ME, fenced=fenced)
    with again.read() as view:
        assert content(view) == {key("a"): b"1"}
    assert first.fold() == VersionId(1, 1, "c1")
    Database.open(path, EMPTY, epoch=2, identity=ME, fenced=fenced)
    assert Database.versions(path) == (EMPTY, VersionId(1, 1, "c1"))
    newer = Database.fence(path, epoch=2, identity=ME).number
    with pytest.raises(errors.NotOpen, match="fenced again"):
        Database.open(path, EMPTY, epoch=2, identity=ME, fenced=fenced)
    Database.open(path, EMPTY, epoch=2, identity=ME, fenced=newer)
    assert Database.versions(path) == (EMPTY,)


def test_a_write_under_way_when_a_newer_epoch_opens_is_lost(tmp_path: Path) -> None:
    zombie = fresh(tmp_path / PATH, epoch=1)
    with zombie.transaction() as transaction:
        transaction.put(key("a"), b"zombie")
        owner = Database.open(tmp_path / PATH, EMPTY, epoch=2, identity=ME)
    with owner.read() as view:
        assert content(view) == {}


def test_a_handle_ends_with_the_next_open_of_the_same_epoch(tmp_path: Path) -> None:
    first = fresh(tmp_path / PATH)
    Database.open(tmp_path / PATH, EMPTY, epoch=1, identity=ME)
    with pytest.raises(errors.NotOpen, match="opened again"):
        step(first, {"a": b"1"})


def test_a_layer_of_another_boot_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = fresh(tmp_path / PATH)
    monkeypatch.setattr("storage.database.boot_id", lambda: "another boot")
    with pytest.raises(errors.NotOpen, match="restarted since"):
        step(database, {})
    with pytest.raises(errors.NotOpen):
        Database.attach(tmp_path / PATH, epoch=1, identity=ME)


def test_other_processes_change_the_layers_under_a_handle(tmp_path: Path) -> None:
    database = fresh(tmp_path / PATH)
    step(database, {"a": b"1"})
    commit(database, 1, 1)
    step(database, {"a": b"2"})
    assert wait(in_child(lambda: commit(database, 2, 2))) == 0
    assert wait(in_child(lambda: step(database, {"b": b"3"}))) == 0
    with database.read() as view:
        assert content(view) == {key("a"): b"2", key("b"): b"3"}
        assert view.get_step() == 3


def test_a_database_created_again_under_its_path_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / PATH
    old = fresh(path)
    path.rename(tmp_path / "aside")
    other = replace(ME, database="another")
    Database.create(path, other, epoch=1, owned=ALL_SLOTS)
    assert Database.open(path, EMPTY, epoch=1, identity=other).statistics().version == EMPTY
    with pytest.raises(errors.WrongDatabase):
        step(old, {})


def test_a_fork_with_a_view_in_use_gets_a_clear_error(tmp_path: Path) -> None:
    database = fresh(tmp_path / PATH)

    def child() -> None:
        with pytest.raises(errors.ForkedWhileOpen):
            step(database, {"child": b""})

    with database.read() as view:
        assert wait(in_child(child)) == 0
        assert content(view) == {}
    step(database, {"parent": b""})


def test_idle_environments_are_closed_where_the_address_space_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Database.close_all()
    # 47 bits have room for at most eight maps of this size.
    monkeypatch.setattr("storage.environments.MAP_BYTES_MAX", 1 << 44)
    databases = [fresh(tmp_path / str(number)) for number in range(8)]
    for database in databases:
        step(database, {"a": b"1"})
    with databases[0].read() as first:
        for database in databases[1:]:
            with database.read() as view:
                assert content(view) == {key("a"): b"1"}
        assert content(first) == {key("a"): b"1"}
    Database.close_all()


def test_closing_waits_for_views_in_use(tmp_path: Path) -> None:
    database = fresh(tmp_path / PATH)
    step(database, {"a": b"1"})
    with database.read() as view:
        Database.close_all()
        with database.read() as another:
            assert content(another) == {key("a"): b"1"}
        assert content(view) == {key("a"): b"1"}
    assert step(database, {}) == 2


@pytest.mark.long
def test_readers_and_steps_go_on_while_a_fold_runs(tmp_path: Path) -> None:
    """Threads step and read while versions are completed. Each view must be the state after some step."""
    database = fresh(tmp_path / PATH)
    stop = threading.Event()

    def steps() -> None:
        while not stop.is_set():
            with database.transaction() as transaction:
                following = transaction.get_step() + 1
                transaction.put_many((key(str(n)), b"%d" % following) for n in range(20))
                transaction.set_step(following)

    def reads() -> None:
        while not stop.is_set():
            with database.read() as view:
                assert set(content(view).values()) == ({b"%d" % view.get_step()} if view.get_step() else set())
            with Database.read_committed(tmp_path / PATH) as (version, view):
                assert set(content(view).values()) == ({b"%d" % version.step} if version.step else set())

    with ThreadPoolExecutor() as threads:
        running = [threads.submit(steps), threads.submit(reads), threads.submit(reads)]
        try:
            for number in range(1, 31):
                freeze_at_boundary(database, number)
                database.fold()
        finally:
            stop.set()
        for thread in running:
            thread.result()
    assert committed(tmp_path / PATH)[0].version == 30


def freeze_at_boundary(database: Database, number: int) -> None:
    """The coordinator pauses steps before a freeze. This function retries until no step came in between."""
    while True:
        with database.read() as view:
            at = view.get_step()
        try:
            database.freeze(VersionId(number, at, f"c{number}"))
            return
        except AssertionError:
            continue


@pytest.mark.usefixtures("one_record_a_piece")
@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_a_fold_that_stopped_half_way_is_no_version(tmp_path: Path, pieces: int) -> None:
    """A reader of the last version looks through its undo log; the fold can be rolled back, and it can be completed."""
    path = tmp_path / PATH
    database = fresh(path)
    step(database, {"a": b"1", "b": b"1"})
    v1 = commit(database, 1, 1)
    step(database, {"a": b"22", "c": b"2"}, deletes=("b",))
    v2 = VersionId(2, 2, "c2")
    database.freeze(v2)
    with arm(CrashOrder("fold.piece", "raise", visit=pieces)), pytest.raises(Crash):
        database.fold()
    before, after = {key("a"): b"1", key("b"): b"1"}, {key("a"): b"22", key("c"): b"2"}
    assert Database.versions(path) == (v1,)
    assert committed(path) == (v1, before)
    assert database.statistics().table_bytes == {1: 2 * (4 + 1 + 1)} == {1: 2 * len(key("a") + b"1")}
    with database.read() as view:
        assert content(view) == after
    with pytest.raises(errors.CheckpointPending):
        database.freeze(VersionId(2, 2, "another"))
    step(database, {"d": b"3"}, deletes=("a",))
    copy = tmp_path / "copy"
    Database.close_all()
    shutil.copytree(path, copy)

    assert database.fold() == v2 and committed(path) == (v2, after)
    assert Database.fence(copy, epoch=2, identity=ME).versions == (v1,)
    assert committed(copy) == (v1, before)
    Database.open(copy, v1, epoch=2, identity=ME)
    assert committed(copy) == (v1, before)
    assert database.statistics().table_bytes == {1: len(key("a") + b"22") + len(key("c") + b"2")}


def rewritten(database: Database, texts: Callable[[int], dict[str, bytes]]) -> tuple[float, dict[str, bytes]]:
    """Makes five checkpoints, before each of which `texts(number)` replaces all records. Returns the size of the
    committed file as a multiple of the live bytes, and the content of the checkpoint before the last."""
    former: dict[str, bytes] = {}
    for number in range(1, 6):
        if number > 1:
            former = texts(number - 1)
        new = texts(number)
        step(database, new, tuple(former.keys() - new.keys()))
        commit(database, number, number)
    statistics = database.statistics()
    return statistics.disk_bytes["committed"] / sum(statistics.table_bytes.values()), former


def noise(number: int, size: int) -> bytes:
    """Bytes that do not compress."""
    return random.Random(number).randbytes(size)


@pytest.mark.parametrize(
    ("texts", "least", "most"),
    [
        pytest.param(lambda n: {f"{i:02d}": noise(99 * n + i, 100_000) for i in range(80)}, 2.0, 2.3, id="noise"),
        pytest.param(lambda n: {f"{i:02d}": bytes([n]) * 100_000 for i in range(80)}, 1.0, 1.2, id="compressible"),
        # As in a trace, whose runs never change; but here the new keys come before the old ones.
        pytest.param(lambda n: {f"{9 - n}{i:02d}": bytes([n]) * 100_000 for i in range(80)}, 1.0, 1.2, id="replaced"),
        pytest.param(lambda n: {f"{n}": bytes([n]) * 8_000_000}, 1.0, 1.2, id="one record"),
        # As a trace of few runs and its output, whose sizes differ a little from checkpoint to checkpoint.
        pytest.param(lambda n: {"1": noise(n, 2_000_000 + 50_000 * n), f"2{n}": noise(-n, 2_000_000)}, 2.0, 2.3, id="two"),
        pytest.param(lambda n: {f"{9 - n}": bytes([n]) * 8_000_000}, 1.0, 1.2, id="one record, before"),
    ],
)  # fmt: skip
def test_the_file_of_two_versions_is_little_larger_than_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: Callable[[int], dict[str, bytes]], least: float, most: float
) -> None:
    """All records change between two checkpoints. In one transaction, a fold would need space for two further copies of
    them."""
    monkeypatch.setattr(folding, "PIECE_BYTES_MAX", 1 << 18)
    share, before = rewritten(fresh(tmp_path / PATH), texts)
    assert least < share < most

    former = Database.versions(tmp_path / PATH)[0]
    database = Database.open(tmp_path / PATH, former, epoch=1, identity=ME)  # the rollback is in pieces too
    statistics = database.statistics()
    assert statistics.disk_bytes["committed"] < 2.3 * sum(statistics.table_bytes.values())
    assert committed(tmp_path / PATH) == (former, {key(name): text for name, text in before.items()})


def test_the_parts_of_a_record_are_deleted_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds where the record is deleted, where a small one replaces it, and where its undo entry is dropped; also
    for the longest keys."""
    monkeypatch.setattr(record_parts, "PART_BYTES_MIN", 4080)
    monkeypatch.setattr(record_parts, "PART_SHARE", 1 << 40)
    path = tmp_path / PATH
    database = fresh(path)
    long = "k" * (KEY_BYTES_MAX - PREFIX_BYTES)
    contents = [
        {"first": b"1"},
        {long: noise(1, 70_000), "kept": noise(2, 9_000)},
        {long: noise(3, 10_000)},
        {long: b"4"},
        {},
    ]
    parts_found = []
    for number, texts in enumerate(contents, 1):
        step(database, texts, (long,) if not texts else ())
        version = commit(database, number, number)
        with (
            environments.open_environment(path / "committed", synced=True) as environment,
            environment.read() as reader,
        ):
            parts_found.append([len(list(reader.items(record_parts.PARTS + space))) for space in (RECORDS, UNDO)])
        expected = {key(name): text for texts in contents[:number] for name, text in texts.items()}
        if not texts:
            del expected[key(long)]
        assert committed(path) == (version, expected)
    assert parts_found == [[0, 0], [18 + 3, 0], [3 + 3, 18], [3, 3], [3, 0]]
    former = Database.versions(path)[0]
    Database.open(path, former, epoch=1, identity=ME)
    assert committed(path)[1][key(long)] == b"4"


def test_a_state_that_grew_much_in_one_checkpoint_is_merged_as_a_large_one(tmp_path: Path) -> None:
    """Pieces and parts are a share of the present state, not of the state before."""
    path = tmp_path / PATH
    database = fresh(path)
    step(database, {"tiny": b"1"})
    v1 = commit(database, 1, 1)
    large = {f"{part:03d}": noise(part, 100_000) for part in range(240)}
    step(database, large)
    with arm(CrashOrder("fold.piece", "raise", visit=1000)) as (pieces,):
        commit(database, 2, 2)
    assert pieces.visits < 60  # with three records in each piece there would be eighty pieces
    with environments.open_environment(path / "committed", synced=True) as environment, environment.read() as reader:
        in_parts = {spaced[: -record_parts.NUMBER_BYTES] for spaced, _ in reader.items(record_parts.PARTS)}
    assert 0 < len(in_parts) < 20, "only records that were a sixteenth of the state at that time are in parts"
    Database.open(path, v1, epoch=1, identity=ME)
    assert committed(path) == (v1, {key("tiny"): b"1"})


@pytest.mark.usefixtures("one_record_a_piece")
def test_an_open_that_stalled_during_a_rollback_restarts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the meantime another call has opened the version, and has left half a fold that is to be rolled back."""
    path = tmp_path / PATH
    database = fresh(path)
    before = dict.fromkeys("abcd", b"1")
    step(database, before)
    v1 = commit(database, 1, 1)
    step(database, dict.fromkeys("abcd", b"22"))
    commit(database, 2, 2)
    begun = 0
    real = environments.disk_faults

    def stalling(folder: Path) -> object:
        nonlocal begun
        begun += folder == path
        # After the verification, the clearing of four records and the step's, and two pieces of the undo log.
        if begun == 9:
            begun += 1000
            other = Database.open(path, v1, epoch=1, identity=ME)
            step(other, {"new": b"3", "a": b"3"}, deletes=("b",))
            other.freeze(VersionId(2, 2, "other"))
            with arm(CrashOrder("fold.piece", "raise", visit=6)), pytest.raises(Crash):
                other.fold()
        return real(folder)

    monkeypatch.setattr(environments, "disk_faults", stalling)
    Database.open(path, v1, epoch=1, identity=ME)
    assert begun > 1000
    assert committed(path) == (v1, {key(name): text for name, text in before.items()})


def test_a_small_state_has_small_pieces(tmp_path: Path) -> None:
    """Otherwise most of its file would be free space for pieces."""
    share, _ = rewritten(fresh(tmp_path / PATH), lambda n: {f"{i:02d}": noise(99 * n + i, 50_000) for i in range(80)})
    assert 2.0 < share < 2.5


def test_a_piece_walks_over_a_bounded_number_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first walk over a layer that deletes nothing finds nothing to do, and still needs a bound."""
    monkeypatch.setattr(folding, "PIECE_RECORDS_MAX", 10)
    database = fresh(tmp_path / PATH)
    step(database, {f"{part:02d}": b"1" for part in range(80)})
    with arm(CrashOrder("fold.piece", "raise", visit=1000)) as (pieces,):
        version = commit(database, 1, 1)
    assert 16 <= pieces.visits < 24
    assert committed(tmp_path / PATH) == (version, {key(f"{part:02d}"): b"1" for part in range(80)})


def test_a_piece_is_as_large_as_what_it_replaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletions are short, but their undo entries are not."""
    monkeypatch.setattr(folding, "PIECE_BYTES_MAX", 1 << 18)
    database = fresh(tmp_path / PATH)
    step(database, {f"{part:02d}": bytes(100_000) for part in range(80)})
    commit(database, 1, 1)
    step(database, {}, deletes=tuple(f"{part:02d}" for part in range(80)))
    with arm(CrashOrder("fold.piece", "raise", visit=1000)) as (pieces,):
        commit(database, 2, 2)
    assert pieces.visits > 20


def test_a_database_in_another_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as former:
        former.setattr(description, "FORMAT", 2)
        database = fresh(tmp_path / PATH)
        step(database, {"a": b"1"})
        v1 = commit(database, 1, 1)
    for look in (Database.versions, lambda path: Database.open(path, v1, epoch=2, identity=ME)):
        with pytest.raises(
            errors.OtherFormat, match=r"is in format 2; .* reads only format 6.* `stepwell run --full-refresh`"
        ):
            look(tmp_path / PATH)
    assert Database.identity_of(tmp_path / PATH) == ME  # so that it is not regarded as a database without an owner


def test_statistics_follow_the_live_records(tmp_path: Path) -> None:
    database = fresh(tmp_path / PATH)
    with database.transaction() as transaction:
        transaction.put(key("ab", table=1), b"12345")
        transaction.put(key("c", table=2), b"")
    commit(database, 1, 0)
    assert database.statistics().table_bytes == {1: 4 + 2 + 5, 2: 4 + 1}
    with database.transaction() as transaction:
        transaction.put(key("ab", table=1), b"1")
        transaction.delete(key("c", table=2))
    database.freeze(VersionId(2, 0, "c2"))
    statistics = database.statistics()
    assert set(statistics.disk_bytes) == {"committed", "frozen", "working"} and all(statistics.disk_bytes.values())
    database.fold()
    assert database.statistics().table_bytes == {1: 4 + 2 + 1}
    database = Database.open(tmp_path / PATH, Database.versions(tmp_path / PATH)[0], epoch=1, identity=ME)
    assert database.statistics().table_bytes == {1: 4 + 2 + 5, 2: 4 + 1}


def test_only_the_committed_layer_is_synced(tmp_path: Path) -> None:
    """A test cannot cut the power, but it can see whether LMDB is asked to sync."""
    database = fresh(tmp_path / PATH)
    step(database, {"a": b"1"})
    commit(database, 1, 1)
    synced = {
        folder.name.split("-")[0]: (flags["sync"], flags["metasync"])
        for folder, environment in environments._table.open.items()
        if folder.parent == tmp_path / PATH
        for flags in [environment._handle.flags()]
    }
    assert synced == {"committed": (True, True), "layer": (False, False)}


def test_what_is_made_and_deleted_between_checkpoints_leaves_nothing(tmp_path: Path) -> None:
    database = fresh(tmp_path / PATH)
    step(database, {"run": bytes(1000)})
    step(database, {}, deletes=("run", "never there"))
    database.freeze(VersionId(1, 2, "c"))
    database.fold()
    database = Database.open(tmp_path / PATH, EMPTY, epoch=1, identity=ME)
    with database.read() as view:
        assert content(view) == {}


def test_a_child_that_fails_is_seen(tmp_path: Path) -> None:
    """A test of the helper: a failed assertion in a child must not pass unnoticed."""

    def fails() -> None:
        raise SystemExit("expected in the output")

    assert wait(in_child(fails)) == FAILED


def test_a_list_of_keys_touches_no_values_and_values_are_read_ahead(tmp_path: Path) -> None:
    """Each step lists the keys of its traces. What is touched is counted in page faults, after the file has been mapped again."""
    database = fresh(tmp_path / PATH)
    large = random.Random(1).randbytes(1 << 20)
    names = [f"large-{number}" for number in range(LARGE_VALUES)]
    step(database, dict.fromkeys(names, large))
    commit(database, 1, 1)
    Database.close_all()
    with database.read() as view:
        before = faults_of_pages()
        assert len(list(view.keys(b""))) == LARGE_VALUES
        listed = faults_of_pages()
        assert all(view.get(key(name)) == large for name in names)
        read = faults_of_pages()
        # "rr" says that the kernel was told to read no more than the page that is touched.
        assert [flags for flags in mapping_flags(tmp_path / PATH / "committed" / "data.mdb") if "rr" in flags] == []
    assert listed - before < 3 * LARGE_VALUES
    assert read - listed > 3 * LARGE_VALUES, "the faults of pages count nothing"


def faults_of_pages() -> int:
    """Of this thread so far."""
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_minflt + used.ru_majflt


def mapping_flags(file: Path) -> list[list[str]]:
    """The kernel's flags of each mapping of a file in this process."""
    found: list[list[str]] = []
    is_of_file = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head, _, rest = line.partition(" ")
        if not head.endswith(":"):
            is_of_file = rest.endswith(str(file))
        elif head == "VmFlags:" and is_of_file:
            found.append(rest.split())
    assert found, f"{file} is not mapped"
    return found
