"""One seed of the protocol ICADD: workers, the delays between them, records, and changes of the number of workers.

Any channel that is not empty may deliver next. The seed gives each channel a pace, and now and then another one, so that some stand still while
others deliver hundreds of messages. Within a channel the order is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from protocols.icadd import Region
from protocols.icadd_messages import Reassignment
from protocols.icadd_operator import Operator
from tests.simulator.protocols_icadd.shell import Channel, Shell

WORKERS_MIN, WORKERS_MAX = 2, 5
LANES_MAX = 3
"""How many distributors, and how many operators, a worker has at most."""
CHANGES_MAX = 3
RECORDS_BEFORE_CHANGE = (10, 60)
"""How many records are created for each change: about what its messages need to pass each other in every way."""
COLLECTED_MAX = 3
PACES = (1.0, 0.1, 0.01, 0.001)
"""How likely a channel is to deliver, beside others. The last stands still as long as most others can go on."""
TURNS_OF_WEATHER = (0.03, 0.003)
"""How likely all paces are drawn again at a delivery. With the second, a channel can stand still from one change into the next."""
NEW_KEY, RECENT_KEY = 0.1, 0.8
"""How likely a record has a key that nobody has seen, or one of the latest. The others have any key that there is."""
KEYS_RECENT = 2
"""Most records are of few keys, because orders can only be wrong between records of one key."""
STEPS_MAX = 50_000
"""A run of the longest seeds has less than a tenth of this."""


@dataclass(frozen=True)
class Modulo:
    """A routing: `salt` makes different ones for the same workers."""

    workers: tuple[int, ...]
    salt: int

    def __call__(self, key: object) -> int:
        assert isinstance(key, int)
        return self.workers[(key + self.salt) % len(self.workers)]


class World:
    """`run` plays the seed with these machines. It raises AssertionError if a machine or the oracle objects."""

    def __init__(self, seed: int, region: type[Region] = Region, operator: type[Operator] = Operator) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.shell = Shell(self.random.randint(1, LANES_MAX), self.random.randint(1, LANES_MAX), region, operator)
        self.paces: dict[Channel, float] = {}
        self.turn_of_weather = self.random.choice(TURNS_OF_WEATHER)
        self.keys = 0
        self.workers = tuple(range(self.random.randint(WORKERS_MIN, WORKERS_MAX)))
        self.giving = set(self.workers)
        """The workers whose distributors get records."""
        self.route = Modulo(self.workers, self.random.randrange(WORKERS_MAX))
        for worker in self.workers:
            self.shell.add(worker, self.route)
        self.changes_left = self.random.randint(1, CHANGES_MAX)
        self.records_left = self.random.randint(*RECORDS_BEFORE_CHANGE)
        self.unstarted: dict[int, Reassignment] = {}
        self.in_change = False

    def run(self) -> None:
        """Goes on until nothing is left to do, and asks the oracle."""
        try:
            for _ in range(STEPS_MAX):
                doable = self._doable()
                if not doable:
                    break
                self.random.choices([act for act, _ in doable], [weight for _, weight in doable])[0]()
            else:
                raise AssertionError("end: the world does not become quiet")
            self.shell.finish(self.route)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), f"seed {self.seed}; before:", *self.shell.story])) from error

    def _doable(self) -> list[tuple[Callable[[], None], float]]:
        """All that can happen next, with its likeliness."""
        doable: list[tuple[Callable[[], None], float]] = []
        if self.shell.channels:
            doable.append((self._deliver, 6.0))
        if self.records_left:
            doable.append((self._create, 1.5))
        if self.unstarted:
            doable.append((self._start, 0.4))
        if any(node.region.whitelist for node in self.shell.nodes.values()):
            doable.append((self._collect, 0.6))
        if not self.unstarted and all(node.region.reassignment is None for node in self.shell.nodes.values()):
            if self.in_change:
                self.in_change = False
                self.giving = set(self.workers)
            if self.changes_left:
                doable.append((self._plan, 0.3))
        return doable

    def _plan(self) -> None:
        """A change of the number of workers. Those that join have new names."""
        self.changes_left -= 1
        self.in_change = True
        target = self.random.choice([n for n in range(WORKERS_MIN, WORKERS_MAX + 1) if n != len(self.workers)])
        self.shell.happened["scale-out" if target > len(self.workers) else "scale-in"] += 1
        stay = sorted(self.random.sample(self.workers, min(target, len(self.workers))))
        known = len(self.shell.nodes)
        born = range(known, known + target - len(stay))
        version = self.shell.nodes[stay[0]].region.settled
        for worker in born:
            self.shell.add(worker, self.route, version)
        old, self.workers = self.workers, (*stay, *born)
        self.route = Modulo(self.workers, self.random.randrange(WORKERS_MAX))
        members = frozenset(old) | frozenset(self.workers)
        self.giving = set(members)
        self.unstarted = dict.fromkeys(sorted(members), Reassignment(self.route, frozenset(old), members))
        self.records_left += self.random.randint(*RECORDS_BEFORE_CHANGE)
        self.shell.story.append(f"change from {old} to {self.workers}")

    def _start(self) -> None:
        worker = self.random.choice(list(self.unstarted))
        self.shell.start(worker, self.unstarted.pop(worker))

    def _collect(self) -> None:
        worker = self.random.choice([worker for worker, node in self.shell.nodes.items() if node.region.whitelist])
        self.shell.collect(worker, self.random.randint(1, COLLECTED_MAX))

    def _create(self) -> None:
        self.records_left -= 1
        self.shell.create(
            self.random.choice(sorted(self.giving)), self.random.randrange(self.shell.distributors), self._key()
        )

    def _key(self) -> int:
        chance = self.random.random()
        if self.keys == 0 or chance < NEW_KEY:
            self.keys += 1
            return self.keys - 1
        first = max(0, self.keys - KEYS_RECENT) if chance < NEW_KEY + RECENT_KEY else 0
        return self.random.randrange(first, self.keys)

    def _deliver(self) -> None:
        if self.random.random() < self.turn_of_weather:
            self.paces.clear()
        self.shell.deliver(self._choose(list(self.shell.channels)))

    def _choose(self, channels: Sequence[Channel]) -> Channel:
        for channel in channels:
            if channel not in self.paces:
                self.paces[channel] = self.random.choice(PACES)
        return self.random.choices(channels, [self.paces[channel] for channel in channels])[0]


def first_failure(
    seeds: Iterable[int], word: str, region: type[Region] = Region, operator: type[Operator] = Operator
) -> tuple[int, str] | None:
    """The first seed whose assertion begins with `word`, and its text; None if there is none."""
    for seed in seeds:
        try:
            World(seed, region, operator).run()
        except AssertionError as error:
            if str(error).startswith(f"{word}: "):
                return seed, str(error)
    return None
