"""The version that the databases of all workers have in common."""

from __future__ import annotations

from collections.abc import Mapping

from base.fault import ExitCode, Fault
from base.version import VersionId


class NoCommonVersion(Fault):
    """The workers' databases share no version: at least one was lost or belongs to another pipeline."""

    exit_code = ExitCode.STATE

    def __init__(self, versions: Mapping[int, tuple[VersionId, ...]]) -> None:
        self.versions = versions
        shown = "; ".join(
            f"worker {w}: {', '.join(f'{v.version} (step {v.step}, {v.checkpoint_id})' for v in vs) or 'none'}"
            for w, vs in versions.items()
        )
        super().__init__(
            f"no checkpoint is common to all workers: {shown}.",
            "Restore the storage folder that belongs to this pipeline, or rebuild the state with `stepwell run --full-refresh`.",
        )


def common_version(versions: Mapping[int, tuple[VersionId, ...]]) -> VersionId:
    """The latest version that every worker can open: identities are compared, not numbers."""
    shared = set.intersection(*(set(held) for held in versions.values())) if versions else set()
    if not shared:
        raise NoCommonVersion(versions)
    return max(shared)
