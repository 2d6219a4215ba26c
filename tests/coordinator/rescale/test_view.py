"""How long a change keeps steps from beginning, as users are told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from coordinator.rescale.view import RescaleView


def test_a_pause_begins_with_the_first_action_of_the_change() -> None:
    """The workers may have had a step until the action, so no look has seen that the change holds anything up."""
    now = [10.0]
    writer: Any = SimpleNamespace(state=None)
    nothing: Any = None
    view = RescaleView(writer, nothing, nothing, {}, lambda: now[0])
    view.note_action()
    now[0] += 0.5
    view.note_action()
    now[0] += 0.25
    core: Any = SimpleNamespace(is_blocked=lambda state: False)
    view._time_pause(core)
    assert view.progress.longest_pause_ms == 750.0
