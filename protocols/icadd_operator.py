"""How one operator answers the region of its worker in ICADD (icadd.py), as a state machine without I/O, clock or randomness.

An operator stands behind the lanes of several distributors, and the region puts each word on all of them. Between two copies of a word, records
of other lanes may arrive. So each word comes several times, and its copies have different effects:

- Interrogate and Collect are answered on every lane with what is there at that moment. The region unites the keys, and a later state overwrites
  an earlier one of the same operator.
- Take installs the state on the first lane alone. When a later copy comes, records may have changed the state already.
- Forget drops the state on the first lane. The region waits for the answers of all lanes, because a late copy could drop a state that the next
  change has brought back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from protocols.icadd_messages import (
    Acquire,
    Collect,
    Drop,
    Dropped,
    Forget,
    Install,
    Interrogate,
    Key,
    KeysOf,
    Lane,
    LaneMessage,
    OperatorInstruction,
    Process,
    Record,
    Reply,
    StateOf,
    Take,
)


@dataclass
class Operator:
    """This is one operator on one worker, behind `distributors` lanes. `keys` are those that it has state of; it is a dict for its order. The
    shell keeps the states: `state_of` returns that of a key in `keys`. `taken` counts the lanes on which each Take has come, until all have."""

    operator: int
    distributors: int
    state_of: Callable[[Key], object]
    keys: dict[Key, None] = field(default_factory=dict)
    taken: dict[tuple[int, Key], int] = field(default_factory=dict)

    def receive(self, distributor: int, message: LaneMessage) -> list[OperatorInstruction]:
        """A message has come on the lane of a distributor."""
        lane = Lane(distributor, self.operator)
        match message:
            case Record():
                self.keys[message.key] = None
                return [Process(message)]
            case Interrogate():
                return [Reply(KeysOf(lane, tuple(self.keys)))]
            case Collect():
                return [
                    Reply(StateOf(lane, message.key, self.state_of(message.key) if message.key in self.keys else None))
                ]
            case Take():
                return self._install(message.acquired)
            case Forget():
                had = message.key in self.keys
                self.keys.pop(message.key, None)
                return [*([Drop(message.key)] if had else []), Reply(Dropped(lane, message.key))]
            case _:
                assert_never(message)

    def _install(self, acquired: Acquire) -> list[OperatorInstruction]:
        state = self.take(acquired)
        if state is None:
            return []
        assert acquired.key not in self.keys, f"operator {self.operator} gets a state of {acquired.key} and has one"
        self.keys[acquired.key] = None
        return [Install(acquired.key, state)]

    def take(self, acquired: Acquire) -> object | None:
        """Returns the operator's part, the first time only: behind the first lane's Take, records may have changed the state already."""
        name = (acquired.version, acquired.key)
        seen = self.taken.pop(name, 0)
        if seen + 1 < self.distributors:
            self.taken[name] = seen + 1
        return dict(acquired.states).get(self.operator) if seen == 0 else None

    def check(self) -> None:
        """Asserts the invariants. That a key is not installed over another state is asserted at each Take."""
        assert all(0 < lanes < self.distributors for lanes in self.taken.values()), (
            f"operator {self.operator}: a Take came too often"
        )
