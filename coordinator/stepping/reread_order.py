"""In which order messages are read again: all partitions together, up to one time of their messages.

What decides whether a query with event time takes a row for late is how its partitions are read beside each other. So what holds for new input
(dividing.py) holds here too. If all that is left was written within the delay of a watermark, as when a topic was loaded a
moment ago, it is read in proportion. If timestamps turn out not to follow event time, the topics of that query are read evenly. As long as
nobody knows that, portions are small.

Topics that no query reads with event time are read by time with the others, for a row of theirs may be joined to one of those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from base.logger import Logger
from coordinator.stepping.dividing import TRIAL_PART, TRIAL_ROWS_MIN, TopicGroup
from coordinator.stepping.time_relation import TimeRelation
from io_kafka.clients.time_bound import Offsets, OffsetsSince, TimeBound, count, evenly

_log = Logger("coordinator.stepping.reread_order")


class RereadOrder:
    """The order of one transition in one run. `groups`: the topics that queries read with event time, by the handles that they have where they
    are read again."""

    def __init__(self, offsets_since: OffsetsSince, groups: Sequence[TopicGroup] = ()) -> None:
        self._groups = [_Relations(group) for group in groups]
        self._cut = TimeBound(offsets_since, min((group.delay_ms for group in groups), default=0))
        self._cut_ms: dict[int, int] = {}  # by step
        self._begins: Offsets = {}

    def find_ends(self, step: int, starts: Offsets, ends: Offsets, rows: int) -> Offsets:
        """The ends of at most about `rows` messages from `starts` on, and at most up to `ends`."""
        whole = count(starts, ends)
        if whole <= rows:
            return dict(ends)
        self._begins = {**starts, **self._begins}
        if not all(group.is_known for group in self._groups):
            rows = max(rows // TRIAL_PART, min(rows, TRIAL_ROWS_MIN))
        chosen, left = dict(starts), dict(starts)
        for group in self._groups:
            if group.differs:
                mine = {where: left.pop(where) for where in starts if where.topic in group.of.topics}
                chosen |= evenly(self._begins, mine, ends, max(1, rows * count(mine, ends) // whole))
        if count(left, ends):
            chosen |= self._cut.find_ends(left, ends, max(1, rows * count(left, ends) // whole))
            self._note_cut(step)
        return chosen

    def _note_cut(self, step: int) -> None:
        self._cut_ms[step] = self._cut.time_ms
        for group in self._groups:
            group.note_cut()

    def note_watermarks(self, step: int, watermarks_us: Mapping[int, int]) -> None:
        """`watermarks_us`: after the step, by node of the circuit that fills."""
        cut_ms = self._cut_ms.pop(step, 0)
        for group in self._groups if cut_ms else ():
            group.note_watermarks(cut_ms, watermarks_us)


class _Relations:
    """How the timestamps of one group and the event times of its queries go together."""

    def __init__(self, of: TopicGroup) -> None:
        self.of = of
        self._by_node = {node: TimeRelation(of.delay_ms) for node in of.watermarks}

    @property
    def is_known(self) -> bool:
        return any(each.is_known for each in self._by_node.values())

    @property
    def differs(self) -> bool:
        return any(each.differs for each in self._by_node.values())

    def note_cut(self) -> None:
        for each in self._by_node.values():
            each.note_cut()

    def note_watermarks(self, cut_ms: int, watermarks_us: Mapping[int, int]) -> None:
        if self.differs:
            return
        for node, relation in self._by_node.items():
            if node in watermarks_us:
                relation.note(cut_ms, watermarks_us[node] // 1000)
        if self.differs:
            _log.info(
                "event time runs away from the timestamps of the messages, so they are read again evenly",
                topics=sorted(self.of.topics),
            )
