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

    oracle_of_steps.py       divisions and output            oracle_of_layouts.py     layouts, and the owners of checkpoints
    oracle_of_revisions.py   projects and transitions        oracle_of_databases.py   databases, at every commit of one of them
    oracle_of_store.py       the checkpoint store            claims.py                who holds the pipeline

"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from io_kafka.step_log.plans import text_in
from tests.simulator.broker import Broker, Entry, Transaction, Where
from tests.simulator.circuit import OTHER
from tests.simulator.claims import Claims
from tests.simulator.disk import Disk
from tests.simulator.oracle_of_databases import DatabaseOracle
from tests.simulator.oracle_of_layouts import LayoutOracle
from tests.simulator.oracle_of_steps import StepOracle
from tests.simulator.oracle_of_store import StoreOracle
from tests.simulator.scheduler import Process
from tests.simulator.stored_databases import Version, owners_of, version_of

LOG, PLANS = "stepwell.p.steps", "stepwell.p.plans"


class Oracle:
    """What must hold of a whole world: it looks at each record of the log, and hands it to the part that judges it. `seen`: how often something
    has happened."""

    def __init__(
        self,
        broker: Broker,
        step_bytes: int | None = None,
        store: StoreOracle | None = None,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._broker, self._now, self.store = broker, now, store
        self.plans: list[tuple[bytes | None, bytes | None]] = []  # all that are committed
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
        self.claims = Claims()
        self.steps = StepOracle(broker, step_bytes, self.seen)
        self.layouts = LayoutOracle(store, self.seen)
        self.databases = DatabaseOracle(self.claims, self.steps, self.layouts, store, self.seen)
        self.revisions = self.steps.revisions

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
            self.claims.claim(epoch, writer)
            self.seen["claims"] += 1
            if self.store is not None:
                self.store.attempt()
            return
        self.claims.check_holds(kind, epoch, writer)
        if self.store is not None and kind in ("division", "step"):
            self.store.looked(self._now(), is_new_step=kind == "step")
        match kind:
            case "ended":
                self.claims.has_ended = True
                self.seen["ended"] += 1
            case "checkpoint_stored":
                assert self.store is not None, "a version is stored without a store"
                self.store.record(record, version_of(record["version"]), owners_of(record["placed"]))
            case "division":
                if self.steps.divide(record):
                    self.databases.check_not_beyond(record["step"], disk)
            case "step":
                self.steps.write(record, output)
                self.databases.check_all_have_run(record["step"], writer, disk)
            case "checkpoint_intent":
                version = version_of(record["version"])
                self.databases.check_unstaged(writer, disk)
                self.layouts.intend(version, owners_of(record["placed"]))
                self.databases.check_boundary(version, writer, disk)
            case "checkpoint_complete":
                self._complete(version_of(record["version"]), disk)
            case "layout":
                self.layouts.settle(record)
            case "layout_intent":
                self.layouts.begin(record)
            case "layout_turn":
                self.layouts.turn()
            case _ if kind.startswith("revision"):
                self._revision(record, disk)

    def _complete(self, version: Version, disk: Disk) -> None:
        owners = self.layouts.owners_of_complete(version)
        for worker, (birth, spans) in owners.items():
            self.databases.check_recorded(worker, birth, spans, version, disk)
        held = {worker for worker in owners if self.databases.holds(worker, owners[worker][0], version, disk)}
        if self.store is not None:
            held |= {worker for worker in owners if (worker, owners[worker][0], version) in self.store.lost}
            self.store.complete(version, owners)
        assert held == owners.keys(), f"{version} is complete, and of its owners {sorted(owners)} only {held} have it"
        self.layouts.complete = version
        self.seen["checkpoints"] += 1

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
            assert record["step"] == self.steps.written == len(self.steps.divided), "a transition begins within a step"
            known.intend(record)
            self.steps.fills_from = record["step"]
            self.seen["intents"] += 1
        elif kind == "revision_switch":
            assert known.phase == "filling", f"a switch while the transition is {known.phase}"
            assert not known.is_paused, "a switch while the transition is paused"
            assert record["step"] == self.steps.written == len(self.steps.divided), "a switch with a division pending"
            assert self.steps.filled == known.whole, f"a switch at {self.steps.filled} of {known.whole}"
            self.steps.check_level()
            self.steps.first.update({where: start for where, start in known.starts.items() if where not in known.live})
            known.switch(record)
            self.steps.frozen = {}
            self.seen["drains"] += "drain" in record
            self.seen["switches"] += 1
            self.seen["switches after reading again"] += bool(known.starts)
        elif kind == "revision_turn":
            reason = record["reason"]
            if reason == "resume":
                self.steps.fills_from = record["step"]
            self.seen[reason] += 1
            if known.turn(reason):
                self.steps.forget(self.steps.written)
        elif kind == "revision_pause":
            assert known.phase == "filling", f"a pause while the transition is {known.phase}"
            known.is_paused = record["is_paused"]
            self.seen["pauses of transitions"] += known.is_paused
        else:
            assert kind == "revision_settled", kind
            assert known.phase == "clearing", f"settled while the transition is {known.phase}"
            assert self.layouts.complete is not None and record["step"] == self.layouts.complete[1] >= known.since
            known.phase = None
            self.databases.check_cleared(disk)
            self.seen["transitions settled"] += 1

    def check_stored(self) -> None:
        """After a run that nothing has disturbed: the store has all steps."""
        if self.store is not None and self.steps.written:
            assert self.store.stored is not None and self.store.stored[1] == self.steps.written, (
                f"{self.steps.written} steps are written, and {self.store.stored} is stored"
            )

    @property
    def needless(self) -> dict[Where, int]:
        """Up to where messages may expire, because no run needs them for a project in force: those before the last checkpoint, and those of a
        topic that no step since then has read."""
        needed = self.layouts.complete
        if self.store is not None:
            needed = self.store.stored if self.store.can_restore else None
        if self.layouts.complete is None or needed is None or min(needed[1], self.layouts.complete[1]) == 0:
            return {}
        before, *since = self.steps.divided[min(needed[1], self.layouts.complete[1]) - 1 :]
        found = {where: end for where, (_, end) in before.items()}
        for number, partition in enumerate(self._broker.topics[OTHER].partitions):
            where = OTHER, number
            if not any(where in ranges for ranges in (before, *since)):
                found[where] = partition.stable
        return found
