"""What is known in the present phase of a transition, as values (base/machine.py). Which phase that is says the step log.

    NothingKnown -looking-> Looking -looked-> Looked -measured-> Measured     while new nodes are filled
    NothingKnown -cleared-> Cleared                                           while tables are removed

With each turn, and with the switch, nothing is known again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class NothingKnown:
    def looking(self) -> Looking:
        """The topics of the next project are looked at, beside the steps."""
        return Looking()

    def cleared(self, is_done: bool) -> NothingKnown | Cleared:
        """Some tables were removed. `is_done`: the workers have nothing left to clear."""
        return Cleared() if is_done else self


@dataclass(frozen=True)
class Looking:
    def looked(self) -> Looked:
        """That is over."""
        return Looked()


@dataclass(frozen=True)
class Looked:
    def measured(self, holds: Sequence[str]) -> Measured:
        """The workers have told how large the differences are."""
        return Measured(tuple(holds))


@dataclass(frozen=True)
class Measured:
    """`holds`: why the switch has to wait, for people; empty if nothing stands in its way."""

    holds: tuple[str, ...]


@dataclass(frozen=True)
class Cleared:
    """The workers have nothing left to clear."""


Known = NothingKnown | Looking | Looked | Measured | Cleared
