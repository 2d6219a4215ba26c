"""Where `stepwell dev` keeps what it starts: one folder per user, in the user's cache, or the folder that a user names."""

from __future__ import annotations

from pathlib import Path

from base.user_folders import cache_root
from base.whole_file import write_whole

_NAMED = "dev-folders"
"""The file beside the user's own folder that has those named with `dev up --folder`, one in each line."""


def dev_folder() -> Path:
    """The folder of the local broker."""
    return cache_root() / "stepwell" / "dev"


def dev_cluster_folder() -> Path:
    """The folder of the local cluster. It is beside that of the broker, whose files lie loose in its folder."""
    return dev_folder().with_name("dev-cluster")


def broker_folders() -> list[Path]:
    """All folders in which `dev up` has started a broker, as far as they exist."""
    try:
        named = dev_folder().with_name(_NAMED).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        named = []
    return [dev_folder(), *(Path(line) for line in named if Path(line).is_dir())]


def remember(folder: Path) -> None:
    """That `dev up` has started a broker there: `run` treats it like the user's own."""
    known, folder = broker_folders(), folder.resolve()
    if folder not in known:
        named = [*known[1:], folder]
        file = dev_folder().with_name(_NAMED)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, "".join(f"{each}\n" for each in named))
