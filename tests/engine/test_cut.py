"""Cuts between real databases: a circuit with every kind of node goes on with its state elsewhere, and a crash in the middle undoes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from base.slots import ALL_SLOTS, NO_SLOTS, SLOTS, SlotSet
from base.version import EMPTY, VersionId
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan_stages
from engine.errors import StaleTask
from engine.model.circuit import Output, View
from engine.model.placement import Placement
from engine.model.rows import Source
from engine.rows import zset
from engine.run.contents import read_views
from engine.run.cut import (
    PartOfTable,
    TablePiece,
    absorb,
    parts_of,
    piece_of,
    pin_of,
    release,
)
from engine.run.exchange import ExchangeMessage
from engine.run.hidden_copies import discard_copies, store_copies, tables_of
from engine.run.stage import run_stage
from engine.state.moves import Piece
from engine.state.store import DictStore
from io_kafka.step_log.digest import canonical
from storage.database import Database
from storage.identity import Identity
from storage.keys import key_table
from storage.transaction import CutNumber, Transaction
from tests.engine.contexts import clock_us, placement_of, worker_step
from tests.engine.every_kind import PARTITIONS, every_kind, history
from tests.engine.in_process import InProcess
from tests.engine.test_moves import NARROW_SLOTS, RANGE_SLOTS, cut_at, shuffled

CIRCUIT = every_kind()
PLAN = plan_stages(CIRCUIT)
APPEND_ONLY = append_only_inputs(CIRCUIT)
WORKERS = 3
ONE_AND_MORE = [2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (0, 1, 3, 4))]


def identity(worker: int) -> Identity:
    return Identity("p", worker, f"u{worker}")


class Workers:
    """Three databases, and the placement of the next step."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.placement, self.steps, self.cuts = folder, placement_of(WORKERS), 0, 0
        self.copied: dict[tuple[int, int], set[PartOfTable]] = {}
        self.kept = 0  # copies that a cut has taken over
        self.refused: set[bytes] = set()  # the keys of those that were of no use
        for worker in range(WORKERS):
            Database.create(folder / str(worker), identity(worker), 1, self.placement.owned[worker])
        self.open(EMPTY, 1)

    def open(self, version: VersionId, epoch: int) -> None:
        self.databases = [
            Database.open(self.folder / str(w), version, epoch=epoch, identity=identity(w)) for w in range(WORKERS)
        ]

    def step(self, given: dict[str, pa.Table]) -> dict[str, pa.Table]:
        """As InProcess.step, with every worker's stages in one transaction of its database."""
        made: dict[str, list[pa.Table]] = {handle: [] for handle in PARTITIONS}
        inboxes: list[list[ExchangeMessage]] = [[] for _ in range(WORKERS)]
        with ExitStack() as stack:
            transactions = [stack.enter_context(database.transaction()) for database in self.databases]
            for stage in range(PLAN.stages):
                results = []
                for worker in range(WORKERS):
                    store = transactions[worker] if stage else DictStore()
                    task = worker_step(PLAN, self.steps, worker, placement=self.placement, partitions=PARTITIONS)
                    results.append(run_stage(task, stage, store, inboxes[worker], self._sources(worker, given)))
                inboxes = [
                    [ExchangeMessage(w, r.sent[to]) for w, r in enumerate(results) if to in r.sent]
                    for to in range(WORKERS)
                ]
                for result in results:
                    for index, table in result.output.items():
                        node = CIRCUIT.nodes[index]
                        assert isinstance(node, Output)
                        made[node.handle].append(table)
            for transaction in transactions:
                transaction.set_step(self.steps + 1)
        self.steps += 1
        return {handle: canonical(pa.concat_tables(tables)) for handle, tables in made.items() if tables}

    def _sources(self, worker: int, given: dict[str, pa.Table]) -> dict[int, pa.Table]:
        return {
            index: given.get(node.handle, zset.empty(node.types)) if worker == 0 else zset.empty(node.types)
            for index, node in enumerate(CIRCUIT.nodes)
            if isinstance(node, Source)
        }

    def move_to(self, placement: Placement, *, twice: bool = False) -> int:
        """One cut for each pair of workers. Returns the number of pieces. `twice`: every order comes a second time."""
        count = 0
        for source in range(WORKERS):
            for target in range(WORKERS):
                slots = self.placement.owned[source].intersection(placement.owned[target])
                if source != target and slots != NO_SLOTS:
                    count += self.cut(source, target, slots, twice)
        self.placement = placement
        return count

    def copy_to(self, placement: Placement, part: float, chance: Random) -> None:
        """Some of what `move_to` will move is copied now."""
        for source in range(WORKERS):
            for target in range(WORKERS):
                slots = self.placement.owned[source].intersection(placement.owned[target])
                if source != target and slots != NO_SLOTS:
                    self._copy(source, target, slots, lambda: chance.random() < part)

    def _copy(self, source: int, target: int, slots: SlotSet, is_chosen: Callable[[], bool]) -> None:
        with self.databases[source].read() as there:
            parts = [part for part in parts_of(there, slots) if is_chosen()]
            copies = [
                (part.copy_key, memoryview(bytes(made.piece.rows)))
                for part in parts
                if (made := piece_of(there, part)) is not None
            ]
            self.databases[source].pins += (pin_of(there, slots),)
        with self.databases[target].transaction() as transaction:
            store_copies(transaction, slots, copies)
        keys = {key for key, _ in copies}
        self.copied.setdefault((source, target), set()).update(p for p in parts if p.copy_key in keys)

    def cut(self, source: int, target: int, slots: SlotSet, twice: bool = False) -> int:
        """Returns how many pieces were sent."""
        self.cuts += 1
        number = CutNumber(1, self.cuts)
        copied = self.copied.pop((source, target), set())
        with self.databases[source].read() as there:
            parts = parts_of(there, slots)
            kept = {part.copy_key for part in parts if part in copied}
            made = (piece_of(there, part) for part in parts if part not in copied)
            pieces = [
                TablePiece(piece.table, Piece(piece.piece.first, memoryview(bytes(piece.piece.rows))))
                for piece in made
                if piece is not None
            ]
        self.kept += len(kept)
        self.refused |= {part.copy_key for part in copied} - kept
        for _ in range(1 + twice):
            with self.databases[target].transaction() as transaction:
                absorb(transaction, number, slots, pieces, kept)
        for _ in range(1 + twice):
            with self.databases[source].transaction() as transaction:
                release(transaction, number, slots)
        return len(pieces)

    def commit(self, number: int) -> VersionId:
        version = VersionId(number, self.steps, f"v{number}")
        for database in self.databases:
            database.freeze(version)
            database.fold()
        return version


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    yield Workers(tmp_path)
    Database.close_all()


