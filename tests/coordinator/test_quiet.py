"""How often the input is looked at: rarely while nothing comes, and at once where the loop has to look for something else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.core import Divide
from coordinator.stepping import stepping
from coordinator.stepping.quiet import PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN, QuietInput
from coordinator.stepping.stepping import Stepping

SHARE = 20
"""A message waits at most for this part of the silence before it."""


def test_a_message_waits_for_a_twentieth_of_the_silence_before_it_at_most() -> None:
    quiet = QuietInput()
    assert quiet.pause_s(0.0) == PAUSE_SECONDS_MIN
    for silence in (0.01, 0.1, 0.5, 1.0, 1.9, 30.0, 3600.0):
        pause = quiet.pause_s(silence)
        assert (
            PAUSE_SECONDS_MIN <= pause <= max(PAUSE_SECONDS_MIN, silence / SHARE + 1e-9) and pause <= PAUSE_SECONDS_MAX
        )
    assert pause == PAUSE_SECONDS_MAX
    quiet.end()
    assert quiet.pause_s(5000.0) == PAUSE_SECONDS_MIN


class Waits:
    """Time passes while the loop waits."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def idle_stepping(waits: Waits, monkeypatch: pytest.MonkeyPatch) -> tuple[Stepping, Any]:
    monkeypatch.setattr(stepping, "project_shown", lambda spec, answers: None)
    spec: Any = SimpleNamespace(kafka=SimpleNamespace(outside=SimpleNamespace(monotonic=lambda: waits.now)))
    inputs: Any = SimpleNamespace(
        choose_or_first=lambda log, step: None, ends_now=False, records=lambda *a, **k: [], note_record=lambda: None
    )
    writer: Any = SimpleNamespace(state=None, epoch=0, append=lambda records: None)
    board: Any = SimpleNamespace(measures=SimpleNamespace(show_project=lambda shown: None))
    unused: Any = None
    requests: Any = waits
    return Stepping(spec, writer, inputs, requests, board, answers=unused, portions=unused), inputs


def test_an_idle_pipeline_looks_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = Waits()
    steps, inputs = idle_stepping(waits, monkeypatch)
    core: Any = SimpleNamespace(nothing_to_read=lambda: None)

    def look(is_asked: bool = False) -> float:
        steps.divide(Divide(0), core, is_asked=is_asked)
        return waits.pauses[-1]

    while waits.now < 60.0:
        look()
    assert len(waits.pauses) < 60.0 / PAUSE_SECONDS_MAX + 100
    assert look(is_asked=True) == PAUSE_SECONDS_MIN, "the workers' answers are looked for"
    assert look() == PAUSE_SECONDS_MAX
    inputs.choose_or_first = lambda log, step: "a division"
    before = len(waits.pauses)
    steps.divide(Divide(0), core, is_asked=False)
    assert len(waits.pauses) == before, "a step is due at once"
    inputs.choose_or_first = lambda log, step: None
    assert look() == PAUSE_SECONDS_MIN, "input that has just come may go on"
    inputs.ends_now = True
    before = len(waits.pauses)
    steps.divide(Divide(0), core, is_asked=False)
    assert len(waits.pauses) == before, "a run that ends waits for nothing"
