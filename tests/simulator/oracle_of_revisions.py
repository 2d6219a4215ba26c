"""What the log of a world says of projects, and which way a transition may go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.simulator.broker import Where
from tests.simulator.circuit import TALLIES_AT, Project


class RevisionOracle:
    """The projects that the log names, and the transition between two of them. `phase`: of the transition under way. `numbers`: of the nodes of
    the project in force. `whole`: the position at which a transition has filled everything. `starts`: from where it reads partitions again, and
    those of them that the project in force reads too are `live`."""

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
