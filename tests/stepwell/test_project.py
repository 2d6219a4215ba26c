"""The project file: found, read, refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pyspark.errors import PySparkException
from pyspark.pipelines import cli as spark_cli

from stepwell.errors import ProjectError
from stepwell.project.loading import load_project
from stepwell.project.spec_file import SPEC_FILE_NAMES, read_spec
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
    with pytest.raises(ProjectError, match="two project files"):
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
        (SPEC + "triggers: 1\n", "spark-pipeline.yml:6: triggers: is not a field"),
        (SPEC + "librairies: []\n", "Did you mean libraries"),
        (SPEC.replace("name: test\n", ""), "name: is missing"),
        (SPEC.replace("name: test", "name: [a, b]"), "spark-pipeline.yml:1: name: ['a', 'b']"),
        (SPEC.replace("glob:", "file:"), "include: transformations"),
        (
            SPEC.replace("transformations/**", "a/**/*.py"),
            "spark-pipeline.yml:5: libraries.0.glob.include: 'a/**/*.py': is neither",
        ),
        (SPEC + "configuration:\n  my.key: [1]\n", "spark-pipeline.yml:7: configuration.my.key: [1]"),
        (
            SPEC + "configuration:\n  kafka.sasl.password: [hush]\n",
            "configuration.kafka.sasl.password: ***: input should",
        ),
        (SPEC + "configuration: ['kafka.sasl.password=hush']\n", "configuration: ['kafka.sasl.password=***']"),
        (SPEC + "configuration: [1]\n", "spark-pipeline.yml:6: configuration: [1]"),
        ("name: [\n", "spark-pipeline.yml:2"),
        ("just text\n", "is not a project file"),
        (SPEC + "configuration:\n  stepwell.worker: '2'\n", "stepwell.workers"),
    ],
)
def test_wrong_project_files(tmp_path: Path, spec: str, says: str) -> None:
    with pytest.raises(Exception, match=re.escape(says)) as raised:
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


def spark_reads(text: str) -> tuple[object, ...] | None:
    """What Spark's own reader makes of a project file, or None if it refuses the file."""
    try:
        spec = spark_cli.unpack_pipeline_spec(yaml.safe_load(text))
    except (PySparkException, KeyError, TypeError, AttributeError):
        return None
    return spec.name, spec.storage, dict(spec.configuration), tuple(library.include for library in spec.libraries)


def we_read(path: Path, text: str) -> tuple[object, ...] | None:
    path.write_text(text)
    try:
        spec = read_spec(path)
    except ProjectError:
        return None
    return spec.name, spec.storage, spec.configuration, spec.globs


@pytest.mark.parametrize(
    "text",
    [
        SPEC,
        SPEC + "catalog: c\ndatabase: d\n",
        SPEC + "schema: d\n",
        SPEC + "schema: null\n",
        SPEC + "configuration:\n  a.b: 'x'\n",
        SPEC + "configuration:\n  a.b: [x]\n",
        SPEC + "configuration: text\n",
        SPEC + "unknown: 1\n",
        SPEC + "1: 1\n",
        SPEC + "  - glob:\n      include: a/b.sql\n",
        SPEC + "  - glob:\n      include: a/**\n      exclude: b\n",
        SPEC + "  - glob:\n      include: a/*.sql\n",
        SPEC + "  - glob:\n      include: '[a]/**'\n",
        SPEC + "  - glob:\n      include: '**'\n",
        SPEC + "  - glob: {}\n",
        SPEC + "  - 5\n",
        "name: n\nstorage: s\n",
        "name: n\nstorage: s\nlibraries: []\n",
        "name: n\nstorage: s\nlibraries: text\n",
        "name: n\n",
        "storage: s\n",
        "{}",
    ],
)
def test_a_file_that_loads_here_loads_in_spark(tmp_path: Path, text: str) -> None:
    assert we_read(tmp_path / "spark-pipeline.yml", text) == spark_reads(text)


def test_spark_still_reads_the_same_files_and_fields() -> None:
    assert sorted(spark_cli.PIPELINE_SPEC_FILE_NAMES) == sorted(SPEC_FILE_NAMES)
    assert set(spark_cli.PipelineSpec.__dataclass_fields__) == {
        "name",
        "storage",
        "catalog",
        "database",
        "configuration",
        "libraries",
    }


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "spark-pipeline.yml").write_bytes(b"name: \xff")
    with pytest.raises(ProjectError, match="UTF-8"):
        load_project(tmp_path / "spark-pipeline.yml")
