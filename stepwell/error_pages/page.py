"""The explanation of one kind of error."""

from __future__ import annotations

from dataclasses import dataclass

from base.fault import ExitCode


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of docs/errors.md. `slug`: its name, which never changes, because texts of errors and links of users have it. `classes`: the names
    of the fault classes that it explains. `exit_code`: of all of them; None if it is that of the reason. `what`, `why`, `do`: what has happened,
    how it comes about, and the user's next action, in Markdown."""

    slug: str
    classes: tuple[str, ...]
    exit_code: ExitCode | None
    what: str
    why: str
    do: str
