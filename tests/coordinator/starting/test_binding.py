"""Which worker each task becomes, over any databases on any hosts."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.term import Term
from base.version import EMPTY, VersionId
from coordinator.checkpoints.completion import first_needed_step
from coordinator.starting.workers.binding import Bound, Unbound, bind
from coordinator.starting.workers.database_names import DatabaseName, birth_of
from coordinator.starting.workers.found_databases import (
    ExpectedDatabases,
    Offer,
    Standing,
    judge,
    leftover_databases,
    replaced_databases,
)
from storage.identity import FoundDatabase, Identity

V1, V2, V3 = (VersionId(n, 10 * n, f"c{n}") for n in (1, 2, 3))
OTHER_V2, OTHER_V3 = (replace(version, checkpoint_id="other") for version in (V2, V3))
BIRTHS = {0: "0", 1: "0"}
FRESH = ExpectedDatabases(
    "p", "log", 0, {EMPTY: BIRTHS}, is_fresh=True, complete=None, pending=None, accepts_older=False
)
LATER = replace(FRESH, owners={V2: BIRTHS, V3: BIRTHS}, is_fresh=False, complete=V2, pending=V3)


def found(
    number: int, *versions: VersionId, uuid: str | None = None, size: int = 1, pipeline: str = "p"
) -> FoundDatabase:
    name = DatabaseName("log", 0, number, "0").text if uuid is None else uuid
    return FoundDatabase(number, Identity(pipeline, number, name), versions, size)


UNREADABLE = FoundDatabase(0, None, (), 0, "torn")


def offers(*hosts: tuple[str, list[FoundDatabase]]) -> list[Offer]:
    """A task for each."""
    return [Offer(serial, host, tuple(databases)) for serial, (host, databases) in enumerate(hosts)]


def hosts_of(result: Bound | Unbound, tasks: list[Offer]) -> list[str]:
    assert isinstance(result, Bound), result
    host = {task.serial: task.host for task in tasks}
    return [host[result.workers[number]] for number in sorted(result.workers)]


# Judging


@pytest.mark.parametrize(
    ("database", "fresh", "later"),
    [
        (found(0, V1, V2), Standing.STALE, Standing.HELD),
        (found(0, V1), Standing.STALE, Standing.STALE),
        (found(0, V3), Standing.STALE, Standing.HELD),  # opened by a run that ended before it wrote the completion
        (found(0, V1, OTHER_V2), Standing.STALE, Standing.STALE),  # left behind where a checkpoint was never completed
        (found(0, OTHER_V3), Standing.STALE, Standing.STALE),
        (found(0, EMPTY), Standing.HELD, Standing.BLANK),
        (found(0, EMPTY, V1), Standing.HELD, Standing.STALE),
        (found(0, V2, uuid="lost/0/0/0"), Standing.OTHER_LOG, Standing.OBSTACLE),
        (found(0, V2, uuid="no name"), Standing.OTHER_LOG, Standing.OBSTACLE),
        (found(0, V2, pipeline="q"), Standing.OBSTACLE, Standing.OBSTACLE),
        (found(0, V2, uuid="log/0/1/0"), Standing.OBSTACLE, Standing.OBSTACLE),
        (found(0, V2, uuid="log/1/0/0"), Standing.OBSTACLE, Standing.OBSTACLE),
        (UNREADABLE, Standing.OBSTACLE, Standing.OBSTACLE),
        (
            FoundDatabase(0, Identity("p", 0, "log/0/0/0"), (), 0, "another format"),
            Standing.OBSTACLE,
            Standing.OBSTACLE,
        ),
    ],
)
def test_what_a_database_is_for_a_run(database: FoundDatabase, fresh: Standing, later: Standing) -> None:
    assert (judge(database, FRESH), judge(database, LATER)) == (fresh, later)


def test_steps_that_a_copy_on_another_host_may_replay_are_kept() -> None:
    assert first_needed_step(V2, (V1, V2), ()) == V2.step
    assert first_needed_step(OTHER_V3, (V1, V2), ()) == V2.step  # folded by a run that ended before it was complete
    assert first_needed_step(V1, (), ()) == 0
    assert first_needed_step(V1, (V2, V3), ()) == V1.step  # a backup was put back
    assert first_needed_step(V3, (V2, V3), (V1,)) == V1.step  # a lost disk is restored to it


def test_a_refresh_replaces_older_generations_at_any_time_and_the_rest_right_after_it() -> None:
    after = replace(FRESH, generation=2)
    older, lost, newer = found(0, V3, uuid="log/1/0/0"), found(1, V3, uuid="lost/7/1/0"), found(0, V3, uuid="log/3/0/0")
    unread, foreign = replace(UNREADABLE, worker=5), found(1, V3, pipeline="q")
    tasks = offers(("b", [older, lost]), ("a", [newer, foreign, unread]), ("b", [older, lost]))
    assert replaced_databases(tasks, after) == {
        "a": ((5, "0", None),),
        "b": ((0, "0", older.identity), (1, "0", lost.identity)),
    }
    assert replaced_databases(tasks, replace(after, owners={V1: BIRTHS}, is_fresh=False, complete=V1)) == {
        "b": ((0, "0", older.identity),)
    }


def test_a_uuid_that_says_nothing_is_no_name() -> None:
    for birth in ("0", birth_of(7, Term(3, 1))):
        name = DatabaseName("a/b", 3, 12, birth)
        assert DatabaseName.of(name.text) == name
    assert name.epoch == 3
    wrong = ("", "x", "x/1", "x/1/y/0", "x/-1/2/0", "x/1/2", "x/1/2/1.2", "x/1/2/b")
    assert [DatabaseName.of(text) for text in wrong] == [None] * len(wrong)


# Binding


def test_the_first_start_creates_all_databases() -> None:
    tasks = offers(("a", []), ("b", []))
    result = bind(tasks, FRESH, final=False)
    assert isinstance(result, Bound) and result.created == {0, 1} and not result.copies


def test_a_number_goes_where_its_database_is() -> None:
    tasks = offers(("a", [found(1, V2)]), ("b", [found(0, V2)]))
    assert hosts_of(bind(tasks, LATER, final=False), tasks) == ["b", "a"]


def test_a_host_that_holds_both_needs_two_tasks() -> None:
    both = [found(0, V2), found(1, V2, size=9)]
    tasks = offers(("a", both), ("b", []))
    assert bind(tasks, LATER, final=False) == Unbound({0: ("a",)})  # the larger one has the task
    tasks = offers(("a", both), ("b", []), ("a", both))
    assert hosts_of(bind(tasks, LATER, final=False), tasks) == ["a", "a"]


def test_while_the_log_is_fresh_a_database_that_is_held_is_not_created_again() -> None:
    tasks = offers(("a", [found(0, EMPTY), found(1, EMPTY)]), ("b", []))
    for final in (False, True):
        assert bind(tasks, FRESH, final=final) == Unbound({1: ("a",)})


def test_what_is_missing_is_never_created_when_the_log_has_checkpoints() -> None:
    tasks = offers(("a", [found(0, V2)]), ("b", [found(1, EMPTY)]))
    for final in (False, True):
        assert bind(tasks, LATER, final=final) == Unbound({1: ()})


def test_of_two_copies_the_one_is_bound_that_has_what_all_have() -> None:
    """The other one has a higher version, which the other worker does not have."""
    tasks = offers(
        ("a", [found(0, V2, OTHER_V3, size=9)]), ("b", [found(0, V1, V2, size=5)]), ("b", [found(1, V1, V2)])
    )
    result = bind(tasks, LATER, final=False)
    assert hosts_of(result, tasks) == ["a", "b"]  # both copies can open V2, and the larger one counts
    tasks = offers(("a", [found(0, OTHER_V3, size=9)]), ("b", [found(0, V2)]), ("b", [found(1, V2, V3)]))
    result = bind(tasks, LATER, final=False)
    assert hosts_of(result, tasks) == ["b", "b"]
    assert isinstance(result, Bound) and not result.copies  # it was never a checkpoint of the log
    tasks = offers(("a", [found(0, V3, size=9)]), ("b", [found(0, V2)]), ("b", [found(1, V2)]))
    result = bind(tasks, LATER, final=False)
    assert hosts_of(result, tasks) == ["b", "b"]
    assert isinstance(result, Bound) and result.copies == {0: ("a",)}  # it may yet be wanted
    assert result.versions == {0: {V2}, 1: {V2}}


def test_after_the_intent_of_the_first_checkpoint_nothing_is_created() -> None:
    """A database that is away may have been opened at that checkpoint, and then the others hold nothing else."""
    intended = replace(FRESH, owners={EMPTY: BIRTHS, V1: BIRTHS}, is_fresh=False, pending=V1)
    tasks = offers(("a", [found(0, V1)]), ("b", []))
    assert bind(tasks, intended, final=True) == Unbound({1: ()})


def test_a_copy_without_what_the_others_have_waits_for_a_better_one() -> None:
    tasks = offers(("a", [found(0, V1)]), ("b", [found(1, EMPTY)]))
    intended = replace(FRESH, owners={EMPTY: BIRTHS, V1: BIRTHS}, is_fresh=False, pending=V1)
    for final in (False, True):
        assert bind(tasks, intended, final=final) == Unbound({1: ()})
    tasks.append(Offer(2, "c", (found(1, EMPTY, V1),)))
    assert hosts_of(bind(tasks, intended, final=False), tasks) == ["a", "c"]
    local = replace(intended, accepts_older=True)
    assert hosts_of(bind(tasks[:2], local, final=True), tasks) == ["a", "b"]  # the recovery says that they do not fit


def test_an_older_copy_is_a_last_resort_in_local_mode_alone() -> None:
    old = [found(0, V1), found(1, V1)]
    tasks = offers(("a", old), ("a", old))
    local = replace(LATER, accepts_older=True)
    assert hosts_of(bind(tasks, local, final=True), tasks) == ["a", "a"]
    assert bind(tasks, LATER, final=True) == Unbound({0: (), 1: ()})
    assert isinstance(bind(tasks, local, final=False), Unbound)


def test_what_stands_in_the_way_is_bound_at_last_so_that_its_fence_can_tell() -> None:
    tasks = offers(("a", [UNREADABLE, found(1, V2)]), ("a", [UNREADABLE, found(1, V2)]))
    assert bind(tasks, LATER, final=False) == Unbound({0: ()})
    result = bind(tasks, LATER, final=True)
    assert hosts_of(result, tasks) == ["a", "a"]
    assert isinstance(result, Bound) and not result.created


def test_a_new_database_avoids_a_host_where_something_stands_in_its_way() -> None:
    tasks = offers(("a", [UNREADABLE]), ("b", []))
    assert hosts_of(bind(tasks, FRESH, final=False), tasks) == ["b", "a"]


def test_reports_of_one_host_are_put_together() -> None:
    """A fold of an older run has ended between the two."""
    tasks = offers(("a", [found(0, V1), found(1, V2)]), ("a", [found(0, V1, V2), found(1, V2)]))
    assert hosts_of(bind(tasks, LATER, final=False), tasks) == ["a", "a"]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Offer], ExpectedDatabases]:
    workers = draw(st.integers(1, 5))
    hosts = ["a", "b", "c"][: draw(st.integers(1, 3))]
    versions = st.sampled_from([(EMPTY,), (EMPTY, V1), (V1,), (V1, V2), (V2,), (V2, V3), (V2, OTHER_V3)])
    kinds = st.sampled_from(["none", "held", "held", "unreadable", "lost", "older"])
    disks: dict[str, tuple[FoundDatabase, ...]] = {}
    for host in hosts:
        databases = []
        for number in range(workers + 1):
            match draw(kinds):
                case "held":
                    databases.append(found(number, *draw(versions), size=draw(st.integers(0, 3))))
                case "unreadable":
                    databases.append(replace(UNREADABLE, worker=number))
                case "lost":
                    databases.append(found(number, V1, uuid=f"lost/0/{number}/0"))
                case "older":
                    databases.append(found(number, V1, uuid=f"log/0/{number}/0", pipeline="q"))
        disks[host] = tuple(databases)
    places = draw(st.lists(st.sampled_from(hosts), min_size=workers, max_size=workers + 4))
    complete = draw(st.sampled_from([None, V1, V2]))
    is_fresh = complete is None and draw(st.booleans())
    pending = None if is_fresh else draw(st.sampled_from([None, V2 if complete == V1 else V3]))
    births = dict.fromkeys(range(workers), "0")
    owners = {version: births for version in (complete or EMPTY, pending) if version is not None}
    expected = ExpectedDatabases("p", "log", 0, owners, is_fresh, complete, pending, accepts_older=draw(st.booleans()))
    return [Offer(serial, host, disks[host]) for serial, host in enumerate(places)], expected


@given(worlds(), st.booleans(), st.randoms(use_true_random=False))
def test_whatever_the_hosts_hold(
    world: tuple[list[Offer], ExpectedDatabases], final: bool, dice: random.Random
) -> None:
    tasks, expected = world
    result = bind(tasks, expected, final=final)
    shuffled = list(tasks)
    dice.shuffle(shuffled)
    assert bind(shuffled, expected, final=final) == result, "the order of the offers decides"
    by_serial = {task.serial: task for task in tasks}
    claims = {
        (task.host, each.worker): judge(each, expected)
        for task in tasks
        for each in task.databases
        if each.worker in expected.numbers
    }
    held = {
        number: {host for (host, n), claim in claims.items() if n == number and claim is Standing.HELD}
        for number in expected.numbers
    }
    if isinstance(result, Unbound):
        assert result.numbers and all(set(hosts) <= {task.host for task in tasks} for hosts in result.numbers.values())
        return
    assert result.workers.keys() == expected.numbers, "every number"
    assert len(set(result.workers.values())) == expected.tasks_needed, "a task twice"
    for number, serial in result.workers.items():
        host = by_serial[serial].host
        claim = claims.get((host, number))
        if held[number]:
            assert host in held[number] and number not in result.created
        elif number in result.created:
            assert expected.is_fresh and claim is None
        else:
            assert final and claim in (Standing.STALE, Standing.OBSTACLE)
            assert claim is not Standing.STALE or expected.accepts_older
        assert claim is not Standing.BLANK
        assert host not in result.copies.get(number, ())
    _check_common_version(tasks, expected, result, held)


def _check_common_version(
    tasks: list[Offer], expected: ExpectedDatabases, result: Bound, held: dict[int, set[str]]
) -> None:
    """If some choice of copies has a version in common, the bound ones have the latest such version: of those that the log knows, if it knows
    one."""
    if not all(held.values()):
        return
    reported = {
        (task.host, each.worker): set(each.versions) for task in tasks for each in task.databases if each.worker in held
    }
    possible = set.intersection(*(set().union(*(reported[host, n] for host in hosts)) for n, hosts in held.items()))
    host_of = {task.serial: task.host for task in tasks}
    bound = set.intersection(*(reported[host_of[serial], n] for n, serial in result.workers.items()))
    known = expected.owners.keys()
    if possible:
        assert max(bound & known or bound, default=None) == max(possible & known or possible)


@given(st.integers(1, 12), st.lists(st.sampled_from("abc"), min_size=12, max_size=30))
def test_new_databases_are_spread(workers: int, places: list[str]) -> None:
    tasks = [Offer(serial, host, ()) for serial, host in enumerate(places)]
    result = bind(tasks, replace(FRESH, owners={EMPTY: dict.fromkeys(range(workers), "0")}), final=False)
    number_of = Counter(hosts_of(result, tasks))
    there = Counter(places)
    for host, other in ((one, two) for one in there for two in there):
        if number_of[host] > number_of[other] + 1:
            assert number_of[other] == there[other], (
                f"{host} has {number_of[host]} workers, {other} {number_of[other]} and a free task"
            )


# Versions with other owners

NEW = birth_of(1, Term(4, 0))
GROWN = {0: "0", 1: "0", 2: NEW}
GROWING = replace(LATER, owners={V2: BIRTHS, V3: GROWN})
SHRINKING = replace(LATER, owners={V2: BIRTHS, V3: {0: "0"}})


def born(number: int, birth: str, *versions: VersionId) -> FoundDatabase:
    uuid = DatabaseName("log", 0, number, birth).text
    return FoundDatabase(number, Identity("p", number, uuid), versions, 1, birth=birth)


def test_the_numbers_are_those_of_the_owners_in_the_latest_version_that_all_its_owners_have() -> None:
    both = [found(0, V2, V3), found(1, V2, V3)]
    for third, births in ((born(2, NEW, V2, V3), GROWN), (born(2, NEW, V2), BIRTHS), (None, BIRTHS)):
        held = [*both, *([] if third is None else [third])]
        result = bind(offers(("a", held), ("a", held), ("a", held)), GROWING, final=True)
        assert isinstance(result, Bound) and result.births == births and result.workers.keys() == births.keys()
        assert result.versions == {number: {V2, V3} for number in births}


def test_a_database_that_was_opened_at_a_version_says_whose_databases_are_needed() -> None:
    """A run has opened the pending version in worker 1, and the host of worker 2, which is an owner in it, is away."""
    held = [found(0, V2, V3), found(1, V3)]
    assert bind(offers(("a", held), ("a", held), ("a", held)), GROWING, final=True) == Unbound({2: ()})
    back = [*offers(("a", held), ("a", held)), replace(offers(("b", [born(2, NEW, V2, V3)]))[0], serial=2)]
    result = bind(back, GROWING, final=True)
    assert isinstance(result, Bound) and result.births == GROWN


def test_a_version_with_other_owners_is_no_reason_to_bind_a_copy() -> None:
    """Worker 2 is away, so V3 cannot be opened, and the copy that has it alone is of no use."""
    hosts = [("a", [found(0, V3, size=9)]), ("b", [found(0, V2)]), ("c", [found(1, V2, V3)])]
    tasks = offers(*hosts)
    result = bind(tasks, GROWING, final=True)
    assert hosts_of(result, tasks) == ["b", "c"]


def test_all_versions_of_a_database_are_told_even_those_that_the_log_does_not_know() -> None:
    """For the fence compares them with what it finds."""
    tasks = offers(("a", [found(0, V2, OTHER_V3)]), ("a", [found(1, V2)]))
    result = bind(tasks, LATER, final=True)
    assert isinstance(result, Bound) and result.versions == {0: {V2, OTHER_V3}, 1: {V2}}


def test_a_worker_that_owns_nothing_is_not_asked_for() -> None:
    alone = [found(0, V2, V3)]
    result = bind(offers(("a", alone), ("a", alone)), SHRINKING, final=True)
    assert isinstance(result, Bound) and result.births == {0: "0"}
    empty = [found(0, V2, V3), found(1, V2)]  # its folder is there, without the version in which it owns nothing
    result = bind(offers(("a", empty), ("a", empty)), SHRINKING, final=True)
    assert isinstance(result, Bound) and result.births == {0: "0"}
    behind = [found(0, V2)]
    assert bind(offers(("a", behind), ("a", behind)), SHRINKING, final=True) == Unbound({1: ()})


def test_a_database_of_another_birth_is_none_of_the_worker() -> None:
    older = born(2, birth_of(1, Term(3, 0)), V2, V3)
    held = [found(0, V2, V3), found(1, V2, V3), older]
    assert judge(older, GROWING) is Standing.LEFT
    result = bind(offers(("a", held), ("a", held), ("a", held)), GROWING, final=True)
    assert isinstance(result, Bound) and result.births == BIRTHS


def test_what_no_version_needs_any_more_is_removed_but_not_what_a_newer_run_has_made() -> None:
    gone, newer = born(2, NEW, V2), born(3, birth_of(2, Term(9, 0)), V2)
    renamed = replace(gone, worker=7)
    foreign = replace(gone, worker=8, identity=Identity("q", 8, DatabaseName("log", 0, 8, NEW).text))
    tasks = offers(("a", [found(0, V2), gone, newer, renamed, foreign, UNREADABLE]), ("b", [found(1, V2)]))
    assert leftover_databases(tasks, LATER, BIRTHS, epoch=5) == {"a": ((2, NEW, gone.identity),)}
    assert leftover_databases(tasks, LATER, {0: "0"}, epoch=3) == {"b": ((1, "0", found(1).identity),)}


# The checkpoint store

STORED = replace(LATER, owners={V1: BIRTHS, V2: BIRTHS, V3: BIRTHS}, restorable=V1)


def test_what_no_host_has_is_restored_everywhere_it_is_needed() -> None:
    """Worker 1 is lost. Worker 0 has later versions, which nobody can open any more."""
    tasks = offers(("a", [found(0, V1, V2)]), ("b", []))
    result = bind(tasks, STORED, final=True, restores=True)
    assert isinstance(result, Bound)
    assert hosts_of(result, tasks) == ["a", "b"] and result.restored == {1} and not result.created
    newer = offers(("a", [found(0, V2, V3)]), ("b", []))
    result = bind(newer, STORED, final=True, restores=True)
    assert isinstance(result, Bound) and result.restored == {0, 1}
    assert result.versions == {0: {V1}, 1: {V1}}


def test_a_version_that_all_hosts_have_is_better_than_the_store() -> None:
    tasks = offers(("a", [found(0, V2, V3)]), ("b", [found(1, V1, V2)]))
    result = bind(tasks, STORED, final=True, restores=True)
    assert isinstance(result, Bound) and not result.restored and hosts_of(result, tasks) == ["a", "b"]


def test_nothing_is_restored_before_other_hosts_had_time_to_come() -> None:
    tasks = offers(("a", [found(0, V2)]), ("b", []))
    assert isinstance(bind(tasks, STORED, final=False), Unbound)
    assert isinstance(bind(tasks, replace(STORED, restorable=None), final=True, restores=True), Unbound)


def test_all_are_restored_on_hosts_that_have_nothing() -> None:
    tasks = offers(("a", []), ("a", []), ("b", []))
    result = bind(tasks, STORED, final=True, restores=True)
    assert isinstance(result, Bound) and result.restored == {0, 1}
    assert sorted(hosts_of(result, tasks)) == ["a", "b"], "they are spread over the hosts"


def test_the_workers_of_the_stored_version_may_be_others_than_those_of_now() -> None:
    expected = replace(STORED, owners={V1: {0: "0"}, V2: BIRTHS, V3: BIRTHS})
    tasks = offers(("a", []), ("b", [found(1, V2)]))
    result = bind(tasks, expected, final=True, restores=True)
    assert isinstance(result, Bound) and result.births == {0: "0"} and result.restored == {0}


def test_a_restore_that_was_broken_off_after_a_rescale_is_made_again() -> None:
    """Workers 1 and 2 were restored to a version of before the rescale. Worker 0 has only versions of after it, in which worker 1 owns
    nothing."""
    three, two = {0: "0", 1: "0", 2: "0"}, {0: "0", 2: "0"}
    expected = replace(STORED, owners={V1: three, V2: two, V3: two}, complete=V2, pending=V3)
    tasks = offers(("a", [found(0, V2, V3)]), ("b", [found(1, V1)]), ("b", [found(2, V1)]))
    assert isinstance(bind(tasks, expected, final=False), Unbound), (
        "otherwise it is bound, and no version is common to all"
    )
    result = bind(tasks, expected, final=False, restores=True)
    assert isinstance(result, Bound) and result.births == three and result.restored == {0}
