"""What the databases that hosts hold are for a run, by their names and by what the step log says of them.

    what a host has under the number of a worker        it is
    ------------------------------------------------    -----------
    the database that the step log means                HELD
    ... without the log's last checkpoint               STALE         a last resort in local mode, never on a cluster
    ... without any step, and the log has checkpoints   BLANK         never bound: it was created twice, or replaced
    one of an older generation                          REPLACED      removed before databases are created
    one of this pipeline under another step log         OTHER_LOG     while the log has no checkpoint, the run is refused
    one of a worker that is in no version of the log    LEFT          removed after a version was opened
    anything else: another pipeline's, unreadable       OBSTACLE      a last resort: its fence names the fault

It loads no I/O, clock or randomness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from base.version import EMPTY, VersionId
from coordinator.starting.workers.database_names import DatabaseName
from storage.identity import FoundDatabase, Identity, NamedDatabase, UnneededDatabase


@dataclass(frozen=True)
class ExpectedDatabases:
    """What the step log says of the databases. `owners`: the births of the workers that own slots, by number, in each version that may be
    opened; that of EMPTY is there while no checkpoint is complete. `is_fresh`: it has not even the intent of a checkpoint, so no database holds
    a step durably, and missing ones are created. `complete`: the last complete checkpoint, if there is one. `pending`: the one of which the log
    has only the intent. `accepts_older`: see STALE. `restorable`: the version that the checkpoint store has, if a run can go on from it.
    `distrusted`: the numbers whose databases are damaged, and are to be restored whatever hosts have. `avoided`: the host that is being
    replaced, in a user's words (Register.is_on); None if none is."""

    pipeline: str
    log_id: str
    generation: int
    owners: Mapping[VersionId, Mapping[int, str]]
    is_fresh: bool
    complete: VersionId | None
    pending: VersionId | None
    accepts_older: bool
    restorable: VersionId | None = None
    distrusted: frozenset[int] = frozenset()
    avoided: str | None = None

    @property
    def is_after_reset(self) -> bool:
        """Whether a full refresh has ended and no checkpoint is complete since: whatever was there before is replaced."""
        return self.complete is None and self.generation > 0

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of all workers of which a database may be needed."""
        return frozenset(number for births in self.owners.values() for number in births)

    @property
    def tasks_needed(self) -> int:
        """How many tasks a run needs, whichever version it opens."""
        return max(len(births) for births in self.owners.values())

    def identity(self, worker: int, birth: str) -> Identity:
        return Identity(self.pipeline, worker, DatabaseName(self.log_id, self.generation, worker, birth).text)

    def database(self, worker: int, birth: str) -> NamedDatabase:
        """The database that the worker of this birth has."""
        return NamedDatabase(birth, self.identity(worker, birth).database)

    def is_own(self, found: FoundDatabase) -> bool:
        """Whether a version that may be opened has slots in this database."""
        is_member = any(births.get(found.worker) == found.birth for births in self.owners.values())
        return is_member and found.identity == self.identity(found.worker, found.birth)


@dataclass(frozen=True)
class Offer:
    """A task that can become a worker. `serial` names it. `host` names the folder of its host, and is equal for tasks that share it.
    `is_avoided`: whether the host is to have no worker that can be elsewhere."""

    serial: int
    host: str
    databases: tuple[FoundDatabase, ...]
    is_avoided: bool = False


class Standing(Enum):
    """What a database is that a host has under the number of a worker; see the table above. The first ones are better."""

    HELD = 0
    STALE = 1
    OBSTACLE = 2
    BLANK = 3
    OTHER_LOG = 4
    LEFT = 5
    REPLACED = 6


def judge(found: FoundDatabase, expected: ExpectedDatabases) -> Standing:
    """What a database that was found under the number of a worker is for this run."""
    if expected.is_own(found):
        return _judge_own(found, expected)
    if found.identity is None:
        return Standing.REPLACED if expected.is_after_reset else Standing.OBSTACLE
    if found.identity.pipeline != expected.pipeline:
        return Standing.OBSTACLE
    name = DatabaseName.of(found.identity.database)
    if name is not None and name.log_id == expected.log_id:
        # A higher generation belongs to a run that has replaced this one.
        is_named = (name.generation, name.worker, name.birth) == (expected.generation, found.worker, found.birth)
        if is_named and not expected.is_after_reset:
            return Standing.LEFT
        is_older = name.generation < expected.generation or (
            expected.is_after_reset and name.generation == expected.generation
        )
        return Standing.REPLACED if is_older else Standing.OBSTACLE
    if expected.is_after_reset:
        return Standing.REPLACED
    return Standing.OTHER_LOG if expected.complete is None else Standing.OBSTACLE


def _judge_own(found: FoundDatabase, expected: ExpectedDatabases) -> Standing:
    if found.fault is not None:
        return Standing.OBSTACLE
    # A run that opened the pending checkpoint everywhere may have ended before it could write the completion. A version that the log does not
    # know is one of an intent that another run has replaced since: nobody can tell who owned what in it.
    if any(births.get(found.worker) == found.birth and v in found.versions for v, births in expected.owners.items()):
        return Standing.HELD
    return Standing.BLANK if found.versions == (EMPTY,) else Standing.STALE


@dataclass(frozen=True)
class DatabaseCopy:
    """The database of one worker on one host, as all tasks of that host report it."""

    host: str
    birth: str
    standing: Standing
    versions: frozenset[VersionId]
    disk_bytes: int


def copies_of(offers: Sequence[Offer], expected: ExpectedDatabases) -> dict[int, tuple[DatabaseCopy, ...]]:
    """All that hosts have under each number, in the order of the hosts. Tasks of one host may report different versions, because an older run
    may still be folding: all of them count."""
    merged: dict[tuple[int, str, str], DatabaseCopy] = {}
    for offer in offers:
        for found in offer.databases:
            if found.worker in expected.distrusted:
                continue
            standing, database_key = judge(found, expected), (found.worker, offer.host, found.birth)
            copy = DatabaseCopy(offer.host, found.birth, standing, frozenset(found.versions), found.disk_bytes)
            former = merged.get(database_key)
            merged[database_key] = copy if former is None else _merge(former, copy)
    by_number: dict[int, tuple[DatabaseCopy, ...]] = {}
    for (number, _, _), copy in sorted(merged.items()):
        by_number[number] = (*by_number.get(number, ()), copy)
    return by_number


def _merge(one: DatabaseCopy, two: DatabaseCopy) -> DatabaseCopy:
    standing = min(one.standing, two.standing, key=lambda standing: standing.value)
    return DatabaseCopy(one.host, one.birth, standing, one.versions | two.versions, max(one.disk_bytes, two.disk_bytes))


def leftover_databases(
    offers: Sequence[Offer], expected: ExpectedDatabases, kept: Mapping[int, str], epoch: int
) -> dict[str, tuple[UnneededDatabase, ...]]:
    """The databases of this generation, by host, that no version can need any more after a version was opened in which these births own all
    slots. Those that a newer run has made are not among them."""
    found: dict[str, dict[tuple[int, str], UnneededDatabase]] = {}
    for offer in offers:
        for each in offer.databases:
            name = None if each.identity is None else DatabaseName.of(each.identity.database)
            if each.identity is None or each.identity.pipeline != expected.pipeline or name is None:
                continue
            is_named = (name.worker, name.birth) == (each.worker, each.birth)
            is_ours = is_named and (name.log_id, name.generation) == (expected.log_id, expected.generation)
            if is_ours and kept.get(each.worker) != each.birth and name.epoch <= epoch:
                found.setdefault(offer.host, {})[each.worker, each.birth] = UnneededDatabase(
                    each.worker, each.birth, each.identity
                )
    return _in_order(found)


def replaced_databases(offers: Sequence[Offer], expected: ExpectedDatabases) -> dict[str, tuple[UnneededDatabase, ...]]:
    """The databases to be removed, by host."""
    found: dict[str, dict[tuple[int, str], UnneededDatabase]] = {}
    for offer in offers:
        for each in offer.databases:
            if judge(each, expected) is Standing.REPLACED:
                found.setdefault(offer.host, {})[each.worker, each.birth] = UnneededDatabase(
                    each.worker, each.birth, each.identity
                )
    return _in_order(found)


def _in_order(
    found: Mapping[str, Mapping[tuple[int, str], UnneededDatabase]],
) -> dict[str, tuple[UnneededDatabase, ...]]:
    return {host: tuple(databases[named] for named in sorted(databases)) for host, databases in sorted(found.items())}
