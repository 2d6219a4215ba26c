"""How a pipeline names the databases of its workers.

It loads no I/O, clock or randomness.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from base.term import Term

_NAME = re.compile(r"(.*)/(\d+)/(\d+)/(0|\d+\.\d+\.\d+)", re.ASCII)


@dataclass(frozen=True)
class DatabaseName:
    """What the uuid of a database says: the topic id of the step log, the number of full refreshes before it, the worker, and its birth (see
    `birth_of`)."""

    log_id: str
    generation: int
    worker: int
    birth: str

    @property
    def text(self) -> str:
        return f"{self.log_id}/{self.generation}/{self.worker}/{self.birth}"

    @staticmethod
    def of(text: str) -> DatabaseName | None:
        """None if it is no such text."""
        found = _NAME.fullmatch(text)
        return None if found is None else DatabaseName(found[1], int(found[2]), int(found[3]), found[4])

    @property
    def epoch(self) -> int:
        """The epoch of the run that made the worker; -1 for the workers of a new state, which any run may make."""
        return int(self.birth.split(".")[1]) if "." in self.birth else -1


def birth_of(change: int, term: Term) -> str:
    """Returns the birth of a worker that a rescale makes. No other worker has it, because no other attempt of a run has this term."""
    return f"{change}.{term.epoch}.{term.attempt}"
