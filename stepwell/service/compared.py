"""What of answers and of the status is the same to programs whatever the secrets are."""

from __future__ import annotations

COMPARED = frozenset(
    {
        *("pipeline", "phase", "state", "mode", "outcome", "policy", "protocol", "kind", "decision", "asked"),
        *("worker", "host", "birth", "view", "rebuilt", "new", "dropped"),
    }
)
"""The fields of answers and of the status that have names and words which programs compare. None has a text from elsewhere."""
