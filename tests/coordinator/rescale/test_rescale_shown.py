"""How long a change keeps steps from beginning, as users are told, and the JSON of the layout."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from coordinator.rescale.layout_shown import (
    ChangeNumber,
    ChangeSettled,
    ChangeShown,
    LayoutShown,
    MemberShown,
    RateShown,
)
from coordinator.rescale.rescale_shown import RescaleView


def test_a_pause_begins_with_the_first_action_of_the_change() -> None:
    """The workers may have had a step until the action, so no look has seen that the change holds anything up."""
    now = [10.0]
    writer: Any = SimpleNamespace(state=None)
    nothing: Any = None
    view = RescaleView(nothing, writer, nothing, nothing, births={}, monotonic=lambda: now[0])
    view.note_action()
    now[0] += 0.5
    view.note_action()
    now[0] += 0.25
    core: Any = SimpleNamespace(is_held_up_by_rescale=lambda state: False)
    view._time_pause(core)
    assert view.progress.longest_pause_ms == 750.0


LAYOUT = LayoutShown(
    number=2, outcome="settled", shards=4, policy="fixed", members={0: MemberShown("b0", 9), 10: MemberShown("", 0)},
    change=None, last_change=None, measured={},
)  # fmt: skip


def test_what_there_is_none_of_is_left_out_of_the_json() -> None:
    """Clients of a release before read it."""
    members = '"members": {"0": {"birth": "b0", "slots": 9}, "10": {"birth": "", "slots": 0}}'
    start = f'{{"number": 2, "outcome": "settled", "shards": 4, "policy": "fixed", {members}'
    assert json.dumps(LAYOUT.to_json()) == f"{start}}}"
    change = ChangeShown(
        change=ChangeNumber(3, "live", 2, "damion", 0), state="moving", is_paused=False, slots_left=7,
        cut_bytes_max=None, numbers={"cuts": 0},
    )  # fmt: skip
    last = ChangeSettled(ChangeNumber(2, "cold", 2), "settled", {"cuts": 1})
    whole = replace(LAYOUT, change=change, last_change=last, measured={"cold": RateShown(5, 0.5)})
    assert json.dumps(whole.to_json()) == (
        f'{start}, "change": {{"number": 3, "mode": "live", "workers": 2, "protocol": "damion", "messages": 0, '
        '"state": "moving", "is_paused": false, "slots_left": 7, "cut_bytes_max": null, "cuts": 0}, '
        '"last_change": {"number": 2, "mode": "cold", "workers": 2, "outcome": "settled", "cuts": 1}, '
        '"measured": {"cold": {"bytes_per_s": 5, "pause_ms": 0.5}}}'
    )
