"""A plan is kept as long as nothing has changed that it should depend on, and is compared with the definitions in any case."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coordinator.requests import Requests
from coordinator.status import StatusBoard
from stepwell.commands import serve as command
from stepwell.errors import FilesGone, ProjectError
from stepwell.planning import installed, kept_plan, resolver
from stepwell.planning.kept_definitions import KeptDefinitions
from stepwell.planning.kept_plan import (
    FILES_MAX,
    KEPT_FILE,
    DefinitionsChanged,
    PlanCheck,
    content_key,
    read_plan,
    write_plan,
)
from stepwell.planning.pipeline import PlannedProject
from stepwell.project.loading import Project, load_project
from tests.rooms import ROOMS
from tests.stepwell.folder import project

DEADLINE_SECONDS = 60.0
ROOT = Path(__file__).resolve().parents[2]

DEFINITIONS = """
import os
from pyspark import pipelines as dp
from pyspark.sql import functions as F

dp.create_streaming_table("t", schema="k STRING, v INT", format="kafka", table_properties={"subscribe": "t"})

@dp.materialized_view(table_properties={"topic": "big"})
def big():
    from pyspark.sql import SparkSession
    return SparkSession.active().table("t").where(F.col("v") > int(os.environ["LEAST"]))
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("LEAST", "1")
    monkeypatch.setattr(kept_plan, "DELAY_SECONDS", 0.0)
    return project(tmp_path, {"a.py": DEFINITIONS})


@pytest.fixture
def plan(made: Project, spark: SparkSession) -> PlannedProject:
    return planned_by(made, spark)[0]


def planned_by(made: Project, spark: SparkSession, *, may_be_kept: bool = True) -> tuple[PlannedProject, object]:
    definitions = command._Definitions(made, lambda: spark)
    return command._plan(made, definitions, Requests(), StatusBoard("test"), may_be_kept=may_be_kept)


def test_a_project_is_planned_once(
    made: Project, plan: PlannedProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(resolver, "resolve", lambda *_: pytest.fail("it was planned again"))
        kept, check = planned_by(made, spark)
    assert kept.is_same(plan) and isinstance(check, PlanCheck)
    again, check = planned_by(made, spark, may_be_kept=False)
    assert again.is_same(plan) and not isinstance(check, PlanCheck)


def test_a_kept_plan_is_compared_with_one_that_is_made_afresh(
    made: Project, plan: PlannedProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a mistake in what is kept of single definitions would never be noticed."""
    kept, check = planned_by(made, spark)
    monkeypatch.setattr(KeptDefinitions, "of", lambda project: pytest.fail("kept definitions were used"))
    assert isinstance(check, PlanCheck) and check._make().is_same(kept)


def change_text(made: Project) -> Project:
    (made.root / "transformations" / "a.py").write_text(DEFINITIONS + "\n")
    return made


def add_a_module(made: Project) -> Project:
    (made.root / "helper.py").write_text("")
    return made


def change_a_setting(made: Project) -> Project:
    return load_project(made.spec_file, {"stepwell.topics.partitions": "7"})


@pytest.mark.parametrize("change", [change_text, add_a_module, change_a_setting])
def test_a_change_makes_another_key(made: Project, change: Callable[[Project], Project]) -> None:
    before = content_key(made)
    assert content_key(change(made)) != before


def test_state_and_compiled_modules_are_no_content(made: Project) -> None:
    before = content_key(made)
    for folder in (made.state_folder, made.root / "transformations" / "__pycache__", made.root / ".git"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    assert content_key(made) == before


def test_what_the_service_writes_itself_is_no_content(made: Project) -> None:
    """`stepwell run > out.txt 2> service.log` in the project's folder."""
    script = f"""
import sys
from pathlib import Path
from stepwell.planning.kept_plan import content_key
from stepwell.project.loading import load_project
print(content_key(load_project(Path({str(made.spec_file)!r}))), flush=True)
"""
    keys = []
    for line in ("the first start\n", "the second\n"):
        (made.root / "service.log").write_text(line)
        with (made.root / "out.txt").open("a+") as out:
            out.write(line)
            out.flush()
            subprocess.run([sys.executable, "-c", script], cwd=ROOT, stdout=out, check=True)
            out.seek(0)
            keys.append(out.read().splitlines()[-1])
    assert keys[0] == keys[1]


def test_the_key_knows_every_room() -> None:
    """A change of Stepwell's own code may change the plan."""
    assert set(installed.ROOMS) == set(ROOMS)


def test_a_folder_of_many_files_has_no_key(made: Project) -> None:
    (made.root / "data").mkdir()
    for number in range(FILES_MAX + 1):
        (made.root / "data" / str(number)).touch()
    assert content_key(made) is None
    assert read_plan(made, None) is None


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b"", lambda b: b"\xff\n"]
)
def test_a_damaged_file_is_not_used(made: Project, plan: PlannedProject, damage: Callable[[bytes], bytes]) -> None:
    file, key = made.state_folder / KEPT_FILE, content_key(made)
    assert read_plan(made, key) is not None
    assert read_plan(made, "another key") is None
    file.write_bytes(damage(file.read_bytes()))
    assert read_plan(made, key) is None


