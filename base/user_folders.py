"""The folders of the user, also of one whom the machine does not know: in a container any number may be the user's id, and then there is neither
a name nor a home."""

from __future__ import annotations

import os
import pwd
import tempfile
from pathlib import Path

CACHE_VARIABLE = "XDG_CACHE_HOME"


def user_name() -> str | None:
    """The name of this process's user; None if the machine knows none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None


def home() -> Path | None:
    """The user's home, if there is one that can be written: HOME, or what the machine's list of users says."""
    try:
        found = Path.home()
    except RuntimeError:
        return None
    return found if found.is_dir() and os.access(found, os.W_OK) else None


def own_scratch() -> Path:
    """Where a user without a home keeps what can be made again. The folder may not exist yet."""
    return Path(tempfile.gettempdir()) / f"stepwell-{os.getuid()}"


def cache_root() -> Path:
    """The folder of caches, which may not exist yet: XDG_CACHE_HOME, or `.cache` in the home, or one of temporary files."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    found = home()
    return own_scratch() if found is None else found / ".cache"
