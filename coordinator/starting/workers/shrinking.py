"""A start with fewer task slots than workers: a host was lost, and no other slot is free.

    the tasks that have come wait for the others          stepwell.cluster.shrink.after
    -> they start companions in their place               engine/resident/companions.py
    -> the run goes on, with all of its workers           those of the lost host are restored from the checkpoint store
    -> a cold change leads to the workers that are tasks  rescale/wishes.py

Companions come to the hosts that have the databases. So the state is the same as if the tasks had come, and the change is the same as if a user
had asked for it. If the run is interrupted at any moment, the next start does the same again.

It is not done if a database could not be bound all the same, because it is on the host that is away and the store does not have it. It is not
done for a new state either: then nothing was lost, and the number of workers or of slots is a mistake. In local mode there are always
slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from base.logger import Logger
from coordinator.specification import PipelineSpec
from coordinator.starting.workers.binding import Bound, bind
from coordinator.starting.workers.found_databases import ExpectedDatabases, Offer
from engine.resident.crew import Crew
from engine.resident.crew.recruiting import Shrink
from engine.resident.registration import Candidate

_log = Logger("coordinator.starting.workers.shrinking")


def offers_of(candidates: Iterable[Candidate], avoided: str | None = None) -> list[Offer]:
    """Tasks of one host have the same name of its folder, and the same path. `avoided`: a host that is being replaced."""
    return [
        Offer(
            task.serial,
            task.registered.folder_name,
            task.databases,
            is_avoided=avoided is not None and task.registered.is_on(avoided),
        )
        for task in candidates
        if task.databases is not None
    ]


def shrink_of(crew: Crew, spec: PipelineSpec, expected: ExpectedDatabases) -> Shrink | None:
    """When companions make up for tasks that do not come; None if they never do."""
    if spec.shrink_after_s is None or not spec.state_location.on_cluster or expected.is_fresh:
        return None
    return Shrink(spec.shrink_after_s, lambda: _companions(crew.recruiting.candidates, expected))


def _companions(candidates: Sequence[Candidate], expected: ExpectedDatabases) -> Counter[Candidate] | None:
    """How many companions each candidate needs so that all workers can be bound; None if they cannot. A database lies on one host, and so does
    the task for it: so the binding is asked with as many tasks on each host as there are workers, and what it uses is needed."""
    offers = offers_of(candidates, expected.avoided)
    first = 1 + max((offer.serial for offer in offers), default=0)
    of_clone = dict(enumerate((task for task in candidates for _ in range(expected.tasks_needed)), start=first))
    own = {offer.serial: offer for offer in offers}
    clones = [replace(own[task.serial], serial=serial) for serial, task in of_clone.items()]
    if not clones:
        return None
    bound = bind([*offers, *clones], expected, final=False, restores=expected.restorable is not None)
    if not isinstance(bound, Bound):
        return None
    return Counter(of_clone[serial] for serial in bound.workers.values() if serial in of_clone)


def companions_of(crew: Crew, bound: Bound) -> frozenset[int]:
    """The numbers of the workers that are companions."""
    companions = {task.serial for task in crew.recruiting.candidates if task.registered.is_companion}
    found = frozenset(number for number, serial in bound.workers.items() if serial in companions)
    if found:
        _log.warning(
            "there are fewer task slots than workers; the run goes on with fewer workers",
            slots=len(bound.workers) - len(found),
            workers=len(bound.workers),
            what_to_do="when Spark has more slots again, `stepwell layout change --workers N` uses them",
        )
    return found
