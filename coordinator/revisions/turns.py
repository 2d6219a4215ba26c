"""The turns of a transition that users ask for."""

from __future__ import annotations

from typing import Literal

TurnName = Literal["pause", "resume", "switch", "abort"]
"""`pause` and `resume` stop and continue the filling, `switch` ends a hold, and `abort` takes everything back."""
