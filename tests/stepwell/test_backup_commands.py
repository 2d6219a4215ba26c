"""`stepwell backup` over a service whose store is slow. test_cli.py has a real service, and tests/end_to_end/test_store.py real backups."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stepwell.commands import backup
from stepwell.service.client import ControlClient, NotRunning


class SlowService(ControlClient):
    """Its store has the checkpoint before step 5 at the look `stored_at`, and it ends at the look `ends_at`."""

    def __init__(self, stored_at: int, ends_at: int = 1 << 30) -> None:
        super().__init__(Path("nowhere"))
        self.stored_at, self.ends_at, self.looks, self.asked = stored_at, ends_at, 0, 0

    def status(self) -> dict[str, Any]:
        self.looks += 1
        if self.looks >= self.ends_at:
            raise NotRunning("no service runs")
        store = {"step": 5 if self.looks >= self.stored_at else 0, "fault": ""}
        return {"phase": "run", "steps_run": 5, "steps_replayed": 0, "step": 4, "checkpoint_step": 0, "store": store}

    def ask(self, what: str) -> dict[str, Any]:
        assert what == "checkpoint"
        self.asked += 1
        return {}


def have_stored(service: SlowService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(backup, "ControlClient", lambda folder: service)
    backup._have_stored(cast(Any, SimpleNamespace(state_folder=Path("nowhere"))))


def test_a_backup_waits_for_a_slow_store_and_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    service = SlowService(stored_at=8)
    have_stored(service, monkeypatch)
    assert service.looks == 8 and service.asked > 1


def test_a_service_that_ends_meanwhile_makes_no_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotRunning, match="the backup was not made"):
        have_stored(SlowService(stored_at=100, ends_at=5), monkeypatch)
