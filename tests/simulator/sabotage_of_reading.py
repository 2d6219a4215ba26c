"""Mutations of what a transition fills and reads again, and of how it goes over to the next project: see sabotage.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from coordinator import loop
from coordinator.stepping import stepping
from coordinator.transition import machine, reread_portions, transitions
from engine.errors import DataError
from engine.run import tasks
from io_kafka.step_log import revision_rules, rules
from io_kafka.step_log.records import DivisionRecord, InputRange
from io_kafka.step_log.state import StepLogState
from io_kafka.step_log.value import LogValue
from tests.simulator.breaking import Mutation, broken
from tests.simulator.weather import ACTIVE, BENIGN


@contextmanager
def position_kept_in_memory() -> Iterator[None]:
    """The positions of feeds are those of the coordinator, and not those of the division. In a replay it is ahead of the state."""
    real = stepping.Stepping._step_input

    def given(self: Any, crew: Any, under_way: Any) -> Any:
        log, record = self._writer.state, under_way.record
        found = real(self, crew, under_way)
        is_filling = log.revisions.passage_that_fills(record.step) is not None
        if not is_filling or record.step >= log.steps:
            return found
        return replace(found, facts=replace(found.facts, filled=(log.filled,) * 2))

    with broken(stepping.Stepping, "_step_input", given):
        yield


@contextmanager
def switch_with_a_division_pending() -> Iterator[None]:
    """The switch is recorded at any boundary, and the log does not mind."""
    real = machine.Transition._due

    def due(self: Any, log: Any, at: Any, *, is_undivided: bool) -> Any:
        return real(self, log, at, is_undivided=True)

    with (
        broken(machine.Transition, "_due", due),
        broken(revision_rules, "_why_not_boundary", lambda what, step, ground: None),
        broken(StepLogState, "check", lambda self: None),
    ):
        yield


@contextmanager
def switch_before_new_nodes_are_level() -> Iterator[None]:
    """All content is given, and messages are left that only the project in force has read."""
    with broken(LogValue, "has_reread_all", property(lambda self: True)):
        yield


@contextmanager
def _chosen(change: Any) -> Iterator[None]:
    """`change(ranges)`: what is read again in place of these ranges. The log does not mind."""
    real = reread_portions.RereadPortions.choose

    def choose(self: Any, *given: Any) -> Any:
        ranges, is_read = real(self, *given)
        return change(ranges), is_read

    with (
        broken(reread_portions.RereadPortions, "choose", choose),
        broken(rules, "_why_not_read_again", lambda log, record: None),
    ):
        yield


def _later(span: InputRange) -> InputRange:
    return span.model_copy(update={"start": min(span.start + 1, span.end)})


@contextmanager
def a_message_left_out_of_each_portion() -> Iterator[None]:
    with _chosen(lambda ranges: tuple(map(_later, ranges))):
        yield


@contextmanager
def new_nodes_ahead_of_the_project_in_force() -> Iterator[None]:
    """They are given what is there, whether the project in force has read it or not."""
    with (
        broken(
            reread_portions.RereadPortions,
            "_ends",
            lambda self, starts, live, log: {
                where: max(at, self.topics.end_offsets_of([where])[where]) for where, at in starts.items()
            },
        ),
        broken(rules, "_why_not_read_again", lambda log, record: None),
    ):
        yield


@contextmanager
def partitions_that_came_later_forgotten() -> Iterator[None]:
    with broken(reread_portions.RereadPortions, "_starts_added", lambda self, log, division, known: {}):
        yield


@contextmanager
def a_new_topic_read_twice() -> Iterator[None]:
    """From the switch on, a topic that only the next project reads begins where it began for the new nodes."""
    real = StepLogState._with_switch

    def with_switch(self: Any, record: Any) -> Any:
        starts = {each.where: each.start for each in self.revisions.phase.intent.again if not each.is_live}
        after = real(self, record)
        return replace(after, next_offsets={**after.next_offsets, **starts})

    with broken(StepLogState, "_with_switch", with_switch):
        yield


@contextmanager
def resumed_from_the_middle() -> Iterator[None]:
    """After a detachment new nodes are filled from nothing, and read again from where they were."""
    real = StepLogState._with_turn
    with broken(StepLogState, "_with_turn", lambda self, record: replace(real(self, record), again=self.again)):
        yield


@contextmanager
def read_again_after_an_abort() -> Iterator[None]:
    """Steps and replays read what their divisions say, also where the transition has been given up."""
    with broken(stepping.Stepping, "_spans_read_again", lambda self, record: tuple(each.span for each in record.again)):
        yield


@contextmanager
def a_replay_that_reads_other_messages_again() -> Iterator[None]:
    """A portion of a replay is what the coordinator would choose now, which is nothing."""
    real = stepping.Stepping._step_input

    def given(self: Any, crew: Any, record: Any, bytes_max: Any) -> Any:
        found = real(self, crew, record, bytes_max)
        return replace(found, again=()) if record.step < self._writer.state.steps else found

    with (
        broken(stepping.Stepping, "_step_input", given),
        broken(stepping.Stepping, "_compare_again", lambda self, crew, record, found: None),
    ):
        yield


@contextmanager
def a_cut_that_leaves_new_nodes_ahead() -> Iterator[None]:
    """A division over less input reads again beyond it."""
    real = DivisionRecord.with_ends

    def with_ends(self: Any, epoch: int, ends: Any) -> Any:
        return real(self, epoch, ends).model_copy(update={"again": self.again})

    with (
        broken(DivisionRecord, "with_ends", with_ends),
        broken(rules, "_why_not_read_again", lambda log, record: None),
    ):
        yield


@contextmanager
def expired_input_ends_the_run() -> Iterator[None]:
    with broken(tasks, "CANNOT_READ", ()):
        yield


@contextmanager
def input_that_is_gone_in_a_switch_ends_the_run() -> Iterator[None]:
    with broken(loop, "FAULTS_A_TRANSITION_MAY_CAUSE", (DataError,)):
        yield


@contextmanager
def no_checkpoint_before_the_switch() -> Iterator[None]:
    """A replay across the switch needs messages that were read again, and they may have expired."""
    real = machine.Transition.measured

    def measured(self: Any, differences: Any, holds: Any, *, reads_again: bool) -> None:
        real(self, differences, holds, reads_again=False)

    with broken(machine.Transition, "measured", measured):
        yield


@contextmanager
def lost_workers_blamed_on_the_machine() -> Iterator[None]:
    """A step that kills its workers is given to new ones, again and again."""
    with broken(transitions.Transitions, "turn_after_loss", lambda self: False):
        yield


@contextmanager
def a_switch_that_is_taken_back_not_held() -> Iterator[None]:
    """It fails again, and the transition never rests."""
    real = machine.Transition._of_filled

    def of_filled(self: Any, log: Any, phase: Any) -> Any:
        return real(self, log, phase.model_copy(update={"turn": None}))

    with broken(machine.Transition, "_of_filled", of_filled):
        yield


READING: tuple[Mutation, ...] = (
    position_kept_in_memory,
    switch_with_a_division_pending,
    switch_before_new_nodes_are_level,
    a_message_left_out_of_each_portion,
    new_nodes_ahead_of_the_project_in_force,
    partitions_that_came_later_forgotten,
    a_new_topic_read_twice,
    resumed_from_the_middle,
    read_again_after_an_abort,
    a_replay_that_reads_other_messages_again,
    a_cut_that_leaves_new_nodes_ahead,
    expired_input_ends_the_run,
    input_that_is_gone_in_a_switch_ends_the_run,
    no_checkpoint_before_the_switch,
    lost_workers_blamed_on_the_machine,
    a_switch_that_is_taken_back_not_held,
)

_CHANGING: dict[str, Any] = {
    "points": 5000,
    "messages": 40,
    "hosts": 1,
    "weights": {**BENIGN, **ACTIVE, "revision": 6.0, "layout": 0.2, "kill": 0.3, "kill a worker": 0.3},
}
_EXPIRING = {**_CHANGING, "weights": {**_CHANGING["weights"], "expire": 2.0}}
_FAILING = {**_CHANGING, "failing": 0.5}

READING_WEATHER: dict[str, dict[str, Any]] = {
    **{mutation.__name__: _CHANGING for mutation in READING},
    "partitions_that_came_later_forgotten": {**_CHANGING, "weights": {**_CHANGING["weights"], "grow": 1.0}},
    "a_cut_that_leaves_new_nodes_ahead": {**_CHANGING, "step_bytes": 15, "rows": 6},
    "resumed_from_the_middle": _FAILING,
    "lost_workers_blamed_on_the_machine": _FAILING,
    "a_switch_that_is_taken_back_not_held": _FAILING,
    "expired_input_ends_the_run": _EXPIRING,
    "input_that_is_gone_in_a_switch_ends_the_run": _EXPIRING,
    "no_checkpoint_before_the_switch": _EXPIRING,
}
"""Worlds in which projects change often."""
