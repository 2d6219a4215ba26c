"""The disk beneath the databases, and the environments on it: what `storage/environments.py` gives, in memory.

A crash of a process loses what it had not committed. A crash of the machine loses more, and keeps what the seed chooses:

- of a folder whose entries were not synced, any first part of the changes (made, renamed, removed) since its last sync;
- of an environment that syncs, the last commit if its sync was not over, and nothing else;
- of one that does not, anything: one of the states it had, a mix of them record by record (torn pages), or a file that cannot be read;
- of a file, any first part, because nobody syncs one.

A disk that is lost takes everything with it. It may come back later, as an old copy.

Every call is a point, so a crash comes between any two writes.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from types import SimpleNamespace
from typing import Literal, Protocol

from storage.environments import DATA_FILE, Gone, Replaced, Usage
from storage.errors import CorruptFile, WriterBlocked
from storage.paced_writes import Unwanted
from storage.writers import OLDER_HOLDER_SECONDS_MAX, WAIT_SECONDS_MAX
from tests.simulator.scheduler import Process

Records = dict[bytes, bytes]

WRITTEN_AT_ONCE = 400
"""Bytes of a file. So a call writes some of the headers of the spool in two parts."""


class Machine(Protocol):
    """What a disk asks of its world."""

    rng: random.Random

    def point(self, place: str) -> None: ...
    def acting(self) -> Process: ...
    def wait_for(self, until: Callable[[], bool], seconds: float) -> bool: ...
    def kill(self, process: Process, why: str) -> None: ...
    def count(self, kind: str) -> None: ...
    def committed(self, environment: Environment, before: Records) -> None: ...
    def renamed(self, place: tuple[str, ...]) -> None: ...


class Snapshot:
    """One state of an environment, never changed."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._keys: list[bytes] | None = None

    @property
    def keys(self) -> list[bytes]:
        if self._keys is None:
            self._keys = sorted(self.records)
        return self._keys


