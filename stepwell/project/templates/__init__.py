"""What `stepwell init` writes: a small project that runs without changes, or an example with a generator of input."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template

from stepwell.project.templates import orders, starter

EXAMPLES: Mapping[str, Mapping[str, str]] = {"orders": orders.FILES}
"""By name: the text of each file."""


def write_project(folder: Path, name: str, example: str | None = None) -> list[Path]:
    """Writes the starter project, or an example, and returns its files. The folder must be new or empty."""
    written = []
    for relative, text in (starter.FILES if example is None else EXAMPLES[example]).items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(name=name), encoding="utf-8")
        written.append(path)
    return written
