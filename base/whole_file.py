"""Files that are replaced as a whole, so that a reader or a crash of the process never meets half of one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: str | bytes, *, pid: int | None = None, private: bool = False) -> None:
    """Replaces the file. It writes a draft beside it and renames that. The folder must exist.

    `pid` names the draft, so that two processes do not share one; None means this process. `private`: no other user can read the file, not even
    the draft. If the draft cannot be written, for example because the disk is full, it is removed, the file stays as it was, and an OSError
    is raised that names it. Neither is synced to the disk: a crash of the machine may lose the new content."""
    draft = path.with_name(f".{path.name}.{os.getpid() if pid is None else pid}")
    try:
        if private:
            draft.touch(0o600)
        if isinstance(content, str):
            draft.write_text(content)
        else:
            draft.write_bytes(content)
        draft.rename(path)
    except OSError as fault:
        with suppress(OSError):
            draft.unlink()
        if fault.filename is None:  # that of a write, which a full disk refuses
            fault.filename = str(path)
        raise
