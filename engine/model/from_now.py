"""Sources of which a view counts only what came after some offsets, because its user has asked for that with `--from-now`.

Such a source stands beside the one of the files, with a name of its own. Both read the same messages, and the name says since which revision it
is there.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"(.*) \(from revision ([0-9]+) on\)", re.DOTALL)


def handle_from_now(handle: str, revision: int) -> str:
    """How the source is called that counts from this revision on. `handle`: as the files call it."""
    return f"{handle} (from revision {revision} on)"


def handle_of_files(handle: str) -> str:
    """How the files call a source."""
    found = _NAME.fullmatch(handle)
    return handle if found is None else found[1]


def revision_of(handle: str) -> int | None:
    """Since which revision the source counts; None if it counts whole."""
    found = _NAME.fullmatch(handle)
    return None if found is None else int(found[2])
