"""The project file: found, read, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.errors import ProjectError
from stepwell.project.loading import load_project
from tests.stepwell.folder import SPEC, project, write


def test_found_in_a_folder_above(tmp_path: Path) -> None:
    spec = write(tmp_path, {"deep/down/a.sql": ""})
    loaded = load_project(start=tmp_path / "transformations" / "deep")
    assert (loaded.name, loaded.root, loaded.spec_file) == ("test", spec.parent, spec)


def test_not_found(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="--spec FILE"):
        load_project(start=tmp_path)
    with pytest.raises(ProjectError, match=r"nothing\.yml is not a file"):
        load_project(tmp_path / "nothing.yml")


def test_two_spec_files(tmp_path: Path) -> None:
    write(tmp_path, {})
    (tmp_path / "spark-pipeline.yaml").write_text(SPEC)
    with pytest.raises(ProjectError, match="MULTIPLE_PIPELINE_SPEC_FILES_FOUND"):
        load_project(start=tmp_path)


@pytest.mark.parametrize(
    ("storage", "folder"),
    [("state", "{root}/state"), ("/abs/state", "/abs/state"), ("file:///abs/a%20b", "/abs/a b"), ("file:/abs", "/abs")],
)
def test_storage(tmp_path: Path, storage: str, folder: str) -> None:
    loaded = project(tmp_path, {}, SPEC.replace("state", storage))
    assert str(loaded.storage) == folder.format(root=tmp_path)
    assert loaded.state_folder.parent == loaded.storage


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (SPEC.replace("state", "s3a://bucket/x"), "not on this machine"),
        (SPEC + "triggers: 1\n", "triggers"),
        (SPEC.replace("name: test\n", ""), "name"),
        (SPEC.replace("glob:", "file:"), "include: transformations"),
        (SPEC.replace("transformations/**", "a/**/*.py"), "GLOB_PATTERN"),
        ("name: [\n", "spark-pipeline.yml:2"),
        ("just text\n", "is not a project file"),
        (SPEC + "configuration:\n  stepwell.worker: '2'\n", "stepwell.workers"),
    ],
)
def test_wrong_project_files(tmp_path: Path, spec: str, says: str) -> None:
    with pytest.raises(Exception, match=says.replace(".", r"\.")) as raised:
        project(tmp_path, {}, spec)
    assert type(raised.value).__module__ == "stepwell.errors"


def test_numbers_and_booleans_need_no_quotes(tmp_path: Path) -> None:
    configuration = "configuration:\n  stepwell.workers: 3\n  stepwell.message.step.header: false\n  my.ratio: 0.5\n"
    settings = project(tmp_path, {}, SPEC + configuration).settings
    assert settings.stepwell.workers == 3
    assert settings.stepwell.message_step_header is False
    assert settings.spark == {"my.ratio": "0.5"}


def test_an_empty_configuration(tmp_path: Path) -> None:
    assert project(tmp_path, {}, SPEC + "configuration:\n").settings.stepwell.workers is None


def test_definition_files_come_once_and_in_order(tmp_path: Path) -> None:
    spec = SPEC + "  - glob:\n      include: transformations/b.sql\n"
    files = {"b.sql": "", "a.py": "", "sub/c.sql": "", "__pycache__/a.pyc": ""}
    found = project(tmp_path, files, spec).definition_files()
    assert [str(file.relative_to(tmp_path / "transformations")) for file in found] == ["a.py", "b.sql", "sub/c.sql"]
