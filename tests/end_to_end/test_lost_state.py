"""State that is lost, old or damaged: the pipeline goes on and is right, or stops and says what to do. It is never silently empty."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from unittest.mock import ANY

import pytest
from confluent_kafka import TopicPartition

from base.common_version import NoCommonVersion
from base.fault import ExitCode, exit_code_of
from coordinator.starting.errors import StateLost, TopicChanged
from coordinator.starting.workers.circuit_file import CIRCUIT_FILE
from faults.points import Crash, CrashOrder, arm
from io_kafka.step_log.lost import LogOffsetGone
from io_kafka.step_log.state import BrokenStepLog
from stepwell.doctor.kafka import has_no_state, log_checks
from stepwell.doctor.state import found_here, state_checks
from storage import environments
from storage.database import Database
from storage.errors import CorruptFile, CorruptRecord, StorageError, StorageFull
from tests.end_to_end import sums
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, service
from tests.end_to_end.oracle import Oracle
from tests.end_to_end.threads import threads

WORKERS = 2


@pytest.fixture
def pipeline(play: Playground) -> Resolved:
    play.topic("in")
    return sums.project(play, workers=WORKERS)


def more(play: Playground, resolved: Resolved, first: int) -> None:
    play.send("in", sums.rows(first, 4))
    play.run(resolved, threads())


def closed(resolved: Resolved) -> Path:
    """The storage folder, as nobody uses it."""
    Database.close_all()
    return resolved.spec.storage


def stops(play: Playground, resolved: Resolved, fault: type[Exception], text: str) -> None:
    """Twice the same way, with the state's exit code, and without a word to the outputs."""
    written = play.read("out")
    for _ in range(2):
        with pytest.raises(Exception) as e:
            play.run(resolved, threads())
        assert isinstance(e.value, fault) and re.search(text, str(e.value)), f"another error: {e.value!r}"
        assert exit_code_of(e.value) in (ExitCode.STATE, ExitCode.KAFKA)
        assert "full-refresh" in str(e.value) or "empty the topic" in str(e.value), "what is to be done?"
        Database.close_all()
    assert play.read("out") == written


def rebuilt(play: Playground, resolved: Resolved) -> None:
    play.run(resolved, threads(), full_refresh=True)
    assert play.check(resolved) == {"sums": 3}


# Lost and old


def test_a_deleted_database_stops_the_run(play: Playground, pipeline: Resolved) -> None:
    more(play, pipeline, 0)
    more(play, pipeline, 4)
    closed(pipeline)
    folder = pipeline.spec.state_location.here.of_worker(1)
    shutil.rmtree(folder)
    stops(play, pipeline, StateLost, f"worker 1 has no database in {folder}")
    shutil.rmtree(pipeline.spec.storage)
    stops(play, pipeline, StateLost, "worker 0 has no database")
    rebuilt(play, pipeline)


@pytest.mark.soak
def test_an_empty_folder_in_place_of_a_database_is_no_database(play: Playground, pipeline: Resolved) -> None:
    more(play, pipeline, 0)
    closed(pipeline)
    shutil.rmtree(pipeline.spec.state_location.here.of_worker(0))
    pipeline.spec.state_location.here.of_worker(0).mkdir()
    stops(play, pipeline, StateLost, "worker 0 has no database")


@pytest.mark.long
def test_an_older_copy_of_the_whole_folder_is_caught_up_with(
    play: Playground, pipeline: Resolved, tmp_path: Path
) -> None:
    with play.oracle(pipeline) as oracle:
        more(play, pipeline, 0)
        shutil.copytree(closed(pipeline), tmp_path / "copy")
        for first in (4, 8, 12):
            more(play, pipeline, first)
        shutil.rmtree(closed(pipeline))
        shutil.copytree(tmp_path / "copy", pipeline.spec.storage)
        play.send("in", sums.rows(16, 2))
        status = play.run(pipeline, threads())
        assert (status["steps_replayed"], status["steps_run"]) == (6, 1)
        judged(play, pipeline, oracle)


def test_an_older_copy_of_one_database_stops_the_run(play: Playground, pipeline: Resolved, tmp_path: Path) -> None:
    more(play, pipeline, 0)
    closed(pipeline)
    folder = pipeline.spec.state_location.here.of_worker(1)
    shutil.copytree(folder, tmp_path / "copy")
    for first in (4, 8):
        more(play, pipeline, first)
    closed(pipeline)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    stops(play, pipeline, NoCommonVersion, r"no checkpoint is common.*worker 0: .*worker 1: ")


