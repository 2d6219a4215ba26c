"""A command plans only the definitions that have changed, and gets the project that it would have planned."""

from __future__ import annotations

import pickle
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.sql.lowering import write_project
from bench.sql.suites import SUITES
from coordinator.revisions.document import PlanDocument
from engine.model.circuit import Circuit
from stepwell.lowering import driver
from stepwell.planning import installed, kept_definitions, kept_folder, resolver
from stepwell.planning.kept_definitions import KEPT_FOLDER, KeptDefinitions
from stepwell.planning.kept_folder import KeptFolder
from stepwell.planning.revisions import document_of_project
from stepwell.project.loading import load_project
from tests.sampling import sampled
from tests.stepwell.folder import project, write

SOURCES = """
CREATE STREAMING TABLE t (k STRING NOT NULL, n INT, at TIMESTAMP, code CHAR(3)) USING kafka TBLPROPERTIES ('subscribe' = 't');
CREATE STREAMING TABLE u (k STRING, name STRING)
  USING kafka TBLPROPERTIES ('subscribe' = 'u', 'mode' = 'upsert', 'key' = 'k');
"""

VIEWS = """
CREATE MATERIALIZED VIEW sums TBLPROPERTIES ('topic' = 'sums', 'mode' = 'changelog') AS
  SELECT k, sum(n) AS total FROM large GROUP BY k;
CREATE TEMPORARY VIEW large AS SELECT * FROM recent WHERE n > 10;
CREATE TEMPORARY VIEW recent AS SELECT k, n, code FROM t WHERE at > TIMESTAMP '2020-01-01 00:00:00';
CREATE TEMPORARY VIEW unread AS SELECT upper(name) AS name FROM u;
CREATE MATERIALIZED VIEW names AS
  WITH sums AS (SELECT k, lower(name) AS name FROM u) SELECT k, name FROM sums WHERE isnotnull(name);
CREATE MATERIALIZED VIEW both AS
  SELECT s.k, s.total, n.name FROM sums s JOIN names n ON s.k = n.k
  WHERE s.total > (SELECT min(total) FROM sums) AND EXISTS (SELECT 1 FROM u WHERE u.k = s.k);
CREATE MATERIALIZED VIEW fixed AS SELECT * FROM VALUES (1, 'a', DATE '2024-01-01'), (2, NULL, NULL) AS v(i, s, d);
CREATE STREAMING TABLE out (k STRING, code VARCHAR(5));
CREATE FLOW one AS INSERT INTO out BY NAME SELECT k, code FROM STREAM t;
CREATE FLOW two AS INSERT INTO out BY NAME SELECT code, k FROM STREAM recent;
CREATE MATERIALIZED VIEW called AS SELECT k, doubled(n) AS twice FROM t;
CREATE MATERIALIZED VIEW over_python AS SELECT k, count(*) AS c FROM in_python GROUP BY k;
CREATE MATERIALIZED VIEW over_inlined AS SELECT k FROM inlined_python WHERE k <> '';
CREATE MATERIALIZED VIEW files AS SELECT upper(_c0) AS text FROM csv.`DATA`;
CREATE MATERIALIZED VIEW no_rows AS SELECT upper(_c0) AS text FROM csv.`DATA` WHERE _c0 = 'a' AND _c0 = 'b' AND 1 > 2;
"""

PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

spark.udf.register("doubled", lambda n: 2 * n, "int")

@dp.materialized_view
def in_python():
    return spark.table("t").select("k", F.col("n").cast("bigint").alias("n"))

@dp.temporary_view
def inlined_python():
    return spark.table("t").where("n > 3")
