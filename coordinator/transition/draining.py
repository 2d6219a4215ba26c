"""How far each step of a drain goes: a part of what differs, by ranges of hashes (engine/operators/differences.py).

How many rows the differences have is in the record of the switch. Hashes are spread evenly, so a range has about its share of the rows. How many
rows a new topic gets is not known before: its first range is small, and the messages of each range tell how long the next one may be.

A range is made of whole slots. All rows of a slot leave together, so a step has more rows where one key has more.
"""

from __future__ import annotations

from dataclasses import dataclass

from base.limits import DRAIN_ROWS_MAX
from base.slots import SLOTS
from engine.analysis.withholding import outputs_behind
from engine.model.circuit import Circuit
from engine.model.filling import ContentFeed, Switched
from io_kafka.step_log.revision_records import Drain

FIRST_PARTS = 256
"""The first portion of a content whose cost is not known is such a part of it. Of 10 M rows it has 40,000, which take about 100 ms."""

GROWTH_MAX = 4
"""By how many times a portion may be larger than the previous one, while its cost is not known."""


@dataclass
class DrainPortions:
    """How large the steps of a drain are, in one run. `rows_max`: the bound of the rows of a step. `slots`: the slots of the last range.
    `rows_per_slot`: how many rows the contents had for each slot of the last range."""

    rows_max: int = DRAIN_ROWS_MAX
    slots: int = 0
    rows_per_slot: float = 0.0

    def begin(self) -> None:
        """Another transition begins, or this one is filled again."""
        self.slots, self.rows_per_slot = 0, 0.0

    def next(self, position: int, drain: Drain, *, gives_contents: bool) -> int:
        """The position after the next step. `gives_contents`: whether new topics get their content."""
        rows_per_slot = max(drain.rows / SLOTS, self.rows_per_slot if gives_contents else 0.0)
        slots = SLOTS if not rows_per_slot else int(min(SLOTS, self.rows_max / rows_per_slot))
        if gives_contents:
            slots = min(slots, GROWTH_MAX * self.slots if self.slots else SLOTS // FIRST_PARTS)
        self.slots = max(1, slots)
        slot = drain.whole // SLOTS
        return min(drain.whole, (position // slot + self.slots) * slot)

    def note(self, before: int, after: int, drain: Drain, messages: int) -> None:
        """New topics got so many messages in a step that went from `before` to `after`."""
        slots = (after - before) * SLOTS // drain.whole
        if slots:
            self.slots, self.rows_per_slot = slots, messages / slots


def outputs_with_content(switching: Circuit) -> frozenset[str]:
    """The handles of the outputs that get the content of their view. `switching`: the circuit of the steps of a drain."""
    feeds = (index for index, node in enumerate(switching.nodes) if isinstance(node, ContentFeed))
    return outputs_behind(switching, feeds)


def leaves_at_once(difference: Switched) -> bool:
    """Whether all of a difference lies in one slot, because it lies by no column (engine/analysis/draining.py)."""
    return not difference.key
