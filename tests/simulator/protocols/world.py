"""One seed: a world of one or two regions, whose channels deliver whenever the seed says.

A channel keeps its order. Which of the channels goes on next is drawn by weights that the seed gives them, so some are far slower than others.
Records come as Input at the distributors of the first region, with keys that are new or known. If there is a second region, each instance of
the first has a distributor of it. Both regions change between sets of instances while records flow.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from protocols.assignment import Assignment, Naming, Reassignment
from protocols.damion_messages import Begin, Input, Message
from protocols.keys import HASH_END
from tests.simulator.protocols.oracle import Oracle, Slot
from tests.simulator.protocols.region import DistributorShell, OperatorShell, Rules, Shell

OUTSIDE = "outside"
DISTRIBUTORS_MAX = 3
INSTANCES_MAX = 5
CHAIN_MAX = 3
REGIONS_MAX = 2
CHANGES_MAX = 4
RECORDS_MAX = 60
KEYS_PER_BATCH_MAX = 3
RANGES_MAX = 8
SPEEDS = (1.0, 1.0, 0.2, 0.02)
"""A channel's weight, when the next one that delivers is drawn."""
NEW_KEY_CHANCES = (0.1, 0.3, 0.7)
DELIVERIES_MAX = 50_000
"""No world comes near it. A protocol that goes round in circles does."""
STORY_LINES_SHOWN = 30


@dataclass
class Region:
    """`changes`: all that will come. `begun`: how many have begun."""

    number: int
    assignment: Assignment
    distributors: list[DistributorShell]
    instances: dict[str, list[OperatorShell]]
    changes: tuple[Reassignment, ...]
    begun: int = 0

    def is_quiet(self) -> bool:
        """Whether all that has begun has ended at every distributor."""
        return all(d.machine.reassignment is None and d.machine.reassignments == self.begun for d in self.distributors)

    def has_ended(self) -> bool:
        return self.is_quiet() and self.begun == len(self.changes)


