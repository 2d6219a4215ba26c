"""How much CPU time the control groups of Linux let this process use, in cores. A container with `--cpus 2` sees all cores of its machine, and
may use the time of two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


def cpu_quota(groups: Path = GROUPS, own: Path = OWN_GROUPS) -> float | None:
    """The least quota of the groups that this process is in; None if there is none, or no control groups."""
    found = [quota for folder in _folders(groups, own) if (quota := _quota_of(folder)) is not None]
    return min(found, default=None)


def _folders(groups: Path, own: Path) -> Iterator[Path]:
    """The folders of the groups, from the process's own to the root. In a container the root may be the container's group, although the list of
    the process names it as the machine sees it."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        roots = [groups] if not controllers else [groups / "cpu", groups / controllers]
        for root in roots:
            place = Path(path.lstrip("/"))
            yield from (root / each for each in (place, *place.parents))


def _quota_of(folder: Path) -> float | None:
    """`cpu.max` of version 2, or the two files of version 1."""
    try:
        if (unified := folder / "cpu.max").is_file():
            quota, period = unified.read_text().split()[:2]
        else:
            quota, period = ((folder / f"cpu.cfs_{what}_us").read_text().strip() for what in ("quota", "period"))
        return int(quota) / int(period) if quota not in ("max", "-1") and int(period) > 0 else None
    except (OSError, ValueError):
        return None
