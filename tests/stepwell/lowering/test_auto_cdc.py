"""AUTO CDC holds what Spark's own implementation makes of the same changes in one batch. What is left open there is decided by the changes
alone."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from engine.errors import DataError
from engine.model.circuit import Circuit
from engine.model.rows import Source
from engine.state.store import DictStore
from io_kafka.step_log.digest import canonical
from stepwell.errors import Location, ProjectError
from stepwell.inspection.dry_run import describe
from stepwell.lowering.driver import lower
from stepwell.project.auto_cdc import END, RESERVED_PREFIX, START, AutoCdcQuery, ColumnChoice, read_table
from tests.engine.in_process import InProcess
from tests.engine.zsets import Rows, plus, to_table
from tests.sampling import sampled
from tests.small_jobs import small
from tests.stepwell.lowering.projects import Workbench, output
from tests.stepwell.lowering.test_against_spark import NAN, WORKERS, steps_of

DDL = "k bigint, r string, seq bigint, op string, v double, w bigint"
KEYS = ("k", "r")
STEPS = 4
HISTORY = ColumnChoice(("seq", "op"), excluded=True)
PAIR = "if(seq IS NULL, NULL, struct(w, seq))"
"""A sequence of two columns. Spark's own SCD type 2 fails where such a sequence cannot be null."""


def _query(scd_type: int, **more: Any) -> AutoCdcQuery:
    usual: dict[str, Any] = {
        "target": "v",
        "location": Location("a.sql", 1),
        "source": read_table("c"),
        "keys": KEYS,
        "sequence": lambda spark: F.col("seq"),
        "deletes": lambda spark: F.expr("op = 'd'"),
        "scd_type": scd_type,
    }
    return AutoCdcQuery(**{**usual, **more})


QUERIES = {
    "type 1": _query(1),
    "type 1 of some columns": _query(1, columns=ColumnChoice(("V", "r", "K"))),
    "type 1 without deletes": _query(1, deletes=None),
    "type 1 by a struct": _query(1, sequence=lambda spark: F.expr(PAIR)),
    "type 2": _query(2),
    "type 2 by a struct": _query(2, sequence=lambda spark: F.expr(PAIR), columns=HISTORY),
    "type 2 of some columns": _query(2, columns=HISTORY),
    "type 2 that tracks some": _query(2, columns=HISTORY, tracked=ColumnChoice(("w",))),
    "type 2 that tracks all but some": _query(2, columns=HISTORY, tracked=ColumnChoice(("w",), excluded=True)),
}


def _circuit(spark: SparkSession, query: AutoCdcQuery, mode: str = "changelog", **more: Any) -> Circuit:
    bench = Workbench(spark, streaming=True).source("c", DDL, mode)  # type: ignore[arg-type]
    return lower(bench.view("v", query, **more).project())


