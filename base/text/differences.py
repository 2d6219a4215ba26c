"""How the difference of one property is told."""

from __future__ import annotations


def difference_text(name: str, before: str | None, now: str | None) -> str:
    """A clause about the property `name`. None and "" are values that are not set."""
    return f"{name} was {before or 'not set'}, and is {now or 'not set'} now"