def test_a_plan_with_another_checksum_is_not_used(made: Project, plan: PlannedProject) -> None:
    file, key = made.state_folder / KEPT_FILE, content_key(made)
    head, _, _ = file.read_bytes().partition(b"\n")
    file.write_bytes(head + b"\n" + pickle.dumps(replace(plan, outputs=())))
    assert read_plan(made, key) is None


def test_a_plan_that_cannot_be_kept_is_no_fault(made: Project, plan: PlannedProject) -> None:
    made.state_folder.joinpath(KEPT_FILE).unlink()
    made.state_folder.joinpath(KEPT_FILE).mkdir()
    write_plan(made, "key", plan)
    assert read_plan(made, "key") is None


def checked(made: Project, kept: PlannedProject, make: Callable[[], PlannedProject]) -> bool:
    """Whether the check asked for a stop. Raises what it found."""
    asked, over, key = threading.Event(), threading.Event(), content_key(made)

    def watched() -> PlannedProject:
        try:
            return make()
        finally:
            over.set()

    check = PlanCheck(made, kept, watched, lambda: True, asked.set, key=key)
    with check:
        assert over.wait(DEADLINE_SECONDS)
        check._thread.join(DEADLINE_SECONDS)
    return asked.is_set()


def test_definitions_that_depend_on_the_environment_end_the_run(
    made: Project, plan: PlannedProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAST", "2")
    kept, _ = planned_by(made, spark)
    assert kept.is_same(plan), "the environment is part of the key, so this test shows nothing"
    with pytest.raises(DefinitionsChanged, match="environment"):
        checked(made, kept, lambda: planned_by(made, spark, may_be_kept=False)[0])


def test_a_check_that_finds_a_difference_forgets_the_plan(made: Project, plan: PlannedProject) -> None:
    other = replace(plan, outputs=())
    with pytest.raises(DefinitionsChanged):
        checked(made, plan, lambda: other)
    assert read_plan(made, content_key(made)) is None


def test_definitions_that_fail_now_end_the_run_with_their_error(made: Project, plan: PlannedProject) -> None:
    def fails() -> PlannedProject:
        raise ProjectError("no such table")

    with pytest.raises(ProjectError, match="no such table"):
        checked(made, plan, fails)


def test_a_check_that_finds_nothing_leaves_the_run_alone(made: Project, plan: PlannedProject) -> None:
    def breaks() -> PlannedProject:
        raise ConnectionError("the JVM has ended")

    def files_are_gone() -> PlannedProject:
        """Their rows were read at the first start."""
        raise FilesGone("no such file")

    assert not checked(made, plan, lambda: plan)
    assert not checked(made, plan, breaks)
    assert not checked(made, plan, files_are_gone)
    assert read_plan(made, content_key(made)) is not None


def test_files_that_change_meanwhile_are_no_reason_to_end_the_run(made: Project, plan: PlannedProject) -> None:
    """A user edits them, to apply the change."""

    def edited() -> PlannedProject:
        change_text(made)
        return replace(plan, outputs=())

    def edited_wrongly() -> PlannedProject:
        add_a_module(made)
        raise ProjectError("no such table")

    assert not checked(made, plan, edited)
    assert not checked(made, plan, edited_wrongly)


def test_a_run_that_ends_first_is_not_held_up(made: Project, plan: PlannedProject) -> None:
    check = PlanCheck(
        made, plan, lambda: pytest.fail("it was planned"), lambda: False, lambda: None, key=content_key(made)
    )
    with check:
        pass
    check._thread.join(DEADLINE_SECONDS)
    assert not check._thread.is_alive()
