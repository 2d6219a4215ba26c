"""The file that says how the last run ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from base import secrets
from stepwell.service.last_run import read_last_run, write_last_run


def test_a_status_is_read_back(tmp_path: Path) -> None:
    write_last_run(tmp_path / "state", {"error": "full"})
    found = read_last_run(tmp_path / "state")
    assert found is not None and found["error"] == "full"


def test_a_file_that_cannot_be_written_does_not_hide_why_the_run_ended() -> None:
    """/dev/full refuses every byte, as a full disk does; a folder below it cannot be made at all."""
    write_last_run(Path("/dev/full/state"), {"error": "full"})
    assert read_last_run(Path("/dev/full/state")) is None


def test_a_password_that_is_a_word_of_the_status_leaves_its_fields_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "_known", secrets._Known())
    for password in ("pipeline", "of-all-shops", "recovering"):
        secrets.remember(password)
    write_last_run(tmp_path, {"pipeline": "of-all-shops", "phase": "recovering", "error": "of-all-shops is wrong"})
    found = read_last_run(tmp_path)
    assert found is not None and found.pop("pid")
    assert found == {"pipeline": "of-all-shops", "phase": "recovering", "error": "*** is wrong"}
