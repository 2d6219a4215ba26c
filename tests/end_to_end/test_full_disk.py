"""A disk that runs full, whatever is written at that moment: the run stops and says so, and goes on when there is room again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from base.fault import ExitCode, exit_code_of
from coordinator.rescale.disk_space import NoDiskSpace
from coordinator.revisions.requests import ApplyRequest, TransitionRefused
from storage.database import Database
from storage.errors import StorageFull
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Resolved, Running, wait_until
from tests.end_to_end.threads import threads

DISK_BYTES = 64 << 20
FILL_BYTES = 1 << 16
ASK_SECONDS = 60.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, where the test may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small disk")
    yield folder
    Database.close_all()
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, leave_bytes: int) -> Path:
    """A file that leaves only so much."""
    ballast = disk / "ballast"
    free = subprocess.check_output(["stat", "-f", "-c", "%a %S", str(disk)]).split()
    with ballast.open("wb") as file:
        for _ in range((int(free[0]) * int(free[1]) - leave_bytes) // FILL_BYTES):
            file.write(bytes(FILL_BYTES))
    return ballast


def wide(first: int, count: int) -> list[dict[str, object]]:
    """Rows that fill a disk: each is a key of its own, of 1 kB."""
    return [{"k": f"{n:06d}" + "x" * 1000, "n": n} for n in range(first, first + count)]


@pytest.mark.long
@pytest.mark.parametrize("workers", [2, pytest.param(1, marks=pytest.mark.soak)])
def test_a_full_disk_stops_the_run_and_room_lets_it_go_on(play: Playground, small_disk: Path, workers: int) -> None:
    """With less and less room: in the opening of a layer, in a step, in a freeze, in a fold and in its rollback."""
    play.topic("in")
    resolved = on(small_disk, sums.project(play, rows=100, workers=workers))
    said: list[str] = []
    with play.oracle(resolved) as oracle:
        play.send("in", wide(0, 400))
        play.run(resolved)
        for number, leave_kb in enumerate((0, 512, 1536, 2560, 3584)):
            ballast = fill(small_disk, leave_kb << 10)
            play.send("in", wide(400 + 300 * number, 300))
            try:
                play.run(resolved, play.tasks(resolved))  # a full disk can end a process, which must not be the test's
            except StorageFull as fault:
                assert exit_code_of(fault) == ExitCode.STATE
                said.append(str(fault))
            Database.close_all()
            ballast.unlink()
        play.run(resolved)
        story = oracle.verify(sums.batch(play), sample=2)
    oracle.verify_twin(play.twin(on(play.folder, resolved), story, workers=3))
    assert len(said) >= 3 and all("Free some space on that disk" in text for text in said), said


@pytest.mark.soak
def test_a_change_of_the_layout_needs_room_and_goes_on_when_there_is_some(play: Playground, small_disk: Path) -> None:
    """A third of 8 MB would move. With 2 MB free the change is refused. With 4 MB it begins, and the disk is full when what has moved is folded.
    Then there is room, or the next run leads the change back."""
    play.topic("in")
    resolved = on(small_disk, sums.project(play, rows=2000, workers=2))
    with play.oracle(resolved) as oracle:
        play.send("in", wide(0, 8000))
        play.run(resolved, threads())
        Database.close_all()
        for leave_kb, is_begun in ((2048, False), (4096, True)):
            fault = changed_on_a_full_disk(play, resolved, 3, small_disk, leave_kb)
            assert exit_code_of(fault) == ExitCode.STATE and "Free some space on that disk" in str(fault)
            assert isinstance(fault, StorageFull if is_begun else NoDiskSpace), fault
            assert (play.log(resolved).rescale is not None) == is_begun
        play.run(resolved, threads())
        assert members(play, resolved) == 3, "the change goes on"
        fault = changed_on_a_full_disk(play, resolved, 1, small_disk, 8192)
        assert isinstance(fault, StorageFull) and play.log(resolved).rescale is not None
        play.run(to(resolved, 3), threads())
        assert members(play, resolved) == 3, "the change is led back"
        story = oracle.verify(sums.batch(play), sample=2)
    oracle.verify_twin(play.twin(on(play.folder, resolved), story, workers=3))


GROUPED = """
CREATE STREAMING TABLE rows (k STRING, n BIGINT) USING kafka TBLPROPERTIES ('subscribe' = '@in', 'mode' = 'upsert', 'key' = 'k');
CREATE MATERIALIZED VIEW one TBLPROPERTIES ('topic' = '@one', 'mode' = 'upsert', 'key' = 'k') AS SELECT k, sum(n) AS n FROM rows GROUP BY k;
"""
BESIDE = """
CREATE MATERIALIZED VIEW two TBLPROPERTIES ('topic' = '@two', 'mode' = 'upsert', 'key' = 'k') AS SELECT k, max(n) AS n, min(n) AS m
  FROM rows GROUP BY k;
