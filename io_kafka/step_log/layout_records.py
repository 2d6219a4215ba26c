"""The records of the step log that say which worker owns which slots.

    layout          the layout from here on: the first one of a generation, and the end of each change
    layout_intent   a change has begun: from here on, slots may move from the layout to the target
    layout_turn     the change under way has another target: it is reversed, aborted, or goes on to another number of workers
    layout_auto     from here on Stepwell chooses the number of workers between these bounds, or leaves it to users

A single move of slots is not recorded. A crash undoes the moves since the last checkpoint, so such a record would be false. Instead each
checkpoint records who owned what when it was taken (`CheckpointIntent.placed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from base.limits import WORKERS_MAX
from base.slots import SLOTS, SlotSet
from io_kafka.step_log.common_rules import is_ascending
from io_kafka.step_log.form import Natural, Part, PartWithLater, RecordBase

RescaleMode = Literal["cold", "live"]

FORMER_MODES: Mapping[object, RescaleMode] = {"hot": "live"}
"""Modes that logs of earlier releases have, and what such a rescale is now. A hot one copied everything and then moved it in one pause. Whatever
it has not moved goes on as in a live one."""

CutProtocol = Literal["batches", "damion", "icadd"]
TurnReason = Literal["reverse", "abort", "replan"]
Outcome = Literal["first", "asked", "changed", "reversed", "aborted", "restored"]


@dataclass(frozen=True)
class MoveStrategy:
    """How a rescale moves slots. `mode`: whether steps go on meanwhile. `protocol`: what decides which slots a cut moves; other than "batches"
    only in a live rescale. `budget_bytes` and `budget_ms`: the bounds of one cut of a live rescale, in bytes and in time; None for Stepwell's
    own."""

    mode: RescaleMode
    protocol: CutProtocol = "batches"
    budget_bytes: int | None = None
    budget_ms: float | None = None


class MemberPart(Part):
    """A worker of the layout. `birth` names its database among all that ever had this number, and is never used again."""

    worker: Natural
    birth: str


class Ownership(Part):
    """Who owns what. `members`: ascending. `ranges`: the first slot and the owner of each range of slots, which ends where the next one
    begins; the first one begins at slot 0, and neighbours have different owners. A member may own nothing."""

    members: tuple[MemberPart, ...]
    ranges: tuple[tuple[Natural, Natural], ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        numbers = [member.worker for member in self.members]
        if not is_ascending(numbers):
            raise ValueError("the members are not in ascending order")
        if not self.ranges or self.ranges[0][0] != 0 or self.ranges[-1][0] >= SLOTS:
            raise ValueError("the ranges do not cover all slots")
        for (first, owner), (following, other) in pairwise(self.ranges):
            if first >= following or owner == other:
                raise ValueError(
                    f"the range at slot {following} is out of order, or has the same owner as its neighbour"
                )
        if not {owner for _, owner in self.ranges} <= set(numbers):
            raise ValueError("a range belongs to somebody who is no member")
        return self

    @staticmethod
    def of(births: Mapping[int, str], owned: Mapping[int, SlotSet]) -> Ownership:
        """`births`: of all members, by number. The sets in `owned` cover all slots once."""
        members = tuple(MemberPart(worker=worker, birth=births[worker]) for worker in sorted(births))
        return Ownership(members=members, ranges=ranges_of(owned))

    @property
    def births(self) -> dict[int, str]:
        """By the member's number."""
        return {member.worker: member.birth for member in self.members}

    @property
    def owned(self) -> dict[int, SlotSet]:
        """The slots of each member, also of those without any."""
        spans: dict[int, list[tuple[int, int]]] = {member.worker: [] for member in self.members}
        for (first, owner), (end, _) in pairwise((*self.ranges, (SLOTS, -1))):
            spans[owner].append((first, end))
        return {worker: SlotSet(tuple(own)) for worker, own in spans.items()}

    @property
    def owners(self) -> dict[int, str]:
        """The births of the members that own slots."""
        owning = {owner for _, owner in self.ranges}
        return {worker: birth for worker, birth in self.births.items() if worker in owning}


