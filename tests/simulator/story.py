"""What happened, step by step: kept as plain tuples, and made into text for a seed that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Story:
    """`happened`: how often each kind of fault really came about, which is less than how often it was drawn."""

    lines: list[tuple[float, str, str]] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)

    def tell(self, now: float, who: str, what: str) -> None:
        self.lines.append((now, who, what))

    def count(self, kind: str) -> None:
        self.happened[kind] += 1

    def text(self) -> Iterator[str]:
        for number, (now, who, what) in enumerate(self.lines):
            yield f"{number:5} {now:9.4f} s  {who:14} {what}"


class StoryLog:
    """Stands where a module of the project keeps its log: what it says belongs to the story."""

    def __init__(self, tell: object) -> None:
        self._tell = tell

    def _say(self, event: str, **facts: object) -> None:
        assert callable(self._tell)
        self._tell(event + "".join(f" {name}={value}" for name, value in facts.items()))

    debug = info = warning = error = _say
