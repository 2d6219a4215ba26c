"""A crash at any moment of storage, in real processes; or a stop there, which turns the process into a zombie.

A child runs the operation under a trace that kills (or stops) it before its n-th access to what other processes see. n
grows until the child completes the operation. What a crash leaves is looked at after every access, or after every third one. What a zombie does
is tried at some of them. `make soak` tries all.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from base.slots import ALL_SLOTS
from base.version import EMPTY, VersionId
from faults.points import Crash, CrashOrder, arm
from storage import errors
from storage.committed import read_description
from storage.database import Database
from tests.examples import SHARE
from tests.sampling import sampled
from tests.storage.helpers import (
    ME,
    before_access,
    commit,
    committed,
    content,
    fresh,
    in_child,
    key,
    resume,
    step,
    wait,
    wait_stopped,
)  # fmt: skip

V1 = VersionId(1, 1, "checkpoint-1-1")
V2 = VersionId(2, 2, "checkpoint-2-2")
CONTENT = {
    EMPTY: {},
    V1: {key("changed"): b"old", key("deleted"): b"d"},
    V2: {key("added"): b"a" * 5000, key("changed"): b"new"},
}
STRIDE = 1 if SHARE >= 1 else 3
"""How far apart the accesses are before which a fold or an opening crashes, which have the most of them. `make soak` tries all."""

Prepare = Callable[[Path], Database]
pytestmark = pytest.mark.usefixtures("one_record_a_piece")
# It gets a handle that was made before, so that no stop falls into making the handle.
Operation = Callable[[Database], object]


def at_v1(path: Path, *, beside_undo: bool = False) -> Database:
    """A database with version 1 complete and the changes of version 2 in the working layer. `beside_undo`: version 0
    can still be opened."""
    database = fresh(path)
    step(database, {"changed": b"old", "deleted": b"d"})
    assert commit(database, 1, 1) == V1
    if not beside_undo:
        database = Database.open(path, V1, epoch=1, identity=ME)
    step(database, {"changed": b"new", "added": b"a" * 5000}, deletes=("deleted",))
    return database


def frozen_v2(path: Path) -> Database:
    database = at_v1(path)
    database.freeze(V2)
    return database


def frozen_v2_beside_undo(path: Path) -> Database:
    database = at_v1(path, beside_undo=True)
    database.freeze(V2)
    return database


def half_folded(path: Path) -> Database:
    database = frozen_v2(path)
    with arm(CrashOrder("fold.piece", "raise", visit=3)), pytest.raises(Crash):
        database.fold()
    return database


def at_both(path: Path) -> Database:
    database = at_v1(path)
    database.freeze(V2)
    database.fold()
    return database


def _soak(*arguments: object) -> Any:
    return pytest.param(*arguments, marks=pytest.mark.soak)


def every_access(shared_memory: Path, prepare: Prepare, stride: int = 1) -> Iterator[tuple[int, Path]]:
    """Numbers of accesses, each with a copy of the same database. The caller breaks when the child completes the operation."""
    prepare(shared_memory / "template")
    Database.close_all()
    for number in range(1, 5000, stride):
        path = shared_memory / f"copy-{number}"
        shutil.copytree(shared_memory / "template", path)
        yield number, path
        Database.close_all()
        shutil.rmtree(path)
    raise AssertionError("the operation has no end")


def attach(path: Path) -> Database:
    return Database.attach(path, epoch=1, identity=ME)


def prove_versions(path: Path, present: tuple[VersionId, ...]) -> None:
    """Proves that each version can be opened with its whole content, from the last to the first, and that steps can run
    afterwards."""
    assert Database.versions(path) == present
    assert committed(path) == (present[-1], CONTENT[present[-1]])
    for epoch, version in enumerate(reversed(present), start=2):
        if len(present) == 2 and version == present[-1]:
            continue  # to open it would discard the other one; its content has been read above
        database = Database.open(path, version, epoch=epoch, identity=ME)
        with database.read() as view:
            assert content(view) == CONTENT[version]
            assert view.get_step() == version.step
    step(database, {"after": b"crash"})
    commit(database, version.version + 1, version.step + 1)


def crash_everywhere(
    shared_memory: Path, prepare: Prepare, body: Operation, stride: int = 1
) -> Iterator[tuple[bool, Path]]:
    """Yields (crashed, database) for a crash before each access, and in the end for the whole operation."""
    for number, path in every_access(shared_memory, prepare, stride):
        status = wait(in_child(before_access(number, signal.SIGKILL, partial(body, attach(path)))))
        assert status in (0, -signal.SIGKILL)
        yield status != 0, path
        if status == 0:
            assert number > 10
            return


def test_a_crash_in_freeze_leaves_v(shared_memory: Path) -> None:
    for _, path in crash_everywhere(shared_memory, at_v1, lambda database: database.freeze(V2)):
        prove_versions(path, (V1,))


@pytest.mark.long
def test_a_freeze_whose_task_was_killed_is_made_by_the_next_attempt(shared_memory: Path) -> None:
    """The layer that the first attempt created may exist, and the next attempt gives its layer the same name."""
    for _, path in crash_everywhere(shared_memory, at_v1, lambda database: database.freeze(V2)):
        attached = attach(path)
        attached.freeze(V2)
        attached.fold()
        prove_versions(path, (V1, V2))


@pytest.mark.parametrize(("prepare", "before"), [_soak(frozen_v2, (V1,)), (frozen_v2_beside_undo, (EMPTY, V1))])
def test_a_crash_in_fold_leaves_v_or_both(shared_memory: Path, prepare: Prepare, before: tuple[VersionId, ...]) -> None:
    seen = set()
    for crashed, path in crash_everywhere(shared_memory, prepare, Database.fold, STRIDE):
        present = Database.versions(path)
        seen.add((crashed, present))
        prove_versions(path, present)
    assert seen == {(True, before), (True, (V1,)), (True, (V1, V2)), (False, (V1, V2))}


@pytest.mark.long
def test_a_fold_whose_task_was_killed_is_ended_by_the_next_attempt(shared_memory: Path) -> None:
    for _, path in crash_everywhere(shared_memory, frozen_v2, Database.fold, STRIDE):
        assert attach(path).fold() == V2
        prove_versions(path, (V1, V2))


@pytest.mark.long
@pytest.mark.parametrize(("prepare", "before"), [(at_both, (V1, V2)), _soak(half_folded, (V1,))])
def test_a_crash_in_open_leaves_what_was_or_the_one_asked_for(
    shared_memory: Path, prepare: Prepare, before: tuple[VersionId, ...]
) -> None:
    seen = set()

    def body(database: Database) -> None:
        Database.open(database.path, V1, epoch=2, identity=ME)

    for crashed, path in crash_everywhere(shared_memory, prepare, body, STRIDE):
        present = Database.versions(path)
        seen.add((crashed, present))
        prove_versions(path, present)
    assert seen == {(True, before), (True, (V1,)), (False, (V1,))}


@pytest.mark.long
@pytest.mark.usefixtures("always_worth_while")
@pytest.mark.parametrize(
    ("prepare", "before"), [(at_both, (V1, V2)), _soak(frozen_v2, (V1,)), _soak(half_folded, (V1,))]
)
def test_a_crash_in_a_compaction_changes_nothing(
    shared_memory: Path, prepare: Prepare, before: tuple[VersionId, ...]
) -> None:
    """What a crash leaves beside the database is removed by the next `open`."""
    left_behind = 0
    for crashed, path in crash_everywhere(shared_memory, prepare, Database.compact):
        left_behind += crashed and any(path.glob("compact-*"))
        prove_versions(path, before)
        assert not [folder.name for folder in path.iterdir() if folder.name.startswith(("compact-", "removed-"))]
    assert left_behind > 5


@pytest.mark.usefixtures("always_worth_while")
@pytest.mark.parametrize(
    "operation",
    ["fence", _soak("freeze"), _soak("fold"), _soak("open")],
)
def test_a_writer_that_waits_while_the_database_is_compacted_writes_the_new_file(
    shared_memory: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """The child is stopped at an access of its operation. This process compacts the database, unless the child has the lock. Then the child goes
    on, and what it has done counts."""
    monkeypatch.setattr("storage.writers.WAIT_SECONDS_MAX", 0.02)
    prepare, body, expected = WAITING[operation]
    seen: set[bool | str] = set()
    for number, path in every_access(shared_memory, prepare):
        child = in_child(before_access(number, signal.SIGSTOP, partial(body, attach(path))))
        stopped = wait_stopped(child)
        with suppress(errors.StaleEpoch, errors.NotOpen):
            try:
                seen.add(attach(path).compact())
            except errors.WriterBlocked:
                seen.add("blocked")
        if stopped:
            resume(child)
            assert wait(child) == 0
        Database.close_all()
        assert expected(path)
        if not stopped:
            break
    assert seen == {True, "blocked"} or (operation == "open" and seen == {True, "blocked", False})


def test_a_crash_in_create_leaves_nothing_or_a_database(shared_memory: Path) -> None:
    for number in range(1, 5000):
        path = shared_memory / f"new-{number}"
        create = before_access(number, signal.SIGKILL, partial(Database.create, path, ME, epoch=1, owned=ALL_SLOTS))
        status = wait(in_child(create))
        assert status in (0, -signal.SIGKILL), "the child made no attempt"
        if path.exists():
            assert Database.versions(path) == (EMPTY,)
        else:
            Database.create(path, ME, epoch=1, owned=ALL_SLOTS)
        Database.close_all()
        if status == 0:
            break
    else:
        pytest.fail("the database is never made")
    assert not [left for left in shared_memory.iterdir() if left.name == f".{path.name}.new-e1"]


def test_a_task_killed_in_its_transaction_leaves_it_whole_or_nothing(shared_memory: Path) -> None:
    before = {**CONTENT[V1], **CONTENT[V2]}
    del before[key("deleted")]
    after = {**before, key("x"): b"1", key("y"): b"2"}
    seen = []
    for _, path in crash_everywhere(shared_memory, at_v1, lambda database: step(database, {"x": b"1", "y": b"2"})):
        with attach(path).read() as view:
            assert (content(view), view.get_step()) in ((before, 2), (after, 3))
            seen.append(view.get_step())
        step(attach(path), {"x": b"1", "y": b"2"})  # the retry is not blocked by a lock of the killed process
    assert seen == sorted(seen) and set(seen) == {2, 3}


@pytest.mark.usefixtures("always_worth_while")
@pytest.mark.parametrize(
    ("operation", "stride"),
    [
        *sampled((("fold", 5), ("step", 1), ("freeze", 2), ("compact", 3)), 2, several=True),
        *(pytest.param(name, 1, marks=pytest.mark.soak) for name in ("freeze", "fold", "compact", "open")),
    ],
)
def test_a_zombie_of_an_older_epoch_changes_nothing(
    shared_memory: Path, monkeypatch: pytest.MonkeyPatch, operation: str, stride: int
) -> None:
    """The child is stopped at an access. Epoch 2 opens the database, and kills the child if it holds the lock. Then the
    child continues. The state that epoch 2 opened must not change."""
    monkeypatch.setattr("storage.writers.WAIT_SECONDS_MAX", 0.02)
    prepare, body = ZOMBIES[operation]
    outcomes = set()
    for number, path in every_access(shared_memory, prepare, stride):
        child = in_child(before_access(number, signal.SIGSTOP, partial(expect_stale, body, attach(path))))
        stopped = wait_stopped(child)
        version = Database.versions(path)[-1]
        owner = open_newer(path, version, child)
        step(owner, {"owner": b"2"})
        if stopped:
            resume(child)
            outcomes.add(wait(child))
        assert Database.versions(path) == (version,)
        with owner.read() as view:
            assert content(view) == {**CONTENT[version], key("owner"): b"2"}
        step(owner, {"owner": b"3"})
        commit(owner, version.version + 1, version.step + 2)
        if not stopped:
            break
    assert outcomes <= {0, -signal.SIGKILL} and 0 in outcomes
    assert operation == "step" or -signal.SIGKILL in outcomes


def open_newer(path: Path, version: VersionId, child: int) -> Database:
    """Opens the database in epoch 2. Where the child was stopped between acquiring the lock and storing its pid, the
    operator has to kill it."""
    try:
        return Database.open(path, version, epoch=2, identity=ME)
    except errors.WriterBlocked as blocked:
        assert f"process {child}," in str(blocked)
        os.kill(child, signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        return Database.open(path, version, epoch=2, identity=ME)


def expect_stale(body: Operation, database: Database) -> None:
    """A zombie either completes its operation, which has no effect, or gets an error that says that it is fenced."""
    with suppress(errors.StaleEpoch, errors.NotOpen):
        body(database)


ZOMBIES: dict[str, tuple[Prepare, Operation]] = {
    "freeze": (at_v1, lambda database: database.freeze(V2)),
    "fold": (frozen_v2, Database.fold),
    "step": (at_v1, lambda database: step(database, {"zombie": b"1"})),
    "open": (at_both, lambda database: Database.open(database.path, V1, epoch=1, identity=ME)),
    "compact": (at_both, Database.compact),
}

WAITING: dict[str, tuple[Prepare, Operation, Callable[[Path], bool]]] = {
    "freeze": (
        at_v1,
        lambda database: database.freeze(V2),
        lambda path: attach(path).fold() == V2,
    ),
    "fold": (frozen_v2, Database.fold, lambda path: Database.versions(path)[-1] == V2),
    "fence": (
        at_both,
        lambda database: Database.fence(database.path, epoch=7, identity=ME),
        lambda path: read_description(path).epoch == 7,
    ),
    "open": (
        at_both,
        lambda database: Database.open(database.path, V1, epoch=7, identity=ME),
        lambda path: Database.versions(path) == (V1,) and read_description(path).epoch == 7,
    ),
}
"""How to prepare the database, what the child does, and what holds then."""


def test_a_stopped_writer_of_the_same_epoch_is_named(shared_memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = fresh(shared_memory / "database")

    def stops_inside() -> None:
        with database.transaction() as transaction:
            transaction.put(key("a"), b"1")
            os.kill(os.getpid(), signal.SIGSTOP)

    child = in_child(stops_inside)
    try:
        assert wait_stopped(child)
        with monkeypatch.context() as patched:
            patched.setattr("storage.writers.WAIT_SECONDS_MAX", 0.02)
            with pytest.raises(errors.WriterBlocked, match=f"process {child} "):
                step(database, {"b": b"2"})
    finally:
        resume(child)
        assert wait(child) == 0
    step(database, {"b": b"2"})
    with database.read() as view:
        assert content(view) == {key("a"): b"1", key("b"): b"2"}


@pytest.mark.long
def test_a_step_that_waits_while_another_process_freezes_writes_the_new_layer(
    shared_memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child, of the same epoch, is stopped at an access of its step. This process freezes. Then the child
    continues."""
    monkeypatch.setattr("storage.writers.WAIT_SECONDS_MAX", 0.02)
    seen: set[int | str] = set()
    for number, path in every_access(shared_memory, at_v1):
        child = in_child(before_access(number, signal.SIGSTOP, partial(step, attach(path), {"late": b"1"})))
        stopped = wait_stopped(child)
        database = attach(path)
        with database.read() as view:
            written = view.get_step() - V2.step
        try:
            database.freeze(VersionId(2, V2.step + written, "c2"))
        except errors.WriterBlocked:
            seen.add("blocked")
            resume(child)
            assert wait(child) == 0
            continue
        if stopped:
            resume(child)
            assert wait(child) == 0
        seen.add(written)
        database.fold()
        late = {key("late"): b"1"}
        assert committed(path)[1] == CONTENT[V2] | (late if written else {})
        with database.read() as view:
            assert content(view) == CONTENT[V2] | late
        if not stopped:
            break
    assert seen == {0, "blocked", 1}
