"""The database against an obvious model: one dict for each version, and one for what the steps have written since."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from base.slots import ALL_SLOTS
from base.version import EMPTY, VersionId
from faults.points import Crash, CrashOrder, Point, arm
from storage import committed, errors, folding, record_parts
from storage.database import Database
from storage.keys import record_key
from tests.storage.helpers import ME, content, in_child, wait
from tests.storage.helpers import committed as committed_content

Content = dict[bytes, bytes]
names = st.builds(record_key, st.integers(1, 2), st.sampled_from([0, 255, 256]), st.sampled_from([b"", b"a", b"ab"]))
values = st.binary(max_size=9) | st.just(bytes(5000))  # some are larger than a page
changes = st.dictionaries(names, values | st.none(), max_size=6)  # None deletes
prefixes = names.map(lambda key: key[:4]) | names | st.just(b"")


class Model(RuleBasedStateMachine):
    """`complete`: the versions that must exist, with their contents. `frozen`: the version that waits to be folded.
    `now`: what a reader sees."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = (
            folding.PIECE_BYTES_MAX,
            record_parts.PART_BYTES_MIN,
            committed.FREE_BYTES_MIN,
            committed.FREE_SHARE_MIN,
        )
        folding.PIECE_BYTES_MAX = 1  # so a fold takes one transaction per record
        record_parts.PART_BYTES_MIN = 1000  # so large records have parts
        committed.FREE_BYTES_MIN, committed.FREE_SHARE_MIN = 0, 0.0  # so any database is compacted
        self.folder = Path(
            tempfile.mkdtemp(prefix="stepwell-", dir=Path("/dev/shm") if Path("/dev/shm").is_dir() else None)
        )
        self.path = self.folder / "database"
        Database.create(self.path, ME, epoch=1, owned=ALL_SLOTS)
        self.complete: list[tuple[VersionId, Content]] = [(EMPTY, {})]
        self.frozen: tuple[VersionId, Content] | None = None
        self.now: Content = {}
        self.step = 0
        self.epoch = 0
        self.made = 0
        self.database: Database | None = None

    def teardown(self) -> None:
        folding.PIECE_BYTES_MAX, record_parts.PART_BYTES_MIN, committed.FREE_BYTES_MIN, committed.FREE_SHARE_MIN = (
            self.sizes
        )
        Database.close_all()
        shutil.rmtree(self.folder)

    def opened(self) -> Database:
        assert self.database is not None
        return self.database

    def next_version(self) -> VersionId:
        self.made += 1
        return VersionId(self.complete[-1][0].version + 1, self.step, f"c{self.made}")

    @rule(last=st.booleans(), newer=st.booleans())
    def open(self, last: bool, newer: bool) -> None:
        version, self.now = self.complete[-1 if last else 0]
        self.epoch += newer or self.epoch == 0
        self.database = Database.open(self.path, version, epoch=self.epoch, identity=ME)
        self.complete, self.frozen, self.step = [(version, self.now)], None, version.step

    @precondition(lambda self: self.database)
    @rule(change=changes, fails=st.booleans())
    def transaction(self, change: dict[bytes, bytes | None], fails: bool) -> None:
        after = dict(self.now)
        try:
            with self.opened().transaction() as transaction:
                for key, value in change.items():
                    if value is None:
                        transaction.delete(key)
                        after.pop(key, None)
                    else:
                        transaction.put(key, value)
                        after[key] = value
                    assert content(transaction) == after
                transaction.set_step(self.step + 1)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            return
        self.now, self.step = after, self.step + 1

    @precondition(lambda self: self.database)
    @rule()
    def freeze(self) -> None:
        version = self.next_version()
        if self.frozen is None:
            self.opened().freeze(version)
            self.frozen = (version, self.now)
        else:
            with pytest.raises(errors.CheckpointPending):
                self.opened().freeze(version)

    @precondition(lambda self: self.database)
    @rule(elsewhere=st.booleans())
    def fold(self, elsewhere: bool) -> None:
        if elsewhere:
            assert wait(in_child(lambda: Database.attach(self.path, epoch=self.epoch, identity=ME).fold())) == 0
        else:
            self.opened().fold()
        if self.frozen is not None:
            self.complete, self.frozen = [self.complete[-1], self.frozen], None

    @precondition(lambda self: self.database and self.frozen)
    @rule(pieces=st.integers(1, 4))
    def fold_partly(self, pieces: int) -> None:
        """A fold that stops after some transactions, if it has more."""
        assert self.frozen is not None
        self.complete = [self.complete[-1]]
        with arm(CrashOrder("fold.piece", "raise", visit=pieces)):
            try:
                self.opened().fold()
            except Crash:
                return
        self.complete, self.frozen = [*self.complete, self.frozen], None

    @precondition(lambda self: self.database)
    @rule(elsewhere=st.booleans(), point=st.sampled_from([None, "compact.copied", "compact.exchanged"]))
    def compact(self, elsewhere: bool, point: Point | None) -> None:
        """Whole, or up to a point. It changes nothing."""
        if elsewhere:
            assert wait(in_child(lambda: Database.attach(self.path, epoch=self.epoch, identity=ME).compact())) == 0
        elif point is None:
            assert self.opened().compact()
        else:
            with arm(CrashOrder(point, "raise")), pytest.raises(Crash):
                self.opened().compact()

    @rule()
    def crash(self) -> None:
        """All handles are lost, and the database must be opened again."""
        Database.close_all()
        self.database = None

    @precondition(lambda self: self.database)
    @rule()
    def attach(self) -> None:
        self.database = Database.attach(self.path, epoch=self.epoch, identity=ME)

    @precondition(lambda self: self.epoch > 1)
    @rule()
    def zombie(self) -> None:
        with pytest.raises(errors.StaleEpoch):
            Database.attach(self.path, epoch=self.epoch - 1, identity=ME)

    @precondition(lambda self: self.database)
    @rule(prefix=prefixes, wanted=st.lists(names, unique=True).map(sorted))
    def read(self, prefix: bytes, wanted: list[bytes]) -> None:
        with self.opened().read() as view:
            expected = sorted((key, value) for key, value in self.now.items() if key.startswith(prefix))
            assert [(key, bytes(value)) for key, value in view.scan(prefix)] == expected
            assert list(view.keys(prefix)) == [key for key, _ in expected]
            found = [value if value is None else bytes(value) for value in view.get_many(wanted)]
            assert found == [self.now.get(key) for key in wanted]
            single = [view.get(key) for key in wanted]
            assert [value if value is None else bytes(value) for value in single] == found
            assert view.get_step() == self.step

    @invariant()
    def complete_versions_hold(self) -> None:
        assert Database.versions(self.path) == tuple(version for version, _ in self.complete)
        assert committed_content(self.path) == self.complete[-1]

    @precondition(lambda self: self.database)
    @invariant()
    def statistics_hold(self) -> None:
        expected: dict[int, int] = {}
        for key, value in self.complete[-1][1].items():
            expected[key[1]] = expected.get(key[1], 0) + len(key) + len(value)
        assert self.opened().statistics().table_bytes == expected


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
