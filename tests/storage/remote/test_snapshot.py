"""Both complete versions of a database can be read as they were, whatever a fold does meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from base.version import EMPTY, VersionId
from faults.points import Crash, CrashOrder, arm
from storage import description as described
from storage import environments, errors, record_parts, records
from storage.database import Database
from storage.description import Description
from storage.environments import Writer
from storage.keys import OWNED_KEY, RESERVED, STEP_KEY
from storage.remote.snapshot import records_at
from tests.storage.helpers import ME, commit, fresh, key, step

pytestmark = pytest.mark.usefixtures("one_record_a_piece")
BEFORE = {"changed": b"o" * 30_000, "deleted": b"d", "kept": b"k", "small": b"s"}
AFTER = {"added": b"a" * 20_000, "changed": b"n" * 10_000, "kept": b"k", "small": b"t"}


def content(path: Path, version: VersionId) -> dict[bytes, bytes]:
    with records_at(path, version) as snapshot:
        found = list(snapshot.records())
        assert [name for name, _ in found] == sorted({name for name, _ in found})
        sizes: dict[int, int] = {}
        for name, stored in found:
            if not name.startswith(RESERVED):
                sizes[1] = sizes.get(1, 0) + records.live_bytes(name, stored)
        assert snapshot.table_bytes() == sizes
        return {name: bytes(records.value_of(memoryview(stored))) for name, stored in found}


def expected(values: dict[str, bytes], number: int) -> dict[bytes, bytes]:
    return {key(name): value for name, value in values.items()} | {STEP_KEY: number.to_bytes(8)}


def without_owned(found: dict[bytes, bytes]) -> dict[bytes, bytes]:
    assert found.pop(OWNED_KEY)
    return found


def test_both_versions_at_every_moment_of_a_fold(tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = fresh(path)
    step(database, BEFORE)
    v1 = commit(database, 1, 1)
    step(database, {name: value for name, value in AFTER.items() if name != "kept"}, deletes=("deleted",))
    v2 = VersionId(2, 2, "c2")
    database.freeze(v2)
    moments = 0
    while True:
        assert without_owned(content(path, v1)) == expected(BEFORE, 1)
        with arm(CrashOrder("fold.piece", "raise")):
            try:
                database.fold()
            except Crash:
                moments += 1
                with pytest.raises(errors.UnknownVersion), records_at(path, v2):
                    pass
                continue
        break
    assert moments > 5
    assert without_owned(content(path, v1)) == expected(BEFORE, 1)
    assert without_owned(content(path, v2)) == expected(AFTER, 2)
    with pytest.raises(errors.UnknownVersion), records_at(path, EMPTY):
        pass


def test_the_former_version_amid_a_rollback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "database"
    database = fresh(path)
    step(database, BEFORE)
    v1 = commit(database, 1, 1)
    step(database, AFTER, deletes=("deleted",))
    commit(database, 2, 2)
    save, moments = described.save, 0
    for visit in range(1, 40):  # each rollback goes as far as that write of the description, and the next one goes on
        left = visit

        def save_or_end(writer: Writer, description: Description) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise Crash
            save(writer, description)

        monkeypatch.setattr(described, "save", save_or_end)
        try:
            Database.open(path, v1, epoch=1, identity=ME)
            break
        except Crash:
            moments += 1
            assert without_owned(content(path, v1)) == expected(BEFORE, 1)
    assert moments > 2
    assert without_owned(content(path, v1)) == expected(BEFORE, 1)


def test_a_snapshot_stays_while_a_fold_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = fresh(path)
    step(database, BEFORE)
    v1 = commit(database, 1, 1)
    with records_at(path, v1) as snapshot:
        read = snapshot.records()
        first = next(read)
        for number in (2, 3):
            step(database, AFTER, deletes=("deleted",))
            commit(database, number, number)
        found = dict([first, *read])
        assert {name: found[key(name)][: -records.TRAILER_BYTES] for name in BEFORE} == BEFORE
    with pytest.raises(errors.UnknownVersion), records_at(path, v1):
        pass


def test_a_lost_part_is_named(tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"a": b"1"})
    commit(database, 1, 1)
    step(database, BEFORE)
    v2 = commit(database, 2, 2)
    with environments.open_environment(path / "committed", synced=True) as environment, environment.write(1) as writer:
        lost = [bytes(name) for name, _ in writer.items(record_parts.PARTS)]
        assert len(lost) > 1
        writer.delete(lost[1])
    with pytest.raises(errors.CorruptRecord, match=f"{ME.database}.*{b'changed'.hex()}"), records_at(path, v2) as found:
        list(found.records())
