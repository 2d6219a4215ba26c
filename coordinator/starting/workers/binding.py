"""Which worker each task becomes: a function of the databases that the tasks' hosts hold, and of their standings (found_databases.py).

Guarantees of `bind`: every number is given once, and every task gets at most one. A number whose database is HELD somewhere is given to a task
of a host that holds it, or to none. A database is created only while the log is fresh, and only if no host that was asked holds it. The result
depends on the tasks and what they report alone.

An older database is a last resort in local mode, where it is there because somebody has put back a backup of the storage folder: the run replays
from it. On a cluster the newer one is most likely on a host that is away, so the run waits for it and then ends.

**Versions with other workers.** While the layout changes, the last complete checkpoint and the one that is intended may have other owners of
slots. Then the run gives out the numbers of the owners in the latest version of which every owner's database is there. Members without slots are
not asked for.

**Copies.** Somebody may have copied a database to another host, or a run that never reached its first checkpoint may have created it there. Then
several hosts hold the database of one number. Only one copy is bound, and the others are left alone. Which one: the copies count that can open
the latest version that all workers have in common, since a version is the same wherever it lies. Of those, the largest is taken. The copy with
the highest version would be the wrong choice if a later checkpoint reached only some of the workers.

**The checkpoint store** has one version. If no later one is held by hosts, the workers are its owners. A number whose database cannot open it
anywhere is given to any task, which restores it.

It loads no I/O, clock or randomness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from base.version import EMPTY, VersionId
from coordinator.starting.workers.found_databases import DatabaseCopy, ExpectedDatabases, Offer, Standing, copies_of


@dataclass(frozen=True)
class Bound:
    """`workers`: from each number to the serial number of its task. `births`: theirs. `created`: the numbers whose databases are to be created.
    `copies`: the hosts of copies that are left alone, by number. `versions`: all that the database of each number can open, as its host has
    reported it, whoever owns what in them. `restored`: the numbers whose databases are to be made of what the checkpoint store has."""

    workers: Mapping[int, int]
    births: Mapping[int, str]
    created: frozenset[int]
    copies: Mapping[int, tuple[str, ...]]
    versions: Mapping[int, frozenset[VersionId]]
    restored: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Unbound:
    """The numbers that no task can become, each with the hosts that hold its database and have no task left."""

    numbers: Mapping[int, tuple[str, ...]]


def bind(
    offers: Sequence[Offer], expected: ExpectedDatabases, *, final: bool, restores: bool = False
) -> Bound | Unbound:
    """`final`: no more tasks will come, so a last resort is better than nothing. `restores`: what no host has may be taken from the checkpoint
    store."""
    held = copies_of(offers, expected)
    if restores and expected.restorable is not None and _latest_held(held, expected) is None:
        return _bind_restored(offers, held, expected, expected.restorable)
    births = births_of(held, expected)
    copies = _of_births(held, births, expected)
    allowed = {Standing.HELD}
    if final:
        allowed |= {Standing.STALE, Standing.OBSTACLE} if expected.accepts_older else {Standing.OBSTACLE}
    pools = {number: _pool(copies.get(number, ()), allowed) for number in births}
    tasks = _Tasks(offers)
    missing: dict[int, tuple[str, ...]] = {}
    if not final or not expected.accepts_older:
        missing.update(dict.fromkeys(_behind(pools), ()))
    chosen = _of_common_version(pools)
    # Numbers without a choice come first, then the largest databases.
    for number in sorted(chosen, key=lambda n: (len(chosen[n]), -max(copy.disk_bytes for copy in chosen[n]), n)):
        hosts = [copy.host for copy in chosen[number]]
        if not tasks.give(number, hosts):
            missing[number] = tuple(hosts)
    created: set[int] = set()
    for number in sorted(pools.keys() - chosen.keys()):
        taken = {copy.host for copy in copies.get(number, ()) if copy.standing is not Standing.REPLACED}
        if expected.is_fresh and tasks.give(number, tasks.emptiest(without=taken)):
            created.add(number)
        else:
            missing[number] = ()
    if missing:
        return Unbound(missing)
    left = {
        n: tuple(c.host for c in copies[n] if c.standing is Standing.HELD and c.host != tasks.host_of[n])
        for n in chosen
    }
    versions = dict.fromkeys(created, frozenset({EMPTY}))
    versions.update({n: _versions_reported(held[n], tasks.host_of[n], births[n]) for n in chosen})
    return Bound(tasks.given, births, frozenset(created), {n: hosts for n, hosts in left.items() if hosts}, versions)


def _versions_reported(copies: Iterable[DatabaseCopy], host: str, birth: str) -> frozenset[VersionId]:
    return next(copy.versions for copy in copies if (copy.host, copy.birth) == (host, birth))


def births_of(held: Mapping[int, tuple[DatabaseCopy, ...]], expected: ExpectedDatabases) -> Mapping[int, str]:
    """The workers that the run needs, by number: the owners in the latest version of which every owner's database was found. If there is none,
    they are those of the version to which a database was opened, because it cannot go back; and otherwise those of the last complete one."""
    latest = _latest_held(held, expected)
    if latest is not None:
        return expected.owners[latest]
    known = expected.owners.keys()
    every = [(number, copy) for number, copies in held.items() for copy in copies]
    opened = {
        v
        for n, c in every
        if len(c.versions & known) == 1
        for v in c.versions & known
        if expected.owners[v].get(n) == c.birth
    }
    return expected.owners[max(opened, default=expected.complete or EMPTY)]


def _latest_held(held: Mapping[int, tuple[DatabaseCopy, ...]], expected: ExpectedDatabases) -> VersionId | None:
    """The latest version that the log knows and of which every owner's database was found."""
    for version, births in sorted(expected.owners.items(), reverse=True):
        if all(any(_has(copy, birth, version) for copy in held.get(number, ())) for number, birth in births.items()):
            return version
    return None


