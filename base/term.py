"""The term of a process: which start of the pipeline it belongs to, and which attempt of that start.

Every start claims a higher epoch, and every recovery within an epoch is a new attempt. What belongs to a lower term is rejected: by a database,
by the coordinator and by workers. A database stores the term as one number (`Term.number`). The stored description, and so storage/, has it
under the name `epoch`.
"""

from __future__ import annotations

from typing import NamedTuple

ATTEMPTS_MAX = 1 << 20
"""The number of attempts that an epoch may have. With a recovery each second they last for twelve days."""


class Term(NamedTuple):
    """A start of the pipeline, and an attempt of that start. Terms are ordered by epoch, then by attempt."""

    epoch: int
    attempt: int

    @property
    def number(self) -> int:
        """The term as one number, in the same order. Raises ValueError beyond ATTEMPTS_MAX."""
        if not 0 <= self.attempt < ATTEMPTS_MAX:
            raise ValueError(f"attempt {self.attempt} of epoch {self.epoch}: an epoch has {ATTEMPTS_MAX} at most")
        return self.epoch * ATTEMPTS_MAX + self.attempt

    @staticmethod
    def of(number: int) -> Term:
        return Term(*divmod(number, ATTEMPTS_MAX))

    def __str__(self) -> str:
        return f"{self.epoch}.{self.attempt}"