@dataclass
class World:
    """`waiting`: messages by channel; only channels that have some. `story`: every delivery. `seen`: what befell the world, so that a test
    can tell whether the worlds are dull."""

    seed: int
    rules: Rules = field(default_factory=Rules)
    waiting: dict[tuple[str, str], deque[Message]] = field(default_factory=dict)
    story: list[tuple[str, str, Message]] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.speeds: dict[tuple[str, str], float] = {}
        self.keys: list[int] = []
        self.regions: list[Region] = []
        self.shells: dict[str, Shell] = {}
        lengths = [self.dice.randint(1, CHAIN_MAX) for _ in range(self.dice.randint(1, REGIONS_MAX))]
        self.oracle = Oracle(tuple(lengths))
        names = [f"x{n}" for n in range(self.dice.randint(1, DISTRIBUTORS_MAX))]
        for number, length in enumerate(lengths):
            region = self._region(number, names, length, is_last=number + 1 == len(lengths))
            self.regions.append(region)
            names = [_distributor_at(instance) for instance in region.instances]
        self.records = self.dice.randint(10, RECORDS_MAX)
        self.new_key_chance = self.dice.choice(NEW_KEY_CHANCES)

    def _region(self, number: int, origins: list[str], length: int, *, is_last: bool) -> Region:
        names = ["abcde"[i] + str(number) for i in range(self.dice.randint(2, INSTANCES_MAX))]
        assignments = list(self._assignments(names))
        naming = self.dice.choice(list(Naming))
        size = self.dice.randint(1, KEYS_PER_BATCH_MAX)
        changes = tuple(
            Reassignment(at, old, new, naming, size) for at, (old, new) in enumerate(pairwise(assignments), 1)
        )
        distributors = [
            DistributorShell(self.rules.distributor(name, assignments[0]), number, self.post, self.oracle)
            for name in origins
        ]
        instances = {name: self._chain(number, name, length, frozenset(origins), is_last=is_last) for name in names}
        self.shells |= {shell.machine.name: shell for shell in distributors}
        self.shells |= {shell.machine.name: shell for chain in instances.values() for shell in chain}
        return Region(number, assignments[0], distributors, instances, changes)

    def _chain(
        self, region: int, name: str, length: int, origins: frozenset[str], *, is_last: bool
    ) -> list[OperatorShell]:
        names = [name, *(f"{name}/{position}" for position in range(1, length))]
        shells: list[OperatorShell] = []
        for position, each in enumerate(names):
            following = names[position + 1] if position + 1 < length else None
            machine = self.rules.operator(each, name, position, following, origins)
            output = None if is_last else _distributor_at(name)
            shells.append(OperatorShell(machine, region, self.post, self.oracle, output))
        return shells

    def _assignments(self, names: list[str]) -> Iterator[Assignment]:
        """The first, and one for each change: an instance more or some, or fewer, or the same ones with other ranges."""
        members = self.dice.sample(names, self.dice.randint(1, len(names)))
        yield self._assignment(members)
        for _ in range(self.dice.randint(1, CHANGES_MAX)):
            others = [name for name in names if name not in members]
            direction = self.dice.choice(("out", "in", "turn"))
            if direction == "out" and others:
                members = members + self.dice.sample(others, self.dice.randint(1, len(others)))
            elif direction == "in" and len(members) > 1:
                members = self.dice.sample(members, self.dice.randint(1, len(members) - 1))
            yield self._assignment(members)

    def _assignment(self, members: list[str]) -> Assignment:
        count = self.dice.randint(len(members), RANGES_MAX)
        starts = (0, *sorted(self.dice.randrange(1, HASH_END) for _ in range(count - 1)))
        owners = members + self.dice.choices(members, k=count - len(members))
        return Assignment(starts, tuple(self.dice.sample(owners, count)))

    def post(self, sender: str, to: str, message: Message) -> None:
        self.waiting.setdefault((sender, to), deque()).append(message)

    def run(self) -> None:
        """Until nothing moves any more. Raises AssertionError, by the oracle or by a machine."""
        while self._happens():
            assert len(self.story) < DELIVERIES_MAX, "the world does not come to rest"
        for region in self.regions:
            assert region.has_ended(), f"stuck: a change of region {region.number} does not end"
        self.oracle.ends(lambda region, key: self.regions[region].assignment.owner(key), self._states())

    def _happens(self) -> bool:
        """One event: a delivery, a new record, or a change that begins. False if there is none."""
        ready = [region for region in self.regions if region.is_quiet() and not region.has_ended()]
        channels = list(self.waiting)
        weights = [self._speed(channel) for channel in channels]
        weights += [1.0 if self.records else 0.0, 0.1 if ready else 0.0]
        total = list(accumulate(weights))
        if total[-1] == 0:
            return False
        drawn = self.dice.choices(range(len(weights)), cum_weights=total)[0]
        if drawn < len(channels):
            self._deliver(channels[drawn])
        elif drawn == len(channels):
            self._new_record()
        else:
            self._begin(self.dice.choice(ready))
        return True

    def _speed(self, channel: tuple[str, str]) -> float:
        if channel not in self.speeds:
            self.speeds[channel] = self.dice.choice(SPEEDS)
        return self.speeds[channel]

    def _deliver(self, channel: tuple[str, str]) -> None:
        message = self.waiting[channel].popleft()
        if not self.waiting[channel]:
            del self.waiting[channel]
        sender, to = channel
        self.story.append((sender, to, message))
        self.seen[type(message).__name__] += 1
        self.shells[to].deliver(sender, message)

    def _new_record(self) -> None:
        self.records -= 1
        if not self.keys or self.dice.random() < self.new_key_chance:
            self.keys.append(self.dice.randrange(HASH_END))
            self.seen["a new key during a change"] += not self.regions[0].is_quiet()
        recent = self.keys[-3:] if self.dice.random() < 0.5 else self.keys
        to = self.dice.choice(self.regions[0].distributors).machine.name
        self.post(OUTSIDE, to, Input(self.dice.choice(recent), self.records))

    def _begin(self, region: Region) -> None:
        change = region.changes[region.begun]
        region.begun, region.assignment = change.number, change.new
        before, after = len(set(change.old.owners)), len(set(change.new.owners))
        self.seen["out" if before < after else "in" if before > after else "turn"] += 1
        self.seen[change.naming.value] += 1
        self.seen["several old owners"] += len(change.givers()) > 1
        for distributor in region.distributors:
            self.post(OUTSIDE + " begins", distributor.machine.name, Begin(change))

    def _states(self) -> dict[Slot, list[tuple[str, int]]]:
        found: dict[Slot, list[tuple[str, int]]] = {}
        for region in self.regions:
            for instance, chain in region.instances.items():
                for shell in chain:
                    for key, state in shell.states.items():
                        slot = (region.number, shell.machine.position, key)
                        found.setdefault(slot, []).append((instance, state))
        return found

    def told(self) -> str:
        """The last deliveries, for whoever looks for the cause of a failure."""
        shown = self.story[-STORY_LINES_SHOWN:]
        return "\n".join(
            [
                f"seed {self.seed}, {len(self.story)} deliveries; the last ones:",
                *(f"{s} -> {t}: {m}" for s, t, m in shown),
            ]
        )


def _distributor_at(instance: str) -> str:
    """The distributor of the next region, at an instance of this one."""
    return f"x at {instance}"


@dataclass(frozen=True)
class Failure:
    """`text`: what the oracle or a machine says of this world."""

    world: World
    text: str


def failure_of(world: World) -> Failure | None:
    """Runs the world. None if all is well."""
    try:
        world.run()
    except AssertionError as error:
        return Failure(world, str(error))
    return None
