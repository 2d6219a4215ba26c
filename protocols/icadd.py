"""The protocol ICADD moves the keys of a region to other workers one by one, while records flow. Its machines have no I/O, clock or randomness.

The name stands for interrogate, collect, acquire, drop, done. The source is the document `icadd.txt`; its corrected rules are below.
A **region** is a group of operators that are placed by the same key, with the distributors in front of them. Every worker has one `Region`,
which all its distributors share, and one `Operator` (icadd_operator.py) for each operator. A change leads from the routing F to the routing F'.
Both are functions from a key to a worker, and nobody knows all keys.

The protocol guarantees this, at any delays:

- Each operator processes each record once, and processes the records of a key from one origin in the order in which the origin gave them.
- A record of a key is processed where the whole state of the key is.
- When all regions are settled, each key's state is on the worker that F' names, and nowhere else.

The shell provides a FIFO channel from each worker to each other, a FIFO lane from each distributor to each operator of its worker, and a FIFO
channel from each operator back to its region. It carries out all instructions of a call, in their order, before the next call of that machine.
It starts a change on all members, at any moments, and only when every region has settled the change before. Names of workers are never reused.

    SETTLED -start-> INTERROGATE -all lanes answered-> COLLECT -all given, all markers-> DONE -all old workers closed-> SETTLED

- **SETTLED** and **INTERROGATE** route by F. In INTERROGATE the operators tell their keys. The region lists each key that must leave: those
  that it is told, and those that it passes down meanwhile.
- **COLLECT** begins with a marker to every member: whatever follows it is routed by F'. A listed key stays here until `collect` chooses it.
  Then its records are held, its state is collected and sent to F'(key), the held records follow, and the operators drop their copy.
- A record whose key should be here by F', and is not known to have arrived, makes a **detour** by F(key). If that worker has the key, it
  processes the record. Otherwise it returns it, behind the state if there was one. So a record from F(key) can be processed.
- **DONE**: this worker has nothing more to give. It waits for the others.

The corrected rules follow, each with the schedule that forced it. A and B are the new and the old owner of a key K, and C is a third worker:

- **Echo** (I1). A sends r1 on its detour to B. B says Done and then returns r1. A must not process r2 before. So A answers Done with a probe,
  holds what it would send on a detour to B, and goes on when B echoes the probe.
- **Listing** (I2). A is in COLLECT and sends a record of a new K to B, whose operators have answered. B takes it because of its version. So
  it must list K, or the state of K stays at B.
- **Marker** (I3). C sends r1 to B by F, enters COLLECT, and sends r2 to A by F', which sends it on its detour. B gets r2 before r1. So B holds
  a detoured record until it has the marker of the record's origin, in whatever phase B is. It may neither return nor process it.
- **Done after the markers.** C sends r1 to B by F, and r2 to A by F'. If B says Done before r1 arrives, A processes r2 before r1. So B says
  Done only when it has every member's marker.
- **Versions of the old owner only.** C is in COLLECT and sends a record of K to A, which still routes by F. The document says that A takes
  every record of a higher version, but the state of K is at B. So A takes it only from F(K), and sends other records to F(K).
- **Origin's version.** A worker that forwards a record keeps its version if that is higher than its own, or B could not tell a detoured record
  of the next change from a late one of the last change.
- **Drop before Done.** An operator behind several distributors gets Forget on several lanes. The last could arrive after the next change has
  brought the key back. So a worker says Done only when all have arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from typing import assert_never

from protocols.icadd_messages import (
    Acquire,
    Answer,
    Collect,
    Done,
    Dropped,
    Echo,
    Forget,
    Hold,
    Interrogate,
    Key,
    KeysOf,
    Lane,
    Marker,
    Origin,
    PeerMessage,
    Probe,
    Process,
    Reassignment,
    Record,
    RegionInstruction,
    Release,
    Route,
    Routed,
    Send,
    StateOf,
    Take,
    Tell,
    Worker,
)

KEYS_HELD_MAX = 64
"""How many keys a region collects at once while records flow. Their records wait, so more keys mean more memory and longer waiting, and no less
work."""

STORY_EVENTS_MAX = 16
"""How many past inputs the text of an assertion lists. The move of one key has about eight."""


class Phase(Enum):
    """The diagram above shows how the phases follow each other."""

    SETTLED = "settled"
    INTERROGATE = "interrogate"
    COLLECT = "collect"
    DONE = "done"


@dataclass
class Collection:
    """The state of a key is being collected. `missing` are the lanes on which Collect has not been answered. `states` are the parts that have
    come, by operator. `records` are those that wait."""

    missing: set[Lane]
    states: dict[int, object] = field(default_factory=dict)
    records: deque[Routed] = field(default_factory=deque)

    def add_state(self, lane: Lane, state: object | None) -> None:
        """A later answer of an operator is about more records than its earlier one, so it overwrites it."""
        assert lane in self.missing, f"Collect is answered twice on {lane}"
        self.missing.discard(lane)
        if state is not None:
            self.states[lane.operator] = state


@dataclass
class Region:
    """This is what the distributors of one worker know. `route` is F, and `settled` its version; `version` is settled + 1 from COLLECT on.

    `held_max` bounds the keys that are collected at once. `whitelist` are the keys that are here and must leave; it is a dict for its order.
    `hold` are those that are being collected. `given` are those that this change has sent away. `markers` are the workers whose marker has come,
    `finished` those whose Done has come, and `closed` those whose echo has come too. `early` holds detoured records by the origin whose marker
    they wait for; `unechoed` holds records by the old owner whose echo they wait for. `check` states the invariants."""

    me: Worker
    lanes: frozenset[Lane]
    route: Route
    settled: int = 0
    held_max: int = KEYS_HELD_MAX
    version: int = field(init=False)
    phase: Phase = Phase.SETTLED
    reassignment: Reassignment | None = None
    unanswered: set[Lane] = field(default_factory=set)
    whitelist: dict[Key, None] = field(default_factory=dict)
    hold: dict[Key, Collection] = field(default_factory=dict)
    undropped: dict[Key, set[Lane]] = field(default_factory=dict)
    given: set[Key] = field(default_factory=set)
    markers: set[Worker] = field(default_factory=set)
    finished: set[Worker] = field(default_factory=set)
    closed: set[Worker] = field(default_factory=set)
    early: dict[Worker, deque[Routed]] = field(default_factory=dict)
    unechoed: dict[Worker, deque[Routed]] = field(default_factory=dict)
    latest: dict[tuple[Origin, Key], int] = field(default_factory=dict, repr=False)
    story: deque[object] = field(default_factory=lambda: deque(maxlen=STORY_EVENTS_MAX), repr=False)
    _out: list[RegionInstruction] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        self.version = self.settled

    # Inputs

    def start(self, reassignment: Reassignment) -> list[RegionInstruction]:
        """Begins a change. Every member must be started, and every region must have settled the change before."""
        assert self.phase is Phase.SETTLED, self._with_story("a change is started before the last one is settled")
        assert self.me in reassignment.members >= reassignment.old, self._with_story(
            "a change does not list its members"
        )
        self.story.append("start")
        self.phase, self.reassignment = Phase.INTERROGATE, reassignment
        self.unanswered = set(self.lanes)
        self._out.append(Tell(Interrogate()))
        return self._instructions()

    def offer(self, record: Record) -> list[RegionInstruction]:
        """A record enters the region at one of this worker's distributors."""
        assert record.origin.worker == self.me, f"{record} is offered to worker {self.me}"
        self.story.append(record)
        self._route(Routed(record, self.version), None)
        return self._instructions()

    def receive(self, sender: Worker, message: PeerMessage) -> list[RegionInstruction]:
        """A message has come from the region on another worker."""
        self.story.append((sender, message))
        match message:
            case Routed():
                self._route(message, sender)
            case Marker():
                assert message.version == self.settled + 1, self._with_story("a marker of another change")
                self.markers.add(sender)
                self._release(self.early.pop(sender, ()))
            case Acquire():
                assert message.key not in self.given, self._with_story(
                    "a key comes back in the change that took it away"
                )
                self._out.append(Tell(Take(message)))
            case Done():
                self._on_done(sender)
            case Probe():
                self._out.append(Send(sender, Echo(message.version)))
            case Echo():
                self.closed.add(sender)
                self._release(self.unechoed.pop(sender, ()))
            case _:
                assert_never(message)
        return self._instructions()

    def answered(self, answer: Answer) -> list[RegionInstruction]:
        """An operator of this worker has processed a word that was told."""
        self.story.append(answer)
        match answer:
            case KeysOf():
                self.unanswered.remove(answer.lane)
                self.add_keys(answer.keys)
            case StateOf():
                collection = self.hold[answer.key]
                collection.add_state(answer.lane, answer.state)
                if not collection.missing:
                    self._give(answer.key)
            case Dropped():
                self.undropped[answer.key].remove(answer.lane)
                if not self.undropped[answer.key]:
                    del self.undropped[answer.key]
            case _:
                assert_never(answer)
        return self._instructions()

    def collect(self, keys_max: int) -> list[RegionInstruction]:
        """Begins to collect up to `keys_max` more keys, in the order of their listing. Does nothing outside COLLECT."""
        if self.phase is Phase.COLLECT:
            room = max(0, min(keys_max, self.held_max - len(self.hold)))
            for key in tuple(islice(self.whitelist, room)):
                self.story.append(("collect", key))
                del self.whitelist[key]
                self.hold[key] = self._collection()
                self._out.append(Tell(Collect(key)))
        return self._instructions()

    def _collection(self) -> Collection:
        return Collection(set(self.lanes))

    def add_keys(self, keys: Iterable[Key]) -> None:
        """Lists the keys that are here and must leave. Lists of several lanes and operators unite. A key that stays need not be listed."""
        self.whitelist.update(dict.fromkeys(key for key in keys if self._new_owner(key) != self.me))

    # Routing

    def _route(self, routed: Routed, sender: Worker | None) -> None:
        """`sender` is None for a record that was offered, or held here."""
        if self._awaits_marker(routed, sender):
            self._hold_in(self.early.setdefault(routed.record.origin.worker, deque()), routed)
        elif self.phase in (Phase.SETTLED, Phase.INTERROGATE):
            self._route_by_old(routed, sender)
        else:
            self._route_by_new(routed, sender)

    def _route_by_old(self, routed: Routed, sender: Worker | None) -> None:
        owner = self.route(routed.record.key)
        if owner == self.me or self._must_take(routed, sender):
            if self.phase is Phase.INTERROGATE:
                self._list(routed)
            self._process(routed.record)
        else:
            self._forward(owner, routed)

    def _route_by_new(self, routed: Routed, sender: Worker | None) -> None:
        key = routed.record.key
        old, new = self.route(key), self._new_owner(key)
        if new != self.me:
            if key in self.whitelist:
                self._process(routed.record)
            elif key in self.hold:
                self._hold_in(self.hold[key].records, routed)
            else:
                self._forward(new, routed)
        elif old == self.me or old == sender or old in self.closed:
            self._process(routed.record)
        elif self._awaits_echo(old):
            self._hold_in(self.unechoed.setdefault(old, deque()), routed)
        else:
            self._forward(old, routed)

    def _awaits_marker(self, routed: Routed, sender: Worker | None) -> bool:
        """Tells whether older records of the same origin may still be on their way here by F. Only a record that came through another worker can
        overtake them. A record whose version is settled here is a late detour of the last change, for which all markers came."""
        origin = routed.record.origin.worker
        detoured = sender is not None and sender != origin and self.route(routed.record.key) == self.me
        return detoured and routed.version > self.settled and origin not in self.markers

    def _must_take(self, routed: Routed, sender: Worker | None) -> bool:
        """Tells whether the old owner has sent the record because it has given the key away, or never had it. The old owner knows F', and this
        worker does not use it yet."""
        return routed.version > self.version and sender == self.route(routed.record.key)

    def _awaits_echo(self, old: Worker) -> bool:
        return old in self.finished

    def _list(self, routed: Routed) -> None:
        """The operators may have answered already, so each key that is passed down is listed here."""
        self.add_keys((routed.record.key,))

    def _process(self, record: Record) -> None:
        assert record.key not in self.given, self._with_story(f"{record} is processed where its key has left")
        if self.reassignment is not None:
            last = self.latest.get((record.origin, record.key), -1)
            assert record.serial > last, self._with_story(f"{record} is processed behind serial {last} of its origin")
            self.latest[record.origin, record.key] = record.serial
        self._out.append(Process(record))

    def _forward(self, to: Worker, routed: Routed) -> None:
        self._out.append(Send(to, replace(routed, version=max(routed.version, self.version))))

    def _hold_in(self, queue: deque[Routed], routed: Routed) -> None:
        queue.append(routed)
        self._out.append(Hold(routed.record))

    def _release(self, queue: Iterable[Routed]) -> None:
        """What the records waited for has come. They are routed again, because the phase may have changed since."""
        for routed in queue:
            self._out.append(Release(routed.record))
            self._route(routed, None)

    # Phases

    def _instructions(self) -> list[RegionInstruction]:
        self._advance()
        out, self._out = self._out, []
        return out

    def _advance(self) -> None:
        """Enters each phase whose condition holds."""
        if self.reassignment is not None:
            if self.phase is Phase.INTERROGATE and not self.unanswered:
                self._enter_collect(self.reassignment)
            if self.phase is Phase.COLLECT and self._has_given_all() and self._has_all_markers(self.reassignment):
                self._enter_done(self.reassignment)
            if self.phase is Phase.DONE and self.closed >= self.reassignment.old:
                self._settle(self.reassignment)

    def _enter_collect(self, reassignment: Reassignment) -> None:
        self.phase, self.version = Phase.COLLECT, self.settled + 1
        self.markers.add(self.me)
        self._out.extend(Send(member, Marker(self.version)) for member in sorted(reassignment.members - {self.me}))

    def _give(self, key: Key) -> None:
        """All operators have told their last state of the key. The state goes first, and the records that waited follow it."""
        collection, to = self.hold.pop(key), self._new_owner(key)
        self._out.append(Send(to, Acquire(self.version, key, tuple(sorted(collection.states.items())))))
        for routed in collection.records:
            self._out.append(Release(routed.record))
            self._forward(to, routed)
        self.given.add(key)
        self.undropped[key] = set(self.lanes)
        self._out.append(Tell(Forget(key)))

    def _has_given_all(self) -> bool:
        return not self.whitelist and not self.hold and not self.undropped

    def _has_all_markers(self, reassignment: Reassignment) -> bool:
        return self.markers >= reassignment.members

    def _enter_done(self, reassignment: Reassignment) -> None:
        self.phase = Phase.DONE
        if self.me in reassignment.old:
            self.finished.add(self.me)
            self.closed.add(self.me)
            self._out.extend(Send(member, Done(self.version)) for member in sorted(reassignment.members - {self.me}))

    def _on_done(self, sender: Worker) -> None:
        self.finished.add(sender)
        self._out.append(Send(sender, Probe(self.version)))

    def _settle(self, reassignment: Reassignment) -> None:
        """From here on F' is the only routing. Nothing is known of single keys any more."""
        self.phase, self.reassignment = Phase.SETTLED, None
        self.route, self.settled = reassignment.route, self.version
        for forgotten in (self.given, self.markers, self.finished, self.closed):
            forgotten.clear()
        self.latest.clear()

    def _new_owner(self, key: Key) -> Worker:
        assert self.reassignment is not None, self._with_story("F' is asked for outside a change")
        return self.reassignment.route(key)

    def _with_story(self, mistake: str) -> str:
        return f"worker {self.me}: {mistake}; before: {' > '.join(map(str, self.story))}"

    def check(self) -> None:
        """Asserts the invariants. That a key's records keep their order, and are processed where its state is, is asserted at each record."""
        assert (self.reassignment is None) == (self.phase is Phase.SETTLED), self._with_story(
            "a change without a phase"
        )
        places = (self.whitelist.keys(), self.hold.keys(), self.given)
        assert sum(map(len, places)) == len(set().union(*places)), self._with_story("a key is in two places")
        assert self.undropped.keys() <= self.given, self._with_story("a key is dropped that was not given away")
        assert all(self._new_owner(key) != self.me for key in {*self.whitelist, *self.hold}), self._with_story(
            "a key leaves that stays"
        )
        assert len(self.hold) <= self.held_max, self._with_story("too many keys are held")
        assert not self.early.keys() & self.markers, self._with_story("records wait for a marker that has come")
        assert self.unechoed.keys() <= self.finished - self.closed, self._with_story(
            "records wait for an echo that nobody sends"
        )
        match self.phase:
            case Phase.SETTLED:
                idle = not (self.whitelist or self.hold or self.given or self.unechoed)
                assert idle and self.version == self.settled, self._with_story(
                    "a settled region has something of a change"
                )
            case Phase.INTERROGATE:
                assert not self.hold and self.version == self.settled, self._with_story(
                    "keys leave before all are known"
                )
            case Phase.COLLECT:
                assert not self.unanswered and self.version == self.settled + 1, self._with_story(
                    "operators have not answered"
                )
            case Phase.DONE:
                assert self._has_given_all() and not self.early, self._with_story("a region is done too early")
            case _:
                assert_never(self.phase)