@cache
def expected_of(seed: int) -> list[dict[str, pa.Table]]:
    """Computed once for several tests, which have the same history for that."""
    machine = InProcess(CIRCUIT, 1, PARTITIONS)
    return [
        {
            handle: canonical(table)
            for handle, table in machine.step(given, time_us=clock_us(step)).items()
            if table.num_rows
        }
        for step, given in enumerate(history(seed))
    ]


@pytest.mark.parametrize("twice", [pytest.param(False, marks=pytest.mark.soak), True])
@pytest.mark.parametrize("seed", ONE_AND_MORE)
def test_the_output_does_not_show_that_slots_have_moved(workers: Workers, seed: int, twice: bool) -> None:
    chance, moved = Random(seed), 0
    for given, expected in zip(history(seed), expected_of(seed), strict=True):
        assert workers.step(given) == expected
        moved += workers.move_to(shuffled(workers.placement, chance, RANGE_SLOTS), twice=twice)
    assert moved > 20


@pytest.mark.parametrize("part", [0.5, pytest.param(1.0, marks=pytest.mark.soak)])
@pytest.mark.parametrize("seed", ONE_AND_MORE)
def test_the_output_does_not_show_that_slots_were_copied_before_they_moved(
    workers: Workers, seed: int, part: float
) -> None:
    """Steps go on between the copies and the cut."""
    chance = Random(seed)
    for given, expected in zip(history(seed), expected_of(seed), strict=True):
        after = shuffled(workers.placement, chance, NARROW_SLOTS)
        workers.copy_to(after, part, chance)
        assert workers.step(given) == expected
        workers.move_to(after)
        for database in workers.databases:
            database.pins = ()
            with database.read() as transaction:
                assert transaction.get_hidden() == NO_SLOTS
    assert workers.kept > 40