def _history(chance: random.Random, *, grows: bool = False) -> Iterator[Rows]:
    """Changes step by step, with sequences in any order. No two changes of a key have one sequence, but a change may come twice. Later steps
    take back some of what came, unless the source only grows."""
    present: list[tuple[Any, ...]] = []
    free = [chance.sample(range(30), 30) for _ in range(4)]
    for _ in range(STEPS):
        change: Rows = Counter()
        for row in () if grows else chance.sample(present, len(present) // 3):
            present.remove(row)
            change[row] -= 1
        for _ in range(9):
            key = chance.randrange(4)
            row = (
                key // 2,
                "xy"[key % 2],
                free[key].pop(),
                chance.choice([None, "i", "u", "u", "d"]),
                chance.choice([None, 0.0, -0.0, 1.5, NAN]),
                chance.choice([None, 1, 1, 2]),
            )
            times = chance.choice([1, 1, 1, 2])
            present += [row] * times
            change[row] += times
        yield Counter({row: weight for row, weight in change.items() if weight})


def _sparks(spark: SparkSession, rows: Rows, query: AutoCdcQuery) -> Rows:
    """What the classes that Spark runs AUTO CDC with make of the changes, if they come in one batch."""
    jvm: Any = spark._jvm
    package = jvm.org.apache.spark.sql.pipelines.autocdc
    frame = small(spark).createDataFrame(list(rows.elements()), DDL).coalesce(1)

    def option(value: Any) -> Any:
        return getattr(jvm, "scala.Option").empty() if value is None else getattr(jvm, "scala.Option").apply(value)

    def names(of: Sequence[str]) -> Any:
        return jvm.PythonUtils.toSeq([package.UnqualifiedColumnName.apply(name) for name in of])

    def choice(of: ColumnChoice | None) -> Any:
        kind = "ColumnSelection$ExcludeColumns" if of and of.excluded else "ColumnSelection$IncludeColumns"
        return option(of and getattr(package, kind)(names(of.names)))

    kind = getattr(package, f"ScdType$Type{query.scd_type}$")
    deletes = option(query.deletes and query.deletes(spark)._jc)
    sequence: Any = query.sequence(spark)
    chosen = choice(query.columns), choice(query.tracked)
    arguments = package.ChangeArgs(names(KEYS), sequence._jc, getattr(kind, "MODULE$"), deletes, *chosen)
    type_ = frame.select(sequence.alias("s"))._jdf.schema().apply(0).dataType()
    processor = getattr(package, f"Scd{query.scd_type}BatchProcessor")(arguments, type_)
    made = frame._jdf
    for name in _STAGES[query.scd_type]:
        made = getattr(processor, name)(made)
    found = DataFrame(made, frame.sparkSession)
    if query.scd_type == 1:
        meta = found.columns[-1]
        found = found.where(F.col(f"{meta}.deleteSequence").isNull()).drop(meta)
    else:
        found = found.where(~F.col(found.columns[-1])).drop(*found.columns[-2:])
    return Counter(tuple(row) for row in found.collect())


_STAGES = {
    1: ("deduplicateMicrobatch", "extendMicrobatchRowsWithCdcMetadata", "projectTargetColumnsOntoMicrobatch"),
    2: ("preprocessMicrobatch", "decomposeOutOfOrderRows", "dropRedundantRowsPostDecomposition", "reconcileStartAndEndAt",
        "dropLeftoverDeletesPostReconciliation", "promoteDecompositionTailsToTombstones", "identifyAndTagAuxRows"),
}  # fmt: skip
"""Their methods in the order in which Scd1ForeachBatchHandler and Scd2ForeachBatchHandler call them, for empty tables."""


def _text(rows: Rows) -> Counter[str]:
    """Rows by their text: NaN equals itself, -0.0 differs from 0.0."""
    counted: Counter[str] = Counter()
    for row, weight in rows.items():
        counted[repr(tuple(value.asDict() if isinstance(value, Row) else value for value in row))] += weight
    return counted


@pytest.mark.parametrize("name", sampled(QUERIES, 2))
def test_every_step_holds_what_spark_makes_of_the_changes(spark: SparkSession, name: str) -> None:
    query = QUERIES[name]
    circuit = _circuit(spark, query)
    history = list(_history(random.Random(name)))
    content: Rows = Counter()
    changes: Rows = Counter()
    shown = set()
    for step, change in enumerate(steps_of(circuit, DictStore(), {"c": history})):
        content, changes = plus(content, change), plus(changes, history[step])
        if step % 2 or step == STEPS - 1:
            assert _text(content) == _text(_sparks(spark, changes, query)), step
            shown |= set(content)
    assert len(shown) > 3, "too few rows to prove anything"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "grows"),
    [
        ("type 1", True),
        ("type 2 that tracks some", False),
        pytest.param("type 1", False, marks=pytest.mark.soak),
        pytest.param("type 2 that tracks some", True, marks=pytest.mark.soak),
    ],
)
def test_neither_the_number_of_workers_nor_the_order_of_arrival_shows(
    spark: SparkSession, name: str, grows: bool
) -> None:
    query = QUERIES[name]
    key = (*KEYS, START) if query.scd_type == 2 else KEYS
    circuit = _circuit(spark, query, "append" if grows else "changelog", output=output("v", "upsert", key))
    history = list(_history(random.Random(f"{name}{grows}"), grows=grows))

    def outputs(workers: int) -> list[Any]:
        machine = InProcess(circuit, workers, {"v": 3})
        return [canonical(machine.step({"c": _table(circuit, change)})["v"]).to_pylist() for change in history]

    alone = outputs(1)
    assert sum(map(len, alone)) > 2
    for workers in WORKERS:
        assert outputs(workers) == alone, workers
    at_once: Rows = Counter()
    for change in history:
        at_once = plus(at_once, change)
    plain = _circuit(spark, query, "append" if grows else "changelog")
    contents = [_content(plain, steps) for steps in (history, history[::-1] if grows else history, [at_once])]
    assert contents[0] == contents[1] == contents[2]


def _table(circuit: Circuit, rows: Rows) -> Any:
    return to_table(rows, next(node.types for node in circuit.nodes if isinstance(node, Source)))


def _content(circuit: Circuit, steps: Sequence[Rows]) -> Counter[str]:
    """The view after all of `steps`, of which there may be fewer than STEPS."""
    padded = [*steps, *([Counter()] * (STEPS - len(steps)))]
    content: Rows = Counter()
    for change in steps_of(circuit, DictStore(), {"c": padded}):
        content = plus(content, change)
    return _text(content)


def _row(seq: int | None, op: str, w: int, k: int | None = 1) -> tuple[Any, ...]:
    return (k, "x", seq, op, 0.5, w)


