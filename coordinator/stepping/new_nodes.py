"""What a step gives to the nodes that a transition adds: a portion of the content of feeds, or of messages that are read again.

In a drain it is the position up to which differences have left. Outside a transition it is nothing. How large a portion is says
transition/portions.py, and which messages it has says transition/reread_portions.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from base.options import OnError
from coordinator.specification import PipelineSpec
from coordinator.stepping.views_in_error import Counting, is_release_due, next_counting
from coordinator.transition.draining import outputs_with_content
from coordinator.transition.portions import Portions
from coordinator.transition.reread_portions import RereadPortions
from engine.model.numbers import NumberedCircuit
from engine.run.rereading import cannot_reread
from io_kafka.errors import CANNOT_READ
from io_kafka.offsets import OffsetRange
from io_kafka.step_log.division import Division, StepLimits
from io_kafka.step_log.input_policy import InputPolicy
from io_kafka.step_log.records import DivisionRecord, InputRange, NodeErrors
from io_kafka.step_log.state import StepLogState


class PortionOfStep(NamedTuple):
    """What the division of a step gives to new nodes. `filled`: the position after the step, up to which it fills them or, in a drain, up to
    which differences have left; None if it does neither. `again`: the ranges of messages that are read again for them."""

    filled: int | None
    again: tuple[InputRange, ...] = ()


class NewNodes:
    """The new nodes of one program, whose circuit is `numbered`. `portions`: how far each step fills new nodes. `counted`: their numbers; every
    division counts their error rows. `rereads`: what is read again for them. `before`: in the steps of a switch, the circuit of the former
    project. `is_paused`: whether the transition is paused, so that nothing is given."""

    def __init__(
        self,
        numbered: NumberedCircuit,
        portions: Portions,
        *,
        counted: Collection[int] = (),
        rereads: RereadPortions | None = None,
        before: NumberedCircuit | None = None,
    ) -> None:
        self._numbered, self._portions, self._rereads, self._before = numbered, portions, rereads, before
        self._always_counted = frozenset(counted)
        self._gives_contents = bool(outputs_with_content(numbered.circuit))
        self.is_paused = False

    def read_what_is_there(self) -> None:
        """The run ends with the messages that are there now, also in topics that only new nodes read."""
        if self._rereads is not None:
            self._rereads.ends = {}

    def take_over(self, former: NewNodes) -> None:
        """Such topics end where the same run has found their ends before a recovery or another program."""
        if self._rereads is not None and former._rereads is not None:
            self._rereads.ends = former._rereads.ends

    def note_watermarks(self, step: int, watermarks_us: Mapping[int, int]) -> None:
        """`watermarks_us`: after the step, by node of the circuit."""
        if self._rereads is not None:
            self._rereads.order.note_watermarks(step, watermarks_us)

    def weight(self, ranges: Iterable[OffsetRange]) -> int:
        """How many messages these ranges have, which were read again. A message of a batch table counts as many rows."""
        return 0 if self._rereads is None else self._rereads.weight(ranges)

    def limits(self, limits: StepLimits) -> StepLimits:
        """As long as messages are read again, a step reads half as many new ones as it may. The other half is for those."""
        if self._rereads is None or self.is_paused:
            return limits
        return replace(limits, rows_max=max(1, limits.rows_max // 2))

    def is_due(self, log: StepLogState, step: int) -> bool:
        """Whether a step without input fills new nodes."""
        passage = log.revisions.passage_that_fills(step)
        if passage is None or self.is_paused:
            return False
        if log.filled < passage.intent.whole or self._rereads is None:
            return log.filled < passage.intent.whole
        with self._charging_new_nodes(step):
            return self._rereads.offsets_left(log) > 0

    def is_release_due(self, log: StepLogState, errors: Sequence[NodeErrors]) -> bool:
        """Whether outputs that were withheld can be released. `errors`: the error rows now."""
        return is_release_due([node for node in log.counted if node not in self._always_counted], errors)

    def counting(self, log: StepLogState, step: int, *, is_drained: bool) -> Counting:
        """The nodes whose error rows are counted, and the outputs that are released."""
        before = self._before if step == log.revisions.switch_step else None
        found = next_counting(self._numbered, log, is_drained=is_drained, before=before)
        return Counting(tuple(sorted(self._always_counted.union(found.counted))), found.released)

    def portion(
        self, log: StepLogState, division: Division, rows_max: int, after: DivisionRecord | None
    ) -> PortionOfStep:
        """What the step gives to new nodes. `rows_max`: of a step. `after`: the division before it, if the log does not have it yet. Raises
        DataError, which names a new node."""
        drain = log.revisions.drain_at(division.step)
        if drain is not None:
            drained = self._portions.drained.next(log.filled, drain, gives_contents=self._gives_contents)
            return PortionOfStep(drained)
        passage = log.revisions.passage_that_fills(division.step)
        if passage is None:
            return PortionOfStep(None)
        position = log.filled if after is None else after.filled or 0
        again: tuple[InputRange, ...] = ()
        is_read = True
        if self._rereads is not None:
            may_read = not self.is_paused and self._portions.are_messages_next(position)
            rows = self._portions.next_messages(division.rows, rows_max) if may_read else 0
            with self._charging_new_nodes(division.step):
                again, is_read = self._rereads.choose(log, division, rows, after)
        if not self.is_paused and (is_read or not self._portions.are_messages_next(position)):
            position = self._portions.next(position, division.rows, passage.intent.whole)
        return PortionOfStep(position, again)

    def policy(self, spec: PipelineSpec) -> InputPolicy:
        """Returns the policy of the project. No dead letter is written of what is read again."""
        again = () if self._rereads is None else self._rereads.sources
        skipped: dict[str, OnError] = {
            each.table.handle: "skip" if each.on_error == "dead-letter" else each.on_error for each in again
        }
        truncated = {each.table.handle: each.truncate for each in again if each.truncate != "fail"}
        return InputPolicy({**spec.on_error, **skipped}, spec.dead_letter_topics, {**spec.truncate, **truncated})

    @contextmanager
    def _charging_new_nodes(self, step: int) -> Iterator[None]:
        """Turns a failed read into a DataError of a new node, so that the run goes on without the transition."""
        try:
            yield
        except CANNOT_READ as fault:
            raise cannot_reread(self._numbered.circuit, step, fault) from fault
