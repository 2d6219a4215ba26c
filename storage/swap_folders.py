"""Two folders exchange their names in one step, so that a crash leaves them exchanged or not. Python's library does not offer this call."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

AT_FDCWD = -100
RENAME_EXCHANGE = 2
UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV, errno.EPERM, errno.EACCES})
"""What a file system says that cannot do it, such as NFS or a layer of a container's image, or a kernel that does not know or allow the call."""


class SwapUnsupported(OSError):
    """The file system or the C library cannot exchange two names."""


def swap_folders(folder: Path, other: Path) -> None:
    """Each of the two gets the name of the other. Raises SwapUnsupported, OSError."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        raise SwapUnsupported(errno.ENOSYS, "the C library has no renameat2", str(folder))
    if call(AT_FDCWD, os.fsencode(folder), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return
    number = ctypes.get_errno()
    kind = SwapUnsupported if number in UNSUPPORTED else OSError
    raise kind(number, os.strerror(number), str(folder))
