"""The file that says how the last run ended."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

from base import secrets
from stepwell.service.client import ControlClient, NotRunning
from stepwell.service.last_run import (
    RESERVE_BYTES,
    RESERVE_FILE,
    read_last_run,
    reserve_last_run,
    write_last_run,
)


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


def _refuse(path: Path, content: str) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk on which no new file can be written."""
    monkeypatch.setattr("stepwell.service.last_run.write_whole", _refuse)


def test_a_full_disk_does_not_hide_from_others_why_the_run_ended(tmp_path: Path, full: None) -> None:
    reserve_last_run(tmp_path)
    assert read_last_run(tmp_path) is None
    status = {"phase": "failed", "layout": {"number": 3}, "error": "the disk is full"}
    write_last_run(tmp_path, status)
    found = read_last_run(tmp_path)
    assert found is not None and found.pop("pid") and found == status
    assert (tmp_path / RESERVE_FILE).stat().st_size == RESERVE_BYTES, "no new block is needed"
    with pytest.raises(NotRunning, match="no service runs for this project; the last run ended: the disk is full"):
        ControlClient(tmp_path).status()


def test_what_a_former_run_has_left_in_the_reserve_is_forgotten(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stepwell.service.last_run.write_whole", _refuse)
        reserve_last_run(tmp_path)
        write_last_run(tmp_path, {"error": "the disk is full" + " and full" * 100})
    reserve_last_run(tmp_path)
    assert read_last_run(tmp_path) is None
    write_last_run(tmp_path, {"error": None})
    found = read_last_run(tmp_path)
    assert found is not None and found["error"] is None


def test_a_status_that_is_too_large_for_the_reserve_keeps_its_error(tmp_path: Path, full: None) -> None:
    reserve_last_run(tmp_path)
    lag: dict[str, Any] = {f"topic/{number}": 10**9 for number in range(RESERVE_BYTES // 10)}
    write_last_run(tmp_path, {"lag": lag, "layout": {"number": 3}, "error": "é" * RESERVE_BYTES})
    found = read_last_run(tmp_path)
    assert found is not None and found.keys() == {"layout", "error", "pid"} and found["error"].startswith("éé")
    assert json.loads((tmp_path / RESERVE_FILE).read_bytes())
