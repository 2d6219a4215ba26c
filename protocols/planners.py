"""The protocols as a run of the pipeline gets them (coordinator/rescale/planner.py says what is asked of a planner)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from base.slots import SlotSet
from protocols.damion_planner import DamionPlanner
from protocols.icadd_planner import IcaddPlanner

Owned = Mapping[int, SlotSet]


def _icadd(owned: Owned, target: Owned, slots_per_round: int) -> IcaddPlanner:
    """A region is told at each round how many slots it may give away."""
    return IcaddPlanner(owned, target)


PLANNERS: Mapping[str, Callable[[Owned, Owned, int], DamionPlanner | IcaddPlanner]] = {
    "damion": DamionPlanner,
    "icadd": _icadd,
}
"""Each from the owners now, those of the target, and how many slots of a source one round may move."""
