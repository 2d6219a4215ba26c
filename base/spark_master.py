"""What the URL of Spark's master says before Spark is started."""

from __future__ import annotations

import re

MASTER_KEY = "spark.master"

LOCAL = "local"
"""The master of a project that names none: local mode, with as many task slots as it needs."""

ALL_CORES = "local[*]"
"""Local mode on all cores. It is what a project without a master has too, with as many task slots as workers may need."""


def is_local(master: str) -> bool:
    """Whether Spark's executor is the driver itself. `local-cluster` is a cluster."""
    return master == LOCAL or master.startswith("local[")


def local_slots(master: str) -> int | None:
    """The number of task slots of a master in local mode; None if it follows from the machine (`local[*]`), or for a cluster."""
    if master == LOCAL:
        return 1
    found = re.fullmatch(r"local\[(\d+)(?:,\s*\d+)?\]", master)
    return None if found is None else int(found[1])
