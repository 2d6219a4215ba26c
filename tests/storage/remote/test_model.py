"""The checkpoint store against an obvious model: one dict for each version of the database, and one for each chain that was stored."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from base.slots import SlotSet
from base.version import EMPTY, VersionId
from faults.points import Crash, CrashOrder, Point, arm
from storage import records
from storage.database import Database
from storage.keys import RESERVED, record_key
from storage.remote import spool
from storage.remote.chain import Chain
from storage.remote.restoring import restore
from storage.remote.snapshot import records_at
from storage.remote.uploading import upload
from tests.examples import examples
from tests.storage.helpers import ME, content, in_child, wait
from tests.storage.helpers import committed as committed_content
from tests.storage.remote.conftest import sizes_made_small
from tests.storage.remote.stores import MemoryStore

Content = dict[bytes, bytes]
State = tuple[Content, SlotSet]
"""The records of a version, and the slots that it owns."""

MEMORY = Path("/dev/shm")
names = st.builds(record_key, st.integers(1, 2), st.sampled_from([0, 255, 256]), st.sampled_from([b"", b"a", b"ab"]))
values = st.binary(max_size=9) | st.integers(0, 255).map(lambda n: bytes([n]) * 3000)  # some have parts
changes = st.dictionaries(names, values | st.none(), max_size=6)  # None deletes
owned_slots = st.lists(st.integers(0, 8), min_size=2, max_size=2, unique=True).map(
    lambda edges: SlotSet.of([(min(edges), max(edges))])
)


class Model(RuleBasedStateMachine):
    """`complete`: the versions of the database, with their states. `frozen`: the version that waits to be folded. `now`: what steps have made.
    `chains`: all that were stored, with the states that they must restore; the last one is that of the last upload."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(sizes_made_small())
        self.folder = Path(tempfile.mkdtemp(prefix="stepwell-", dir=MEMORY if MEMORY.is_dir() else None))
        self.spool = self.folder / "spool"
        self.path = self.folder / "database"
        first = SlotSet.of([(0, 8)])
        Database.create(self.path, ME, epoch=1, owned=first)
        self.store = MemoryStore()
        self.complete: list[tuple[VersionId, State]] = [(EMPTY, ({}, first))]
        self.frozen: tuple[VersionId, State] | None = None
        self.now: State = ({}, first)
        self.chains: list[tuple[Chain, State]] = []
        self.step = self.made = self.uploads = 0
        self.epoch = 1
        self.database: Database | None = Database.open(self.path, EMPTY, epoch=1, identity=ME)

    def teardown(self) -> None:
        self.stack.close()
        Database.close_all()
        shutil.rmtree(self.folder)

    def opened(self) -> Database:
        assert self.database is not None
        return self.database

    @rule(last=st.booleans())
    def open(self, last: bool) -> None:
        """Rolls back what is not complete, and maybe the last version too."""
        version, self.now = self.complete[-1 if last else 0]
        self.epoch += 1
        self.database = Database.open(self.path, version, epoch=self.epoch, identity=ME)
        self.complete, self.frozen, self.step = [(version, self.now)], None, version.step

    @rule(change=changes, owned=st.none() | owned_slots)
    def transaction(self, change: dict[bytes, bytes | None], owned: SlotSet | None) -> None:
        after, slots = dict(self.now[0]), owned or self.now[1]
        with self.opened().transaction() as transaction:
            for key, value in change.items():
                if value is None:
                    transaction.delete(key)
                    after.pop(key, None)
                else:
                    transaction.put(key, value)
                    after[key] = value
            if owned is not None:
                transaction.set_owned(owned)
            self.step += 1
            transaction.set_step(self.step)
        self.now = after, slots

    @precondition(lambda self: self.frozen is None)
    @rule()
    def freeze(self) -> None:
        self.made += 1
        version = VersionId(self.complete[-1][0].version + 1, self.step, f"c{self.made}")
        self.opened().freeze(version)
        self.frozen = version, self.now

    @rule(each=st.lists(st.tuples(changes, st.sampled_from([True, True, True, False])), min_size=1, max_size=4))
    def checkpoints(self, each: list[tuple[dict[bytes, bytes | None], bool]]) -> None:
        """Several whole ones, some of which are stored. What was stored last can be restored."""
        for change, is_stored in each:
            if self.frozen is None:
                self.transaction(change, None)
                self.freeze()
            self.fold(spools=True, elsewhere=False)
            if is_stored:
                self.upload(last=True, continues=True, point=None, discards=True)
        if self.chains:
            self.remove(self.restored(*self.chains[-1], None))

    @precondition(lambda self: self.frozen)
    @rule(point=st.sampled_from([None, "spool.half"]))
    def only_spool(self, point: Point | None) -> None:
        """Whole, or up to a point."""
        with arm(*([] if point is None else [CrashOrder(point, "raise")])):
            try:
                spool.spool_frozen(self.opened(), self.spool)
            except Crash:
                assert point is not None

    @precondition(lambda self: self.frozen)
    @rule(spools=st.sampled_from([True, True, True, False]), elsewhere=st.booleans())
    def fold(self, spools: bool, elsewhere: bool) -> None:
        """A fold without the spool leaves a gap, unless it was spooled before."""
        epoch = self.opened().epoch

        def body() -> None:
            database = Database.attach(self.path, epoch=epoch, identity=ME)
            if spools:
                spool.spool_frozen(database, self.spool)
            database.fold()

        if elsewhere:
            assert wait(in_child(body)) == 0
        else:
            body()
        self.folded()

    @precondition(lambda self: self.frozen)
    @rule(pieces=st.integers(1, 5))
    def fold_partly(self, pieces: int) -> None:
        """A fold that is killed after some transactions, if it has more."""
        self.complete = [self.complete[-1]]
        with arm(CrashOrder("fold.piece", "raise", visit=pieces)):
            try:
                self.opened().fold()
            except Crash:
                return
        self.folded()

    def folded(self) -> None:
        assert self.frozen is not None
        self.complete, self.frozen = [self.complete[-1], self.frozen], None

    @rule(
        last=st.sampled_from([True, True, False]),
        continues=st.sampled_from([True, True, True, False]),
        point=st.sampled_from([None, None, None, "pack.half", "pack.uploaded"]),
        discards=st.booleans(),
    )
    def upload(self, last: bool, continues: bool, point: Point | None, discards: bool) -> None:
        """Of a complete version, whole or up to a point; or without what was stored before."""
        version, state = self.complete[-1 if last else 0]
        former = self.chains[-1][0] if self.chains and continues else None
        self.uploads += 1
        with arm(*([] if point is None else [CrashOrder(point, "raise")])):
            try:
                chain = upload(
                    self.store, self.path, ME, version,
                    former=former, spool_folder=self.spool, prefix=f"packs/{self.uploads}",
                )  # fmt: skip
            except Crash:
                return
        assert chain.version == version
        self.chains.append((Chain.of_json(chain.to_json()), state))
        if discards:
            spool.discard(self.spool, version)

    @precondition(lambda self: self.chains)
    @rule(data=st.data(), goes_on=st.booleans(), point=st.sampled_from([None, None, "restore.half", "restore.done"]))
    def restore(self, data: st.DataObject, goes_on: bool, point: Point | None) -> None:
        """Any version that was stored. The work may go on with the restored database, and the one before it is lost."""
        chain, state = self.chains[data.draw(st.integers(0, len(self.chains) - 1))]
        restored = self.restored(chain, state, point)
        if goes_on:
            self.path, self.database, self.now, self.step = restored.path, restored, state, chain.version.step
            self.complete, self.frozen = [(chain.version, state)], None
        else:
            self.remove(restored)

    def restored(self, chain: Chain, state: State, point: Point | None) -> Database:
        """The database that a restore makes, which may have been broken off before. It is what the model says."""
        self.epoch += 1
        path = self.folder / f"restored-{self.epoch}"
        with arm(*([] if point is None else [CrashOrder(point, "raise")])):
            try:
                restore(self.store, chain, path, ME, self.epoch)
            except Crash:
                assert path.exists() == (point == "restore.done")
        if not path.exists():
            restore(self.store, chain, path, ME, self.epoch)
        assert committed_content(path) == (chain.version, state[0])
        assert Database.owned_by_version(path) == {chain.version: state[1]}
        restored = Database.open(path, chain.version, epoch=self.epoch, identity=ME)
        assert restored.statistics().table_bytes == sizes_of(state[0])
        with restored.read() as view:
            assert view.get_step() == chain.version.step and content(view) == state[0]
        return restored

    def remove(self, restored: Database) -> None:
        Database.close(restored.path)
        shutil.rmtree(restored.path)

    @invariant()
    def complete_versions_are_seen(self) -> None:
        assert Database.versions(self.path) == tuple(version for version, _ in self.complete)
        for version, (right, owned) in self.complete:
            with records_at(self.path, version) as snapshot:
                found = {key: bytes(stored[: -records.TRAILER_BYTES]) for key, stored in snapshot.records()}
                assert {key: value for key, value in found.items() if not key.startswith(RESERVED)} == right
                assert snapshot.table_bytes() == sizes_of(right)
            assert Database.owned_by_version(self.path)[version] == owned

    @invariant()
    def uploads_are_bounded(self) -> None:
        if self.chains:
            assert len(self.chains[-1][0].deltas) <= 4


def sizes_of(right: Content) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for key, value in right.items():
        sizes[key[1]] = sizes.get(key[1], 0) + len(key) + len(value)
    return sizes


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=examples(75), stateful_step_count=40, deadline=None)
