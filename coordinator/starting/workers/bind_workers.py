"""From tasks that register to workers with databases.

    tasks register with what their hosts hold -> numbers given by that (binding.py) -> databases of older generations removed
        -> what no host has: restored from the checkpoint store, or created the first time

The coordinator looks at no database itself, because the hosts of the workers have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from base.logger import Logger
from base.version import EMPTY
from coordinator.specification import PipelineSpec
from coordinator.starting.errors import DatabaseMissing
from coordinator.starting.workers.binding import Bound, Unbound, bind
from coordinator.starting.workers.expected_databases import expected_databases, refuse_other_log
from coordinator.starting.workers.found_databases import (
    ExpectedDatabases,
    Offer,
    leftover_databases,
    replaced_databases,
)
from coordinator.starting.workers.shrinking import companions_of, offers_of, shrink_of
from engine.resident.crew import Crew
from engine.resident.messages import NewDatabase
from io_kafka.step_log.state import StepLogState

_log = Logger("coordinator.starting.workers")


RESTORE_AFTER_SECONDS = 5.0
"""How long a start on a cluster waits for one more host that may have a missing database, before it is restored from the checkpoint store. An
executor that is only slower than the others has registered by then; a download of more than some GB takes longer."""


@dataclass(frozen=True)
class StartFindings:
    """What the start has found out of the databases. `offers`: what all tasks have reported. `companions`: see shrinking.py."""

    expected: ExpectedDatabases
    offers: Sequence[Offer]
    bound: Bound
    companions: frozenset[int]


def bind_workers(
    crew: Crew,
    spec: PipelineSpec,
    state: StepLogState,
    log_id: str,
    *,
    distrusted: frozenset[int],
    restore: Callable[[Crew, Bound], None],
) -> StartFindings:
    """Waits for the tasks, gives every worker a task whose host holds its database, removes databases of older generations, and creates those
    that are missing at the first start.

    If a database is missing later, more tasks are started, one at a time, because one of them may come to a host that was not asked yet. With a
    checkpoint store the database is restored if none does soon. Raises StateLost if none does before the deadline of registration, and at once
    in local mode, where all tasks see the same folder. `restore`: restores the databases that are named."""
    expected = expected_databases(spec, state, log_id, distrusted)
    bound, offers = _find_binding(crew, spec, expected)
    databases = {number: expected.database(number, birth) for number, birth in bound.births.items()}
    companions = companions_of(crew, bound)
    crew.bind(bound.workers, databases)
    for number, hosts in bound.copies.items():
        _log.warning("other hosts have copies of a database; they are left alone", worker=number, folders=hosts)
    _remove_replaced(crew, offers, bound, expected)
    if bound.restored:
        restore(crew, bound)
    owned = state.current_layout.placed.owned
    crew.create({number: NewDatabase(owned[number], EMPTY) for number in sorted(bound.created)})
    return StartFindings(expected, offers, bound, companions)


def _find_binding(crew: Crew, spec: PipelineSpec, expected: ExpectedDatabases) -> tuple[Bound, Sequence[Offer]]:
    """Waits for tasks until each worker can have one, and returns which, with what all tasks have reported. Raises StateLost."""
    shrink = shrink_of(crew, spec, expected)
    crew.recruiting.wait_for_candidates(shrink)
    final = restores = not spec.state_location.on_cluster
    while True:
        offers = offers_of(crew.recruiting.candidates, expected.avoided)
        for task in crew.recruiting.candidates:
            registered = task.registered
            refuse_other_log(spec, expected, registered.host, registered.folder, task.databases or ())
        outcome = bind(offers, expected, final=final, restores=restores)
        if isinstance(outcome, Bound):
            return outcome, offers
        if final and shrink is not None and crew.recruiting.start_companions(shrink.companions()):
            crew.recruiting.wait_for_companions()
            shrink = None  # once is enough, or never
            continue  # there are tasks enough, and too few on the hosts that have the databases
        if final:
            raise _database_missing(outcome, crew, spec)
        if expected.restorable is not None and not restores:
            restores = not crew.recruiting.wait_for_another(RESTORE_AFTER_SECONDS)
        else:
            final = not crew.recruiting.wait_for_another()


def _remove_replaced(crew: Crew, offers: Sequence[Offer], bound: Bound, expected: ExpectedDatabases) -> None:
    """One worker of each host removes the databases of older generations. Right after a full refresh it also looks for what a run that was
    killed has begun to remove."""
    found = replaced_databases(offers, expected)
    first = _first_of_host(offers, bound)
    crew.remove({first[host]: found.get(host, ()) for host in first if expected.is_after_reset or host in found})


def _first_of_host(offers: Sequence[Offer], bound: Bound) -> dict[str, int]:
    """One worker of each host."""
    host_of = {offer.serial: offer.host for offer in offers}
    return {host_of[serial]: number for number, serial in sorted(bound.workers.items(), reverse=True)}


def remove_left(crew: Crew, found: StartFindings, epoch: int) -> None:
    """After a version was opened: one worker of each host removes the databases that no version needs any more. They belonged to workers that
    have left, or that a rescale had made before it was interrupted."""
    databases = leftover_databases(found.offers, found.expected, found.bound.births, epoch)
    first = _first_of_host(found.offers, found.bound)
    crew.remove({first[host]: databases[host] for host in databases if host in first})


def _database_missing(missing: Unbound, crew: Crew, spec: PipelineSpec) -> DatabaseMissing:
    """The fault of a run that has found no database for a worker. `missing.numbers` has the hosts that hold it and have too few task slots."""
    number, busy = min(missing.numbers.items())
    hosts = {task.registered.folder_name: task.registered for task in crew.recruiting.candidates}
    if busy:
        shown = ", ".join(sorted({hosts[name].host for name in busy}))
        return DatabaseMissing(
            f"the database of worker {number} is on host {shown}, and Spark has started too few tasks there.",
            "Give Spark's executors on that host as many task slots as it has workers, and run again. Nothing is lost.",
        )
    asked = sorted({(registered.folder, registered.host) for registered in hosts.values()})
    folders = ", ".join(f"{folder}/{number:04d} (host {host})" for folder, host in asked)
    if spec.state_location.on_cluster:
        return DatabaseMissing(
            f"worker {number} has no database with the last checkpoint of the step log in {folders}.",
            "If another host holds it, start an executor there, or raise stepwell.worker.register until it has started. If it is lost, restore "
            "the folder, or rebuild the state with `stepwell run --full-refresh`.",
        )
    return DatabaseMissing(
        f"worker {number} has no database in {folders}, and the step log has checkpoints.",
        "Restore the storage folder, or rebuild the state with `stepwell run --full-refresh`.",
    )
