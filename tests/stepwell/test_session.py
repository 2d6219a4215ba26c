"""The session, in a process of its own: a test run has one already, with other settings."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell.spark import class_archive
from stepwell.spark.make_class_archive import under_way
from stepwell.spark.session import WORKER_SLOTS, configuration, cores

SCRIPT = """
import json
from stepwell.spark.session import WORKER_SLOTS, cores, make_session
session = make_session("t", {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.own": "7"}, daemon_module=None)
where = session.sparkContext.parallelize([0], 1).map(lambda _: __import__("stepwell").__path__[0]).collect()[0]
print(json.dumps({
    "zone": session.conf.get("spark.sql.session.timeZone"),
    "own": session.conf.get("spark.own"),
    "sockets": session.conf.get("spark.python.unix.domain.socket.enabled"),
    "bound": session.sparkContext.master == f"local[{cores() + WORKER_SLOTS}]",
    "where": where,
    "jvm": list(session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()),
}))
session.stop()
"""


def test_a_session_is_in_utc_quiet_and_its_workers_find_our_packages(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{SCRIPT}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    told = json.loads(run.stdout)
    jvm = told.pop("jvm")
    assert told == {"zone": "UTC", "own": "7", "sockets": "true", "bound": True, "where": str(root / "stepwell")}
    archive = class_archive.archive()
    assert archive is not None
    assert (f"-XX:SharedArchiveFile={archive}" in jvm) == archive.exists()
    assert "WARN " not in run.stderr
    assert "log level" not in run.stderr


@pytest.mark.parametrize(
    ("master", "becomes", "parallelism"),
    [
        (None, f"local[{cores() + WORKER_SLOTS}]", str(cores())),
        ("local[*]", f"local[{cores() + WORKER_SLOTS}]", str(cores())),
        ("local[*,4]", f"local[{cores() + WORKER_SLOTS},4]", str(cores())),
        ("local[3]", "local[3]", None),
        ("local", "local", None),
        ("yarn", "yarn", None),
    ],
)
def test_local_mode_with_all_cores_has_task_slots_for_any_number_of_workers(
    master: str | None, becomes: str, parallelism: str | None
) -> None:
    chosen = configuration("t", {} if master is None else {"spark.master": master})
    assert (chosen["spark.master"], chosen.get("spark.default.parallelism")) == (becomes, parallelism)


def test_an_archive_of_classes_that_is_broken_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the JVM itself, and in silence: no Spark is needed to see it."""
    broken = tmp_path / "classes.jsa"
    broken.write_bytes(b"no archive" * 1000)
    monkeypatch.setattr(class_archive, "archive", lambda: broken)
    options = shlex.split(configuration("t")["spark.driver.extraJavaOptions"])
    assert f"-XX:SharedArchiveFile={broken}" in options
    java = str(Path(os.environ["JAVA_HOME"], "bin", "java")) if "JAVA_HOME" in os.environ else "java"
    run = subprocess.run([java, *options, "-version"], capture_output=True, text=True, timeout=120, check=True)
    assert not run.stdout and "warning" not in run.stderr.lower(), run


@pytest.mark.parametrize(
    ("option", "variable", "ours"),
    [
        ("", "", True),
        ("-Xmx2g -XX:+UseStringDeduplication", "", True),
        ("-XX:+UseG1GC", "", False),
        ("", "-XX:+UseZGC", False),
    ],
)
def test_a_collector_that_the_user_chose_is_the_only_one(
    monkeypatch: pytest.MonkeyPatch, option: str, variable: str, ours: bool
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", variable)
    chosen = configuration("t", {"spark.driver.extraJavaOptions": option})["spark.driver.extraJavaOptions"]
    assert ("-XX:+UseSerialGC" in chosen) == ours
    assert chosen.endswith(option)


@pytest.mark.parametrize(
    ("is_there", "is_ours", "is_made"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_an_archive_is_made_after_the_first_use_of_an_environment_of_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool, is_ours: bool, is_made: bool
) -> None:
    place = tmp_path / "classes-a.jsa"
    if is_there:
        place.touch()
    commands: list[list[str]] = []
    monkeypatch.setattr(class_archive, "archive", lambda: place)
    monkeypatch.setattr(class_archive, "FOLDER", tmp_path / "share" / "stepwell")
    monkeypatch.setattr(os, "access", lambda folder, mode: is_ours and folder == tmp_path)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: commands.append(command))
    class_archive.make_if_missing()
    made = [[sys.executable, "-m", "stepwell.spark.make_class_archive", "--beside"]]
    assert commands == (made if is_made else [])


def test_one_process_makes_an_archive_and_drafts_of_those_that_have_ended_go(tmp_path: Path) -> None:
    place, ended = tmp_path / "classes-a.jsa", subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    former = tmp_path / f"classes-a.{ended.pid}"
    former.touch()
    assert not under_way(place) and not former.exists()
    (tmp_path / f"classes-a.{os.getpid()}").touch()
    assert under_way(place)
