"""What operators may know beside their inputs and their state.

There is one `RunFacts` for each program of a run, one `DivisionFacts` in a step, and one `StepFacts` in each step of a worker. All contexts of
operators refer to them, so nothing in them is copied from node to node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.model.filling import HASHES, LEVELS
from engine.model.withholding import NOTHING_WITHHELD, Withholding
from engine.operators.arrangement import Key
from io_kafka.formats.encodings import SchemaIds


@dataclass(frozen=True)
class RunFacts:
    """What is true in every step of a program. `numbers`: of each node (engine/model/numbers.py). `append_only[node][i]`: no change of the
    node's input i can ever have a negative weight. `partitions`: the number of partitions of every output topic, by handle. `schema_ids`: the
    ids of the schemas of the outputs that are written as Avro or Protobuf, by handle."""

    numbers: tuple[int, ...]
    append_only: Mapping[int, tuple[bool, ...]]
    partitions: Mapping[str, int]
    schema_ids: Mapping[str, SchemaIds]
    begins: frozenset[int] | None = None
    """The nodes whose first step is that of the program, `StepFacts.first`. None: all of them."""
    uncounted: frozenset[int] = frozenset()
    """The nodes of which error rows are left out and not counted, because another node counts the same ones."""


@dataclass(frozen=True, kw_only=True)
class DivisionFacts:
    """What the division of a step says to the operators of all workers. `number`: of the step. `filled`: the positions of the feeds of a
    transition before and after the step; see StepFacts.fed_hashes. `clock_us`: the time of the step; None if no view reads the clock. `idle`:
    the sources that watermarks leave out. `asks_border`: whether operators look through their whole state for the next border (Findings). It
    changes nothing of what the step does, and no division records it."""

    number: int
    withholding: Withholding = NOTHING_WITHHELD
    filled: tuple[int, int] = (0, 0)
    clock_us: int | None = None
    idle: frozenset[str] = frozenset()
    asks_border: bool = False

    @property
    def ends_filling(self) -> bool:
        """Whether feeds reach their end in this step. New nodes have all then that has been read up to its end
        (coordinator/transition/portions.py)."""
        before, after = self.filled
        return before < after == LEVELS * HASHES

    @property
    def gives_content(self) -> bool:
        """Whether feeds had something left to give before this step."""
        before, after = self.filled
        return before < LEVELS * HASHES and after > 0

    def fed_hashes(self, level: int) -> tuple[int, int]:
        """The range of hashes that the feeds of a level give in the step. One position stands for the feeds of all levels: level n is fed from
        n * HASHES to (n + 1) * HASHES."""
        before, after = (min(max(position - level * HASHES, 0), HASHES) for position in self.filled)
        return before, after


@dataclass(frozen=True)
class StepFacts:
    """What is true in one step on one worker. `colocation[node][i]`: the columns of the node's input i by whose hash its rows lie on this
    worker; None if they may lie on any worker. `owns_keyless`: whether this worker owns slot 0, to which rows without a key belong. `grown`: the
    sources whose topic has more partitions than when the state began. `first`: the first step of the program that the step runs.
    `idle_inputs`: the inputs that a Watermark leaves out, by node. `standing`: the Watermarks over feeds that have not come to their end before
    the step. `written_again`: the outputs that write all rows of their view once more in it, by handle."""

    division: DivisionFacts
    colocation: Sequence[tuple[Key | None, ...]]
    owns_keyless: bool
    grown: frozenset[str] = frozenset()
    first: int = 0
    idle_inputs: Mapping[int, frozenset[int]] = field(default_factory=dict)
    standing: frozenset[int] = frozenset()
    written_again: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PartFacts:
    """What an operator within a Recursion has in place of what the facts say of its node. `first_trace`: the number of the node's traces before
    those of this operator."""

    append_only: tuple[bool, ...]
    colocation: tuple[Key | None, ...]
    first_trace: int
