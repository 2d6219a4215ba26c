"""What the machines of ICADD (icadd.py, icadd_operator.py) tell each other, and what they tell their shells to do.

A region sends messages to the regions of the same operators on other workers. It sends words and records down its lanes, and the operators of
its worker answer. On each of these channels, messages arrive in the order in which they were sent. Of messages on two channels, any may arrive
first. A version is the number of changes of the routing that the sender has made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

Key = Hashable
Worker = int
Route = Callable[[Key], Worker]

# From outside to a region


@dataclass(frozen=True)
class Reassignment:
    """The change of a region from the route F to the route F'. `route` is F'. `old` are the workers that F can name; only they can have
    state. `members` are all that give records to the region while the change lasts: the old workers and the new ones."""

    route: Route
    old: frozenset[Worker]
    members: frozenset[Worker]


# Records


@dataclass(frozen=True)
class Origin:
    """A record enters the region at its origin, which is a distributor on a worker."""

    worker: Worker
    distributor: int


@dataclass(frozen=True)
class Record:
    """This is a record of a key. `serial` grows from record to record of one origin."""

    key: Key
    origin: Origin
    serial: int


# Between the regions of two workers


@dataclass(frozen=True)
class Routed:
    """The record is sent on to another worker. `version` is the highest one of the workers that have sent it."""

    record: Record
    version: int


@dataclass(frozen=True)
class Marker:
    """The sender has entered COLLECT: whatever comes behind the marker is routed by F'."""

    version: int


@dataclass(frozen=True)
class Acquire:
    """This is the whole state of a key, as pairs of an operator and its part. An operator without a part has no state of the key."""

    version: int
    key: Key
    states: tuple[tuple[int, object], ...]


@dataclass(frozen=True)
class Done:
    """The sender has no state that belongs elsewhere, and it gets no more records by F."""

    version: int


@dataclass(frozen=True)
class Probe:
    """The sender has got Done, and asks for an echo. Until the echo comes, it sends no more records on a detour to the worker that it asks."""

    version: int


@dataclass(frozen=True)
class Echo:
    """The sender has returned every record that it got before the probe."""

    version: int


PeerMessage = Routed | Marker | Acquire | Done | Probe | Echo

# From a region to the operators of its worker: records go down the lanes of one distributor, and words down all lanes


@dataclass(frozen=True)
class Lane:
    """A lane is the path from a distributor to an operator of the same worker."""

    distributor: int
    operator: int


@dataclass(frozen=True)
class Interrogate:
    """Tell all keys that you have state of."""


@dataclass(frozen=True)
class Collect:
    """Tell the state of the key. No record of it follows before it is forgotten."""

    key: Key


@dataclass(frozen=True)
class Take:
    """Install your part of what has come with an Acquire."""

    acquired: Acquire


@dataclass(frozen=True)
class Forget:
    """Drop the state of the key, which has been sent away."""

    key: Key


Word = Interrogate | Collect | Take | Forget
LaneMessage = Record | Word

# From an operator back to the region of its worker: an answer for each lane on which the word has come


@dataclass(frozen=True)
class KeysOf:
    """The operator has state of these keys. This answers Interrogate."""

    lane: Lane
    keys: tuple[Key, ...]


@dataclass(frozen=True)
class StateOf:
    """This answers Collect. `state` is None if the operator has none for the key."""

    lane: Lane
    key: Key
    state: object | None


@dataclass(frozen=True)
class Dropped:
    """The operator has no state of the key any more. This answers Forget."""

    lane: Lane
    key: Key


Answer = KeysOf | StateOf | Dropped

# Instructions


@dataclass(frozen=True)
class Send:
    """Put the message on the channel to the region of another worker."""

    to: Worker
    message: PeerMessage


@dataclass(frozen=True)
class Process:
    """From a region: put the record on the lanes of its distributor. From an operator: process it."""

    record: Record


@dataclass(frozen=True)
class Tell:
    """Put the word on every lane."""

    word: Word


@dataclass(frozen=True)
class Hold:
    """The region keeps the record, until a Release of it stands before the instruction that moves it on."""

    record: Record


@dataclass(frozen=True)
class Release:
    """The record is not held any more. The next instruction says where it goes, and that can be another Hold."""

    record: Record


@dataclass(frozen=True)
class Reply:
    """Put the answer on the channel to the region of this worker."""

    answer: Answer


@dataclass(frozen=True)
class Install:
    """From now on `state` is the operator's state of the key."""

    key: Key
    state: object


@dataclass(frozen=True)
class Drop:
    """Forget the operator's state of the key: it is on another worker, or on its way there."""

    key: Key


RegionInstruction = Send | Process | Tell | Hold | Release
OperatorInstruction = Process | Reply | Install | Drop