@pytest.mark.parametrize("mode", ["append", "changelog"])
def test_a_late_change_alters_nothing_and_a_deleted_row_does_not_come_back(spark: SparkSession, mode: str) -> None:
    circuit = _circuit(spark, _query(1), mode, output=output("v", "upsert", KEYS))
    machine = InProcess(circuit, 1, {"v": 1})

    def messages(*rows: tuple[Any, ...]) -> list[Any]:
        return machine.step({"c": _table(circuit, Counter(rows))})["v"].to_pylist()

    assert len(messages(_row(5, "u", 1))) == 1
    assert messages(_row(4, "u", 2), _row(3, "d", 2)) == []
    assert [message["value"] for message in messages(_row(7, "d", 3))] == [None]
    assert messages(_row(6, "u", 4)) == []
    assert len(messages(_row(8, "u", 5))) == 1


def test_one_row_a_key_is_stored_if_the_source_only_grows(spark: SparkSession) -> None:
    for mode, keeps in (("append", "the first 1 rows, by key"), ("changelog", "all rows in order, by key")):
        bench = Workbench(spark, streaming=True).source("c", DDL, mode)  # type: ignore[arg-type]
        shown = describe(bench.view("v", _query(1)).project())
        assert [line.trace for line in shown.views[0].nodes if line.trace and "row_number" not in line.text][:1] == [
            keeps
        ]
        kinds = [node.kind for node in _circuit(spark, _query(1), mode).nodes]
        assert kinds.count("TopK") == 1 and "Window" not in kinds


@pytest.mark.parametrize(("scd_type", "wins"), [(1, "u"), (2, "d")])
def test_what_spark_leaves_open_is_decided_by_the_changes_alone(spark: SparkSession, scd_type: int, wins: str) -> None:
    """Of changes with one key and one sequence, an update counts under type 1 and a delete under type 2, as in Spark's rules. Of several
    updates one counts, which is the same in whatever order they come."""
    query = _query(scd_type, columns=ColumnChoice((*KEYS, "w")))
    circuit = _circuit(spark, query)
    both = [_row(1, "u", 1), _row(1, "d", 2)]
    for order in (both, both[::-1]):
        found = _content(circuit, [Counter([row]) for row in order])
        assert found == (_content(circuit, [Counter([_row(1, "u", 1)])]) if wins == "u" else Counter())
    rows = [_row(1, "u", w) for w in range(4)]
    answers = [_content(circuit, [Counter([row]) for row in order]) for order in itertools.permutations(rows)]
    assert all(answer == answers[0] for answer in answers)
    assert sum(answers[0].values()) == 1
    candidates: Counter[str] = Counter()
    for row in rows:
        candidates += _content(circuit, [Counter([row])])
    assert answers[0] <= candidates


@pytest.mark.parametrize("scd_type", [1, 2])
@pytest.mark.parametrize(
    ("row", "says"),
    [
        (_row(None, "u", 1), r"no sequence"),
        (_row(None, "d", 1), r"no sequence"),
        (_row(1, "u", 1, None), r"no key \(k is null\)"),
    ],
)
def test_a_change_without_key_or_sequence_stops_the_step(
    spark: SparkSession, scd_type: int, row: tuple[Any, ...], says: str
) -> None:
    circuit = _circuit(spark, _query(scd_type, columns=ColumnChoice((*KEYS, "w"))))
    machine = InProcess(circuit, 2)
    machine.step({"c": _table(circuit, Counter([_row(1, "u", 1)]))})
    with pytest.raises(DataError, match=rf"AUTO CDC into v: a change has {says}"):
        machine.step({"c": _table(circuit, Counter([row]))})


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"keys": ("kk",)}, r"a\.sql:1: v: AUTO CDC: the key kk is not there\n.*Did you mean k"),
        ({"columns": ColumnChoice(("v",))}, "the key k is not among the columns of the table"),
        ({"columns": ColumnChoice(("nothing",), excluded=True)}, "the column nothing is not there"),
        ({"tracked": ColumnChoice(("k",)), "scd_type": 2}, "the column k is not there"),
        ({"source": lambda spark: spark.table("c").withColumnRenamed("w", END), "scd_type": 2}, f"a column {END}"),
        (
            {"source": lambda spark: spark.table("c").withColumnRenamed("w", RESERVED_PREFIX + "w")},
            "a name of AUTO CDC's own",
        ),
        (
            {"source": lambda spark: spark.readStream.format("rate").load().withWatermark("timestamp", "1 hour")},
            "read with a watermark, which is not supported here\n.*Leave WATERMARK",
        ),
    ],
)
def test_columns_that_do_not_fit(spark: SparkSession, more: dict[str, Any], says: str) -> None:
    bench = Workbench(spark).source("c", DDL)
    with pytest.raises(ProjectError, match=says):
        _query(more.pop("scd_type", 1), **{"source": lambda spark: spark.table("c"), **more})(bench.spark)


def test_a_text_with_the_name_of_a_watermark_is_none(spark: SparkSession) -> None:
    bench = Workbench(spark).source("c", DDL)
    changes = _query(1, source=lambda spark: spark.table("c").where("r <> 'EventTimeWatermark'"))(bench.spark)
    assert "k" in changes.columns
