"""What the machines of Damion's protocol (damion.py) tell each other, and what they tell their shells to do.

Machines are named by addresses. Between two of them, messages arrive in the order in which they were sent. Of messages from two senders, any may
arrive first. `reassignment` is the number of the change that a message belongs to, unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from protocols.assignment import Reassignment
from protocols.keys import Explicit, Keys

# Records


@dataclass(frozen=True)
class Input:
    """A record that reaches a distributor, from outside or from an operator whose output it distributes."""

    key: int
    body: object


@dataclass(frozen=True)
class Record:
    """A record on its way to an instance. `origin`: the distributor that sends it. `sequence`: how many records this distributor had before.
    `reassignment`: the last change that the distributor had begun; 0 before the first. An operator passes the record on to the next one of its
    chain with the same fields, but perhaps another body."""

    key: int
    origin: str
    sequence: int
    reassignment: int
    body: object


# From outside to a distributor


@dataclass(frozen=True)
class Begin:
    """Begin this change. No distributor gets it before the former change has ended at all of them."""

    reassignment: Reassignment


# From a distributor to the first operator of an old owner


@dataclass(frozen=True)
class Shutdown:
    """From now on, records of the keys that you give away come only as your SETS say."""

    reassignment: Reassignment


@dataclass(frozen=True)
class Final:
    """No record of these keys comes from this distributor any more."""

    reassignment: int
    keys: Keys


# Along the chain of an old owner


@dataclass(frozen=True)
class Named:
    """SETS in the making: the keys that move and have state in an operator before this one."""

    reassignment: Reassignment
    keys: Explicit


@dataclass(frozen=True)
class Part:
    """What one operator has of some keys. `states`: by key; a key without state is missing. `latest`: by key and origin, the sequence number of
    the last record."""

    states: Mapping[int, object]
    latest: Mapping[int, Mapping[str, int]]


@dataclass(frozen=True)
class Packing:
    """REDISTRIBUTE in the making: `parts` are those of the operators before this one, in the chain's order."""

    reassignment: int
    keys: Keys
    parts: tuple[Part, ...]


# From the last operator of an old owner


@dataclass(frozen=True)
class Sets:
    """To all distributors. Keys of `whitelist` are still sent to `giver`, those of `hold` wait, all others already belong to the new owner."""

    reassignment: int
    giver: str
    whitelist: Keys
    hold: Keys


@dataclass(frozen=True)
class Redistribute:
    """To all distributors: the state of `given` is on its way to the new owners, and `following` is next. The last one has no keys there."""

    reassignment: int
    giver: str
    given: Keys
    following: Keys


@dataclass(frozen=True)
class State:
    """To the first operator of the new owner, and on along its chain: all that the old owner had of these keys, one part for each operator."""

    reassignment: int
    giver: str
    keys: Keys
    parts: tuple[Part, ...]


# From the last operator of a new owner


@dataclass(frozen=True)
class Installed:
    """To all distributors: every operator of the new owner has the state of these keys, which `giver` gave away."""

    reassignment: int
    giver: str
    keys: Keys


DistributorMessage = Input | Begin | Sets | Redistribute | Installed
OperatorMessage = Record | Shutdown | Final | Named | Packing | State
Message = DistributorMessage | OperatorMessage

# Instructions


@dataclass(frozen=True)
class Send:
    to: str
    message: Message


@dataclass(frozen=True)
class Process:
    """Run the operator on the record. The output goes to the next operator of the chain, or from the last one to wherever its output belongs."""

    record: Record


@dataclass(frozen=True)
class Hold:
    """Keep the record behind those of its key that are kept already."""

    record: Record


@dataclass(frozen=True)
class Release:
    """Send all records of this key that are kept, in their order."""

    key: int
    to: str


@dataclass(frozen=True)
class Install:
    key: int
    state: object


@dataclass(frozen=True)
class Drop:
    """Forget the state of this key: it is in a message."""

    key: int


Instruction = Send | Process | Hold | Release | Install | Drop
