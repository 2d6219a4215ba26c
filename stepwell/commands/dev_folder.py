"""Where `stepwell dev` keeps what it starts: one folder per user, in the user's cache."""

from __future__ import annotations

from pathlib import Path

from base.user_folders import cache_root


def dev_folder() -> Path:
    """The folder of the local broker."""
    return cache_root() / "stepwell" / "dev"


def dev_cluster_folder() -> Path:
    """The folder of the local cluster. It is beside that of the broker, whose files lie loose in its folder."""
    return dev_folder().with_name("dev-cluster")
