"""What a service does to plan a project again whose files have changed since it started.

The files decide what the project defines. Settings are those of the start, because a service cannot change them while it runs, and they are no
part of a revision.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path

from stepwell.errors import Location, ProjectError
from stepwell.planning.project_modules import is_installed
from stepwell.project.loading import Project, load_project

_STAYING = frozenset(
    {"__main__", "base", "coordinator", "engine", "faults", "io_kafka", "protocols", "stepwell", "storage"}
)


def project_now(started: Project, *, may_lack: bool = False) -> Project:
    """The project as its file is now. `may_lack`: values that stand elsewhere may be missing, as those of the start count.
    Raises ProjectError and SettingsError, also if it is another pipeline now."""
    found = load_project(started.spec_file, may_lack=may_lack)
    for what, before, now in (("name", started.name, found.name), ("storage", started.storage, found.storage)):
        if before != now:
            raise ProjectError(
                f"{what} is {now}, and the service runs with {before}: that is another pipeline.",
                f"Put `{what}: {before}` back, or stop the service and start the other pipeline with `stepwell run`.",
                location=Location(found.spec_file.name),
            )
    return replace(found, settings=started.settings)


def forget_modules(root: Path) -> None:
    """Forgets what definitions have imported from the project's folder, so that they read it again. Stepwell itself may lie in that folder,
    and so may installed packages; they stay."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        places = (
            list(getattr(module, "__path__", ())) if file is None else [file]
        )  # a package without __init__ has no file
        is_below = bool(places) and all(Path(place).is_relative_to(root) for place in places)
        if is_below and name.partition(".")[0] not in _STAYING and not is_installed(name):
            del sys.modules[name]
    importlib.invalidate_caches()
