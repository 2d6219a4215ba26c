"""What a streaming plan says of event time: the delays of its watermarks, and which columns carry event time.

Spark marks a column that is event time in the metadata of its attribute, and passes the mark on to windows, aliases and window_time(). Its
operators look for that mark, and so does lowering. `toJSON` leaves metadata out, so it is read from the JVM's plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepwell.catalyst.scala import scala_items
from stepwell.catalyst.tree import TreeNode, walk_all

DELAY_METADATA = "spark.watermarkDelayMs"
POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
WATERMARK = "EventTimeWatermark"
"""The plan node of withWatermark and of SQL's WATERMARK clause. In the plan of a materialized view Spark leaves it out."""


@dataclass(frozen=True)
class EventTimes:
    """The event times of a query, and how its watermarks are combined. `delays_ms`: by the expression id of each column that is event time.
    `greatest`: of several watermarks the greatest is that of the query, and not the least (spark.sql.streaming.multipleWatermarkPolicy =
    max)."""

    delays_ms: Mapping[int, int] = field(default_factory=dict)
    greatest: bool = False


def event_times(java: Any, tree: TreeNode, policy: str) -> EventTimes:
    """Returns the event times of the JVM's optimised plan, whose tree is `tree`."""
    if all(node.kind != WATERMARK for node in walk_all(tree)):
        return EventTimes()
    found: dict[int, int] = {}
    waiting = [java]
    while waiting:
        plan = waiting.pop()
        for column in scala_items(plan.output()):
            if column.metadata().contains(DELAY_METADATA):
                found[int(column.exprId().id())] = int(json.loads(column.metadata().json())[DELAY_METADATA])
        waiting += scala_items(plan.children())
    return EventTimes(found, policy.lower() == "max")
