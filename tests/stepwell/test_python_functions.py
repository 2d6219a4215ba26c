"""Functions in Python from a project's files to its circuit: what is sent to workers, what identifies them, and what is refused."""

from __future__ import annotations

import functools
import pickle
import re
import shutil
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.model.python_call import PythonFunction
from engine.model.rows import PythonMap
from stepwell.errors import ProjectErrors, UnsupportedError
from stepwell.inspection.dry_run import describe
from stepwell.lowering.driver import lower
from stepwell.planning import python_functions
from stepwell.planning.kept_plan import content_key, read_plan, write_plan
from stepwell.planning.pipeline import plan_project
from stepwell.planning.plans import ResolvedProject
from stepwell.planning.resolver import resolve
from tests.stepwell.folder import project

SOURCE = """
CREATE STREAMING TABLE t (k STRING, v BIGINT) USING kafka TBLPROPERTIES ('subscribe' = 't');
"""
HEAD = """
import random
from pyspark import pipelines as dp
from pyspark.sql import functions as F
"""
DEFINITIONS = f"""{HEAD}
LEAST = 3

@F.udf("bigint")
def least(v):
    return max(v, LEAST)

spark.udf.register("doubled", lambda v: 2 * v, "bigint")

@dp.materialized_view
def a():
    return spark.table("t").select("k", least(least("v")).alias("x"))
"""
SQL = SOURCE + "CREATE MATERIALIZED VIEW b AS SELECT k, doubled(x) AS x FROM a;"


def resolved(folder: Path, spark: SparkSession, text: str = DEFINITIONS, sql: str = SQL) -> ResolvedProject:
    return resolve(project(folder, {"a.py": text, "b.sql": sql}), spark)


def functions_of(found: ResolvedProject) -> list[PythonFunction]:
    nodes = (node for node in lower(found).nodes if isinstance(node, PythonMap))
    return [function for node in nodes for call in node.calls for function in call.functions]


def test_a_function_of_a_file_is_called_in_views_of_python_and_of_sql(tmp_path: Path, spark: SparkSession) -> None:
    found = functions_of(resolved(tmp_path, spark))
    assert [(f.name, re.sub(r"\d+", "N", f.place)) for f in found] == [
        ("least", "transformations/a.py:N"),
        ("least", "transformations/a.py:N"),
        ("doubled", "transformations/a.py:N"),
    ]
    assert [pickle.loads(f.pickled)[0](1) for f in found] == [3, 3, 2]


def test_a_plan_with_functions_is_kept_and_recognised(tmp_path: Path, spark: SparkSession) -> None:
    made = [
        resolved(tmp_path / name, spark, text)
        for name, text in (("one", DEFINITIONS), ("two", f"# moved\n\n{DEFINITIONS}"))
    ]
    plans = [plan_project(found, lower(found)) for found in made]
    assert plans[0].is_same(plans[1])
    assert functions_of(made[0])[0].pickled != functions_of(made[1])[0].pickled  # they have the numbers of lines
    key = content_key(made[0].project)
    write_plan(made[0].project, key, plans[0])
    kept = read_plan(made[0].project, key)
    assert kept is not None and kept.is_same(plans[1])
    sent = [call for node in kept.circuit.nodes if isinstance(node, PythonMap) for call in node.calls]
    assert pickle.loads(sent[0].functions[0].pickled)[0](1) == 3
    changed = resolved(tmp_path / "three", spark, DEFINITIONS.replace("LEAST = 3", "LEAST = 4"))
    assert not plan_project(changed, lower(changed)).is_same(plans[0])


def test_dry_run_says_what_the_user_promises(tmp_path: Path, spark: SparkSession) -> None:
    described = describe(resolved(tmp_path, spark))
    text = described.text({view.name for view in described.views})
    assert (
        "note: Python functions run in it (least(least)). Each must give the same result whenever it is called" in text
    )
    assert "least(least) of c1" in text


