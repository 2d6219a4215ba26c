"""Where `stepwell dev` keeps what it starts: one folder per user, in the user's cache."""

from __future__ import annotations

import os
from pathlib import Path


def dev_folder() -> Path:
    """The folder of the local broker."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "stepwell" / "dev"


def dev_cluster_folder() -> Path:
    """The folder of the local cluster. It is beside that of the broker, whose files lie loose in its folder."""
    return dev_folder().with_name("dev-cluster")