def test_pinned_runs_stay_as_they_are(workers: Workers) -> None:
    """So all that was copied is still right after any number of steps."""
    steps = history(5)
    workers.step(steps[0])
    after = Placement(0, {0: ALL_SLOTS, 1: NO_SLOTS, 2: NO_SLOTS}, {})
    workers.copy_to(after, 1.0, Random(1))
    copied = sum(map(len, workers.copied.values()))
    for given in steps[1:]:
        workers.step(given)
    workers.move_to(after)
    assert workers.kept == copied > 5


@pytest.mark.long
def test_copies_that_nobody_has_taken_over_can_be_discarded(workers: Workers) -> None:
    steps, expected = history(6, 3), expected_of(6)[:3]
    workers.step(steps[0])
    workers.copy_to(shuffled(workers.placement, Random(3), RANGE_SLOTS), 1.0, Random(3))
    workers.open(workers.commit(1), epoch=2)  # they are in a version
    for database in workers.databases:
        with database.transaction() as transaction:
            hidden = transaction.get_hidden()
            assert list(transaction.hidden_keys(hidden)) and not set(transaction.hidden_keys(hidden)) & set(
                transaction.keys(b"")
            )
            discard_copies(transaction)
            assert not list(transaction.hidden_keys(hidden)) and transaction.get_hidden() == NO_SLOTS
    workers.copied.clear()
    assert [workers.step(given) for given in steps[1:]] == expected[1:]


def test_a_query_does_not_see_copies(workers: Workers) -> None:
    """Although they are in a version."""
    workers.step(history(6)[0])
    workers.commit(1)
    before = contents(workers)
    assert any(before)
    workers.copy_to(Placement(0, {0: ALL_SLOTS, 1: NO_SLOTS, 2: NO_SLOTS}, {}), 1.0, Random(3))
    workers.commit(2)
    assert contents(workers) == before


def contents(workers: Workers) -> list[list[str]]:
    """The rows of the kept views, of all workers together."""
    names = [node.name for node in CIRCUIT.nodes if isinstance(node, View) and node.kept]
    parts = [
        read_views(
            workers.folder / str(worker), PLAN, tuple(range(len(CIRCUIT.nodes))), names, checks_errors=True
        ).tables
        for worker in range(WORKERS)
    ]
    return [sorted(str(row) for table in tables for row in table.to_pylist()) for tables in zip(*parts, strict=True)]


def test_copies_of_runs_that_are_gone_do_not_count(workers: Workers) -> None:
    """A cut of a bucket replaces runs, also those that are pinned."""
    steps, expected = history(6, 3), expected_of(6)[:3]
    workers.step(steps[0])
    after = Placement(0, {0: ALL_SLOTS, 1: NO_SLOTS, 2: NO_SLOTS}, {})
    workers.copy_to(after, 1.0, Random(3))
    copied = sum(map(len, workers.copied.values()))
    with workers.databases[1].transaction() as transaction:
        for table in tables_of(transaction):
            for slot in range(0, SLOTS, 1000):
                cut_at(transaction, table, slot)
    assert workers.step(steps[1]) == expected[1]
    with workers.databases[0].read() as there:
        known = set(
            tables_of(there)
        )  # in another table, the first run that arrives may have the name of a copy that was of no use
    workers.move_to(after)
    assert 0 < workers.kept < copied
    refused = {key for key in workers.refused if key_table(key) in known}
    with workers.databases[0].read() as there:
        assert refused and not refused & set(there.keys(b"")), "copies of runs that are gone are there"
    assert [workers.step(given) for given in steps[2:]] == expected[2:]