"""


@pytest.mark.long
def test_a_transition_needs_room_and_goes_on_when_there_is_some(play: Playground, small_disk: Path) -> None:
    """The new view may need as much as the table, which has 6 MB. With 3 MB free it is refused. If the disk runs full later, the run ends with
    the exit code of a full disk, and the next one goes on with the transition."""
    conf = {"stepwell.workers": 2, "stepwell.step.rows.max": 1000}
    play.topic("in")
    play.send("in", [keyed(row) for row in wide(0, 6000)])
    before = on(small_disk, play.resolve({"a.sql": GROUPED}, conf))
    now = on(small_disk, play.resolve({"a.sql": GROUPED + BESIDE}, conf))
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["rows"] == 6000 and shown["phase"] == "run")
        checkpoint_of_one_more(play, run)
        ballast = fill(small_disk, 3 << 20)
        checkpoint_of_one_more(play, run)
        with pytest.raises(
            TransitionRefused, match=r"may need about [\d,]+ bytes .* [\d,]+ bytes are free on the disk of /"
        ):
            run.requests.revision.ask(ApplyRequest(now.spec, False), ASK_SECONDS)
        ballast.unlink()
        assert play.log(before).revisions.phase is None, "nothing is recorded"
        checkpoint_of_one_more(play, run)
        ballast = fill(small_disk, 256 << 10)
        with suppress(TransitionRefused):  # the run may end before it answers
            run.requests.revision.ask(ApplyRequest(now.spec, False), ASK_SECONDS)
        wait_until(lambda: run.fault is not None)
        assert isinstance(run.fault, StorageFull) and exit_code_of(run.fault) == ExitCode.STATE
        run.fault = None
    Database.close_all()
    ballast.unlink()
    assert play.log(before).revisions.phase is not None
    with play.running(now) as run:
        run.wait_until(lambda shown: (shown["transition_last"] or {}).get("outcome") == "switched")
    play.check(now)
    play.check_steps(now)


def keyed(row: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    return {"k": row["k"]}, row


def checkpoint_of_one_more(play: Playground, run: Running) -> None:
    """A checkpoint tells how much is free on the disks."""
    rows = run.board.show()["rows"]
    play.send("in", [keyed({"k": "one more", "n": rows})])
    run.wait_until(lambda shown: shown["rows"] == rows + 1)
    run.requests.ask("checkpoint")
    run.wait_until(lambda shown: shown["checkpoint_step"] > shown["step"])


def changed_on_a_full_disk(
    play: Playground, resolved: Resolved, workers: int, disk: Path, leave_kb: int
) -> StorageFull | NoDiskSpace:
    """The fault that ends the run."""
    ballast = fill(disk, leave_kb << 10)
    try:
        with pytest.raises((StorageFull, NoDiskSpace)) as raised:
            play.run(to(resolved, workers), threads())
    finally:
        Database.close_all()
        ballast.unlink()
    return raised.value


def to(resolved: Resolved, workers: int) -> Resolved:
    """As `stepwell run --workers N`."""
    return replace(resolved, spec=replace(resolved.spec, workers_now=workers))


def members(play: Playground, resolved: Resolved) -> int:
    log = play.log(resolved)
    assert log.layout is not None and log.rescale is None
    return len(log.layout.placed.members)


def on(folder: Path, resolved: Resolved) -> Resolved:
    return Resolved(resolved.project, replace(resolved.spec, storage=folder / "state"))
