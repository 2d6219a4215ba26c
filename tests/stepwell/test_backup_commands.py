"""`stepwell backup` over a service whose store is slow. test_cli.py has a real service, and tests/end_to_end/test_store.py real backups."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer
from structlog.testing import capture_logs

from coordinator.storing.backups import object_of
from coordinator.storing.manifest import write_manifest
from stepwell.commands import backup
from stepwell.service.client import ControlClient, NotRunning
from storage.remote import retrying_store
from storage.remote.errors import StoreFault
from tests.coordinator.storing.test_verifying import manifest_of
from tests.storage.helpers import fresh, step
from tests.storage.remote.stores import checkpoint, stored
from tests.storage.remote.test_retrying_store import Flaky


class SlowService(ControlClient):
    """Its store has the checkpoint before step 5 at the look `stored_at`, and it ends at the look `ends_at`. The store has refused rights
    before, and refuses one again at the look `refused_at`."""

    def __init__(self, stored_at: int, ends_at: int = 1 << 30) -> None:
        super().__init__(Path("nowhere"))
        self.stored_at, self.ends_at, self.looks, self.asked = stored_at, ends_at, 0, 0
        self.fault, self.refused_at = "", 1 << 30

    def status(self) -> dict[str, Any]:
        self.looks += 1
        if self.looks >= self.ends_at:
            raise NotRunning("no service runs")
        store = {"step": 5 if self.looks >= self.stored_at else 0, "fault": self.fault}
        store["refusals"] = 3 + (self.looks >= self.refused_at)
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


def test_a_fault_of_the_store_is_told_once_while_a_backup_waits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service = SlowService(stored_at=20)
    service.fault = "SLOW_DOWN"
    have_stored(service, monkeypatch)
    assert capsys.readouterr().err.count("waiting for the store, for 600 s at most: SLOW_DOWN") == 1


def test_a_backup_does_not_wait_for_a_store_that_refuses_a_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusals of before may be over, so they are waited for as anything else."""
    service = SlowService(stored_at=60)
    service.fault, service.refused_at = "HTTP status 403", 5
    with pytest.raises(StoreFault, match="cannot store its checkpoint, and the backup was not made: HTTP status 403"):
        have_stored(service, monkeypatch)


def test_a_service_that_ends_meanwhile_makes_no_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotRunning, match="the backup was not made"):
        have_stored(SlowService(stored_at=100, ends_at=5), monkeypatch)


def test_a_store_that_breaks_off_while_objects_are_verified_is_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store, database = Flaky([]), fresh(tmp_path / "database")
    step(database, {f"{number:03}": bytes([number]) * 60 for number in range(200)})
    manifest = manifest_of(stored(store, database, checkpoint(database, 1, 1), None))
    write_manifest(store, object_of(manifest.pipeline, "monday"), manifest)
    store.breaks = [0, 1, 0, 0]
    monkeypatch.setattr(retrying_store, "WAIT_SECONDS_MIN", 0.0)
    monkeypatch.setattr(backup, "project_of", lambda spec, conf: SimpleNamespace(name=manifest.pipeline))
    monkeypatch.setattr(backup, "store_of", lambda project: store)
    with suppress(typer.Exit), capture_logs():  # a fault is printed
        backup.verify("monday", as_json=True)
    assert json.loads(capsys.readouterr().out) == {"backup monday": []} and not store.breaks