def test_copies_of_a_workers_own_slots_are_refused_and_a_missing_copy_is_noticed(workers: Workers) -> None:
    workers.step(history(3)[0])
    mine, theirs = workers.placement.owned[0], workers.placement.owned[1]
    with pytest.raises(StaleTask, match="owns already"), workers.databases[0].transaction() as transaction:
        store_copies(transaction, mine, ())
    with (
        pytest.raises(StaleTask, match=r"1 copies of .* are missing"),
        workers.databases[0].transaction() as transaction,
    ):
        absorb(transaction, CutNumber(1, 1), theirs, (), {b"\0\20\0\0missing"})


@pytest.mark.long
def test_what_is_not_in_a_version_is_undone(workers: Workers) -> None:
    """A crash after a cut: both databases are as they were, and so is the output."""
    steps, expected = history(6), expected_of(6)
    assert [workers.step(steps[0]), workers.step(steps[1])] == expected[:2]
    version = workers.commit(1)
    before = workers.placement
    workers.move_to(shuffled(before, Random(1), RANGE_SLOTS))
    assert workers.step(steps[2]) == expected[2]
    workers.open(version, epoch=2)
    workers.placement, workers.steps = before, 2
    for worker, database in enumerate(workers.databases):
        with database.read() as transaction:
            assert transaction.get_owned() == before.owned[worker] and transaction.get_cut() == CutNumber(0, 0)
    assert [workers.step(steps[2]), workers.step(steps[3])] == expected[2:]


@pytest.mark.long
def test_a_version_has_the_slots_and_the_state_of_its_cuts(workers: Workers) -> None:
    steps, expected = history(6, 3), expected_of(6)[:3]
    workers.step(steps[0])
    after = shuffled(workers.placement, Random(2), RANGE_SLOTS)
    workers.move_to(after)
    workers.open(workers.commit(1), epoch=2)
    for worker, database in enumerate(workers.databases):
        with database.read() as transaction:
            assert transaction.get_owned() == after.owned[worker]
    assert [workers.step(given) for given in steps[1:]] == expected[1:]


@pytest.mark.long
def test_all_slots_may_leave_a_worker_and_nothing_stays(workers: Workers) -> None:
    steps, expected = history(6, 3), expected_of(6)[:3]
    workers.step(steps[0])
    workers.move_to(Placement(0, {0: ALL_SLOTS, 1: NO_SLOTS, 2: NO_SLOTS}, {}))
    for database in workers.databases[1:]:
        with database.read() as transaction:
            assert list(transaction.keys(b"")) == []
    assert [workers.step(given) for given in steps[1:]] == expected[1:]


def test_slots_of_another_owner_are_refused_and_nothing_changes(workers: Workers) -> None:
    workers.step(history(3)[0])
    mine, theirs = workers.placement.owned[0], workers.placement.owned[1]

    def content(transaction: Transaction) -> dict[bytes, bytes]:
        return {key: bytes(value) for key, value in transaction.scan(b"")}

    with workers.databases[0].read() as transaction:
        before = content(transaction)
    for refused in (
        lambda t: list(parts_of(t, theirs)),
        lambda t: absorb(t, CutNumber(1, 1), mine, ()),
        lambda t: release(t, CutNumber(1, 1), theirs),
    ):
        with pytest.raises(StaleTask, match="nothing was changed"), workers.databases[0].transaction() as transaction:
            refused(transaction)
    with workers.databases[0].read() as transaction:
        assert content(transaction) == before and transaction.get_owned() == mine
