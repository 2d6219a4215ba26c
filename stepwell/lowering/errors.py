"""Errors for constructs that cannot be lowered: which construct it is, and what to do instead. The driver adds the view, file and line."""

from __future__ import annotations

from stepwell.errors import Location, UnsupportedError


class UnsupportedPlan(Exception):
    """There is no rule for a plan node, or its rule refuses this form of it."""

    def __init__(self, node: str, text: str, remedy: str) -> None:
        super().__init__(f"{node}: {text}. {remedy}")
        self.node = node
        self.text = text
        self.remedy = remedy

    def with_location(self, view: str, location: Location | None) -> UnsupportedError:
        """Returns the same error as users see it, with its view and its place."""
        return UnsupportedError(f"{self.text} (Spark's {self.node})", self.remedy, view=view, location=location)
