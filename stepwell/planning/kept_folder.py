"""What planning keeps between two commands: values in a folder, each in a file of its own under its key.

Guarantees: a file is read only if it is whole, and only by the code that has written it. Anything else in the folder is left out,
and a later save removes what has the name of a key. A file is replaced as a whole, so two commands at once may lose a value and
never read half of one. If the folder cannot be written, the next command plans for longer, and nothing else happens.
"""

from __future__ import annotations

import gc
import pickle
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import xxhash

from base.logger import Logger
from base.whole_file import write_whole
from stepwell.planning.installed import installed_digest

_log = Logger("stepwell.planning.kept_folder")

FORMAT = "stepwell-kept-1"
"""Another one when the form of the files changes."""

UNUSED_MAX = 1_000
"""How many values stay that a planning with errors did not use. They may belong to what it could not plan."""

_KEY = re.compile(r"[0-9a-f]{32}")
_COMPRESSION = 1
"""The quickest level. Plans repeat themselves, and shrink to a tenth even so."""


class KeptFolder:
    """The values of one folder, which are all read when this is made. None as the path means that nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found: dict[str, Any] = {}
        if path is not None:
            with _without_collections():
                self._found.update(_values(path))
        self._used: set[str] = set()
        self._new: dict[str, Any] = {}

    @property
    def keeps(self) -> bool:
        """Whether a value that is put is there for the next command."""
        return self._path is not None

    def get(self, key: str) -> Any:
        """The value, which may be used now; None if there is none."""
        found = self._new.get(key, self._found.get(key))
        if found is not None:
            self._used.add(key)
        return found

    def put(self, key: str, value: Any) -> None:
        """Keeps the value from the next `save` on."""
        self._new[key] = value
        self._used.add(key)

    def save(self, *, is_whole: bool) -> None:
        """Writes what is new, and removes what nobody has asked for or put. `is_whole`: everything was planned. Otherwise what was not used
        stays, up to UNUSED_MAX values."""
        if self._path is None:
            return
        try:
            if self._new:
                self._path.mkdir(parents=True, exist_ok=True)
            for key, value in self._new.items():
                if (content := _content(value)) is not None:
                    write_whole(self._path / key, content, private=True)
            self._found |= self._new
            self._new = {}
            unused = [path for path in _files(self._path) if path.name not in self._used]
            for path in unused if is_whole else unused[UNUSED_MAX:]:
                path.unlink(missing_ok=True)
        except OSError as fault:
            _log.warning("plans of definitions are not kept", folder=str(self._path), reason=str(fault))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Plans are hundreds of thousands of objects, of which none is garbage. To look for some took four fifths of the time of reading."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _files(path: Path) -> list[Path]:
    """The files with the name of a key, and drafts of processes that were killed."""
    if not path.is_dir():
        return []
    return sorted(file for file in path.iterdir() if _KEY.fullmatch(file.name.lstrip(".").partition(".")[0]))


def _content(value: Any) -> bytes | None:
    """None for a plan that is nested more deeply than Python can write."""
    try:
        written = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except RecursionError:
        return None
    body = zlib.compress(written, _COMPRESSION)
    return f"{FORMAT} {installed_digest()} {xxhash.xxh3_128_hexdigest(body)}\n".encode() + body


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    for file in _files(path):
        if file.name.startswith("."):
            continue
        try:
            content = file.read_bytes()
        except OSError as fault:  # another command may have removed it
            _log.warning("a kept plan is left out", file=str(file), reason=str(fault))
            continue
        head, _, body = content.partition(b"\n")
        match head.decode(errors="replace").split(" "):
            case [str(format), code, checksum] if format == FORMAT and checksum == xxhash.xxh3_128_hexdigest(body):
                if code == installed_digest():  # otherwise it is of another version, and nothing is wrong with it
                    yield file.name, pickle.loads(zlib.decompress(body))
            case [str(format), *_] if format != FORMAT and format.startswith("stepwell-kept-"):
                _log.warning("a kept plan is left out", file=str(file), reason=f"its format is {format}")
            case _:
                _log.warning("a kept plan is left out", file=str(file), reason="it is not whole")
