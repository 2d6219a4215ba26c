"""The key by which a command, and the process that answers queries for it, see whether both would ask the same project in the same way.

It says nothing of the state. What a query reads there is checked by what reads it. A definition that depends on something else, such as
the environment, does not show in the key: then the answer is that of the project as the service has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import xxhash

from base import secrets
from stepwell.planning.installed import installed_digest
from stepwell.planning.project_folder import own_folders
from stepwell.project.loading import Project

OF_RUNS = frozenset(
    {
        *("workers", "workers_min", "workers_max", "workers_drain", "workers_lower_after", "shards", "sharding"),
        *("sharding_inaccuracy", "checkpoint_interval", "clock_resolution", "step_rows_max", "step_bytes_max"),
        *("worker_register", "worker_silence", "worker_progress", "cluster_shrink_after", "takeover_silence"),
        *("topics_partitions", "topics_replication_factor", "message_step_header", "steps_kept", "store_lag_max"),
        *("store_late", "switch_rows_max", "control_port", "log_format", "log_level", "metrics_address", "ready_lag"),
        *("metrics_token_file", "registry_auth", "query_process"),
    }
)
"""The settings `stepwell.*` that say how a run runs. They are often given to `stepwell run` alone, and no answer to a query depends on them."""

ENVIRONMENT_MARK = "pyvenv.cfg"
"""The file of a virtual environment, whose code is not the project's."""

FILES_MAX = 2_000
"""The largest number of files of code. A folder with more is not one of definitions alone."""


def query_key(project: Project) -> str | None:
    """A hash of the project's code, of its settings, and of what is installed. None if its folder has too many files."""
    modules = list(islice(_modules(project), FILES_MAX + 1))
    if len(modules) > FILES_MAX:
        return None
    chosen = project.settings.stepwell.model_dump(exclude=set(OF_RUNS))
    about = (project.name, project.root, project.libraries, project.storage, project.catalog, project.database)
    state = xxhash.xxh3_128()
    state.update(repr((installed_digest(), about, chosen, secrets.mask_values(project.settings.spark))).encode())
    for path in sorted({project.spec_file, *project.definition_files(), *modules}):
        state.update(f"{path} {xxhash.xxh3_128_hexdigest(path.read_bytes())}".encode())
    return state.hexdigest()


def _modules(project: Project) -> Iterator[Path]:
    """The modules in Python that definitions may import from the project's folder."""
    for folder, folders, names in own_folders(project.root, project.storage):
        if ENVIRONMENT_MARK in names:
            folders.clear()
        yield from (folder / name for name in names if name.endswith(".py"))
