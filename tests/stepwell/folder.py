"""A project folder for a test: files by name, with a spark-pipeline.yml around them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from stepwell.project.loading import Project, load_project

SPEC = """\
name: test
storage: state
libraries:
  - glob:
      include: transformations/**
"""


def write(root: Path, files: dict[str, str], spec: str = SPEC) -> Path:
    """Writes `files` (names relative to transformations/) and the spec; returns the spec's path."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "spark-pipeline.yml").write_text(spec)
    for name, text in files.items():
        path = root / "transformations" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text[1:]) if text.startswith("\n ") else text)  # an indented text begins on line 2
    return root / "spark-pipeline.yml"


def project(root: Path, files: dict[str, str], spec: str = SPEC) -> Project:
    return load_project(write(root, files, spec))
