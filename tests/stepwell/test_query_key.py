"""Two processes have one key if they would ask the project in the same way."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.planning import query_key as keys
from stepwell.planning.query_key import OF_RUNS, query_key
from stepwell.project.loading import Project, load_project
from stepwell.project.stepwell_settings import StepwellSettings
from tests.stepwell.folder import write


@pytest.fixture
def made(tmp_path: Path) -> Project:
    return load_project(write(tmp_path, {"a.sql": "CREATE MATERIALIZED VIEW v AS SELECT 1 AS x;\n"}))


def with_settings(made: Project, **settings: str) -> Project:
    return load_project(made.spec_file, {name.replace("_", "."): value for name, value in settings.items()})


def test_what_a_run_alone_depends_on_does_not_show(made: Project) -> None:
    before = query_key(made)
    assert before is not None
    given = {"stepwell_workers": "3", "stepwell_checkpoint_interval": "1h", "kafka_bootstrap_servers": "there:1"}
    for folder in (".git", "transformations/__pycache__", "state/stepwell", "venv/lib"):
        (made.root / folder).mkdir(parents=True)
        (made.root / folder / "more.py").write_text("x = 1\n")
    (made.root / "venv" / "pyvenv.cfg").write_text("")
    (made.root / "run.err").write_text("what a service says\n")
    assert query_key(with_settings(made, **given)) == before


def test_what_an_answer_may_depend_on_shows(made: Project) -> None:
    found = {query_key(made)}
    for settings in (
        {"spark_sql_ansi_enabled": "true"},
        {"stepwell_store": "file:///there"},
        {"stepwell_on_error": "skip"},
    ):
        found.add(query_key(with_settings(made, **settings)))
    for path, text in (
        (made.root / "helper.py", "columns = 2\n"),
        (made.root / "transformations" / "a.sql", "CREATE MATERIALIZED VIEW v AS SELECT 2 AS x;\n"),
        (made.spec_file, made.spec_file.read_text().replace("state", "other")),
    ):
        path.write_text(text)
        found.add(query_key(load_project(made.spec_file)))
    assert len(found) == 7 and None not in found


def test_a_folder_of_much_code_has_no_key(made: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "FILES_MAX", 1)
    for name in ("one.py", "two.py"):
        (made.root / name).touch()
    assert query_key(made) is None


def test_every_setting_that_is_left_out_exists() -> None:
    assert set(StepwellSettings.model_fields) >= OF_RUNS
