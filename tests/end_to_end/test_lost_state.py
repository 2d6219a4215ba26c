"""A storage folder that does not belong to the step log any more is told; no run begins on what is left of it, nor makes it up."""

from __future__ import annotations

import shutil
from functools import partial

import pytest

from coordinator import loop
from coordinator.errors import StateLost
from coordinator.truncation import snapshot_due, truncate
from storage.database import Database
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground


def test_a_database_that_is_missing_is_not_made_anew(play: Playground) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 4))
    resolved = sums.project(play, workers=2)
    play.run(resolved)
    written = play.read("out")
    Database.close_all()
    lost = resolved.spec.database_folder(1)
    shutil.rmtree(lost)
    with pytest.raises(StateLost, match=r"worker 1 has no database in .*--full-refresh"):
        play.run(resolved)
    assert not lost.exists()
    assert play.read("out") == written
    play.run(resolved, full_refresh=True)
    assert play.check(resolved) == {"sums": 3}


def test_an_old_copy_of_the_folder_is_told_where_the_log_was_truncated_since(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "snapshot_due", partial(snapshot_due, steps_min=1))
    monkeypatch.setattr(loop, "truncate", partial(truncate, steps_min=1))
    play.topic("in")
    resolved = play.resolve(sums.files(), {"stepwell.step.rows.max": 2, "stepwell.steps.kept": 1})
    storage, copy = resolved.spec.storage, play.folder / "copy"
    for number in range(4):
        play.send("in", sums.rows(2 * number, 2))
        play.run(resolved)
        Database.close_all()
        if number == 0:
            shutil.copytree(storage, copy)
    written, first = play.read("out"), play.log(resolved).first
    assert first > 1, "nothing was truncated; the test shows nothing"
    shutil.rmtree(storage)
    copy.rename(storage)
    told = rf"databases are at step 1, and the step log begins at step {first}\..*old copy"
    with pytest.raises(Exception, match=told) as fault:
        play.run(resolved)
    assert isinstance(fault.value, StateLost)
    assert play.read("out") == written
