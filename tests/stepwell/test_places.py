"""A place that cannot be written is named before a run begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.commands.common import PlaceUnusable
from stepwell.commands.serve import _refuse_unwritable
from stepwell.project.loading import load_project
from stepwell.project.places import unwritable_part


def test_the_nearest_folder_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    assert unwritable_part(tmp_path / "not" / "yet") is None
    assert unwritable_part(tmp_path / "file" / "not" / "yet") == tmp_path / "file"
    monkeypatch.setattr("os.access", lambda place, mode: place != tmp_path)
    assert unwritable_part(tmp_path / "not" / "yet") == tmp_path


def test_a_run_whose_state_cannot_be_written_does_not_begin(tmp_path: Path) -> None:
    """Otherwise a worker that cannot make its database is taken for one that has lost it."""
    (tmp_path / "file").write_text("")
    spec = tmp_path / "spark-pipeline.yml"
    for place, is_refused in (("state", False), ("file", True)):
        spec.write_text(
            f"name: p\nstorage: {tmp_path}/storage\nlibraries:\n  - glob:\n      include: t/**\n"
            f"configuration:\n  stepwell.local.dir: {tmp_path}/{place}/d\n  kafka.bootstrap.servers: 127.0.0.1:1\n"
        )
        project = load_project(spec)
        if not is_refused:
            _refuse_unwritable(project)
            continue
        with pytest.raises(PlaceUnusable, match="file: it cannot be written by this user") as refused:
            _refuse_unwritable(project)
        assert "stepwell.local.dir" in (refused.value.what_to_do or "")