def _has(copy: DatabaseCopy, birth: str, version: VersionId) -> bool:
    return copy.birth == birth and version in copy.versions


def _bind_restored(
    offers: Sequence[Offer],
    held: Mapping[int, tuple[DatabaseCopy, ...]],
    expected: ExpectedDatabases,
    version: VersionId,
) -> Bound | Unbound:
    """The workers of the stored version. A database that can open it is used where it is."""
    births, tasks = expected.owners[version], _Tasks(offers)
    having = {
        number: [copy for copy in held.get(number, ()) if _has(copy, birth, version)]
        for number, birth in births.items()
    }
    kept = {number for number in births if tasks.give(number, [copy.host for copy in having[number]])}
    left = sorted(births.keys() - kept)
    if missing := [number for number in left if not tasks.give(number, tasks.emptiest(without=set()))]:
        return Unbound(dict.fromkeys(missing, ()))
    versions = {number: frozenset({version}) for number in births}
    versions.update({n: _versions_reported(held[n], tasks.host_of[n], births[n]) for n in kept})
    return Bound(tasks.given, births, frozenset(), {}, versions, restored=frozenset(births.keys() - kept))


def _of_births(
    copies: Mapping[int, tuple[DatabaseCopy, ...]], births: Mapping[int, str], expected: ExpectedDatabases
) -> dict[int, tuple[DatabaseCopy, ...]]:
    """The copies without those of other workers that had the same number, and without versions that have other owners."""
    others = {version for version, owners in expected.owners.items() if owners != births}
    known = expected.owners.keys() - others
    return {
        number: tuple(
            replace(copy, versions=(copy.versions & known) or (copy.versions - others))
            for copy in copies.get(number, ())
            if copy.birth == birth
        )
        for number, birth in births.items()
    }


def _pool(copies: Iterable[DatabaseCopy], allowed: Set[Standing]) -> tuple[DatabaseCopy, ...]:
    """The copies that may be bound: of those that are allowed, the ones with the best claim."""
    usable = [copy for copy in copies if copy.standing in allowed]
    best = min((copy.standing.value for copy in usable), default=None)
    return tuple(copy for copy in usable if copy.standing.value == best)


def _behind(pools: Mapping[int, Sequence[DatabaseCopy]]) -> list[int]:
    """The numbers whose copies all lack the latest version that there is, if no version is common to all numbers. A better copy may be on a host
    that has not been asked. A copy can be without any version that has these owners, where others were restored to one of before a rescale."""
    held = _versions_by_number(pools)
    held.update({n: set() for n in pools.keys() - held.keys() if any(c.standing is Standing.HELD for c in pools[n])})
    if not held or set.intersection(*held.values()):
        return []
    latest = max((version for versions in held.values() for version in versions), default=EMPTY)
    return [number for number, versions in held.items() if latest not in versions]


def _versions_by_number(pools: Mapping[int, Sequence[DatabaseCopy]]) -> dict[int, set[VersionId]]:
    """All versions that the copies of each number can open. Numbers without any are left out."""
    found = {number: {version for copy in pool for version in copy.versions} for number, pool in pools.items()}
    return {number: versions for number, versions in found.items() if versions}


def _of_common_version(pools: Mapping[int, Sequence[DatabaseCopy]]) -> dict[int, tuple[DatabaseCopy, ...]]:
    """The copies of each number that has some: those that can open the latest version that all numbers have, the largest first. If there is no
    such version, all copies stay; the recovery says what each worker has."""
    held = {number: pool for number, pool in pools.items() if pool}
    readable = _versions_by_number(held).values()
    shared = set.intersection(*readable) if readable else set()
    if len(held) < len(pools):
        shared &= {EMPTY}  # the others are going to be created
    latest = max(shared, default=None)
    chosen: dict[int, tuple[DatabaseCopy, ...]] = {}
    for number, pool in held.items():
        usable = [copy for copy in pool if latest in copy.versions] or list(pool)
        chosen[number] = tuple(sorted(usable, key=lambda copy: (-copy.disk_bytes, copy.host)))
    return chosen


@dataclass
class _Tasks:
    """The tasks that have no number yet, by host."""

    offers: Sequence[Offer]
    given: dict[int, int] = field(default_factory=dict)
    host_of: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._free: dict[str, list[int]] = {}
        for offer in sorted(self.offers, key=lambda offer: offer.serial, reverse=True):
            self._free.setdefault(offer.host, []).append(offer.serial)

    def give(self, number: int, hosts: Iterable[str]) -> bool:
        """Gives the number to the first task of the first of these hosts that has one."""
        for host in hosts:
            if self._free.get(host):
                self.given[number], self.host_of[number] = self._free[host].pop(), host
                return True
        return False

    def emptiest(self, *, without: set[str]) -> list[str]:
        """The hosts in the order of how few workers they have. Those that are to have none come last."""
        workers, avoided = Counter(self.host_of.values()), {offer.host for offer in self.offers if offer.is_avoided}
        return sorted(self._free.keys() - without, key=lambda host: (host in avoided, workers[host], host))
