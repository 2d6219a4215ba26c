"""The faults of a start: too few task slots, a network that is not trusted, and workers that would compute different bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence

from base.fault import ExitCode, Fault


class NoSlots(Fault):
    """Not all workers got a task slot of Spark within the deadline. `slots`: how many Spark has; None if it does not say. `busy`: those of them
    in which workers of this run are already."""

    exit_code = ExitCode.MACHINE

    def __init__(self, needed: int, registered: int, slots: int | None, waited_s: float, busy: int = 0) -> None:
        self.needed, self.registered, self.slots = needed, registered, slots
        when = "" if waited_s == 0 else f" within {waited_s:g} s"
        others = f", in {busy} of which other workers run" if busy else ""
        has = "Spark does not say how many it has" if slots is None else f"Spark has {slots} task slots{others}"
        if slots is None:
            what = "See whether Spark's JVM runs and is not stopped, and what its log says"
        elif slots - busy >= needed:
            what = "They are enough, so see in Spark's log and in those of its executors why no task starts in them"
        else:
            what = "Give Spark more task slots (spark.master, spark.cores.max, executors), or run with fewer workers (`--workers N`)"
        super().__init__(
            f"{needed} workers need {needed} task slots at once, and {registered} workers have registered{when}; {has}.",
            f"{what}. Nothing is lost.",
        )


class RecruitsFailed(Fault):
    """Tasks that were to become workers have ended before they registered. `failures`: what each says."""

    exit_code = ExitCode.MACHINE

    def __init__(self, needed: int, failures: Sequence[str]) -> None:
        super().__init__(
            f"{needed} more workers were needed, and {len(failures)} tasks ended before they registered: {failures[0]}",
            "See in Spark's log and in those of its executors why. Nothing was changed.",
        )


class NoHostFolder(Fault):
    """A host of the cluster has no folder in which its workers can keep their databases."""

    exit_code = ExitCode.PROJECT

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(
            f"host {host} has no folder for the databases of its workers: {reason}.",
            "Set stepwell.local.dir to a folder that exists on every host and outlives the executors, or set STEPWELL_LOCAL_DIR in the "
            "environment of each executor.",
        )


class InsecureCluster(Fault):
    """Workers on other hosts would get the key of the run's connections over a channel that others can read."""

    exit_code = ExitCode.PROJECT

    def __init__(self, master: str, host: str, missing: str) -> None:
        super().__init__(
            f"with Spark's master {master}, workers connect to {host} and to each other. Spark would hand out the key that encrypts these "
            f"connections on a channel that is not secured: {missing} is not set.",
            f"Set {missing} for Spark (spark.* in the configuration of the project), or allow connections without encryption by "
            "stepwell.cluster.insecure=true on a network whose users you trust.",
        )


class UnequalWorkers(Fault):
    """A worker runs with other libraries than the coordinator, so it might compute other bytes."""

    exit_code = ExitCode.MACHINE

    def __init__(self, host: str, theirs: str, ours: str) -> None:
        left, right = _by_name(theirs), _by_name(ours)
        names = sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))
        shown = ", ".join(f"{name} {left.get(name)} (coordinator: {right.get(name)})" for name in names)
        super().__init__(
            f"the worker on host {host} has {shown}.",
            "Install the same versions on all hosts. Otherwise a replay could compute other bytes than were written.",
        )


class UnequalReleases(Fault):
    """A host has a release of Stepwell that does not speak with that of the coordinator. `what`: which one, and where."""

    exit_code = ExitCode.MACHINE

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what.rstrip('. ')}: workers and the service cannot read each other's messages.",
            "Install the service's release on that host, or hand over to a service of the new release (docs/cluster.md). Nothing is lost.",
        )


def _by_name(fingerprint: str) -> dict[str, object]:
    """The parts of a fingerprint (fingerprint.py). Another version of Stepwell may have one of another form."""
    try:
        found = json.loads(fingerprint)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"fingerprint": fingerprint}