class Reader:
    """As environments.Reader, over one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def get(self, key: bytes) -> memoryview | None:
        value = self._snapshot.records.get(key)
        return None if value is None else memoryview(value)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, memoryview]:
        records = self._snapshot.records
        return {key: memoryview(records[key]) for key in keys if key in records}

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, memoryview]]:
        return self.items_from(prefix, prefix)

    def items_from(self, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, memoryview]]:
        snapshot = self._snapshot
        for index in range(bisect_left(snapshot.keys, start), len(snapshot.keys)):
            key = snapshot.keys[index]
            if not key.startswith(prefix):
                return
            yield key, memoryview(snapshot.records[key])

    def keys(self, prefix: bytes) -> Iterator[bytes]:
        return (key for key, _ in self.items(prefix))


class Writer(Reader):
    """The one write transaction: a copy, installed when it commits."""

    def __init__(self, records: Records) -> None:
        super().__init__(Snapshot(dict(records)))
        self.changed = False

    def put_many(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        for key, value in items:
            self.put(key, value)

    def put(self, key: bytes, value: bytes | memoryview) -> None:
        self._change().records[key] = bytes(value)

    def delete(self, key: bytes) -> None:
        self._change().records.pop(key, None)

    def delete_all(self, prefix: bytes) -> None:
        records = self._change().records
        for key in [key for key in records if key.startswith(prefix)]:
            del records[key]

    def result(self) -> Snapshot:
        return self._snapshot

    def _change(self) -> Snapshot:
        """A scan under way keeps the keys it began with."""
        self.changed = True
        if self._snapshot._keys is not None:
            self._snapshot = Snapshot(self._snapshot.records)
        return self._snapshot


@dataclass(eq=False)
class File:
    """Nobody syncs one."""

    content: bytes = b""

    def crash(self, rng: random.Random) -> None:
        fate = rng.random()
        if fate < 0.5:
            self.content = self.content[: int(len(self.content) * max(0.0, 4 * fate - 1))]


class OpenFile:
    """What `open` gives: a file that is written or read without a buffer. It outlives its name."""

    def __init__(self, disk: Disk, file: File) -> None:
        self._disk, self._file = disk, file
        self._at = 0

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, piece: bytes | memoryview) -> int:
        """A part of it, and the rest with the next call."""
        self._disk.machine.point("write")
        written = bytes(piece[: max(1, len(piece) // 2)]) if len(piece) > WRITTEN_AT_ONCE else bytes(piece)
        self._file.content += written
        return len(written)

    def read(self, count: int = -1) -> bytes:
        end = None if count < 0 else self._at + count
        piece = self._file.content[self._at : end]
        self._at += len(piece)
        return piece

    def seek(self, place: int) -> None:
        self._at = place


def _apply(change: Mapping[str, Node | None], entries: dict[str, Node]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


@dataclass(eq=False)
class Folder:
    """`entries` as processes see them; `durable` as after a crash, with any first part of `changes`."""

    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)
    changes: list[dict[str, Node | None]] = field(default_factory=list)

    def add(self, name: str, node: Node) -> None:
        self._change({name: node})

    def remove(self, name: str) -> None:
        self._change({name: None})

    def rename(self, name: str, new: str) -> None:
        self._change({name: None, new: self.entries[name]})

    def exchange(self, name: str, other: str) -> None:
        self._change({name: self.entries[other], other: self.entries[name]})

    def _change(self, change: dict[str, Node | None]) -> None:
        """A crash leaves the whole change or nothing of it."""
        _apply(change, self.entries)
        self.changes.append(change)

    def sync(self) -> None:
        self.durable, self.changes = dict(self.entries), []

    def crash(self, rng: random.Random) -> None:
        kept = rng.randint(0, len(self.changes))
        for change in self.changes[:kept]:
            _apply(change, self.durable)
        self.entries, self.changes = dict(self.durable), []
        for node in self.entries.values():
            node.crash(rng)


class Environment:
    """`states`: the one that would outlive a crash of the machine, then those since. `folder`: where it was found last. `made`: its data file
    is there; `kept`: and would be after a crash. `flushed`: all that was written without a sync was synced since."""

    def __init__(self, machine: Machine, folder: SimPath, *, synced: bool) -> None:
        self.folder, self.synced = folder, synced
        self.made = self.kept = self.flushed = False
        self.states = [Snapshot({})]
        self.damaged = False
        self.removed = False
        self.verified: set[bytes] = set()
        self.commits = 0
        self._machine = machine
        self._holder: tuple[Process, int] | None = None

    @property
    def now(self) -> Snapshot:
        return self.states[-1]

    @property
    def durable(self) -> Snapshot:
        return self.states[0]

    def remember_verified(self, key: bytes) -> None:
        self.verified.add(key)

    @contextmanager
    def read(self) -> Iterator[Reader]:
        self._check_whole()
        self._machine.point("database read")
        yield Reader(self.now)

    @contextmanager
    def write(self, epoch: int) -> Iterator[Writer]:
        with self.locked(epoch):
            self._check_whole()
            self._machine.point("database write")
            writer = Writer(self.now.records)
            yield writer
            self._machine.point("database commit")
            self._commit(writer)
        self._machine.point("database committed")

    def _commit(self, writer: Writer) -> None:
        before = self.now.records
        if not writer.changed:
            return
        self.states.append(writer.result())
        self.commits += 1
        self.flushed = False
        self._machine.committed(self, before)
        if self.synced:
            self._machine.point("database sync")
            del self.states[:-1]

    def _flush(self) -> None:
        """Its file is synced."""
        del self.states[:-1]
        self.flushed = True

    @contextmanager
    def locked(self, epoch: int) -> Iterator[None]:
        self._lock(epoch)
        process = self._machine.acting()
        try:
            yield
        finally:
            if self._holder is not None and self._holder[0] is process:
                self._holder = None

    def _lock(self, epoch: int) -> None:
        """As storage/writers.py: a holder of an older term that does not give way is killed."""
        self._machine.point("database lock")
        self._check_in_place()
        if not self._is_free():
            self._machine.count("a writer waited for another")
            if not self._machine.wait_for(self._is_free, OLDER_HOLDER_SECONDS_MAX):
                is_older = self._holder is not None and self._holder[1] < epoch
                more_s = 0.0 if is_older else WAIT_SECONDS_MAX - OLDER_HOLDER_SECONDS_MAX
                if not self._machine.wait_for(self._is_free, more_s):
                    self._end_holder(epoch)
            self._check_in_place()
        self._holder = self._machine.acting(), epoch

    def _check_in_place(self) -> None:
        node = self.folder.node
        if isinstance(node, Environment) and node.made and node is not self:
            self._machine.count("a writer came to a database that was replaced")
            raise Replaced(self.folder)  # type: ignore[arg-type]
        if self.removed or not self.made:
            raise Gone(self.folder)  # type: ignore[arg-type]

    def usage(self) -> Usage:
        """Half of the time, compacting is worth while."""
        return Usage((1 << 30) * (1 + self.commits % 2), 1 << 30, 1 << 40, self.commits)

    def copy_to(self, folder: SimPath, is_wanted: Callable[[], bool]) -> int:
        commits = self.commits
        if not is_wanted():
            raise Unwanted
        self._machine.point("copy of a database")
        copied = self.now
        copy = folder.add_environment(synced=True)
        self._machine.point("copy of a database")
        if copy.removed:
            raise Gone(folder)  # type: ignore[arg-type]
        copy.made = copy.kept = True
        copy.states, copy.commits = [copied], commits
        return commits

    def _end_holder(self, epoch: int) -> None:
        assert self._holder is not None
        holder, of_epoch = self._holder
        if of_epoch >= epoch or holder is self._machine.acting():
            raise WriterBlocked(self.folder, holder.name, WAIT_SECONDS_MAX)  # type: ignore[arg-type]
        self._machine.kill(holder, f"it held the lock of {self.folder}")
        self._machine.count("a holder of a lock was killed")

    def _is_free(self) -> bool:
        return self._holder is None or not self._holder[0].alive

    def _check_whole(self) -> None:
        if self.damaged:
            raise CorruptFile(self.folder, "torn pages")  # type: ignore[arg-type]

    def crash(self, rng: random.Random) -> None:
        """Of the machine."""
        self._holder, self.removed = None, False
        self.made = self.kept or (self.made and rng.random() < 0.5)
        if self.synced or self.flushed:
            self.states = [rng.choice(self.states)]
            return
        fate = rng.randrange(3)
        if fate == 0:
            self.damaged = True
        elif fate == 1:
            self.states = [rng.choice(self.states)]
        else:
            keys = sorted({key for state in self.states for key in state.records})
            chosen = ((key, rng.choice(self.states).records.get(key)) for key in keys)
            self.states = [Snapshot({key: value for key, value in chosen if value is not None})]


Node = File | Folder | Environment


class Disk:
    """The disks of all hosts in one tree. `parts`: which folders at its top belong to which host. `boots`: how often a host was started."""

    def __init__(self, machine: Machine, parts: Mapping[str, Sequence[str]]) -> None:
        self.machine, self.parts = machine, parts
        self.root = Folder()
        self.boots = dict.fromkeys(parts, 1)
        for name in (name for names in parts.values() for name in names):
            self.root.add(name, Folder())  # its own place is the user's
        self.root.sync()

    def path(self, *names: str) -> SimPath:
        return SimPath(self, names)

    def find(self, place: Sequence[str]) -> Node | None:
        node: Node = self.root
        for name in place:
            if not isinstance(node, Folder) or name not in node.entries:
                return None
            node = node.entries[name]
        return node

    def parent_of(self, place: Sequence[str]) -> Folder:
        parent = self.find(place[:-1])
        if not isinstance(parent, Folder):
            raise FileNotFoundError("/".join(place))
        return parent

    def crash(self, host: str, rng: random.Random) -> None:
        self.boots[host] += 1
        for name in self.parts[host]:
            self.root.entries[name].crash(rng)

    def lose(self, host: str, back: Mapping[str, Folder] | None = None) -> dict[str, Folder]:
        """Another disk takes the place of that of the host: an empty one, or an old one that comes `back`. Returns the one that is gone."""
        self.boots[host] += 1
        gone: dict[str, Folder] = {}
        for name in self.parts[host]:
            folder = self.root.entries[name]
            assert isinstance(folder, Folder)
            gone[name] = folder
            self.root.add(name, Folder() if back is None else back[name])
        self.root.sync()
        return gone

    def delete(self, place: Sequence[str]) -> None:
        """As by a user, at once and durably. What has it open goes on with files that have no name any more."""
        folder, parent = self.find(place), self.parent_of(place)
        assert isinstance(folder, Folder)
        for node in folder.entries.values():
            if isinstance(node, Environment):
                node.removed = True
        parent.remove(place[-1])
        parent.sync()

    def boot(self, host: str) -> str:
        """The boot id of a host."""
        return f"{host}boot{self.boots[host]}"

    def boot_at(self, place: Sequence[str]) -> str:
        """That of the host to which a place belongs."""
        return next(self.boot(host) for host, names in self.parts.items() if place[0] in names)

    def environments(self) -> Iterator[tuple[tuple[str, ...], Environment]]:
        """All that are there, with their places."""
        yield from _environments(self.root, ())


def _environments(folder: Folder, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Environment]]:
    for name, node in folder.entries.items():
        if isinstance(node, Environment):
            yield (*place, name), node
        elif isinstance(node, Folder):
            yield from _environments(node, (*place, name))


class SimPath:
    """As much of pathlib.Path as the project uses for the storage folder."""

    __slots__ = ("_disk", "_place")

    def __init__(self, disk: Disk, place: tuple[str, ...]) -> None:
        self._disk, self._place = disk, place

    def __truediv__(self, name: str) -> SimPath:
        return SimPath(self._disk, (*self._place, *name.split("/")))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SimPath) and other._place == self._place

    def __hash__(self) -> int:
        return hash(self._place)

    def __lt__(self, other: SimPath) -> bool:
        return self._place < other._place

    def __str__(self) -> str:
        return "/".join(self._place)

    __repr__ = __str__

    @property
    def name(self) -> str:
        return self._place[-1]

    @property
    def place(self) -> tuple[str, ...]:
        return self._place

    @property
    def parent(self) -> SimPath:
        return SimPath(self._disk, self._place[:-1])

    def with_name(self, name: str) -> SimPath:
        return self.parent / name

    def resolve(self) -> SimPath:
        return self

    @property
    def node(self) -> Node | None:
        return self._disk.find(self._place)

    def exists(self) -> bool:
        return self.node is not None

    def is_dir(self) -> bool:
        return isinstance(self.node, Folder | Environment)

    def iterdir(self) -> Iterator[SimPath]:
        node = self.node
        if node is None:
            raise FileNotFoundError(str(self))
        return iter([self / name for name in node.entries] if isinstance(node, Folder) else [])

    def glob(self, pattern: str) -> Iterator[SimPath]:
        return (path for path in self.iterdir() if fnmatch(path.name, pattern))

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        if parents and len(self._place) > 1:
            self.parent.mkdir(parents=True, exist_ok=True)
        self._point("mkdir")
        if self.exists():
            if exist_ok:
                return
            raise FileExistsError(str(self))
        self._disk.parent_of(self._place).add(self.name, Folder())

    def rename(self, target: SimPath) -> SimPath:
        assert target._place[:-1] == self._place[:-1], "only within a folder"
        self._point("rename")
        parent = self._disk.parent_of(self._place)
        if self.name not in parent.entries:
            raise FileNotFoundError(str(self))
        if isinstance(parent.entries.get(target.name), Folder) and any(target.iterdir()):
            raise OSError(f"{target} is not empty")
        parent.rename(self.name, target.name)
        self._disk.machine.renamed(self._place)
        return target

    def exchange(self, other: SimPath) -> None:
        assert other._place[:-1] == self._place[:-1], "only within a folder"
        self._point("rename")
        parent = self._disk.parent_of(self._place)
        if not {self.name, other.name} <= parent.entries.keys():
            raise FileNotFoundError(str(self))
        parent.exchange(self.name, other.name)

    def read_text(self) -> str:
        node = self.node
        if not isinstance(node, File):
            raise FileNotFoundError(str(self))
        return node.content.decode()

    def write_text(self, text: str) -> None:
        self._point("write")
        parent = self._disk.parent_of(self._place)
        parent.add(self.name, File())
        self._point("write")
        parent.add(self.name, File(text.encode()))

    def open(self, mode: Literal["rb", "wb"], buffering: int = -1) -> OpenFile:
        """A file that is written replaces one of the same name, and nobody has that open then."""
        if mode == "wb":
            self._point("write")
            parent = self._disk.parent_of(self._place)
            parent.add(self.name, File())
        node = self.node
        if not isinstance(node, File):
            raise FileNotFoundError(str(self))
        return OpenFile(self._disk, node)

    def hardlink_to(self, target: SimPath) -> None:
        self._point("link")
        node = target.node
        assert node is not None
        if self.exists():
            raise FileExistsError(str(self))
        self._disk.parent_of(self._place).add(self.name, node)

    def unlink(self, missing_ok: bool = False) -> None:
        self._point("unlink")
        parent = self._disk.parent_of(self._place)
        if self.name in parent.entries:
            parent.remove(self.name)
        elif not missing_ok:
            raise FileNotFoundError(str(self))

    def stat(self) -> SimpleNamespace:
        node = self.node
        if node is None:
            raise FileNotFoundError(str(self))
        return SimpleNamespace(st_ino=id(node), st_size=len(node.content) if isinstance(node, File) else 0)

    def sync(self) -> None:
        self._point("sync of a folder")
        node, parent = self.node, self.parent.node
        if isinstance(parent, Environment) and self.name == DATA_FILE:
            parent._flush()
        if isinstance(node, Folder):
            node.sync()
        elif isinstance(node, Environment):
            node.kept = node.made

    def add_environment(self, *, synced: bool) -> Environment:
        self._point("mkdir")
        if self.exists():
            raise FileExistsError(str(self))
        environment = Environment(self._disk.machine, self, synced=synced)
        self._disk.parent_of(self._place).add(self.name, environment)
        return environment

    def rmtree(self) -> None:
        """Entry by entry; no error if it is not there."""
        node = self.node
        if isinstance(node, Folder):
            for name in list(node.entries):
                (self / name).rmtree()
        self._point("rmtree")
        if isinstance(node, Environment):
            node.removed = True
        parent = self._disk.find(self._place[:-1])
        if isinstance(parent, Folder) and self.name in parent.entries:
            parent.remove(self.name)

    def _point(self, place: str) -> None:
        self._disk.machine.point(place)
