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
    """The user's own folder, and those named with `dev up --folder` that exist."""
    return [dev_folder(), *_named_folders()]


def remember(folder: Path) -> None:
    """Records that the user has named this folder with `dev up --folder`. `run` treats its broker like the user's own."""
    named, folder = _named_folders(), folder.resolve()
    if folder not in named:
        file = dev_folder().with_name(_NAMED)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, "".join(f"{each}\n" for each in (*named, folder)))


def _named_folders() -> list[Path]:
    try:
        lines = dev_folder().with_name(_NAMED).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [Path(line) for line in lines if Path(line).is_dir()]
