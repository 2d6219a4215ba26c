"""Mutants that no test can notice, or need not, and why: by file, the line as it is, and the line as the mutant has it, with single blanks."""

from __future__ import annotations

JUDGED: dict[tuple[str, str, str], str] = {}
