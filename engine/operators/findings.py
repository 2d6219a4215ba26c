"""What the operators of a step report beside their output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from engine.operators.error_rows import ErrorRows


@dataclass
class TimeReport:
    """What the operators of a step report of event time, for users."""

    late: dict[int, int] = field(default_factory=dict)
    """The number of late rows that were left out, by node."""
    watermarks: dict[int, int] = field(default_factory=dict)
    """The watermark after the step in microseconds, by Watermark node, on the worker that keeps it."""

    def add_late(self, node: int, rows: int) -> None:
        self.late[node] = self.late.get(node, 0) + rows


class Lacks(NamedTuple):
    """The value of the column number `column` is not in the message, and no previous row has it."""

    column: int


class RowElsewhere(NamedTuple):
    """The message changes the key of a row, and the row of the former key is of another partition. `key`: the values of the former key as text,
    in the order of the table's key. `partition`: that of the row."""

    key: tuple[str, ...]
    partition: int


class MalformedByState(NamedTuple):
    """A message of a source that only the state shows to be malformed."""

    handle: str
    partition: int
    offset: int
    why: Lacks | RowElsewhere


class Work(NamedTuple):
    """The cost of a step, for users: the time in milliseconds, and the rows that came out."""

    ms: float = 0.0
    rows: int = 0


K = TypeVar("K")


def add_work(found: dict[K, Work], owner: K, work: Work) -> None:
    """Adds what was measured of `owner` to what was found of it before."""
    before = found.get(owner, Work())
    found[owner] = Work(before.ms + work.ms, before.rows + work.rows)


@dataclass
class Findings:
    """What the operators of a stage report beside their output."""

    times: TimeReport = field(default_factory=TimeReport)
    errors: dict[int, ErrorRows] = field(default_factory=dict)
    """The changes of the step in the error rows of nodes, by node, as far as it counts them."""
    malformed: list[MalformedByState] = field(default_factory=list)
    """The messages that the state has shown to be malformed. They were left out, whatever the policy of their source is."""
    work: dict[int, Work] = field(default_factory=dict, compare=False)
    """The cost of the nodes of each view, source and output together, by its own node."""
    border_us: int | None = None
    """The earliest time after that of the step at which a row enters or leaves a view because of the clock, among the rows of the step; among
    all rows of this worker if the step asks for it (`DivisionFacts.asks_border`). None: there is none."""

    def note_border(self, border_us: int) -> None:
        self.border_us = border_us if self.border_us is None else min(border_us, self.border_us)

    def note_work(self, owner: int, ms: float, rows: int = 0) -> None:
        add_work(self.work, owner, Work(ms, rows))

    def add(self, later: Findings) -> None:
        """Adds the findings of a later stage. Each node is in one stage."""
        self.times.late.update(later.times.late)
        self.times.watermarks.update(later.times.watermarks)
        self.errors.update(later.errors)
        self.malformed += later.malformed
        for owner, work in later.work.items():
            add_work(self.work, owner, work)
        if later.border_us is not None:
            self.note_border(later.border_us)
