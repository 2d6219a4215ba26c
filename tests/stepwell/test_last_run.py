"""The file that says how the last run ended."""

from __future__ import annotations

from pathlib import Path

from stepwell.service.last_run import read_last_run, write_last_run


def test_a_status_is_read_back(tmp_path: Path) -> None:
    write_last_run(tmp_path / "state", {"error": "full"})
    found = read_last_run(tmp_path / "state")
    assert found is not None and found["error"] == "full"


def test_a_file_that_cannot_be_written_does_not_hide_why_the_run_ended() -> None:
    """/dev/full refuses every byte, as a full disk does; a folder below it cannot be made at all."""
    write_last_run(Path("/dev/full/state"), {"error": "full"})
    assert read_last_run(Path("/dev/full/state")) is None
