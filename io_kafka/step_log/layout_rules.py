"""Which records of layouts can follow which: see the diagram in state.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from base.slots import NO_SLOTS, SlotSet
from io_kafka.step_log.layout_records import LayoutIntent, LayoutRecord, LayoutTurn, Ownership, Target


@dataclass(frozen=True)
class LayoutGround:
    """The layout that was settled last, the change under way with its turns, and who owns what in the last complete checkpoint and in the
    stored one."""

    layout: LayoutRecord | None
    rescale: LayoutIntent | None
    turns: tuple[LayoutTurn, ...]
    last_placed: Ownership | None
    stored_placed: Ownership | None

    @property
    def target(self) -> Target | None:
        """Where the change under way leads to; None without one."""
        if self.rescale is None:
            return None
        return self.turns[-1].target if self.turns else self.rescale.target


def why_not_layout(
    record: LayoutRecord | LayoutIntent | LayoutTurn, ground: LayoutGround, why_not_first: str | None
) -> str | None:
    """Why the record cannot follow; None if it can. `why_not_first`: why no first layout can follow now."""
    if ground.layout is None:
        if not isinstance(record, LayoutRecord) or record.number != 0:
            return "the first record of a layout must be layout 0"
        return why_not_first
    number = record.number if isinstance(record, LayoutRecord) else record.change
    if number != ground.layout.number + 1:
        return f"number {number} does not follow layout {ground.layout.number}"
    if isinstance(record, LayoutIntent):
        return "a change of the layout is under way" if ground.rescale is not None else None
    if isinstance(record, LayoutTurn):
        return "no change of the layout is under way" if ground.rescale is None else None
    return _why_not_completed(record, ground.layout, ground)


def _why_not_completed(record: LayoutRecord, before: LayoutRecord, ground: LayoutGround) -> str | None:
    """A change ends with the owners of the last checkpoint, which must be those of its target; or a start has gone back to the stored
    version."""
    if record.outcome == "restored":
        return None if record.placed == ground.stored_placed else "the stored version has other owners"
    target = ground.target
    if target is None:
        same = record.placed == before.placed
        return None if same else "it gives slots to other workers, and no change of the layout is under way"
    if record.placed != ground.last_placed:
        return "the last checkpoint has other owners"
    if record.placed.ranges != target.ranges or tuple(record.placed.births) != target.members:
        return "it is not the layout that the change leads to"
    return None


def why_not_placed(placed: Ownership, ground: LayoutGround) -> str | None:
    """Why a checkpoint cannot have these owners; None if it can. A slot belongs to its owner in the layout or in one of the targets of the
    change under way. A worker that has given everything away and gets slots again has another birth if the run recovered meanwhile."""
    if ground.layout is None:
        return "no layout is recorded"
    if ground.rescale is None:
        return None if placed == ground.layout.placed else "it has other owners than the layout"
    return why_not_owned(placed.owned, ground)


def why_not_owned(owners: Mapping[int, SlotSet], ground: LayoutGround) -> str | None:
    """Why workers cannot own these slots; None if they can: see `why_not_placed`."""
    assert ground.layout is not None
    targets = [] if ground.rescale is None else [ground.rescale.target, *(turn.target for turn in ground.turns)]
    allowed = [ground.layout.placed.owned, *(target.owned for target in targets)]
    for worker, slots in owners.items():
        foreign = slots
        for owned in allowed:
            foreign = foreign.minus(owned.get(worker, NO_SLOTS))
        if foreign != NO_SLOTS:
            return f"worker {worker} owns {foreign}, which neither the layout nor a target of the change gives it"
    return None
