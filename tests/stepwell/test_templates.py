"""What `stepwell init` makes is supported as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stepwell.inspection.dry_run import describe
from stepwell.planning.resolver import resolve
from stepwell.project.loading import load_project
from stepwell.project.templates import EXAMPLES, write_project


@pytest.mark.parametrize("example", [None, *EXAMPLES])
def test_what_init_makes_runs_as_it_is(example: str | None, spark: SparkSession, tmp_path: Path) -> None:
    files = write_project(tmp_path, "shop", example)
    for file in files:
        if file.suffix == ".py":
            compile(file.read_text(), str(file), "exec")
    described = describe(resolve(load_project(start=tmp_path), spark))
    assert described.views and not described.errors and not described.unread_sources
    assert not [note for view in described.views for note in view.notes if "lost" in note]