def ranges_of(owned: Mapping[int, SlotSet]) -> tuple[tuple[int, int], ...]:
    """(first slot, owner) of each range of slots."""
    return tuple(sorted((first, worker) for worker, slots in owned.items() for first, _ in slots.ranges))


class FixedPart(Part):
    """The number of shards is fixed."""

    kind: Literal["fixed"] = "fixed"
    shards: Annotated[int, Field(ge=1, le=SLOTS)]


class DynamicPart(Part):
    """The number of shards follows the number of workers; the largest share exceeds the mean by this part at most."""

    kind: Literal["dynamic"] = "dynamic"
    inaccuracy: Annotated[float, Field(gt=0, le=1)]


PolicyPart = Annotated[FixedPart | DynamicPart, Field(discriminator="kind")]


class LayoutRecord(RecordBase):
    """The record of a layout that is settled. `number` counts the layouts of a generation from 0 on. `shards`: into how many the slots are
    divided. `asked`: the number of workers in the project's settings that was acted on last; None if they did not say one. `outcome`: why there
    is a new layout."""

    kind: Literal["layout"] = "layout"
    number: Natural
    shards: Annotated[int, Field(ge=1, le=SLOTS)]
    policy: PolicyPart
    placed: Ownership
    asked: int | None
    outcome: Outcome


class Target(Part):
    """The layout that a change leads to. `members`: the numbers of its workers, ascending. Who is not a member yet gets its birth when it
    is made."""

    shards: Annotated[int, Field(ge=1, le=SLOTS)]
    policy: PolicyPart
    members: tuple[Natural, ...]
    ranges: tuple[tuple[Natural, Natural], ...]

    @property
    def owned(self) -> dict[int, SlotSet]:
        """The slots of each member."""
        births = tuple(MemberPart(worker=member, birth="") for member in self.members)
        return Ownership(members=births, ranges=self.ranges).owned


class HostsPart(Part):
    """To which hosts the new workers of a change may come: to any but `avoided`, or to `wanted` alone. Users name them as
    in Register.is_on."""

    avoided: str
    wanted: str | None


class LayoutIntent(RecordBase, PartWithLater):
    """A rescale has begun."""

    LATER: ClassVar[frozenset[str]] = frozenset({"hosts"})
    kind: Literal["layout_intent"] = "layout_intent"
    change: Natural
    """The number of the layout with which the rescale will end."""
    mode: RescaleMode
    """One of FORMER_MODES is read as what it is now."""
    target: Target
    asked: int | None
    """The number of workers in the project's settings, as the layout to come will have it; see LayoutRecord."""
    budget_bytes: Natural | None = None
    budget_ms: float | None = None
    protocol: CutProtocol = "batches"
    hosts: HostsPart | None = None
    """Where the new workers may be; None if anywhere."""

    @property
    def strategy(self) -> MoveStrategy:
        """The mode, the protocol and the bounds, which the record has one by one."""
        return MoveStrategy(self.mode, self.protocol, self.budget_bytes, self.budget_ms)

    @field_validator("mode", mode="before")
    @classmethod
    def _mode_now(cls, mode: object) -> object:
        return FORMER_MODES.get(mode, mode) if isinstance(mode, str) else mode

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.protocol != "batches" and self.mode != "live":
            raise ValueError(f"a {self.mode} change by the protocol {self.protocol}")
        return self


class LayoutTurn(RecordBase):
    kind: Literal["layout_turn"] = "layout_turn"
    change: Natural
    target: Target
    reason: TurnReason
    asked: int | None


class AutoBounds(Part):
    """Between how many workers Stepwell may choose, both included."""

    min: Annotated[int, Field(ge=1, le=WORKERS_MAX)]
    max: Annotated[int, Field(ge=1, le=WORKERS_MAX)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"at least {self.min} workers and at most {self.max}")
        return self

    def __str__(self) -> str:
        return f"{self.min} to {self.max} workers"


class LayoutAuto(RecordBase):
    """The record of the bounds between which Stepwell may choose the number of workers. `bounds`: None if users alone change the number of
    workers. `asked`: the bounds in the project's settings that were acted on last; None if they did not say any. The last such record counts."""

    kind: Literal["layout_auto"] = "layout_auto"
    bounds: AutoBounds | None
    asked: AutoBounds | None
