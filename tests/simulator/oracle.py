"""What must hold in a world, said again in plain Python over what a broker and a disk hold. It shares no code with what it judges.

At every commit of the broker: whose it is, and that its records follow: epochs grow; a division follows the one before, without a gap and not
beyond the last stable offset; a step's output is the batch answer's difference, all of it, in canonical order, in the transaction of its
record, after its division; when a checkpoint is intended, no step is under way. At every commit of a database: its term; that no version holds a
step that is not written, and the state no step that is not divided; that each version and the state are the batch answer's, with the undo log to
the version before, for the slots that the database says it owns; that every owner of some slots has a version in which they all are. The owners
of a checkpoint cover all slots once, and its databases say the same. A change that nothing disturbs moves each slot once, and no other slot than
its plan. At the end: all committed input is in the output; and no copy and no folder is left of a change that is settled.

What a step writes is the difference between what the outputs hold and what the project in force in that step says. So the step of a switch
writes what differs between two projects, and nothing of the next one is written before. What is read again for new nodes follows without a gap
from where the transition says, never beyond what the project in force has read, and is level with it at the switch. From then on, a topic that
only the next project reads goes on where it was read up to. When a transition is settled, the last checkpoint has no table of a node that the
project in force lacks.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from io_kafka.step_log.plans import text_in
from storage.keys import key_slot
from tests.simulator.broker import Broker, Entry, Transaction, Where
from tests.simulator.circuit import (
    AGGREGATE_NUMBER,
    GROUPS,
    INPUT,
    OTHER,
    PARTITIONS,
    ROWS,
    STATE_TABLE,
    SUMS,
    TALLIES,
    TALLIES_AT,
    WRONG,
    Project,
    message_of,
    row_of,
    slot,
    spread,
    state_key,
    state_value,
)
from tests.simulator.disk import Disk, Environment, Records
from tests.simulator.oracle_of_store import StoreOracle
from tests.simulator.scheduler import Process

LOG, PLANS = "stepwell.p.steps", "stepwell.p.plans"
COMMITTED = "committed"
_DESCRIPTION, _RECORDS, _UNDO, _STATE = b"m", b"r", b"u", STATE_TABLE.to_bytes(2)
_OWNED, _STAGED = b"\xff\xffowned", b"\xff\xffstaged"
_SLOTS = 1 << 16
_ATTEMPTS = 1 << 20
_STEP = b"\xff\xffstep"
_TRAILER_BYTES, _TOMBSTONE_BYTES, _LENGTH_BYTES = 8, 4, 8

Sums = dict[str, tuple[int, int]]
Version = tuple[int, int, str]
Place = tuple[str, ...]
Owners = dict[int, tuple[str, list[tuple[int, int]]]]
"""By the worker's number: its birth, and the ranges of its slots. Of those that own some."""
View = dict[bytes, bytes]
Messages = dict[Where, list[tuple[bytes | None, bytes | None]]]


@dataclass(frozen=True)
class Description:
    """What the oracle wants to know of a database."""

    term: tuple[int, int]
    versions: tuple[Version, ...]
    layers: int
    """Counts openings, freezes and fences."""
    opened: int
    """What `layers` was at the last opening."""
    working: str | None
    frozen: str | None
    freezing: Version | None
    worker: int
    database: str
    birth: str
    boot: str
    merging: bool
    """A fold has merged a part of the frozen layer."""


class Revisions:
    """What the log says of projects. `phase`: of the transition under way. `numbers`: of the nodes of the project in force. `whole`: the
    position at which a transition has filled everything. `starts`: from where it reads partitions again, and those of them that the project in
    force reads too are `live`."""

    def __init__(self) -> None:
        self.in_force: Project | None = None
        self.numbers: frozenset[int] = frozenset()
        self.phase: str | None = None
        self.is_held = self.is_paused = False
        """Whether the last switch was taken back, and whether a user has paused the transition."""
        self.turns = self.forced = 0
        """How often the transition under way went another way, in all, and how often another project came into force."""
        self.whole = self.since = 0
        self.starts: dict[Where, int] = {}
        self.live: set[Where] = set()
        self._texts: dict[str, str] = {}
        self._projects: dict[str, tuple[Project, list[int]]] = {}
        self._present = self._coming = ""
        self._switch: int | None = None
        self.drain: int | None = None
        """The position at which everything that differs has left, if that takes several steps, until it has."""
        self.drains_from = 0
        """The first of these steps."""
        self.former: Project | None = None
        """The project before the one in force, until everything that differs has left."""

    def know(self, digest: str, text: str | None) -> None:
        """The document of a name that a record has, as it was committed with the record or before it."""
        assert text is not None, "a record without its plan document"
        self._texts[digest] = text

    @property
    def waits(self) -> bool:
        """Whether nothing goes on until somebody asks for it."""
        return self.phase == "detached" or (self.phase == "filling" and (self.is_held or self.is_paused))

    def _force(self, digest: str) -> None:
        self._present = digest
        self.forced += 1
        self.in_force, numbers = self._project(digest)
        self.numbers = frozenset(numbers)

    def _project(self, digest: str) -> tuple[Project, list[int]]:
        """With the numbers of its nodes."""
        if digest not in self._projects:
            plain = json.loads(self._texts[digest])
            self._projects[digest] = Project.of(plain["circuit"]), plain["numbers"]
        return self._projects[digest]

    def begin(self, record: Mapping[str, Any]) -> None:
        self._force(record["plan"])

    def intend(self, record: Mapping[str, Any]) -> None:
        self.phase, self.whole, self._coming = "filling", record["whole"], record["plan"]
        self.is_held = self.is_paused = False
        self.starts = {(part["topic"], part["partition"]): part["start"] for part in record["again"]}
        self.live = {(part["topic"], part["partition"]) for part in record["again"] if part["is_live"]}

    def switch(self, record: Mapping[str, Any]) -> None:
        step, drain = record["step"], record.get("drain")
        self.phase, self._switch = "switching", step
        self.drain, self.drains_from = None if drain is None else drain["whole"], step
        self.former = self.in_force

    def is_switched(self, step: int) -> bool:
        """Whether a step that is not written is one of the next project."""
        return self._switch is not None and step >= self._switch

    def turn(self, reason: str) -> bool:
        """Returns whether the division of the switch's step is void."""
        is_switch, self._switch, self.drain = self.phase == "switching", None, None
        possible = {
            "abort": ("filling", "detached", "switching"), "detached": ("filling",), "taken_back": ("switching",), "resume": ("detached",)
        }  # fmt: skip
        assert self.phase in possible[reason], f"{reason} while the transition is {self.phase}"
        self.phase = {"abort": "clearing", "detached": "detached"}.get(reason, "filling")
        self.is_held, self.is_paused = reason == "taken_back", False
        self.turns += 1
        self.since = 0
        return is_switch

    def at(self, step: int) -> Project:
        """The project of a step whose output is being written."""
        assert self._switch in (None, step) and self.in_force is not None
        return self._project(self._coming)[0] if self._switch == step else self.in_force

    def tallies(self, step: int) -> frozenset[int]:
        """The numbers of the nodes of the view of tallies in a step that is not written."""
        if self.in_force is None:
            return frozenset()
        digest = self._coming if self.is_switched(step) else self._present
        return frozenset(self._project(digest)[1][TALLIES_AT:])

    def written(self, step: int, drained: int | None) -> None:
        """`drained`: up to where what differs has left, as the division of the step says."""
        if self._switch == step:
            self._force(self._coming)
            self.phase, self._switch = "draining", None
        if self.phase == "draining" and drained == self.drain:
            self.phase, self.since, self.drain = "clearing", step + 1, None


