"""The rules of the source document, where the protocol has corrected ones. The simulator must find that each of them fails.

Each variant breaks one rule alone and keeps the others. Where a machine asserts the corrected rule, the variant does as the document says
instead, so that it is the harm which is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from protocols.assignment import Reassignment
from protocols.damion import Distributor, Operator
from protocols.damion_messages import (
    Installed,
    Instruction,
    Part,
    Redistribute,
    Send,
    State,
)
from protocols.keys import NO_KEYS, Explicit, Keys
from tests.simulator.protocols.region import Rules


class SendsOnBeforeSets(Distributor):
    """D1: until SETS, records go to the old owner as before, though it lists its keys meanwhile."""

    def _place_before_sets(self, key: int) -> str | None:
        return self.assignment.owner(key)


@dataclass(frozen=True)
class RedistributeWithStates(Redistribute):
    states: Mapping[str, State]


class PassesStatesOn(Distributor):
    """D2: each distributor passes the states on to their new owners and sends what it holds behind them."""

    def _redistribute(self, message: Redistribute) -> list[Instruction]:
        assert isinstance(message, RedistributeWithStates)
        rule = self._rule(message)
        rule.hold = rule.hold.minus(message.given)
        return [*(Send(target, state) for target, state in message.states.items()), *super()._redistribute(message)]


class GivesStatesToDistributors(Operator):
    """D2: the states go to all distributors; and whoever gets one installs it and does not answer."""

    def _give(
        self, change: Reassignment, keys: Keys, parts: tuple[Part, ...], states: Mapping[int, object]
    ) -> list[Instruction]:
        following = self._next_batch(states)
        given = self._by_target(change, keys, parts)
        return [
            Send(name, RedistributeWithStates(change.number, self.instance, keys, following, given))
            for name in sorted(self.distributors)
        ]

    def _install(self, message: State, states: Mapping[int, object]) -> list[Instruction]:
        instructions = super()._install(message, {})
        return [each for each in instructions if not (isinstance(each, Send) and isinstance(each.message, Installed))]


class FirstAloneNames(Operator):
    """D3: the first operator answers SHUTDOWN with its own keys. Later ones give their remaining keys a turn at the end."""

    def _named_here(self, change: Reassignment, states: Mapping[int, object]) -> frozenset[int]:
        return super()._named_here(change, states) if self.position == 0 else frozenset()

    def _next_batch(self, states: Mapping[int, object]) -> Keys:
        if self.batches or self.position == 0:
            return super()._next_batch(states)
        assert self.reassignment is not None
        left = sorted(key for key in super()._named_here(self.reassignment, states) if not self.given.contains(key))
        return Explicit(frozenset(left[:1])) if left else NO_KEYS


class TakesAnyKey(Distributor):
    """D3: a key that no set had may be the following one."""

    def _redistribute(self, message: Redistribute) -> list[Instruction]:
        rule = self._rule(message)
        rule.whitelist = rule.whitelist.union(message.following)
        return super()._redistribute(message)


class ObeysAnySets(Distributor):
    """D4: once any old owner has sent its sets, a key that is in none of them goes to its new owner."""

    def _place_before_sets(self, key: int) -> str | None:
        if self.reassignment is not None and any(rule.has_sets for rule in self.rules.values()):
            return self.reassignment.new.owner(key)
        return super()._place_before_sets(key)


UNCORRECTED = {
    "D1": Rules(distributor=SendsOnBeforeSets),
    "D2": Rules(distributor=PassesStatesOn, operator=GivesStatesToDistributors),
    "D3": Rules(distributor=TakesAnyKey, operator=FirstAloneNames),
    "D4": Rules(distributor=ObeysAnySets),
}
