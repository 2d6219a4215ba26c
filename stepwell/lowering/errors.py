"""What cannot be lowered: which construct, and what to do instead. The driver adds the view, its file and line."""

from __future__ import annotations

from stepwell.errors import Location, UnsupportedError


class UnsupportedPlan(Exception):
    """A plan node for which there is no rule, or a form of it that its rule refuses."""

    def __init__(self, node: str, text: str, remedy: str) -> None:
        super().__init__(f"{node}: {text}. {remedy}")
        self.node = node
        self.text = text
        self.remedy = remedy

    def at(self, view: str, location: Location | None) -> UnsupportedError:
        """The same, as users see it."""
        return UnsupportedError(f"{self.text} (Spark's {self.node})", self.remedy, view=view, location=location)
