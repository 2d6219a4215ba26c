"""What `stepwell init` writes: a small project that runs without changes."""

from __future__ import annotations

from pathlib import Path
from string import Template

from stepwell.project.templates import starter


def write_project(folder: Path, name: str) -> list[Path]:
    """Writes the starter project and returns its files. The folder must be new or empty."""
    written = []
    for relative, text in starter.FILES.items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(name=name), encoding="utf-8")
        written.append(path)
    return written