def test_a_copy_older_than_the_step_log_stops_the_run(play: Playground, tmp_path: Path) -> None:
    play.topic("in")
    conf = {"stepwell.step.rows.max": 2, "stepwell.steps.kept": 1}
    resolved = play.resolve(sums.files(), conf).at_pace(snapshot_steps_min=1, truncate_steps_min=1)
    more(play, resolved, 0)
    shutil.copytree(closed(resolved), tmp_path / "copy")
    for first in (4, 8, 12):
        more(play, resolved, first)
    assert play.log(resolved).first > 2
    shutil.rmtree(closed(resolved))
    shutil.copytree(tmp_path / "copy", resolved.spec.storage)
    stops(
        play, resolved, StateLost, r"at step 2, and the step log begins at step \d+.*An old copy of the storage folder"
    )


# The step log


@pytest.mark.parametrize("checkpoint", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_without_its_step_log_the_state_is_not_used(play: Playground, pipeline: Resolved, checkpoint: bool) -> None:
    play.send("in", sums.rows(0, 4))
    if checkpoint:
        play.run(pipeline, threads())
    else:
        with arm(CrashOrder("checkpoint.paused", "raise")), pytest.raises(Crash):
            play.run(pipeline, threads())
    closed(pipeline)
    assert log_faults(play, pipeline) == []
    delete_log(play, pipeline)
    assert log_faults(play, pipeline) == ["is not there"]
    stops(
        play,
        pipeline,
        StateLost,
        f"belongs to another step log than the topic {pipeline.spec.log_topic}, which was deleted",
    )
    assert log_faults(play, pipeline) == ["was deleted and created again"]
    with pytest.raises(TopicChanged, match=f"output topic {play.prefix}out holds messages"):
        play.run(pipeline, threads(), full_refresh=True)
    play.delete_topic("out")
    rebuilt(play, pipeline)


def test_without_step_log_and_state_what_is_in_the_outputs_is_not_doubled(play: Playground, pipeline: Resolved) -> None:
    more(play, pipeline, 0)
    delete_log(play, pipeline)
    shutil.rmtree(closed(pipeline))
    stops(play, pipeline, TopicChanged, f"output topic {play.prefix}out holds messages")
    play.delete_topic("out")
    play.run(pipeline, threads())
    assert play.check(pipeline) == {"sums": 3}


def test_the_doctor_knows_a_start_that_was_refused_from_a_state_that_is_gone(
    play: Playground, pipeline: Resolved
) -> None:
    """Both have no database on this machine. Only the second one is lost; the advice for it would be a full refresh."""
    play.topic("out")
    play.send("out", ["of somebody"])
    stops(play, pipeline, TopicChanged, f"output topic {play.prefix}out holds messages")
    assert state_level(play, pipeline) == ("OK", True)
    play.delete_topic("out")
    more(play, pipeline, 0)
    folder = closed(pipeline)
    assert state_level(play, pipeline) == ("OK", False)
    shutil.rmtree(folder / "workers")
    assert state_level(play, pipeline) == ("FAIL", False)


def state_level(play: Playground, resolved: Resolved) -> tuple[str, bool]:
    """(the level of the doctor's check of the state, whether it says that there are no databases yet)."""

    def may_be_empty() -> bool:
        return has_no_state({"bootstrap.servers": play.servers}, play.topics, resolved.spec.name)

    check = state_checks(resolved.project.project, may_be_empty)[0]
    assert check.name == "state"
    return check.level, "no databases" in check.found and "yet" in check.found


def log_faults(play: Playground, resolved: Resolved) -> list[str]:
    """What `stepwell doctor` finds wrong with the topic of the step log."""
    there = {"bootstrap.servers": play.servers}
    checks = log_checks(there, play.topics, resolved.spec.name, [], found_here(resolved.project.project))
    topic, failed = resolved.spec.log_topic, [check for check in checks if check.level == "FAIL"]
    assert all("--full-refresh" in check.what_to_do for check in failed)
    found = [
        re.fullmatch(rf"the topic {re.escape(topic)} (.*), and 2 databases on this machine .*", check.found)
        for check in failed
    ]
    return [each[1] if each is not None else "another fault" for each in found]


def delete_log(play: Playground, resolved: Resolved) -> None:
    log = resolved.spec.log_topic
    play.admin.delete_topics([log], operation_timeout=20)[log].result()


def test_a_step_log_that_lost_records_is_told(play: Playground, pipeline: Resolved) -> None:
    more(play, pipeline, 0)
    messages = play.read(pipeline.spec.log_topic, prefixed=False)
    for below, fault, text in (
        (messages[2].offset, BrokenStepLog, "the records before it were deleted"),
        (-1, LogOffsetGone, "does not exist, the partition holds"),
    ):
        place = TopicPartition(pipeline.spec.log_topic, 0, below)
        play.admin.delete_records([place])[place].result()
        stops(play, pipeline, fault, text)


@pytest.mark.parametrize("kept", [1, pytest.param(0, marks=pytest.mark.long)])
def test_the_advice_of_a_lost_step_log_leads_to_the_batch_answer(play: Playground, tmp_path: Path, kept: int) -> None:
    """Step by step as the text says it, by the commands. `kept`: how many of the last records are left."""
    play.topic("in")
    letters = ", 'on.error' = 'dead-letter', 'dead.letter.topic' = '@letters'"
    pipeline = sums.project(play, letters, workers=WORKERS)
    play.send("in", ["rubbish", *sums.rows(0, 4)])
    play.run(pipeline, threads())
    closed(pipeline)
    log = pipeline.spec.log_topic
    place = TopicPartition(log, 0, play.read(log, prefixed=False)[-kept].offset if kept else -1)
    play.admin.delete_records([place])[place].result()

    code, text = command(pipeline, tmp_path / "refused.log")
    assert code == ExitCode.KAFKA
    told = re.search(
        r"\(1\) stop every run .*, \(2\) delete topic (\S+), \(3\) delete the topics (.+), \(4\) `([^`]+)`", text
    )
    assert told is not None, text
    of_log, written, then = told.groups()
    assert (of_log, written.split(" and ")) == (log, [play.prefix + "letters", play.prefix + "out"])
    assert then == "stepwell run --full-refresh"
    checks = log_checks(
        {"bootstrap.servers": play.servers}, play.topics, pipeline.spec.name, written.split(" and "), ()
    )
    assert [(check.level, check.what_to_do in text) for check in checks] == [("FAIL", True)]

    for topic in (of_log, *written.split(" and ")):
        play.admin.delete_topics([topic], operation_timeout=20)[topic].result()
    assert command(pipeline, tmp_path / "refresh.log") == (ExitCode.OK, ANY)
    assert play.check(pipeline) == {"sums": 3}
    assert len(play.read("letters")) == 1


def command(resolved: Resolved, log: Path) -> tuple[int, str]:
    """What `stepwell run --full-refresh` ends with, and says on one line."""
    with service(resolved, log, "--full-refresh", "--available-now") as process:
        code = process.wait(WAIT_SECONDS_MAX)
    return code, " ".join(log.read_text().split())


# Damage


def flip(file: Path, place: int, bit: int = 0) -> None:
    with file.open("r+b") as opened:
        opened.seek(place)
        (byte,) = opened.read(1)
        opened.seek(place)
        opened.write(bytes([byte ^ (1 << bit)]))


def flip_in(file: Path, mark: bytes, *, after: int = 0) -> None:
    """One bit, everywhere where `mark` stands: LMDB may keep a former version of a page."""
    text = file.read_bytes()
    places = [i for i in range(len(text)) if text.startswith(mark, i)]
    assert places, f"{mark!r} is not in {file}"
    for place in places:
        flip(file, place + after)


def of_a_run(resolved: Resolved) -> bytes:
    """Bytes from the inside of a run: an Arrow table's column of hashes, which no two runs share."""
    with Database.read_committed(resolved.spec.state_location.here.of_worker(0)) as (_, transaction):
        key, value = max(transaction.scan(b""), key=lambda item: (item[0][:2], item[0]))
        assert int.from_bytes(key[:2]) >= 16, "not of the engine itself"
        whole = bytes(value)
    return whole[-80:-64]


@pytest.mark.long
def test_a_flipped_bit_in_a_run_stops_the_step_that_reads_it(play: Playground, pipeline: Resolved) -> None:
    more(play, pipeline, 0)
    mark = of_a_run(pipeline)
    flip_in(closed(pipeline) / "workers" / "0000" / "committed" / "data.mdb", mark)
    play.send("in", sums.rows(4, 4))
    stops(
        play, pipeline, CorruptRecord, r"A record of database .* does not match its checksum: key table \d+ shard \d+"
    )
    rebuilt(play, pipeline)


def test_a_flipped_bit_in_the_description_stops_the_run(play: Playground, pipeline: Resolved) -> None:
    more(play, pipeline, 0)
    file = closed(pipeline) / "workers" / "0001" / "committed" / "data.mdb"
    flip_in(file, f"{play.prefix}pipeline".encode())
    stops(
        play,
        pipeline,
        CorruptRecord,
        f"the description of the database in {pipeline.spec.state_location.here.of_worker(1)}",
    )
    rebuilt(play, pipeline)


@pytest.mark.soak
def test_a_file_without_its_beginning_stops_the_run(play: Playground, pipeline: Resolved) -> None:
    more(play, pipeline, 0)
    file = closed(pipeline) / "workers" / "0000" / "committed" / "data.mdb"
    with file.open("r+b") as opened:
        opened.write(bytes(8192))
    stops(play, pipeline, CorruptFile, f"The file of the database in {file.parent}")
    rebuilt(play, pipeline)


@pytest.mark.soak
def test_a_damaged_working_environment_is_thrown_away_by_the_next_run(
    play: Playground, pipeline: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    with play.oracle(pipeline) as oracle:
        more(play, pipeline, 0)
        play.send("in", sums.rows(4, 6))
        with arm(CrashOrder("step.complete", "raise", visit=2)), pytest.raises(Crash):
            play.run(pipeline, threads())
        Database.close_all()
        for file in closed(pipeline).glob("workers/*/layer-*/data.mdb"):
            for place in range(0, file.stat().st_size, 97):
                flip(file, place)
        assert play.run(pipeline, threads())["steps_replayed"] == 2
        judged(play, pipeline, oracle)


@pytest.mark.long
def test_a_record_of_the_working_environment_that_changes_under_a_run_stops_it(
    play: Playground, pipeline: Resolved
) -> None:
    """And the next run replays from the checkpoint."""
    with play.oracle(pipeline) as oracle:
        more(play, pipeline, 0)
        with play.running(pipeline, threads()) as run:
            play.send("in", sums.rows(4, 4))
            run.wait_until(lambda status: status["steps_run"] == 2)
            for file in pipeline.spec.storage.glob("workers/*/layer-*/data.mdb"):
                for place in found(file, b"ARROW1") or found(file, b"c0"):
                    flip(file, place + 1)
            play.send("in", sums.rows(8, 4))
            with pytest.raises(StorageError, match="does not match its checksum"):
                run.wait_until(lambda status: status["steps_run"] == 4)
        Database.close_all()
        play.run(pipeline, threads())
        judged(play, pipeline, oracle)


def found(file: Path, mark: bytes) -> list[int]:
    text = file.read_bytes()
    return [i for i in range(len(text)) if text.startswith(mark, i)]


@pytest.mark.parametrize("damage", [b"{", *(pytest.param(d, marks=pytest.mark.soak) for d in (b"", b"\x00" * 40))])
def test_a_damaged_description_of_the_circuit_is_written_again(
    play: Playground, pipeline: Resolved, damage: bytes
) -> None:
    more(play, pipeline, 0)
    file = closed(pipeline) / CIRCUIT_FILE
    right = file.read_bytes()
    file.write_bytes(damage)
    more(play, pipeline, 4)
    assert file.read_bytes() == right
    assert play.check(pipeline) == {"sums": 3}


# No room


@pytest.mark.long
def test_a_full_map_stops_the_step_and_more_room_lets_it_go_on(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.topic("in")
    resolved = sums.project(play, rows=200, workers=WORKERS)
    with play.oracle(resolved) as oracle:
        more(play, resolved, 0)
        play.send("in", [{"k": f"{n}{'x' * 6000}", "n": n} for n in range(600)])
        Database.close_all()
        with monkeypatch.context() as small:
            small.setattr(environments, "MAP_BYTES_MAX", 1 << 20)
            with pytest.raises(StorageFull, match=r"MDB_MAP_FULL.*run again"):
                play.run(resolved, threads())
            Database.close_all()
        play.run(resolved, threads())
        judged(play, resolved, oracle)


def judged(play: Playground, resolved: Resolved, oracle: Oracle) -> None:
    story = oracle.verify(sums.batch(play))
    oracle.verify_twin(play.twin(resolved, story, workers=1))
