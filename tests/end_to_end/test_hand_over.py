"""A new service takes the pipeline from the one that runs, or leaves it running."""

from __future__ import annotations

from pathlib import Path

import pytest

from base.fault import ExitCode
from coordinator.revisions.choices import NOTHING_CHOSEN
from coordinator.starting.errors import CircuitChanged
from stepwell.commands.hand_over import refuse_what_cannot_begin
from stepwell.errors import StepwellError
from stepwell.service.client import ControlClient
from storage.database import Database
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, service, wait_until
from tests.end_to_end.test_transitions import orders, project


def client_of(resolved: Resolved) -> ControlClient:
    return ControlClient(resolved.project.project.state_folder)


def until(resolved: Resolved, reached: str, value: object) -> None:
    client = client_of(resolved)
    client.wait(lambda shown: bool(shown[reached] == value), WAIT_SECONDS_MAX)


def test_a_new_service_takes_over_at_a_checkpoint_and_a_broken_one_leaves_the_old_running(
    play: Playground, tmp_path: Path
) -> None:
    play.topic("orders", 2)
    play.send("orders", orders(0, 100))
    resolved = play.resolve(project())
    old_log, new_log, broken_log = (tmp_path / f"{name}.log" for name in ("old", "new", "broken"))
    with service(resolved, old_log) as old:
        wait_until(lambda: "control at" in old_log.read_text())
        until(resolved, "rows", 100)
        (play.folder / "transformations" / "project.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT nothing;")
        with service(resolved, broken_log, "--hand-over") as broken:
            assert broken.wait(WAIT_SECONDS_MAX) == ExitCode.PROJECT, broken_log.read_text()
        play.resolve(project(), {"stepwell.metrics.address": "no.such.host.invalid:9464"})
        with service(resolved, broken_log, "--hand-over") as broken:
            assert broken.wait(WAIT_SECONDS_MAX) == ExitCode.MACHINE, broken_log.read_text()
        assert old.poll() is None and client_of(resolved).status()["phase"] == "run"
        resolved = play.resolve(project())
        with service(resolved, new_log, "--hand-over") as new:
            assert old.wait(WAIT_SECONDS_MAX) == ExitCode.OK, old_log.read_text()
            wait_until(lambda: "control at" in new_log.read_text())
            until(resolved, "phase", "run")
            play.send("orders", orders(100, 50))
            until(resolved, "rows", 50)
            shown = client_of(resolved).status()
            assert (shown["pid"], shown["steps_replayed"]) == (new.pid, 0), "the old one has made a checkpoint"
            client_of(resolved).ask("stop")
            assert new.wait(WAIT_SECONDS_MAX) == ExitCode.OK, new_log.read_text()
    play.check(resolved)
    play.check_steps(resolved)


def test_what_cannot_begin_is_refused_before_the_old_service_is_asked(play: Playground) -> None:
    """Another project, and databases that this release cannot open."""
    play.topic("orders", 2)
    play.send("orders", orders(0, 100))
    resolved = play.resolve(project())
    play.run(resolved)
    log = play.log(resolved)
    refuse_what_cannot_begin(resolved.spec, log, "refuse", NOTHING_CHOSEN)
    other = play.resolve(project(where="WHERE amount > 10"))
    with pytest.raises(CircuitChanged, match="`stepwell run --apply`"):
        refuse_what_cannot_begin(other.spec, log, "refuse", NOTHING_CHOSEN)
    refuse_what_cannot_begin(other.spec, log, "apply", NOTHING_CHOSEN)
    Database.close_all()
    file = resolved.spec.state_location.here.of_worker(0) / "committed" / "data.mdb"
    file.write_bytes(b"no database")
    with pytest.raises(StepwellError, match="worker 0 cannot be opened by this release"):
        refuse_what_cannot_begin(resolved.spec, log, "refuse", NOTHING_CHOSEN)


@pytest.mark.long
def test_another_change_while_a_transition_is_held_leaves_the_old_service_running(
    play: Playground, tmp_path: Path
) -> None:
    """And a run that was to apply it, and ends with what is there, says that it is still held."""
    play.topic("orders", 2)
    play.send("orders", orders(0, 100))
    resolved = play.resolve(project())
    old_log, refused_log, held_log = (tmp_path / f"{name}.log" for name in ("old", "refused", "held"))
    with service(resolved, old_log) as old:
        wait_until(lambda: "control at" in old_log.read_text())
        until(resolved, "rows", 100)
        play.write(project(where="WHERE amount > 10"))
        client_of(resolved).ask_revision("apply", {"hold": True})
        client_of(resolved).wait(lambda shown: (shown["transition"] or {}).get("phase") == "held", WAIT_SECONDS_MAX)
        play.write(project(where="WHERE amount > 20"))
        with service(resolved, refused_log, "--hand-over", "--apply") as refused:
            assert refused.wait(WAIT_SECONDS_MAX) == ExitCode.STATE, refused_log.read_text()
        assert "the transition to revision 2 is under way, and the files have another" in refused_log.read_text()
        assert old.poll() is None and client_of(resolved).status()["phase"] == "run"
        client_of(resolved).ask("stop")
        assert old.wait(WAIT_SECONDS_MAX) == ExitCode.OK, old_log.read_text()
    play.write(project(where="WHERE amount > 10"))
    with service(resolved, held_log, "--available-now", "--apply") as ended:
        assert ended.wait(WAIT_SECONDS_MAX) == ExitCode.STATE, held_log.read_text()
    said = held_log.read_text()
    assert "the transition is not settled: revision 1 -> 2: held: it waits for" in said, said
    assert "`stepwell revision switch` makes the switch" in said, said
