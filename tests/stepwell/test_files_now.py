"""A service plans the project's files again while it runs: what the files say now, with the settings of its start."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from base.fault import Fault
from coordinator.revisions.plan_key import key_of_project
from stepwell.commands import serve
from stepwell.errors import ProjectError, SettingsError
from stepwell.lowering.driver import lower
from stepwell.planning.files_now import forget_modules, project_now
from stepwell.planning.resolver import resolve
from stepwell.planning.revisions import document_of_project
from stepwell.project.loading import Project, load_project
from tests.stepwell.folder import project

SOURCE = "CREATE STREAMING TABLE t (k STRING, v INT) USING kafka TBLPROPERTIES ('subscribe' = '{topic}');\n"
VIEW = "CREATE MATERIALIZED VIEW big TBLPROPERTIES ('topic' = 'big') AS SELECT k, v FROM t WHERE v > {least};\n"
FUNCTION = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from pyspark.sql.types import LongType
from helper_of_this_test import times

@F.udf(LongType())
def much(n):
    return times(n)

@dp.materialized_view
def more():
    return spark.table("t").select("k", much("v").alias("much"))
"""


def files(least: int = 1, topic: str = "t", *, function: bool = False) -> dict[str, str]:
    found = {"a.sql": SOURCE.format(topic=topic) + VIEW.format(least=least)}
    return found | ({"b.py": FUNCTION} if function else {})


def write_again(made: Project, changed: dict[str, str]) -> None:
    for name, text in changed.items():
        (made.root / "transformations" / name).write_text(text)


def definitions(made: Project, spark: SparkSession) -> serve._Definitions:
    return serve._Definitions(made, lambda: spark)


def key_in_a_command(made: Project, spark: SparkSession) -> str:
    """As `stepwell apply` shows it to the service."""
    resolved = resolve(load_project(made.spec_file), spark)
    return key_of_project(document_of_project(resolved, lower(resolved)))


def test_a_service_and_a_command_know_the_same_files_by_one_key(tmp_path: Path, spark: SparkSession) -> None:
    made = load_project(project(tmp_path, files()).spec_file, {"stepwell.on.error": "skip", "stepwell.workers": "2"})
    service = definitions(made, spark)
    before = key_of_project(service.plan_files())
    assert before == key_in_a_command(made, spark), "a setting of the start is no difference"
    keys = {before}
    for changed in (files(least=2), files(topic="u")):
        write_again(made, changed)
        keys.add(key_of_project(service.plan_files()))
        assert key_in_a_command(made, spark) in keys
    assert len(keys) == 3
    write_again(made, files())
    assert key_of_project(service.plan_files()) == before


def test_the_settings_are_those_of_the_start(tmp_path: Path, spark: SparkSession) -> None:
    made = load_project(project(tmp_path, files()).spec_file, {"stepwell.step.rows.max": "77", "stepwell.workers": "3"})
    spec = definitions(made, spark).plan_files()
    assert (spec.limits.rows_max, spec.workers, spec.workers_now) == (77, 3, None)


def test_a_module_of_the_project_is_read_again(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A definition that imports it has not changed itself, and the module has the size that it had a moment ago."""
    made = project(tmp_path, files(function=True))
    monkeypatch.syspath_prepend(str(made.root))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    helper = made.root / "helper_of_this_test.py"
    service = definitions(made, spark)
    keys = []
    for factor in (2, 3):
        helper.write_text(f"def times(n):\n    return {factor} * n\n")
        os.utime(helper, (1e9, 1e9))
        keys.append(key_of_project(service.plan_files()))
    assert keys[0] != keys[1]
    forget_modules(made.root)
    assert "helper_of_this_test" not in sys.modules and not (made.root / "__pycache__").exists()


def test_a_module_in_a_folder_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder has no `__init__.py`, so it is a package without a file."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    inner = tmp_path / "folder_of_this_test" / "inner.py"
    inner.parent.mkdir()
    found = []
    for value in (1, 2):
        inner.write_text(f"VALUE = {value}\n")
        names: dict[str, Any] = {}
        exec("from folder_of_this_test import inner", names)
        found.append(names["inner"].VALUE)
        forget_modules(tmp_path)
    assert found == [1, 2]


def test_stepwell_and_installed_packages_stay_imported() -> None:
    """They may lie in the project's folder: in `.venv`, or because Stepwell is developed there."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ("stepwell", "pyarrow")}
    forget_modules(Path(sys.prefix).parent)
    forget_modules(Path("/"))
    assert before.items() <= sys.modules.items()


def test_errors_name_file_and_line(tmp_path: Path, spark: SparkSession) -> None:
    made = project(tmp_path, files())
    service = definitions(made, spark)
    for text, says in (
        (files()["a.sql"] + "CREATE MATERIALIZED VIEW late AS SELECT nothing FROM t;", r"a\.sql:3: late"),
        (files()["a.sql"] + "CREATE MATERIALIZED VEIW late AS SELECT k FROM t;", r"a\.sql:3"),
    ):
        write_again(made, {"a.sql": text})
        with pytest.raises(ProjectError, match=says):
            service.plan_files()
    shutil.rmtree(made.root / "transformations")
    with pytest.raises(ProjectError, match="no definitions"):
        service.plan_files()


@pytest.mark.parametrize(
    "edit", [("name: ", "name: other_"), ("storage: ", "storage: other_")], ids=["name", "storage"]
)
def test_another_pipeline_is_refused(tmp_path: Path, edit: tuple[str, str]) -> None:
    made = project(tmp_path, files())
    made.spec_file.write_text(made.spec_file.read_text().replace(*edit))
    with pytest.raises(ProjectError, match=r"(?s)spark-pipeline\.yml: .*that is another pipeline.*stepwell run"):
        project_now(made)


@pytest.mark.parametrize("text", ["name: [", "", "name: p\nstorage: state\nlibraries: 7\n"])
def test_a_project_file_that_is_wrong_now_is_a_fault(tmp_path: Path, text: str) -> None:
    made = project(tmp_path, files())
    made.spec_file.write_text(text)
    with pytest.raises(Fault, match=r"spark-pipeline\.yml"):
        project_now(made)


def test_a_wrong_setting_in_the_file_is_a_fault(tmp_path: Path) -> None:
    made = project(tmp_path, files())
    made.spec_file.write_text(made.spec_file.read_text() + "\nconfiguration:\n  stepwell.wrokers: 3\n")
    with pytest.raises(SettingsError, match="wrokers"):
        project_now(made)


def test_a_table_of_the_next_project_can_be_read(tmp_path: Path, spark: SparkSession) -> None:
    made = project(tmp_path, files())
    table = made.root / "table"
    spark.createDataFrame([("a", 1), ("b", 2)], "k STRING, w INT").write.json(str(table))
    service = definitions(made, spark)
    service.plan()
    joined = f"CREATE MATERIALIZED VIEW j AS SELECT k, v, w FROM t JOIN json.`{table}` USING (k);"
    write_again(made, {"a.sql": files()["a.sql"] + joined})
    spec = service.plan_files()
    (handle,) = (source.table.handle for source in spec.inputs if source.is_table)
    rows = [row for batch in service.table_rows(handle) for row in batch.to_pylist()]
    assert sorted(row["k"] for row in rows) == ["a", "b"]
