"""What happened, step by step: kept as plain tuples, and made into text for a seed that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import structlog


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
    """The last processor of structlog: it tells what a module logs, and nothing is written."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def __call__(self, logger: object, method: str, facts: MutableMapping[str, Any]) -> Any:
        event = str(facts.pop("event"))
        self._tell(event + "".join(f" {name}={value}" for name, value in facts.items()))
        raise structlog.DropEvent