class Oracle:
    """`sums[s]`: the view after the steps below s. `fenced`: the term that a database was fenced with last, by its place. `reported`: the
    hosts of the databases that the candidates of a term have told of, by number. `opened`: where a database was opened in a term, and under
    which number a database was."""

    def __init__(
        self,
        broker: Broker,
        step_bytes: int | None = None,
        store: StoreOracle | None = None,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._broker, self._step_bytes, self._now = broker, step_bytes, now
        self.store = store
        self.owners: dict[Version, Owners] = {}
        self.layout: Owners | None = None
        self.layouts = 0
        self.changing = False
        self.epoch = -1
        self.term = (-1, 0)
        self.holder: Process | None = None
        self.has_ended = False
        self.plans: list[tuple[bytes | None, bytes | None]] = []  # all that are committed
        self.divided: list[dict[Where, tuple[int, int]]] = []
        self.again: list[dict[Where, tuple[int, int]]] = []
        """Of each division: what it reads again for new nodes."""
        self.first: dict[Where, int] = {}
        """Where each input began that the project in force reads."""
        self.held: list[frozenset[str]] = []
        """Of each division: the outputs that it holds, because they are behind nodes whose error rows it counts."""
        self.answered: dict[str, View] = {SUMS: {}, GROUPS: {}, TALLIES: {}}
        """The views after the last step that had an answer."""
        self.frozen: dict[str, View] = {}
        """During a drain: the views of the former project before the switch."""
        self.left: View = {}
        """What the topic of the tallies holds of a former view."""
        self.revisions = Revisions()
        self.fills: list[int | None] = []
        """Of each division: up to where it fills."""
        self.fills_from = 0
        """The step from which the transition under way fills."""
        self.written = 0
        self.sums: list[Sums] = [{}]
        self.ends: dict[Where, int] = {}
        self.complete: Version | None = None
        self.intended: set[Version] = set()
        self.fenced: dict[Place, tuple[int, int]] = {}
        self._removed: set[Place] = set()  # and no other database was fenced there since
        self.reported: dict[tuple[int, int], dict[int, set[str]]] = {}
        self.opened: dict[tuple[tuple[int, int], str], tuple[Place, int]] = {}
        self.numbers: dict[tuple[tuple[int, int], str], int] = {}
        self.planned: tuple[tuple[int, int], list[tuple[int, int]]] | None = None
        """Of the change under way: the term that began it, and the slots that are to move. None if it got another target."""
        self.moved: dict[tuple[int, int], list[tuple[int, int]]] = {}
        """By term: the slots that its cuts have moved in the change under way."""
        self.seen = {} if store is None else store.seen
        self.seen |= {
            "staged": 0,
            "claims": 0,
            "ended": 0,
            "divisions": 0,
            "steps": 0,
            "checkpoints": 0,
            "cuts": 0,
            "voided": 0,
            "ahead": 0,
            "created": 0,
            "changes": 0,
            "turns": 0,
            "settled": 0,
            "given": 0,
            "as planned": 0,
            "counted": 0,
            "released": 0,
            "revisions": 0,
            "intents": 0,
            "switches": 0,
            "abort": 0,
            "detached": 0,
            "taken_back": 0,
            "resume": 0,
            "transitions settled": 0,
            "read again": 0,
            "switches after reading again": 0,
            "pauses of transitions": 0,
            "drains": 0,
            "steps of a drain": 0,
        }

    # Kafka

    def decided(self, transaction: Transaction, disk: Disk) -> None:
        """A transaction of the pipeline is committed."""
        output: dict[Where, list[tuple[int, Entry]]] = defaultdict(list)
        records: list[dict[str, Any]] = []
        is_of_plans = False
        for where in sorted(transaction.first):
            entries = self._broker.topics[where[0]].partitions[where[1]].entries
            for offset in range(transaction.first[where], len(entries)):
                entry = entries[offset]
                if entry.transaction is not transaction:
                    continue
                if where[0] == LOG:
                    assert entry.value is not None
                    records.append(json.loads(entry.value))
                elif where[0] == PLANS:
                    self.plans.append((entry.key, entry.value))
                    is_of_plans = True
                else:
                    output[where].append((offset, entry))
        assert records or is_of_plans, "a transaction without a record of the log"
        steps = [record for record in records if record["kind"] == "step"]
        assert len(steps) <= 1, "two steps in one transaction"
        naming = [record for record in records if record["kind"] in ("revision", "revision_intent")]
        for digest in {digest for record in naming for digest in (record["plan"], *record.get("plans", {}).values())}:
            self.revisions.know(digest, text_in(self.plans, digest))
        assert steps or not output, "output without its step's record"
        for record in records:
            self._record(record, transaction.writer, output, disk)

    def _record(
        self, record: dict[str, Any], writer: object, output: dict[Where, list[tuple[int, Entry]]], disk: Disk
    ) -> None:
        assert isinstance(writer, Process)
        kind, epoch = record["kind"], record["epoch"]
        if kind == "claim":
            assert epoch > self.epoch, f"epoch {epoch} claimed after epoch {self.epoch}"
            self.epoch, self.holder, self.has_ended = epoch, writer, False
            self.seen["claims"] += 1
            if self.store is not None:
                self.store.attempt()
            return
        assert epoch == self.epoch, f"a {kind} record of epoch {epoch} after the claim of epoch {self.epoch}"
        assert not self.has_ended, f"a {kind} record after the end of the run of epoch {epoch}"
        assert writer is self.holder, f"{writer.name} wrote a {kind} record, and {self.holder} holds the pipeline"
        if kind == "ended":
            self.has_ended = True
            self.seen["ended"] += 1
        if self.store is not None and kind in ("division", "step"):
            self.store.looked(self._now(), is_new_step=kind == "step")
        if kind == "checkpoint_stored":
            assert self.store is not None, "a version is stored without a store"
            self.store.record(record, _version(record["version"]), _owners(record["placed"]))
        elif kind == "division":
            self._division(record, disk)
        elif kind == "step":
            self._step(record, output)
            self._check_all_have_run(record["step"], writer, disk)
        elif kind == "checkpoint_intent":
            self._check_unstaged(writer, disk)
            self.intended.add(_version(record["version"]))
            self._intend(_version(record["version"]), _owners(record["placed"]))
            self._check_boundary(_version(record["version"]), writer, disk)
        elif kind == "checkpoint_complete":
            self._complete(_version(record["version"]), disk)
        elif kind == "layout":
            self._layout(record)
        elif kind == "layout_intent":
            assert not self.changing, "two changes of the layout at once"
            self.changing = True
            self.seen["changes"] += 1
            assert self.layout is not None
            self.planned = max(self.reported), _leaving(self.layout, record["target"]["ranges"])
            self.moved = {}
        elif kind.startswith("revision"):
            self._revision(record, disk)
        elif kind == "layout_turn":
            assert self.changing, "a turn without a change"
            self.planned = None
            self.seen["turns"] += 1

    def _layout(self, record: Mapping[str, Any]) -> None:
        owners = _owners(record["placed"])
        assert record["number"] == self.layouts, f"layout {record['number']} after {self.layouts} layouts"
        if record["outcome"] == "restored":
            assert self.store is not None and self.store.stored is not None, "nothing is stored"
            assert owners == self.owners[self.store.stored], (
                "the restored layout has not the owners of the stored version"
            )
            self.store.seen["layouts restored"] += 1
            self.layout, self.changing, self.planned = owners, False, None
            self.layouts += 1
            return
        assert self.changing or self.layout in (None, owners), "slots have other owners without a change"
        if self.layout is not None and self.changing:
            assert self.complete is not None and self.owners[self.complete] == owners, "a layout unlike its checkpoint"
            self.seen["settled"] += 1
            self._check_moved()
        self.layout, self.changing = owners, False
        self.layouts += 1

    def gave(self, term: tuple[int, int], spans: Iterable[tuple[int, int]]) -> None:
        """A cut was made in this term."""
        self.moved.setdefault(term, []).extend(spans)
        self.seen["given"] += 1

    def _check_moved(self) -> None:
        """A change that no turn and no recovery has disturbed has moved what was planned, and each slot once."""
        if self.planned is not None and max(self.reported) == self.planned[0]:
            term, planned = self.planned
            moved = sorted(self.moved.get(term, []))
            assert all(a[1] <= b[0] for a, b in pairwise(moved)), f"slots have moved twice: {moved}"
            assert _joined(moved) == _joined(planned), f"{moved} have moved, and {planned} were planned"
            self.seen["as planned"] += 1

    def _intend(self, version: Version, owners: Owners) -> None:
        assert self.layout is not None
        assert self.changing or owners == self.layout, f"{version} has other owners than the layout"
        for worker, (birth, _) in owners.items():
            assert self.layout.get(worker, (birth, []))[0] == birth or self.changing, f"{worker} has another birth"
        self.owners[version] = owners

    def _division(self, record: Mapping[str, Any], disk: Disk) -> None:
        step = record["step"]
        former = (self.fills[step], self.again[step]) if step < len(self.fills) else (None, {})
        if self.written == step < len(self.divided):
            if AGGREGATE_NUMBER in record["counted"] and SUMS not in self.held[step]:
                self._count(record)
            else:
                self._cut(record, disk)
        assert step == len(self.divided), f"a division of step {step}, and {len(self.divided)} is next"
        assert step <= self.written + 1, f"step {step} is divided, and step {self.written} is not written"
        ranges = _spans(record["ranges"])
        for where, (start, end) in ranges.items():
            self._begin_with(where, start, step)
            before, stable = self._position(where, step), self._broker.partition(where).stable
            assert before == start <= end, f"step {step}: {where} {start} to {end} after offset {before}"
            assert end <= stable, f"step {step}: {where} is divided up to {end}, stable up to {stable}"
        gone = self.divided[-1].keys() - ranges.keys() if self.divided else set()
        assert not gone or (self.revisions.is_switched(step) and {topic for topic, _ in gone} == {OTHER}), (
            f"step {step} left {gone} out"
        )
        self._withhold(record)
        self._read_again(record, ranges, former[1])
        self._fill(record, former[0])
        self.divided.append(ranges)
        self.seen["divisions"] += 1

    def _begin_with(self, where: Where, start: int, step: int) -> None:
        """A partition that no division before this one has. What has expired there by then does not count."""
        if (self.divided and where in self.divided[-1]) or self._goes_on(where, step):
            return
        assert start <= self._broker.partition(where).begin, f"step {step} begins with {where} at {start}"
        assert start == 0 or where[0] == OTHER
        self.first[where] = start

    def _goes_on(self, where: Where, step: int) -> bool:
        """Whether only the next project reads the partition, and this is its first step."""
        known = self.revisions
        return known.is_switched(step) and where in known.starts and where not in known.live

    def _position(self, where: Where, step: int) -> int:
        """Where the division of a step has to begin."""
        if self.divided and where in self.divided[-1]:
            return self.divided[-1][where][1]
        return self.read_again[where] if self._goes_on(where, step) else self.first[where]

    @property
    def read_again(self) -> dict[Where, int]:
        """Up to where the transition has read again before the next division."""
        found = dict(self.revisions.starts)
        for ranges in self.again[self.fills_from :]:
            found.update({where: end for where, (_, end) in ranges.items()})
        return found

    def _read_again(
        self,
        record: Mapping[str, Any],
        ranges: Mapping[Where, tuple[int, int]],
        former: Mapping[Where, tuple[int, int]],
    ) -> None:
        """`former`: what an earlier division of the step says. It stays there when the transition is over, and then it means nothing; where the
        step is divided again, it ends no later than the rest of the step."""
        again, step = _spans(record["again"]), record["step"]
        is_over = self.revisions.phase != "filling"
        assert not is_over or _is_part(again, former), f"step {step} reads {again} again after {former}"
        known = self.read_again
        for where, (start, end) in again.items() if self.revisions.phase == "filling" else ():
            before = known[where] if where in known else self.first[where]
            assert before == start <= end, f"step {step}: {where} is read again from {start} to {end} after {before}"
            level = ranges[where][1] if where in ranges else self._broker.partition(where).stable
            assert end <= level, f"step {step}: {where} is read again up to {end}, and the others are at {level}"
            self.seen["read again"] += start < end
        self.again.append(again)

    @property
    def filled(self) -> int:
        """The position before the next division."""
        return max((filled for filled in self.fills[self.fills_from :] if filled is not None), default=0)

    @property
    def drained(self) -> int:
        """Up to where what differs leaves before the next division."""
        found = self.fills[self.revisions.drains_from :]
        return max((drained for drained in found if drained is not None), default=0)

    def _fill(self, record: Mapping[str, Any], former: int | None) -> None:
        """How far a step fills is in its division, and it never goes back. `former`: what an earlier division of the step says. It stays there
        when the transition is over, and then it means nothing."""
        filled = record.get("filled")
        if self.revisions.drain is not None:
            drained = self.drained
            assert drained < self.revisions.drain, f"{filled} after everything has left"
            assert filled is not None and drained <= filled <= self.revisions.drain, f"{filled} after {drained}"
            self.fills.append(filled)
            return
        is_filling = self.revisions.phase == "filling"
        assert is_filling == (filled is not None) or filled == former, f"{filled} while {self.revisions.phase}"
        if filled is not None and is_filling:
            assert self.filled <= filled <= self.revisions.whole, f"{filled} after {self.filled}"
        self.fills.append(filled)

    @property
    def is_in_error(self) -> bool:
        return WRONG in self.sums[-1]

    def _withhold(self, record: Mapping[str, Any]) -> None:
        """The sums are held from the step on that finds an error, and released by the first division after the last error is gone. The step
        that finds one counts the error rows of all nodes, so it holds the tallies too."""
        step, counted = record["step"], set(record["counted"])
        held = {SUMS, GROUPS} if AGGREGATE_NUMBER in counted else set()
        if not counted.isdisjoint(self.revisions.tallies(step)):
            held.add(TALLIES)
        before = self.held[-1] if self.held else frozenset()
        assert held or step != self.written or not self.is_in_error, f"step {step} does not count what is in error"
        released = set(record["released"])
        is_of_new = self.seen["intents"] and not before - held  # nodes that nobody counts after the switch
        assert is_of_new or released == before - held, f"step {step}: {released} after {before}, and {held} are held"
        self.held.append(frozenset(held))
        self.seen["released"] += SUMS in before - held

    def _count(self, record: Mapping[str, Any]) -> None:
        """The step whose output is next is divided again over the same input, because a row is in error. All workers go back after that."""
        step = record["step"]
        found = _spans(record["ranges"])
        assert found == self.divided[step], f"step {step} is divided again over {found}"
        rows = dict(self.sums[step])
        for key, number, weight in self._input(step):
            count, total = rows.get(key, (0, 0))
            rows[key] = count + weight, total + number * weight
        assert rows.get(WRONG, (0, 0)) != (0, 0), f"step {step} counts errors, and has none"
        self._forget(step)
        self.seen["counted"] += 1

    def _forget(self, step: int) -> None:
        """The divisions from this step on."""
        del self.divided[step:], self.again[step:], self.held[step:], self.fills[step:]

    def _cut(self, record: Mapping[str, Any], disk: Disk) -> None:
        """The step whose output is next is divided again over less input: as much as its bytes allow, and never nothing. That voids the
        division after it, of which no state has seen anything. So does what it reads again."""
        step = record["step"]
        later = self.divided[step + 1 :]
        new, old = (_spans(record["ranges"]), _spans(record["again"])), (self.divided[step], self.again[step])
        assert new != old
        for found, before in zip(new, old, strict=True):
            assert found.keys() == before.keys()
            assert all(start == before[where][0] and end <= before[where][1] for where, (start, end) in found.items())
            assert found == before or any(start < end for start, end in found.values())
        for folder, environment in live(disk):
            at = self._step_of(folder, environment, disk)
            assert at is None or at <= step, (
                f"step {step} is divided again, and the state of {'/'.join(folder)} is at {at}"
            )
        self._forget(step)
        self.seen["cuts"] += 1
        self.seen["voided"] += len(later)

    def _check_boundary(self, version: Version, writer: Process, disk: Disk) -> None:
        """No step is under way: every worker's state is at the step of the checkpoint. A coordinator that died may have asked long ago."""
        assert version[1] <= self.written, f"{version} is intended, and {self.written} steps are written"
        for folder, environment in self._owning(disk) if writer.alive else ():
            at = self._step_of(folder, environment, disk)
            assert at in (None, version[1]), (
                f"{version} is intended, and the state of {'/'.join(folder)} is at step {at}"
            )

    def _check_unstaged(self, writer: Process, disk: Disk) -> None:
        """A checkpoint that begins while no change of the layout is under way has no copies of the last one."""
        for folder, environment in self._owning(disk) if writer.alive and not self.changing else ():
            self._check_no_copies(folder, environment, disk)

    def _check_no_copies(self, folder: Place, environment: Environment, disk: Disk) -> None:
        stored = self._stored(folder, environment, _STAGED, disk)
        staged = [] if stored is None else _ranges(stored)
        assert not staged, f"{'/'.join(folder)} has copies of {staged}, and no change is under way"

    def _check_all_have_run(self, step: int, writer: Process, disk: Disk) -> None:
        """A step is written when every worker has it in its state, perhaps with the next one."""
        for folder, environment in self._owning(disk) if writer.alive else ():
            if description(environment.now.records).boot != disk.boot_at(folder):
                continue  # its host has crashed, after the worker had sent what the step gave
            at = self._step_of(folder, environment, disk)
            assert at in (step + 1, step + 2), f"step {step} is written, and the state of {'/'.join(folder)} is at {at}"

    def gone(self, disk: Disk, place: Place) -> None:
        """All below this place is about to be lost, or replaced by an older copy."""
        assert self.store is not None
        for found, environment in databases(disk):
            if found[: len(place)] == place and _DESCRIPTION in environment.durable.records:
                present = description(environment.durable.records)
                self.store.lost |= {(_number(found), present.birth, version) for version in present.versions}
        for fenced in [each for each in self.fenced if each[: len(place)] == place]:
            del self.fenced[fenced]
            self._removed.add(fenced)

    def check_stored(self) -> None:
        """After a run that nothing has disturbed: the store has all steps."""
        if self.store is not None and self.written:
            assert self.store.stored is not None and self.store.stored[1] == self.written, (
                f"{self.written} steps are written, and {self.store.stored} is stored"
            )

    def _owning(self, disk: Disk) -> Iterator[tuple[Place, Environment]]:
        """The databases that own slots now. A worker that has just been made, or that is about to leave, need not be where all others are."""
        for folder, environment in live(disk):
            present = description(environment.now.records)
            if present.term != self.term or (present.term, present.database) not in self.opened:
                continue
            stored = self._stored(folder, environment, _OWNED, disk)
            if stored is not None and _ranges(stored):
                yield folder, environment

    def _step_of(self, folder: tuple[str, ...], environment: Environment, disk: Disk) -> int | None:
        """The next step of a worker's state; None if the database is not open in the present epoch, or if its host has crashed since."""
        present = description(environment.now.records)
        if present.working is None or present.term[0] != self.epoch or present.boot != disk.boot_at(folder):
            return None
        stored = self._stored(folder, environment, _STEP, disk)
        return 0 if stored is None else int.from_bytes(stored[:-_TRAILER_BYTES])

    def _stored(self, folder: Place, environment: Environment, key: bytes, disk: Disk) -> bytes | None:
        """The record of a key in the uppermost layer that has one; None if no layer has."""
        layers = self._layers(folder, environment, description(environment.now.records), disk)
        return next((layer[key] for layer in layers if key in layer), None)

    def _layers(
        self, folder: tuple[str, ...], environment: Environment, present: Description, disk: Disk
    ) -> list[Records]:
        """Uppermost first."""
        named = [disk.find((*folder[:-1], name)) for name in (present.working, present.frozen) if name is not None]
        layers = [found.now.records for found in named if isinstance(found, Environment)]
        records = environment.now.records
        return [*layers, {key[1:]: value for key, value in records.items() if key[:1] == _RECORDS}]

    def _step(self, record: Mapping[str, Any], output: dict[Where, list[tuple[int, Entry]]]) -> None:
        step = record["step"]
        assert step == self.written, f"step {step} was written, and {self.written} is next"
        assert step < len(self.divided), f"step {step} was written before its division"
        self._bounded(step)
        now = self.revisions.at(step)
        expected = self._expected(step, now)
        found = {where: [(e.key, e.value) for _, e in entries] for where, entries in output.items()}
        assert found == expected, f"step {step}: found {found}, expected {expected}"
        assert bool(record["errors"]) == self.is_in_error, f"step {step}: {record['errors']}"
        assert self.held[step] or not self.is_in_error, f"step {step} has rows in error that it does not count"
        self._check_again(record)
        for where, entries in output.items():
            assert all(dict(e.headers)["stepwell.step"] == b"%d" % step for _, e in entries), where
            assert entries[0][0] >= self.ends.get(where, 0), f"step {step}: {where} goes back"
            self.ends[where] = entries[-1][0] + 1
        for part in record["outputs"]:
            where = part["topic"], part["partition"]
            assert part["end"] == self.ends.get(where, 0), f"step {step}: the end of {where} is not {part['end']}"
        assert len(record["outputs"]) == sum(PARTITIONS[topic] for topic in now.outputs)
        self.written += 1
        self.seen["steps of a drain"] += self.revisions.drain is not None
        self.revisions.written(step, self.fills[step])
        self.seen["steps"] += 1

    def _spans_again(self, step: int) -> Mapping[Where, tuple[int, int]]:
        """What a step that is not written reads again. What its division says counts no more when the transition has been given up."""
        return self.again[step] if self.revisions.phase == "filling" and step >= self.fills_from else {}

    def _check_again(self, record: Mapping[str, Any]) -> None:
        """The record of a step says how many messages it has read again, if the transition has not been given up."""
        step = record["step"]
        spans = self._spans_again(step)
        expected = {where: len(self._broker.partition(where).committed(*span)) for where, span in spans.items()}
        found = {(part["topic"], part["partition"]): part["messages"] for part in record["again"]}
        assert _without_zeros(found) == _without_zeros(expected), f"step {step} has read {found} again of {expected}"

    def _bounded(self, step: int) -> None:
        """The step's messages are within the bound, but for the first message of each range, which always gets through. Where messages have
        expired, the coordinator cannot tell how many are too many, while a worker may have fetched them all before."""
        if self._step_bytes is None:
            return
        spans = [*self.divided[step].items(), *self._spans_again(step).items()]
        there = [(self._broker.partition(where), span) for where, span in spans]
        ranges = [partition.committed(*span) for partition, span in there if partition.begin <= span[0]]
        sizes = [[len(e.value or b"") + len(e.key or b"") for _, e in entries] for entries in ranges]
        held = sum(sum(each) for each in sizes if len(each) > 1)
        assert held <= self._step_bytes, f"step {step} holds {sizes} bytes, and {self._step_bytes} are allowed"

    def _expected(self, step: int, project: Project) -> Messages:
        """The messages of a step, and the sums after it, from the input's committed records alone: what the outputs hold differs from what the
        project says by as much."""
        before, sums = self.sums[step], dict(self.sums[step])
        messages: Messages = defaultdict(list)
        for key, number, weight in self._input(step):
            count, total = sums.get(key, (0, 0))
            sums[key] = count + weight, total + number * weight
            messages[ROWS, spread(key, PARTITIONS[ROWS])].append((None, message_of((key, number, weight))))
        sums = {key: value for key, value in sums.items() if value != (0, 0)}
        if not project.scale:  # the topic stays as it is
            self.left, self.answered[TALLIES] = {**self.left, **self.answered[TALLIES]}, {}
        for topic, view in self._views(step, project, sums).items():
            if topic in self.held[step]:
                continue
            held = self.answered[topic]
            for key in sorted(held.keys() | view.keys()):
                if held.get(key) != view.get(key):
                    messages[topic, spread(key.decode(), PARTITIONS[topic])].append((key, view.get(key)))
                    if topic == TALLIES:
                        self.left.pop(key, None)
            self.answered[topic] = view
        assert len(self.sums) == step + 1 and before is self.sums[step]
        self.sums.append(sums)
        return {where: sorted(found, key=_canonical) for where, found in messages.items()}

    def _views(self, step: int, project: Project, sums: Sums) -> dict[str, View]:
        """What the outputs hold after a step. In a drain a changed view has its new rows below the position, and above it those that it had
        before the switch, and what reads it is computed from that."""
        views, known = views_of(project, sums, self._others(step)), self.revisions
        if known.drain is None or known.former is None:
            return views
        former, end = known.former, (self.fills[step] or 0) >> 48
        if not self.frozen:
            others = self._others(step - 1) if step else {}
            self.frozen = {TALLIES: {}, **views_of(former, self.sums[step], others)}

        def mixed(topic: str) -> View:
            new = {key: value for key, value in views[topic].items() if slot(key.decode()) < end}
            return new | {key: value for key, value in self.frozen[topic].items() if slot(key.decode()) >= end}

        if (project.factor, project.odd) != (former.factor, former.odd):
            views[SUMS] = mixed(SUMS)
            views[GROUPS] = groups_of(project, views[SUMS])
        if project.modulus != former.modulus:
            views[GROUPS] = groups_of(project, views_of(project, sums, {})[SUMS])
            views[GROUPS] = mixed(GROUPS)
        if project.scale and (project.scale, project.other) != (former.scale, former.other):
            views[TALLIES] = mixed(TALLIES)
        return views

    def _input(self, step: int) -> Iterator[tuple[str, int, int]]:
        for where, span in sorted(self.divided[step].items()):
            if where[0] == INPUT:
                yield from self._rows(where, span)

    def _others(self, step: int) -> Sums:
        """The sums over the other topic after a step, from where the project began with it."""
        spans = (
            (where, (self.first[where], end)) for where, (_, end) in self.divided[step].items() if where[0] == OTHER
        )
        return _summed(row for where, span in spans for row in self._rows(where, span))

    def _rows(self, where: Where, span: tuple[int, int]) -> Iterator[tuple[str, int, int]]:
        for _, entry in self._broker.partition(where).committed(*span):
            assert entry.value is not None
            yield row_of(entry.value)

    def _complete(self, version: Version, disk: Disk) -> None:
        assert version in self.intended, f"{version} is complete without having been intended"
        owners = self.owners[version]
        covered = sorted(span for _, spans in owners.values() for span in spans)
        assert covered[0][0] == 0 and covered[-1][1] == _SLOTS, f"{version}: {covered}"
        assert all(a[1] == b[0] for a, b in pairwise(covered)), f"{version}: {covered}"
        for worker, (birth, spans) in owners.items():
            self._check_recorded(worker, birth, spans, version, disk)
        held = {worker for worker in owners if self._holds(worker, owners[worker][0], version, disk)}
        if self.store is not None:
            held |= {worker for worker in owners if (worker, owners[worker][0], version) in self.store.lost}
            self.store.complete(version, owners)
        assert held == owners.keys(), f"{version} is complete, and of its owners {sorted(owners)} only {held} have it"
        self.complete = version
        self.seen["checkpoints"] += 1

    def _check_recorded(
        self, worker: int, birth: str, spans: list[tuple[int, int]], version: Version, disk: Disk
    ) -> None:
        """The databases say the same as the record of a checkpoint that is complete."""
        for place, environment in databases(disk):
            stored = environment.durable.records
            if _number(place) != worker or _DESCRIPTION not in stored:
                continue
            found = description(stored)
            if found.birth == birth and found.versions[-1] == version and not found.merging:
                owned = _ranges(stored[_RECORDS + _OWNED])
                assert owned == sorted(spans), f"{place} owns {owned} at {version}, and {spans} are recorded"

    def _holds(self, worker: int, birth: str, version: Version, disk: Disk) -> bool:
        """Whether some host has the version durably in the database of this worker."""
        for place, environment in databases(disk):
            if _number(place) == worker and _DESCRIPTION in environment.durable.records:
                found = description(environment.durable.records)
                if found.birth == birth and version in found.versions:
                    return True
        return False

    # Revisions

    def _revision(self, record: Mapping[str, Any], disk: Disk) -> None:
        known, kind = self.revisions, record["kind"]
        if kind == "revision":
            assert known.phase is None, "a revision within a transition"
            known.begin(record)
            if self.store is not None:
                self.store.begins_with(record["step"])
            self.seen["revisions"] += 1
        elif kind == "revision_intent":
            assert known.phase is None, "a second transition"
            assert record["step"] == self.written == len(self.divided), "a transition begins within a step"
            known.intend(record)
            self.fills_from = record["step"]
            self.seen["intents"] += 1
        elif kind == "revision_switch":
            assert known.phase == "filling", f"a switch while the transition is {known.phase}"
            assert not known.is_paused, "a switch while the transition is paused"
            assert record["step"] == self.written == len(self.divided), "a switch with a division pending"
            assert self.filled == known.whole, f"a switch at {self.filled} of {known.whole}"
            self._check_level()
            self.first.update({where: start for where, start in known.starts.items() if where not in known.live})
            known.switch(record)
            self.frozen = {}
            self.seen["drains"] += "drain" in record
            self.seen["switches"] += 1
            self.seen["switches after reading again"] += bool(known.starts)
        elif kind == "revision_turn":
            reason = record["reason"]
            if reason == "resume":
                self.fills_from = record["step"]
            self.seen[reason] += 1
            if known.turn(reason):
                self._forget(self.written)
        elif kind == "revision_pause":
            assert known.phase == "filling", f"a pause while the transition is {known.phase}"
            known.is_paused = record["is_paused"]
            self.seen["pauses of transitions"] += known.is_paused
        else:
            assert kind == "revision_settled", kind
            assert known.phase == "clearing", f"settled while the transition is {known.phase}"
            assert self.complete is not None and record["step"] == self.complete[1] >= known.since
            known.phase = None
            self._check_cleared(disk)
            self.seen["transitions settled"] += 1

    def _check_level(self) -> None:
        """New nodes have got all that the project in force has read, of the topics that are read again."""
        read, topics = self.read_again, {topic for topic, _ in self.read_again}
        for where, (_, end) in self.divided[-1].items() if self.divided else ():
            if where[0] in topics and where not in self.revisions.starts.keys() - self.revisions.live:
                at = read[where] if where in read else self.first[where]
                assert at == end, f"a switch while new nodes have {where} up to {at} of {end}"

    def _check_cleared(self, disk: Disk) -> None:
        """The last checkpoint has no table of a node that the revision in force lacks. A copy of slots that was on its way when the tables went
        does not count: nobody sees it, and the cut that moves the slots removes what their source lacks."""
        assert self.complete is not None
        for place, environment in databases(disk):
            found = description(environment.now.records)
            if found.versions[-1] != self.complete or found.merging:
                continue
            records = {key[1:]: value for key, value in environment.now.records.items() if key[:1] == _RECORDS}
            staged = _ranges(records.get(_STAGED, bytes(_TRAILER_BYTES)))
            tables = {key[:2] for key in records if key[:1] != b"\xff" and not _is_in(key_slot(key), staged)}
            numbers = {(int.from_bytes(table) - 16) // 8 for table in tables}
            assert numbers <= self.revisions.numbers, f"{place} has tables of {numbers - self.revisions.numbers}"

    # Databases

    def committed(self, environment: Environment, before: Records, process: Process, disk: Disk) -> None:
        """A database's environment has a new state."""
        folder = environment.folder.place
        if folder[-1] == COMMITTED and _DESCRIPTION not in environment.now.records:
            return  # of a draft that is filled
        if folder[-1] == COMMITTED:
            self._described(folder, environment, before, process)
            if "workers" in folder and not folder[-2].startswith("."):
                self.check_shared(disk)
            return
        found = disk.find((*folder[:-1], COMMITTED))
        if isinstance(found, Environment):
            now = description(found.now.records)
            if folder[-1] in (now.working, now.frozen):
                self._check_term(folder[:-1], process, environment)
                assert process.term >= now.term, f"{process.name} of term {process.term} wrote {environment.folder}"
            if folder[-1] == now.working and now.term[0] == self.epoch:
                self._check_working(found, now, disk)

    def renamed(self, place: Place, process: Process) -> None:
        """A folder has another name, so it is about to be removed, or was a draft. A late run may make a database under the old name again, and
        that one is its own."""
        self._removed.add(place)
        fenced = self.fenced.pop(place, process.term)
        assert process.term >= fenced, (
            f"{process.name} of term {process.term} removes {place}, which {fenced} has fenced"
        )

    def _check_term(self, place: Place, process: Process, environment: Environment) -> None:
        fenced = self.fenced.get(place, process.term)
        assert process.term >= fenced, (
            f"{process.name} of term {process.term} wrote {environment.folder}, which {fenced} has fenced"
        )

    def _check_working(self, environment: Environment, now: Description, disk: Disk) -> None:
        """The state after a step that was run just now, perhaps ahead of the output of the step before."""
        folder = environment.folder.place
        step = self._step_of(folder, environment, disk)
        assert step is not None
        assert step <= len(self.divided), f"{environment.folder} has run step {step - 1}, which is not divided"
        assert step <= self.written + 2, f"{environment.folder} is at step {step}, and {self.written} steps are written"
        self.seen["ahead"] += step > self.written + 1
        sums = dict(self.sums[min(step, self.written)])
        for ahead in range(self.written, step):
            for key, number, weight in self._input(ahead):
                count, total = sums.get(key, (0, 0))
                sums[key] = count + weight, total + number * weight
        state: Records = {}
        for layer in reversed(self._layers(folder, environment, now, disk)):
            state.update((key, value) for key, value in layer.items() if key[:2] == _STATE or key in (_OWNED, _STAGED))
        kept = {key: value for key, value in state.items() if len(value) != _TOMBSTONE_BYTES}
        self._compare(kept, {k: v for k, v in sums.items() if v != (0, 0)}, _number(folder), f"step {step}")

    def _described(self, folder: tuple[str, ...], environment: Environment, before: Records, process: Process) -> None:
        now = description(environment.now.records)
        former = description(before) if _DESCRIPTION in before else None
        assert former is None or now.term >= former.term, f"the term of {environment.folder} falls"
        assert former is None or process.term >= former.term, (
            f"{process.name} of term {process.term} changed {environment.folder} of term {former.term}"
        )
        assert 1 <= len(now.versions) <= 2
        for version in (*now.versions, *(() if now.freezing is None else (now.freezing,))):
            assert version[1] <= self.written, f"{environment.folder}: {version} holds a step that is not written"
        assert now.freezing is None or now.freezing in self.intended, f"{now.freezing} is frozen and was not intended"
        worker = _number(folder)
        # A late worker may sync what it finds.
        if former is not None and former != now and not folder[-2].startswith("."):
            self._check_term(folder[:-1], process, environment)
        if former is None and environment.synced:
            self._check_created(now, worker, process)
        if self.store is not None and not now.merging:
            records = environment.now.records
            self.store.has(now.database, now.versions[-1], {k[1:]: v for k, v in records.items() if k[:1] == _RECORDS})
            if not environment.synced:
                self.store.restored(now.database, now.versions[-1])
        if former is not None and now.working is None and now.layers > former.layers:
            self.fenced[folder[:-1]] = process.term
            self._removed.discard(folder[:-1])
        if former is not None and now.opened > former.opened:
            # A suspended worker goes on with a file that was removed, and nobody looks at that any more.
            is_fenced = folder[:-1] in self._removed or self.fenced.get(folder[:-1]) == process.term
            assert is_fenced, f"{process.name} opens {environment.folder} without a fence"
            self._check_opened(now, folder[:-1], worker, process)
        self._check_content(environment.now.records, now, worker)

    def _check_created(self, now: Description, worker: int, process: Process) -> None:
        """A zombie may create a database too, and nobody will ever bind it."""
        if process.term[0] != self.epoch:
            return
        self.seen["created"] += 1
        if now.birth != "0":
            assert self.changing, f"{process.name} makes worker {worker} without a change of the layout"
            known = {b for owners in self.owners.values() for w, (b, _) in owners.items() if w == worker}
            assert now.birth not in known, f"{process.name} makes worker {worker} a second time, as {now.birth}"
            return
        assert self.complete is None, f"{process.name} creates the database of worker {worker} after {self.complete}"
        holders = self.reported[process.term].get(worker, set())
        assert not holders, f"{process.name} creates the database of worker {worker}, which {holders} held"

    def _check_opened(self, now: Description, place: Place, worker: int, process: Process) -> None:
        """One database for each number, and one number for each database."""
        assert now.worker == worker, f"{place} holds the database of worker {now.worker}"
        first = self.opened.setdefault((process.term, now.database), (place, now.opened))
        assert first == (place, now.opened), f"worker {worker} opens {place} in term {process.term}, after {first}"
        self.term = max(self.term, process.term)
        if self.store is not None and process.term == self.term:
            self.store.opened(now.versions[-1])
        number = self.numbers.setdefault((process.term, now.database), worker)
        assert number == worker, f"{now.database} is open under {number} and {worker} in term {process.term}"
        if process.term[0] == self.epoch and self.complete is not None:
            assert now.versions[-1][0] > 0, f"{process.name} begins with an empty {place} after {self.complete}"

    def _check_content(self, stored: Records, now: Description, worker: int) -> None:
        kept = tuple(_RECORDS + prefix for prefix in (_STATE, _OWNED, _STAGED))
        state = {key[1:]: value for key, value in stored.items() if key.startswith(kept)}
        if not now.merging:
            self._check_state(state, now.versions[-1], worker)
        if now.merging or len(now.versions) == 2:
            for spaced, value in stored.items():
                if spaced.startswith(tuple(_UNDO + prefix for prefix in (_STATE, _OWNED, _STAGED))):
                    state[spaced[1:]] = value if len(value) == _TOMBSTONE_BYTES else _unpacked(value)
            self._check_state({k: v for k, v in state.items() if len(v) != _TOMBSTONE_BYTES}, now.versions[0], worker)

    def _check_state(self, state: Records, version: Version, worker: int) -> None:
        self._compare(state, self.sums[version[1]], worker, f"version {version}")

    def _compare(self, state: Records, sums: Sums, worker: int, what: str) -> None:
        owned, staged = _ranges(state[_OWNED]), _ranges(state.get(_STAGED, bytes(_TRAILER_BYTES)))
        assert not any(a < d and c < b for a, b in owned for c, d in staged), (
            f"worker {worker} has copies of its own slots"
        )
        self.seen["staged"] += bool(staged)
        expected = {state_key(k): state_value(*v) for k, v in sums.items() if _is_in(slot(k), owned)}
        found = {
            key: value[:-_TRAILER_BYTES]
            for key, value in state.items()
            if key[:2] == _STATE and not _is_in(key_slot(key), staged)
        }
        assert found == expected, f"worker {worker}, {what}: {found} is not {expected}"

    def check_shared(self, disk: Disk) -> None:
        """Some version that is not older than the last complete one has all its owners; before there is one, there is nothing to lose. Where
        several hosts have a database of one worker, it is enough if one of them has the version."""
        if self.complete is None:
            return
        held: dict[tuple[int, str], set[Version]] = {}
        if self.store is not None and self.store.can_restore:
            return  # what it has is checked whenever an object changes
        for place, environment in databases(disk):
            found = description(environment.now.records)
            held.setdefault((_number(place), found.birth), set()).update(found.versions)
        for version, owners in self.owners.items():
            is_whole = all(version in held.get((worker, birth), ()) for worker, (birth, _) in owners.items())
            if is_whole and version[0] >= self.complete[0]:
                return
        raise AssertionError(f"no version since {self.complete} has all its owners: {held}")

    # The end

    @property
    def needless(self) -> dict[Where, int]:
        """Up to where messages may expire, because no run needs them for a project in force: those before the last checkpoint, and those of a
        topic that no step since then has read."""
        needed = self.complete
        if self.store is not None:
            needed = self.store.stored if self.store.can_restore else None
        if self.complete is None or needed is None or min(needed[1], self.complete[1]) == 0:
            return {}
        before, *since = self.divided[min(needed[1], self.complete[1]) - 1 :]
        found = {where: end for where, (_, end) in before.items()}
        for number, partition in enumerate(self._broker.topics[OTHER].partitions):
            where = OTHER, number
            if not any(where in ranges for ranges in (before, *since)):
                found[where] = partition.stable
        return found

    def check_drained(self) -> None:
        """All input that is committed is in the output, and the output topics hold what was committed and nothing else."""
        ends = self.divided[-1] if self.divided else {}
        assert self.written == len(self.divided), f"{len(self.divided) - self.written} divisions without output"
        project = self.revisions.in_force
        for topic in (INPUT,) if project is None else project.inputs:
            for number, partition in enumerate(self._broker.topics[topic].partitions):
                at = ends[topic, number][1] if (topic, number) in ends else partition.begin
                left = partition.committed(at, partition.end)
                assert not left, f"{topic}/{number}: {left} was not read"
        for topic in PARTITIONS:
            for partition in self._broker.topics[topic].partitions if topic in self._broker.topics else ():
                steps = [int(dict(e.headers)["stepwell.step"]) for _, e in partition.committed(0, partition.end)]
                assert all(a <= b for a, b in pairwise(steps)), f"{topic}: steps out of order: {steps}"
        views = {topic: self._folded(topic) for topic in (SUMS, GROUPS, TALLIES)}
        assert views == {**self.answered, TALLIES: {**self.left, **self.answered[TALLIES]}}
        if not self.is_in_error and project is not None:
            others = self._others(self.written - 1) if self.written else {}
            expected = views_of(project, self._batch_sums(), others)
            assert {topic: self.answered[topic] for topic in expected} == expected
            assert not self.held or not self.held[-1]

    def _folded(self, topic: str) -> View:
        """What a reader of the topic has at its end."""
        view: View = {}
        for partition in self._broker.topics[topic].partitions if topic in self._broker.topics else ():
            for _, entry in partition.committed(0, partition.end):
                assert entry.key is not None
                if entry.value is None:
                    view.pop(entry.key, None)
                else:
                    view[entry.key] = entry.value
        return view

    def check_settled(self, disk: Disk) -> None:
        """After a run that nothing has disturbed: the databases of the layout hold no copies, and there are no others. On a cluster there may be
        one on a host to which no task has come since."""
        assert self.layout is not None and not self.changing
        expected = {(worker, birth) for worker, (birth, _) in self.layout.items()}
        for place, environment in live(disk):
            present = description(environment.now.records)
            if (_number(place), present.birth) in expected:
                self._check_no_copies(place, environment, disk)
        if len(disk.parts) > 1:
            return
        found = {(_number(place), description(environment.now.records).birth) for place, environment in databases(disk)}
        assert found == expected, f"the databases are {sorted(found)}, and the layout's {sorted(expected)}"

    def _batch_sums(self) -> Sums:
        partitions = enumerate(self._broker.topics[INPUT].partitions)
        return _summed(row for number, each in partitions for row in self._rows((INPUT, number), (0, each.end)))


def _summed(rows: Iterable[tuple[str, int, int]]) -> Sums:
    sums: dict[str, list[int]] = {}
    for key, number, weight in rows:
        found = sums.setdefault(key, [0, 0])
        found[0] += weight
        found[1] += number * weight
    return {key: (count, total) for key, (count, total) in sums.items() if count or total}


def _is_part(some: Mapping[Where, tuple[int, int]], whole: Mapping[Where, tuple[int, int]]) -> bool:
    """Whether these ranges begin where those of `whole` do, and end no later."""
    return all(
        where in whole and start == whole[where][0] and end <= whole[where][1] for where, (start, end) in some.items()
    )


def _spans(parts: Iterable[Mapping[str, Any]]) -> dict[Where, tuple[int, int]]:
    """Of ranges of offsets in a record."""
    return {(part["topic"], part["partition"]): (part["start"], part["end"]) for part in parts}


def _without_zeros(counts: Mapping[Where, int]) -> dict[Where, int]:
    return {where: count for where, count in counts.items() if count}


def views_of(project: Project, sums: Sums, others: Sums) -> dict[str, View]:
    """What the outputs hold, as a batch run of the project gives it. `others`: the sums over the other topic."""
    shown = {key: total * project.factor for key, (_, total) in sums.items()}
    rows = {
        key: (count, shown[key])
        for key, (count, _) in sums.items()
        if key != WRONG and (not project.odd or count % 2 == 1)
    }
    shown_rows = {key.encode(): json.dumps(row).encode() for key, row in rows.items()}
    views = {SUMS: shown_rows, GROUPS: groups_of(project, shown_rows)}
    if project.scale:
        tallies: dict[str, tuple[int, int]] = dict(sums)
        for key, (count, total) in others.items() if project.other else ():
            known = tallies.get(key, (0, 0))
            tallies[key] = known[0] + count, known[1] + total
        views[TALLIES] = {
            key.encode(): json.dumps((count, total * project.scale)).encode()
            for key, (count, total) in tallies.items()
            if count or total
        }
    return views


def groups_of(project: Project, sums: View) -> View:
    """`sums`: what the view of the sums holds."""
    groups: dict[int, list[int]] = {}
    for row in sums.values():
        _, total = json.loads(row)
        found = groups.setdefault(total % project.modulus, [0, 0])
        found[0] += 1
        found[1] += total
    return {b"%d" % group: json.dumps(row).encode() for group, row in groups.items()}


def databases(disk: Disk) -> list[tuple[tuple[str, ...], Environment]]:
    """The committed environments of databases that are there, in order."""
    return [
        (place, environment)
        for place, environment in sorted(disk.environments(), key=lambda found: found[0])
        if place[-1] == COMMITTED and not place[-2].startswith(".") and environment.now.records
    ]


def live(disk: Disk) -> list[tuple[tuple[str, ...], Environment]]:
    """The database of each number, where several hosts have one: that of the highest term. The others are copies that nobody opens any more."""
    newest: dict[str, tuple[tuple[int, int], tuple[str, ...], Environment]] = {}
    for place, environment in databases(disk):
        term = description(environment.now.records).term
        known = newest.get(place[-2])
        if known is None or term > known[0]:
            newest[place[-2]] = term, place, environment
    return [(place, environment) for _, (_, place, environment) in sorted(newest.items())]


def description(records: Records) -> Description:
    plain = json.loads(records[_DESCRIPTION][:-_TRAILER_BYTES])
    versions = tuple(_version(version) for version in plain["versions"])
    uuid = plain["identity"]["database"]
    freezing = None if plain["freezing"] is None else _version(plain["freezing"])
    return Description(
        divmod(plain["epoch"], _ATTEMPTS), versions, plain["layers_made"], plain["opened"], plain["working"], plain["frozen"],
        freezing, plain["identity"]["worker"], uuid, uuid.rsplit("/", 1)[-1], plain["boot"],
        plain["laid"] is not None,
    )  # fmt: skip


def _number(place: Place) -> int:
    """Of the worker whose database is in a folder: NNNN, NNNN-bBIRTH, or a draft of such a one."""
    return int(place[-2].lstrip(".").split("-")[0].split(".")[0])


def _owners(placed: Mapping[str, Any]) -> Owners:
    births = {member["worker"]: member["birth"] for member in placed["members"]}
    owners: Owners = {}
    ends = [first for first, _ in placed["ranges"][1:]] + [_SLOTS]
    for (first, owner), end in zip(placed["ranges"], ends, strict=True):
        owners.setdefault(owner, (births[owner], []))[1].append((first, end))
    return owners


def _leaving(before: Owners, ranges: list[list[int]]) -> list[tuple[int, int]]:
    """The slots that have another owner in the target, whose ranges these are."""
    edges = sorted(
        {0, _SLOTS, *(first for first, _ in ranges), *(edge for _, spans in before.values() for edge in sum(spans, ()))}
    )
    found = []
    for first, end in pairwise(edges):
        owner = next(worker for worker, (_, spans) in before.items() if _is_in(first, spans))
        if owner != max((start, worker) for start, worker in ranges if start <= first)[1]:
            found.append((first, end))
    return found


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same slots in as few ranges as possible."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if found and found[-1][1] == first:
            first = found.pop()[0]
        found.append((first, end))
    return found


def _ranges(stored: bytes) -> list[tuple[int, int]]:
    """Of the record of owned slots."""
    numbers = [int.from_bytes(stored[i : i + 4]) for i in range(0, len(stored) - _TRAILER_BYTES, 4)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _is_in(slot: int, ranges: list[tuple[int, int]]) -> bool:
    return any(first <= slot < end for first, end in ranges)


def _version(plain: Mapping[str, Any]) -> Version:
    return plain["version"], plain["step"], plain["checkpoint_id"]


def _unpacked(kept: bytes) -> bytes:
    """The former record, from what the undo keeps of it. Those of the simulator are too small to be compressed."""
    assert not any(kept[:_LENGTH_BYTES]), kept
    return kept[_LENGTH_BYTES:-_TRAILER_BYTES]


def _canonical(message: tuple[bytes | None, bytes | None]) -> tuple[object, ...]:
    key, value = message
    return key is not None, key or b"", value is not None, value or b""