"""

ALWAYS = {"called", "in_python", "over_inlined", "files", "no_rows"}
"""What depends on more than the SQL and the tables of the project."""

FILES = {"a.py": PYTHON, "b.sql": VIEWS, "c.sql": SOURCES}


def text_of(document: PlanDocument) -> str:
    """All that the document says. Pickles of equal functions can differ, so a circuit has their digests."""
    without = replace(document, circuit=Circuit(()), numbers=())
    return "\n".join([document.circuit.to_json(), str(document.numbers), without.text])


@dataclass
class Planning:
    """Plans projects, and notes whose queries Spark has planned."""

    spark: SparkSession
    monkeypatch: pytest.MonkeyPatch
    errors: list[str] = field(default_factory=list)

    def __call__(self, spec: Path, *, afresh: bool = False, **settings: str) -> tuple[str, set[str], list[str]]:
        """(the plan document or nothing, the views whose queries Spark has planned, the errors)."""
        found = load_project(spec, {key.replace("_", "."): value for key, value in settings.items()})
        kept = KeptDefinitions.nothing() if afresh else KeptDefinitions.of(found)
        planned: set[str] = set()
        before = resolver.flow_plan
        with self.monkeypatch.context() as patched:
            patched.setattr(resolver, "flow_plan", lambda *a, **b: (planned.add(b["view"]), before(*a, **b))[1])
            resolved, errors = resolver.resolve_with_errors(found, self.spark, kept)
        lowered = driver.lower_with_errors(resolved)
        errors += lowered.errors
        text = "" if errors else text_of(document_of_project(resolved, lowered.circuit))
        # Spark's suggestions that are as near as others come in any order.
        texts = (str(error).partition("Did you mean")[0] for error in errors)
        return text, planned, sorted(f"{error.view} {text}" for error, text in zip(errors, texts, strict=True))

    def as_afresh(self, spec: Path, **settings: str) -> set[str]:
        """The views that were planned although plans were kept. Asserts that the project is the one that is planned afresh."""
        text, planned, errors = self(spec, **settings)
        assert (text, errors) == self(spec, afresh=True, **settings)[::2]
        self.errors = errors
        return planned


@pytest.fixture
def planning(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Planning:
    return Planning(spark, monkeypatch)


@pytest.fixture(scope="module")
def planned_folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project that was planned once, with what was kept."""
    folder = tmp_path_factory.mktemp("kept")
    data = tmp_path_factory.mktemp("data")
    (data / "x.csv").write_text("a,1\n")
    found = project(folder, {name: text.replace("DATA", str(data)) for name, text in FILES.items()})
    resolver.resolve(found, spark, KeptDefinitions.of(found))
    yield folder


