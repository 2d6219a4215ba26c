"""The committed environment of a database: how it is entered, and how it is rewritten without the pages that nobody uses.

LMDB reuses the pages that a transaction frees, but its file never shrinks. So where most of a state has left, by a rescale or
because it was deleted, its file stays as large as it was. `compact` copies what is used into a second environment, which takes the place of the
old one under its writer's lock:

    committed --copy--> compact-N, synced --exchange of the names, synced--> committed, and the old one is removed

A crash leaves one or the other under the name, and both have the same content, because the copy is discarded if anything was written meanwhile.
Readers of the old one keep their snapshot. A writer that has waited for the lock of the old one would write into a file that nobody reads
any more, so each writer looks again under the lock (Replaced), and enters again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from faults.points import reached
from storage import description as described
from storage import durable, environments, records
from storage.description import Description
from storage.environments import REPLACED_MAX, Environment, Gone, Reader, Replaced, Usage, Writer
from storage.errors import CorruptRecord, NoDatabase, OtherFormat, StorageFull
from storage.paced_writes import Unwanted
from storage.swap_folders import SwapUnsupported, swap_folders

COMMITTED = "committed"

FREE_BYTES_MIN = 64 << 20
"""Rewriting is not worth while for less."""
FREE_SHARE_MIN = 0.2
"""So that a file has at most 1.25 times the bytes that are used. Steps need free pages too, and would make the file grow again at once if they
never got any."""
SPACE_FACTOR = 2
"""The copy is made only if the disk has so many times the room that it takes, for steps write meanwhile."""


@contextmanager
def open_committed(path: Path) -> Iterator[Environment]:
    """The committed environment of the database in `path`. Raises NoDatabase."""
    try:
        with environments.open_environment(path / COMMITTED, synced=True) as environment:
            yield environment
    except Gone as gone:
        if gone.folder != path / COMMITTED:
            raise
        raise NoDatabase(path) from None


@contextmanager
def begin_write(path: Path, epoch: int) -> Iterator[Writer]:
    """Begins a write transaction of a committed environment. Raises NoDatabase, WriterBlocked, StorageFull."""
    with ExitStack() as stack:
        yield _enter_writing(path, epoch, stack)


def _enter_writing(path: Path, epoch: int, stack: ExitStack) -> Writer:
    for _ in range(REPLACED_MAX):
        with ExitStack() as attempt:
            try:
                writer = attempt.enter_context(attempt.enter_context(open_committed(path)).write(epoch))
            except Replaced:
                continue
            stack.push(attempt.pop_all())
            return writer
    raise NoDatabase(path)


def load(path: Path, reader: Reader) -> Description:
    """Raises CorruptRecord, OtherFormat."""
    try:
        return described.load(reader)
    except records.ChecksumMismatch:
        raise CorruptRecord(f"the description of the database in {path}", described.DESCRIPTION_KEY) from None
    except described.FormatUnknown as other:
        raise OtherFormat(path, other.owner, other.found, described.FORMAT) from None


def read_description(path: Path) -> Description:
    with open_committed(path) as committed, committed.read() as reader:
        return load(path, reader)


def compact(
    path: Path,
    name: str,
    worker: int,
    epoch: int,
    *,
    check: Callable[[Description], None],
    is_wanted: Callable[[], bool],
) -> bool:
    """Rewrites the environment if many of its pages are free, and the disk has room for that. Steps go on meanwhile. Returns whether it was
    rewritten: it was not if another transaction has written to it meanwhile, if the file system cannot exchange two folders, or if it is not
    wanted any more.

    `name`: of the copy, which no other caller uses at the same time. `check` raises if the caller may not write to the database."""
    copy = path / name
    try:
        with open_committed(path) as old:
            if not _is_worth_while(old.usage()):
                return False
            environments.remove(copy)
            written = old.copy_to(copy, is_wanted)
            reached("compact.copied", worker)
            with old.write(epoch) as writer:
                check(load(path, writer))
                if old.usage().transactions != written:
                    return False
                with environments.lock_writer(copy, epoch):  # so that nobody writes to it before its name is durable
                    swap_folders(path / COMMITTED, copy)
                    durable.sync(path)
        reached("compact.exchanged", worker)
        return True
    except (Replaced, SwapUnsupported, Unwanted, StorageFull):
        return False  # nothing was changed
    except Gone as gone:
        if gone.folder != copy:
            raise
        return False  # an `open` of a newer term has removed it
    finally:
        environments.remove(copy)


def _is_worth_while(usage: Usage) -> bool:
    free_bytes = usage.file_bytes - usage.used_bytes
    return (
        free_bytes >= max(FREE_BYTES_MIN, FREE_SHARE_MIN * usage.file_bytes)
        and usage.free_bytes >= SPACE_FACTOR * usage.used_bytes
    )
