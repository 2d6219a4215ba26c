"""How often the input is looked at: rarely while nothing comes, and at once where the loop has to look for something else."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.actions import Divide
from coordinator.stepping import stepping
from coordinator.stepping.idle_wait import (
    PAUSE_SECONDS_MAX,
    PAUSE_SECONDS_MIN,
    PAUSE_WITH_BELL_SECONDS,
    Bell,
    QuietInput,
)
from coordinator.stepping.stepping import Stepping
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.division import Division

HERE = {TopicPartition("here", 0): 7}
THERE = {TopicPartition("there", 0): 8}

SHARE = 20
"""A message waits at most for this part of the silence before it."""


def test_a_message_waits_for_a_twentieth_of_the_silence_before_it_at_most() -> None:
    quiet = QuietInput(None)
    assert quiet.pause_s(0.0, lambda: HERE) == PAUSE_SECONDS_MIN
    for silence in (0.01, 0.1, 0.5, 1.0, 1.9, 30.0, 3600.0):
        pause = quiet.pause_s(silence, lambda: HERE)
        assert (
            PAUSE_SECONDS_MIN <= pause <= max(PAUSE_SECONDS_MIN, silence / SHARE + 1e-9) and pause <= PAUSE_SECONDS_MAX
        )
    assert pause == PAUSE_SECONDS_MAX
    quiet.end()
    assert quiet.pause_s(5000.0, lambda: HERE) == PAUSE_SECONDS_MIN


class HeldBell:
    """A bell that rings when the test says so."""

    def __init__(self) -> None:
        self.at: dict[TopicPartition, int] = {}
        self.listened = 0

    def listen(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.at, self.listened = dict(offsets), self.listened + 1

    def listens_at(self, offsets: Mapping[TopicPartition, int]) -> bool:
        return self.at == offsets

    def ring(self) -> None:
        self.at = {}


def test_a_bell_makes_the_looks_rare_after_a_silence() -> None:
    bell = HeldBell()
    quiet = QuietInput(bell)
    quiet.pause_s(0.0, lambda: HERE)
    assert quiet.pause_s(1.0, lambda: HERE) < PAUSE_SECONDS_MAX and not bell.listened, (
        "a short silence is no matter for it"
    )
    assert quiet.pause_s(3.0, lambda: HERE) == PAUSE_SECONDS_MAX and bell.at == HERE, (
        "what came before it listens is found by a look"
    )
    assert quiet.pause_s(4.0, lambda: HERE) == PAUSE_WITH_BELL_SECONDS
    bell.ring()
    assert quiet.pause_s(5.0, lambda: HERE) == PAUSE_SECONDS_MAX and bell.listened == 1, (
        "a ring for nothing would come again"
    )
    quiet.end()
    quiet.pause_s(6.0, lambda: THERE)
    quiet.pause_s(9.0, lambda: THERE)
    assert (bell.listened, bell.at) == (2, THERE), "after the next message there is a silence of its own"


def test_a_bell_is_not_relied_on_where_it_does_not_listen() -> None:
    bell = HeldBell()
    quiet = QuietInput(bell)
    quiet.pause_s(0.0, lambda: None)
    assert quiet.pause_s(60.0, lambda: None) == PAUSE_SECONDS_MAX and not bell.listened, "time may make a step due"
    assert quiet.pause_s(61.0, lambda: HERE) == PAUSE_SECONDS_MAX and bell.listened == 1
    assert quiet.pause_s(62.0, lambda: {**HERE, **THERE}) == PAUSE_SECONDS_MAX, "a partition has come"


class Waits:
    """Time passes while the loop waits."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def idle_stepping(waits: Waits, monkeypatch: pytest.MonkeyPatch, bell: Bell | None = None) -> tuple[Stepping, Any]:
    monkeypatch.setattr(stepping, "project_shown", lambda spec, answers: None)
    spec: Any = SimpleNamespace(
        kafka=SimpleNamespace(outside=SimpleNamespace(monotonic=lambda: waits.now, give_back_memory=list))
    )
    inputs: Any = SimpleNamespace(
        choose_or_empty=lambda log, step: None,
        silent_offsets=lambda log: HERE,
        topics=SimpleNamespace(ends_now=False, note_announced=lambda: None),
        records=lambda *a, **k: [],
    )
    log = SimpleNamespace(append=lambda records: None)
    writer: Any = SimpleNamespace(state=None, epoch=0, log=log)
    board: Any = SimpleNamespace(show_project=lambda shown: None)
    unused: Any = None
    requests: Any = waits
    return Stepping(
        spec,
        writer,
        inputs,
        requests,
        board,
        answers=unused,
        portions=unused,
        bell=bell,
        wants_abort=lambda: False,
    ), inputs


def test_a_pipeline_whose_bell_listens_looks_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, bell = Waits(), HeldBell()
    steps, inputs = idle_stepping(waits, monkeypatch, bell)
    core: Any = SimpleNamespace(nothing_to_read=lambda: None)
    while waits.now < 60.0:
        steps.divide(Divide(0), core, awaits_answers=False)
    assert bell.at == HERE and len(waits.pauses) < 60.0 / PAUSE_WITH_BELL_SECONDS + 100
    inputs.silent_offsets = lambda log: None
    steps.divide(Divide(0), core, awaits_answers=False)
    assert waits.pauses[-1] == PAUSE_SECONDS_MAX


def test_an_idle_pipeline_looks_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = Waits()
    steps, inputs = idle_stepping(waits, monkeypatch)
    core: Any = SimpleNamespace(nothing_to_read=lambda: None)

    def look(awaits_answers: bool = False) -> float:
        steps.divide(Divide(0), core, awaits_answers=awaits_answers)
        return waits.pauses[-1]

    while waits.now < 60.0:
        look()
    assert len(waits.pauses) < 60.0 / PAUSE_SECONDS_MAX + 100
    assert look(awaits_answers=True) == PAUSE_SECONDS_MIN, "the workers' answers are looked for"
    assert look() == PAUSE_SECONDS_MAX
    inputs.choose_or_empty = lambda log, step: Division(step, (OffsetRange("here", 0, 7, 7),))
    steps.divide(Divide(0), core, awaits_answers=False)
    inputs.choose_or_empty = lambda log, step: None
    assert look() == PAUSE_SECONDS_MAX, "a step without input does not end the silence"
    inputs.choose_or_empty = lambda log, step: Division(step, (OffsetRange("here", 0, 7, 8),))
    before = len(waits.pauses)
    steps.divide(Divide(0), core, awaits_answers=False)
    assert len(waits.pauses) == before, "a step is due at once"
    inputs.choose_or_empty = lambda log, step: None
    assert look() == PAUSE_SECONDS_MIN, "input that has just come may go on"
    inputs.topics.ends_now = True
    before = len(waits.pauses)
    steps.divide(Divide(0), core, awaits_answers=False)
    assert len(waits.pauses) == before, "a run that ends waits for nothing"