@pytest.fixture
def folder(planned_folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(planned_folder, tmp_path / "project")
    return tmp_path / "project"


def edit(folder: Path, before: str, after: str) -> Path:
    """In every file of the project. Returns that of the project itself."""
    texts = {path: path.read_text() for path in (folder / "transformations").iterdir() if path.is_file()}
    assert any(before in text for text in texts.values()), before
    for path, text in texts.items():
        path.write_text(text.replace(before, after))
    return folder / "spark-pipeline.yml"


def test_an_unchanged_project_is_read_from_the_folder(folder: Path, planning: Planning) -> None:
    assert planning.as_afresh(folder / "spark-pipeline.yml") == ALWAYS


EDITS = (
    {
        "the text of a view": ("s.total > (", "s.total >= (", {"both"}),
        "a temporary view in another and in a streaming table": ("2020-01-01", "2021-01-01", {"sums", "out"}),
        "rows that are written in a view": ("(1, 'a',", "(7, 'a',", {"fixed"}),
        "the columns of a view in Python": ('"bigint"', '"string"', {"over_python"}),
    },
    {
        "the rows of a view that another reads": ("isnotnull(name)", "name <> ''", {"names"}),
        "a temporary view": ("n > 10", "n > 11", {"sums"}),
        "the rows of a view in Python": ('"k", F.col("n")', 'F.upper("k").alias("k"), F.col("n")', set()),
        "a line, so that all below move": ("CREATE MATERIALIZED VIEW sums", "\n-- here\nCREATE MATERIALIZED VIEW sums", set()),
    },
    {"the type of a column of a view that another reads": ("sum(n) AS", "sum(double(n)) AS", {"sums", "both"})},
    {
        "the nullability of a column of a view that another reads": (
            "SELECT k, name FROM sums",
            "SELECT k, coalesce(name, '') AS name FROM sums",
            {"names", "both"},
        ),
    },
    {
        "the order of the columns of a view that another reads": (
            "SELECT k, name FROM sums",
            "SELECT name, k FROM sums",
            {"names", "both"},
        ),
        "a flow of a table": ("SELECT code, k FROM STREAM recent", "SELECT code, upper(k) AS k FROM STREAM recent", {"out"}),
        "a function in Python": ("2 * n", "3 * n", set()),
    },
    {
        "the case of a name": ("MATERIALIZED VIEW names", "MATERIALIZED VIEW Names", {"Names", "both"}),
        "the mode of an output": ("'mode' = 'changelog'", "'mode' = 'upsert', 'key' = 'k'", {"sums"}),
        "the topic of a source": ("'subscribe' = 'u'", "'subscribe' = 'v'", set()),
    },
    {
        "a temporary view that nothing reads": ("upper(name)", "trim(name)", set()),
        "the key and the mode of a source": ("'mode' = 'upsert', 'key' = 'k'", "'mode' = 'append'", set()),
        "the type of a column of a source": ("k STRING NOT NULL, n INT", "k STRING NOT NULL, n BIGINT", {"sums", "out"}),
    },
    {"the nullability of a column of a source": ("k STRING NOT NULL, n INT", "k STRING, n INT", {"sums", "out", "both", "over_python"})},
    {
        "a column of a source": ("(k STRING, name STRING)", "(k STRING, name STRING, more INT)", {"names", "both"}),
        "the length of a text of a table": ("VARCHAR(5)", "VARCHAR(6)", {"out"}),
    },
    {
        "the length of a text of a source": ("CHAR(3)", "CHAR(4)", {"sums", "out"}),
        "a renamed view": ("both", "all_of_both", {"all_of_both"}),
    },
    {
        "a view is temporary now": ("CREATE MATERIALIZED VIEW names AS", "CREATE TEMPORARY VIEW names AS", {"both"}),
        "a temporary view is materialized now": ("CREATE TEMPORARY VIEW large", "CREATE MATERIALIZED VIEW large", {"large", "sums"}),
        "a new view with the name of a query in WITH": (
            "CREATE STREAMING TABLE out",
            "CREATE MATERIALIZED VIEW v AS SELECT 1 AS one;\nCREATE STREAMING TABLE out",
            {"v"},
        ),
    },
    {
        "a setting of the statements below": (
            "CREATE MATERIALIZED VIEW fixed",
            "SET spark.sql.optimizer.maxIterations = 99;\nCREATE MATERIALIZED VIEW fixed",
            {"fixed", "out", "over_python"},
        ),
        "the declared columns of a view": (
            "MATERIALIZED VIEW names AS",
            "MATERIALIZED VIEW names (k STRING, name VARCHAR(9)) AS",
            {"names", "both"},
        ),
    },
)  # fmt: skip
"""Each is planned at once: what is edited, (text before, text after, the views that Spark has to plan beside those of ALWAYS)."""


ALONE = [edits for edits in EDITS if "the nullability of a column of a source" in edits]
"""No other case stands for these."""


@pytest.mark.parametrize("edits", sampled(EDITS, 3, keep=ALONE), ids=" and ".join)
def test_only_what_depends_on_an_edit_is_planned(
    edits: dict[str, tuple[str, str, set[str]]], folder: Path, planning: Planning
) -> None:
    expected = set(ALWAYS)
    for before, after, planned in edits.values():
        edit(folder, before, after)
        expected |= planned
    assert planning.as_afresh(folder / "spark-pipeline.yml") == expected


def test_the_order_is_that_of_the_definitions(tmp_path: Path, spark: SparkSession) -> None:
    """Spark misses the names in another order, and fewer of them if plans are kept."""
    views = """
CREATE MATERIALIZED VIEW first AS SELECT t.k FROM third JOIN second ON third.k = second.k JOIN t ON t.k = third.k JOIN u ON u.k = t.k;
CREATE MATERIALIZED VIEW second AS SELECT k FROM u;
CREATE MATERIALIZED VIEW third AS SELECT k FROM t;
CREATE STREAMING TABLE u (k STRING) USING kafka TBLPROPERTIES ('subscribe' = 'u');
CREATE STREAMING TABLE t (k STRING) USING kafka TBLPROPERTIES ('subscribe' = 't');
"""
    found = project(tmp_path, {"a.sql": views})
    for _ in ("afresh", "kept"):
        resolved = resolver.resolve(found, spark, KeptDefinitions.of(found))
        assert [view.name for view in resolved.views] == ["second", "third", "first"]
        assert [source.handle for source in resolved.sources] == ["u", "t"]


def test_a_function_with_the_name_of_one_of_sparks(folder: Path, planning: Planning) -> None:
    """Today Spark takes its own. A setting decides that."""
    edit(folder, "doubled(n)", "n + n")
    always = ALWAYS - {"called"}
    assert planning.as_afresh(folder / "spark-pipeline.yml") == always | {"called"}
    assert planning.as_afresh(folder / "spark-pipeline.yml") == always
    assert planning.as_afresh(edit(folder, '"doubled"', '"LOWER"')) == always | {"names"}


def test_settings(folder: Path, planning: Planning) -> None:
    spec = folder / "spark-pipeline.yml"
    assert planning.as_afresh(spec, stepwell_topics_partitions="7") == ALWAYS
    every = {"sums", "names", "both", "fixed", "out", "over_python"}
    assert planning.as_afresh(spec, spark_sql_caseSensitive="true") == ALWAYS | every


BROKEN = {
    "a view that is gone": ("CREATE MATERIALIZED VIEW names AS", "CREATE MATERIALIZED VIEW others AS"),
    "a circle": ("FROM sums WHERE isnotnull(name)", "FROM sums WHERE name NOT IN (SELECT name FROM both)"),
    "a circle through a temporary view": ("FROM t WHERE at > T", "FROM t JOIN both USING (k) WHERE at > T"),
    "a view with an error that others read": ("sum(n) AS total", "sum(m) AS total"),
    "a column that others need": ("sum(n) AS total", "sum(n) AS sum"),
    "a source that does not exist": ("'subscribe' = 't'", "'subscribe' = ''"),
}


@pytest.mark.parametrize("name", sampled(BROKEN, 5))
def test_errors_are_those_of_a_project_that_is_planned_afresh(name: str, folder: Path, planning: Planning) -> None:
    spec = edit(folder, *BROKEN[name])
    kept = sorted(path.name for path in (folder / "state" / "stepwell" / KEPT_FOLDER).iterdir())
    planning.as_afresh(spec)
    assert planning.errors
    now = {path.name for path in (folder / "state" / "stepwell" / KEPT_FOLDER).iterdir()}
    assert now >= set(kept), "what could not be planned may need it again"
    edit(folder, *reversed(BROKEN[name]))
    assert planning(spec)[1] == ALWAYS


def test_only_what_the_last_planning_used_is_kept(folder: Path, planning: Planning) -> None:
    kept = folder / "state" / "stepwell" / KEPT_FOLDER
    before = {path.name for path in kept.iterdir()}
    assert planning.as_afresh(edit(folder, "s.total > (", "s.total >= (")) == ALWAYS | {"both"}
    now = {path.name for path in kept.iterdir()}
    assert len(now) == len(before) and len(now - before) == 2, "the file and the view are other ones"
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept.iterdir())


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda content: content[:-1],
    "empty": lambda content: b"",
    "another byte": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "the body of another": lambda content: content.partition(b"\n")[0] + b"\n" + zlib.compress(pickle.dumps("another")),
    "another format": lambda content: content.replace(kept_folder.FORMAT.encode(), b"stepwell-kept-9", 1),
    "no file of ours": lambda content: b"\xff\xfe something else",
    "another version": lambda content: content.replace(installed.installed_digest().encode(), b"0" * 32, 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_not_whole_is_left_out(damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = "0123456789abcdef" * 2
    folder = KeptFolder(tmp_path)
    folder.put(key, "a value")
    folder.save(is_whole=True)
    assert KeptFolder(tmp_path).get(key) == "a value"
    (tmp_path / key).write_bytes(DAMAGES[damage]((tmp_path / key).read_bytes()))
    (tmp_path / "notes.txt").write_text("not ours")
    read = KeptFolder(tmp_path)
    assert read.get(key) is None
    assert ("a kept plan is left out" in capsys.readouterr().out) == (damage != "another version")
    read.save(is_whole=True)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_what_was_not_used_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_folder, "UNUSED_MAX", 3)
    for number in range(9):
        folder = KeptFolder(tmp_path)
        folder.put(f"{number:032x}", number)
        folder.save(is_whole=False)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_plan_that_is_nested_too_deeply_is_not_kept(tmp_path: Path) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    folder = KeptFolder(tmp_path)
    folder.put("0" * 32, deep)
    folder.put("1" * 32, "a value")
    folder.save(is_whole=True)
    assert [path.name for path in tmp_path.iterdir()] == ["1" * 32]


def test_a_folder_that_cannot_be_written_is_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    folder = KeptFolder(tmp_path / "file" / "below")
    folder.put("0" * 32, "a value")
    folder.save(is_whole=True)
    assert "plans of definitions are not kept" in capsys.readouterr().out


def test_a_session_with_rules_of_others_keeps_nothing(
    tmp_path: Path, planning: Planning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_definitions, "session_digest", lambda spark: None)
    spec = write(tmp_path, {"b.sql": SOURCES + "CREATE MATERIALIZED VIEW v AS SELECT k FROM t;"})
    assert planning.as_afresh(spec) == planning.as_afresh(spec) == {"v"}
    assert not (tmp_path / "state").exists()


WIDER = {
    "tpch": ("r_comment STRING", "r_comment STRING, r_added INT", {"q02", "q05", "q08"}),
    "tpcds": ("r_reason_desc STRING", "r_reason_desc STRING, r_added INT", {"q09", "q85", "q93"}),
}
"""(columns of a small table before, after, the queries that read the table)."""


@pytest.mark.soak
@pytest.mark.parametrize("name", ["tpcds", "tpch"])
def test_an_edit_of_a_suite(name: str, tmp_path: Path, planning: Planning) -> None:
    write_project(tmp_path, SUITES[name]())
    spec = tmp_path / "spark-pipeline.yml"
    planning(spec)
    view, tables = (tmp_path / "transformations" / file for file in ("q01.sql", "tables.sql"))
    view.write_text(view.read_text() + " -- edited")
    before, after, readers = WIDER[name]
    tables.write_text(tables.read_text().replace(before, after))
    assert planning.as_afresh(spec) == {"q01", *readers}