REFUSED = {
    "F.udf(lambda v: random.random(), 'double').asNondeterministic()('v')": r"function <lambda> is marked as not deterministic\n.*replay",
    "F.udf(lambda v: LOCK, 'string')('v')": r"a cannot be pickled|cannot pickle",
    "F.udf(lambda v: TOTAL.add(1), 'string')('v')": r"refers to an accumulator, whose sum would count replayed rows twice",
    "F.udf(lambda v: KNOWN.value, 'string')('v')": r"cannot be read back from its pickle: .*\n.*no broadcast variable",
    "F.udf(lambda v: len(LARGE), 'string')('v')": r"is 2 MB with all that it refers to; the limit is 1 MB\n.*join",
}


def test_what_a_worker_could_not_run_is_refused_with_its_place(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_functions, "FUNCTION_BYTES_MAX", 1 << 20)
    text = (
        f"{HEAD}\nimport threading\nLOCK = threading.Lock()\nLARGE = bytes(2 << 20)\n"
        "TOTAL = spark.sparkContext.accumulator(0)\nKNOWN = spark.sparkContext.broadcast(1)\n"
    )
    for number, column in enumerate(REFUSED):
        text += f"@dp.materialized_view\ndef v{number}(): return spark.table('t').select({column}.alias('x'))\n"
    with pytest.raises(ProjectErrors) as raised:
        resolved(tmp_path, spark, text, SOURCE)
    errors = raised.value.errors
    assert [error.view for error in errors] == [f"v{number}" for number in range(len(REFUSED))]
    for (column, says), error in zip(REFUSED.items(), errors, strict=True):
        assert re.search(says, str(error)), (column, str(error))
        assert error.location is not None and str(error.location).startswith("transformations/a.py:"), column
    assert (
        sum(isinstance(error, UnsupportedError) for error in errors) == len(REFUSED) - 1
    )  # Spark itself refuses the lock


def test_a_module_of_the_project_is_sent_and_one_of_a_library_is_not(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sent_along.py").write_text("import functools\n@functools.cache\ndef cached(v):\n    return v + 1\n")
    text = f"""{HEAD}
import json
import sent_along
f = F.udf(lambda v: json.dumps(sent_along.cached(v)), 'string')

@dp.materialized_view
def a(): return spark.table('t').select(f('v').alias('x'))
"""
    (function,) = functions_of(resolved(tmp_path, spark, text, SOURCE))
    del sys.modules["sent_along"]
    (tmp_path / "sent_along.py").unlink()
    try:
        call, _ = pickle.loads(function.pickled)
    except ModuleNotFoundError as missing:
        pytest.fail(f"a worker without the project's files: {missing}")
    assert call(1) == "2"
    assert b"JSONEncoder" not in function.pickled


def test_modules_that_have_each_other_are_sent(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "mutual"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "other.py").write_text("import mutual.user\nBY = 3\ndef more(v):\n    return mutual.user.LEAST + v\n")
    (package / "user.py").write_text(
        "import mutual.other\nLEAST = 4\ndef inner(v):\n    return mutual.other.BY * mutual.other.more(v)\n"
    )
    text = f"""{HEAD}
import mutual.user
f = F.udf(lambda v: mutual.user.inner(v), 'bigint')

@dp.materialized_view
def a(): return spark.table('t').select(f('v').alias('x'))
"""
    (function,) = functions_of(resolved(tmp_path, spark, text, SOURCE))
    for name in [name for name in sys.modules if name.partition(".")[0] == "mutual"]:
        del sys.modules[name]
    shutil.rmtree(package)
    call, _ = pickle.loads(function.pickled)
    assert call(1) == 15


def test_a_pickle_names_no_module_of_stepwell(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is recorded, and an installation from a wheel has these modules under other names than the repository."""

    @functools.lru_cache(maxsize=8)
    def doubled(value: int) -> int:
        return 2 * value

    really = python_functions.is_installed
    monkeypatch.setattr(python_functions, "is_installed", lambda name: name.startswith("engine") or really(name))
    with python_functions._sent_along():
        sent = python_functions._pickle(doubled)
    monkeypatch.setitem(sys.modules, "engine.python.rebuilt", None)
    try:
        found = pickle.loads(sent)
    except ModuleNotFoundError as error:
        raise AssertionError("the pickle names a module of this installation") from error
    assert (found(4), found(4), found.cache_info().hits, found.cache_info().maxsize) == (8, 8, 1, 8)
