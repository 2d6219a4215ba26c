"""One deliberate breakage: what it does to the code, what it breaks, and which tests must fail under it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


class Stale(Exception):
    """A breakage no longer fits the code: its old text does not occur exactly once."""


@dataclass(frozen=True)
class Edit:
    """In `file` (relative to the root), `old` occurs exactly once and is replaced by `new`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Breakage:
    """`does`: the mistake, as a sentence. `breaks`: the invariant of ARCHITECTURE.md, by number and name, or the promise.

    `caught_by`: pytest's ids of tests, each of which must fail under the breakage. `tells`: if such a test fails by one of our own errors and
    not by an assertion, a regular expression for the text of that error. Any other error is a crash and proves nothing."""

    name: str
    does: str
    breaks: str
    edits: tuple[Edit, ...]
    caught_by: tuple[str, ...]
    tells: str | None = None

    def broken(self, root: Path) -> Mapping[str, str]:
        """The changed files after the breakage's edits, by name. Raises Stale. Nobody has looked whether they are Python still."""
        texts: dict[str, str] = {}
        for edit in self.edits:
            text = texts.get(edit.file) or (root / edit.file).read_text()
            if (found := text.count(edit.old)) != 1:
                raise Stale(f"{self.name}: its old text is {found} times in {edit.file}, not once:\n{edit.old}")
            assert edit.new != edit.old
            texts[edit.file] = text.replace(edit.old, edit.new)
        return texts

    def apply(self, root: Path) -> None:
        """Raises Stale, and SyntaxError before any file is changed."""
        texts = self.broken(root)
        for file, text in texts.items():
            if file.endswith(".py"):
                compile(text, file, "exec")
        for file, text in texts.items():
            (root / file).write_text(text)
