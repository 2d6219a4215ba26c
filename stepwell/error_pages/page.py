"""The explanation of one kind of error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from base.fault import ExitCode

REASONS = "that of the reason"


@dataclass(frozen=True, kw_only=True)
class Page:
    """`slug`: its name, which never changes, because texts of errors and links of users have it. `classes`: the names of the fault classes that
    it explains. `exit_code`: of all of them, or that of the reason. `what`, `why`, `do`: what has happened, how it comes about, and the user's
    next action, in Markdown."""

    slug: str
    classes: tuple[str, ...]
    exit_code: ExitCode | Literal["that of the reason"]
    what: str
    why: str
    do: str
