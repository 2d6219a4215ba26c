"""When a transition is broken off in tests: at a point of the code, and after which other one."""

from __future__ import annotations

from faults.points import Point
from tests.points import points_of

TURNED, COMPARED = "the turn is written", "views are compared, in an open transaction"

MOMENTS: dict[str, tuple[Point | None, Point]] = {
    "its documents are not written": (None, "plan.written"),
    "it is recorded": (None, "revision.intended"),
    "workers have adopted the circuit that fills": ("revision.intended", "program.adopted"),
    "a portion is divided": ("revision.intended", "log.committed"),
    "messages are read again": ("revision.intended", "source.read"),
    "a portion is in an open transaction": ("revision.intended", "stages.inside"),
    COMPARED: ("revision.intended", "stages.inside"),
    "all is filled": (None, "switch.ready"),
    "the switch is recorded": (None, "switch.recorded"),
    "the switch is divided": ("switch.recorded", "log.committed"),
    "the switch is in an open transaction": ("switch.recorded", "stages.inside"),
    "the switch is written": ("switch.recorded", "output.committed"),
    TURNED: (None, "turn.written"),
    "tables are gone": (None, "clear.inside"),
    "it is settled": (None, "revision.settled"),
}
"""The first visit to the second point after one to the first. When views are compared cannot be said so: their feeds come after all others."""

_POINTS_OF_WORKERS = points_of((point for _, point in MOMENTS.values()), "source", "stages")

OF_WORKERS = tuple(moment for moment, (_, point) in MOMENTS.items() if point in _POINTS_OF_WORKERS)
"""Those to which workers come."""
