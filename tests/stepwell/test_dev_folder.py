"""`run` recognises the brokers that `stepwell dev up` has started, also in a folder that the user names."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from base.user_folders import CACHE_VARIABLE
from stepwell.commands import missing_inputs
from stepwell.commands.dev_folder import broker_folders, dev_folder, remember
from stepwell.commands.missing_inputs import is_local_broker


def test_a_broker_in_a_folder_that_its_user_names_is_local_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    here, there, gone = tmp_path / "here", tmp_path / "with spaces" / "there", tmp_path / "gone"
    for folder in (here, there, gone, here):
        folder.mkdir(parents=True, exist_ok=True)
        remember(folder)
    gone.rmdir()
    assert broker_folders() == [dev_folder(), here, there]
    running = {dev_folder(): None, here: None, there: SimpleNamespace(bootstrap_servers="127.0.0.1:1", is_running=True)}
    monkeypatch.setattr(missing_inputs.LocalBroker, "find_running", lambda folder: running[folder])
    assert is_local_broker("127.0.0.1:1") and not is_local_broker("127.0.0.1:2")
