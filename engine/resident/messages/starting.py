"""From a task that registers to a worker that has joined its peers, and its end."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import ClassVar, NamedTuple

from base.slots import SlotSet
from base.version import VersionId
from engine.model.placement import Placement
from engine.resident.messages.message import Answer, Notice, Order, Report
from storage.identity import FoundDatabase, UnneededDatabase


class SocketAddress(NamedTuple):
    host: str
    port: int


class NewDatabase(NamedTuple):
    """A database that is to be created: without state, at version `base`, and owning these slots."""

    owned: SlotSet
    base: VersionId


class Register(Report):
    """The first message of a task, which asks to become a worker. `address` is that of the worker's listener for its peers. `fingerprint`,
    `release`: see engine/resident/fingerprint.py. `host` is for users, and `folder` is the path in which the host keeps the databases of the
    pipeline. `folder_name`: see storage/host_folder.py. `free_bytes`: on its disk. If the folder cannot be used, `folder_fault` says why, and
    the others are empty. `is_companion`: see Accompany."""

    token: str
    host: str
    pid: int
    address: SocketAddress
    fingerprint: str
    release: str
    folder: str
    folder_name: str
    folder_fault: str | None
    free_bytes: int
    is_companion: bool

    def is_on(self, host: str) -> bool:
        """Whether a user may mean the sender's host by this: its name, its address, or the path of a folder that holds its databases."""
        named = PurePosixPath(host)
        if named.is_absolute():
            return PurePosixPath(self.folder).is_relative_to(named)
        return host in (self.host, self.address.host)


class Holds(Report):
    """The databases in the folder of the sender's host. It follows `Register` at once, as a frame of its own: a thousand databases do not fit
    into the frame of a sender that has not shown the token yet."""

    databases: tuple[FoundDatabase, ...]


class Welcome(Notice):
    """The sender of `Register` is `worker` from now on. `birth` and `database`: the birth of the worker, and the uuid of its database."""

    worker: int
    birth: str
    database: str


class Accompany(Notice):
    """The candidate starts so many *companions*: processes beside its own that register as it has done, and end with it at the latest. They make
    up for task slots that are missing (coordinator/starting/workers/shrinking.py)."""

    count: int


class Refuse(Notice):
    """The registration is not accepted, or no worker is needed any more. The process must end."""

    reason: str


class Removed(Answer):
    workers: tuple[int, ...]


class Remove(Order[Removed]):
    """Removes databases from the worker's host. Each is removed only if its identity is still the one that is named here."""

    databases: tuple[UnneededDatabase, ...]


class Created(Answer):
    """The database is there."""


class Create(Order[Created]):
    """Creates the worker's database. If there is one already, nothing is changed: the fence looks whose it is."""

    new: NewDatabase


class DatabaseFenced(Answer):
    versions: tuple[VersionId, ...]
    number: int


class FenceDatabase(Order[DatabaseFenced]):
    """Makes every write of an older term to the database fail."""


class DatabaseOpened(Answer):
    """The database is open, before `step`. `owned`: the slots of which the database has the state, and `state_bytes` its size. `free_bytes`:
    on the disk."""

    step: int
    owned: SlotSet
    state_bytes: int
    free_bytes: int


class OpenDatabase(Order[DatabaseOpened]):
    """Opens the worker's database at this version. `fenced`: the number that `DatabaseFenced` returned."""

    version: VersionId
    fenced: int


class Entered(Answer):
    step: int


class Enter(Order[Entered]):
    """The database, which has no state, takes its place before `step`."""

    step: int


class PeersJoined(Answer):
    """The worker is connected to all others."""


class JoinPeers(Order[PeersJoined]):
    """The workers with their addresses, in the order in which they joined. A worker connects to those before it and waits for those behind it;
    connections that there are stay, and those to workers that are not named end."""

    members: tuple[tuple[int, SocketAddress], ...]
    placement: Placement


class Left(Answer):
    """The database is removed, and the worker ends."""


class Leave(Order[Left]):
    """The worker owns nothing any more, and no version needs its database. It removes that and ends."""

    ends_worker: ClassVar[bool] = True
