"""Top-k beside Spark: the order of values of every type, and queries with ties, of which Spark may keep any.

The comparison allows exactly that freedom. Let the window be the places from the offset to the end. All rows whose sort keys lie strictly inside
the window are there as Spark has them. Of the rows that tie at its first place, and of those that tie at its last one, there are as many as fall
into the window, and each is one of the ties, at most as often as it occurs. So the multiset of sort keys is Spark's too.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from engine.accumulators.sort_bytes import SortedBy, sort_bytes, spread_codes
from engine.model.ordered import TopK
from engine.state.store import DictStore
from stepwell.catalyst.types import arrow_schema
from stepwell.lowering.driver import lower
from tests.engine.zsets import Rows, plus
from tests.sampling import sampled
from tests.small_jobs import small
from tests.stepwell.lowering.projects import Workbench
from tests.stepwell.lowering.test_against_spark import TABLES, history, show_batch, steps_of

INF, NAN = float("inf"), float("nan")
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [-128, -1, 0, 127],
    "bigint": [-(2**63), -1, 0, 1, 255, 256, 2**63 - 1],
    "float": [-INF, -1.5, -0.0, 0.0, 1e-40, 3.5, INF, NAN],
    "double": [-INF, -1.5, -5e-324, -0.0, 0.0, 5e-324, 2.0, 1e300, INF, NAN],
    "decimal(9,2)": [Decimal("-1234567.89"), Decimal("-0.01"), Decimal("0.00"), Decimal("99.99")],
    "decimal(38,3)": [
        Decimal("-1e34"),
        Decimal("-0.001"),
        Decimal("0"),
        Decimal("18446744073709551.616"),
        Decimal("1e34"),
    ],
    "string": ["", "\0", "\0\0", "a", "a\0", "a\0b", "ab", "a\x01", "Z", "ä", "\uffff", "\U0001f600", "ÿ"],
    "binary": [b"", b"\0", b"\0\0", b"\0\xff", b"a", b"\xff", b"\xff\xff", b"\xff\0"],
    "date": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    "timestamp": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 12)],
    "interval day to second": [dt.timedelta(-1), dt.timedelta(0), dt.timedelta(microseconds=1), dt.timedelta(9)],
    "array<int>": [[], [None], [None, 1], [0], [1], [1, None], [1, 2], [2], [-1]],
    "array<string>": [[], [""], ["", "a"], ["a"], ["a", ""], ["a\0"], [None]],
    "struct<x:int,y:string>": [(None, None), (None, "a"), (1, None), (1, ""), (1, "b"), (2, "a"), (-1, "z")],
    "struct<x:array<double>,y:boolean>": [
        ([NAN], True),
        ([-0.0], False),
        ([0.0], True),
        ([], None),
        (None, False),
        ([1.0, None], True),
    ],
}
DIRECTIONS = [(up, first) for up in (True, False) for first in (True, False)]


def test_the_bytes_of_a_value_of_any_type_are_in_sparks_order(spark: SparkSession) -> None:
    ddl = ", ".join(f"c{i} {kind}" for i, kind in enumerate(VALUES))
    length = max(map(len, VALUES.values())) + 1
    columns = [[*values, *[None] * (length - len(values))] for values in VALUES.values()]
    rows = list(zip(*columns, strict=True))
    frame = spark.createDataFrame([(i, *row) for i, row in enumerate(rows)], f"row int, {ddl}")
    frame.createOrReplaceTempView("values_of_all_types")
    ranks = [
        f"dense_rank() OVER (ORDER BY c{i} {'ASC' if up else 'DESC'} NULLS {'FIRST' if first else 'LAST'})"
        for i in range(len(VALUES))
        for up, first in DIRECTIONS
    ]
    found = spark.sql(f"SELECT row, {', '.join(ranks)} FROM values_of_all_types").collect()
    schema = arrow_schema(StructType.fromDDL(ddl))
    expected = sorted(tuple(row) for row in found)
    for number, (column, kind, (name, field)) in enumerate(
        zip(columns, schema.types, zip(VALUES, schema, strict=True), strict=True)
    ):
        values = pa.array(_plain(column, kind), kind)
        for place, (up, first) in enumerate(DIRECTIONS):
            encoded = sort_bytes([SortedBy(values, up, first)], np.zeros(length, np.uint64))
            ours = pc.rank(encoded, tiebreaker="dense").to_pylist()
            theirs = [row[1 + number * len(DIRECTIONS) + place] for row in expected]
            assert ours == theirs, f"{name} {field.name} ascending={up} nulls_first={first}"
            numbers = spread_codes(encoded, kind)[pc.sort_indices(encoded).to_numpy()]
            assert (numbers[1:] >= numbers[:-1]).all() and numbers[-1] < 1 << 48, f"{name} is spread out of order"


def _plain(values: list[Any], kind: pa.DataType) -> list[Any]:
    """Structs as Arrow wants them."""
    if not pa.types.is_struct(kind):
        return values
    return [None if v is None else dict(zip((f.name for f in kind), v, strict=True)) for v in values]


@dataclass(frozen=True)
class Top:
    """SELECT `columns` FROM `source` ORDER BY `order` LIMIT `limit` OFFSET `offset`, each part only if it is there."""

    columns: str
    source: str
    order: str
    limit: int | None = None
    offset: int = 0

    @property
    def sql(self) -> str:
        return (
            f"SELECT {self.columns} FROM {self.source}"
            + (f" ORDER BY {self.order}" if self.order else "")
            + (f" LIMIT {self.limit}" if self.limit is not None else "")
            + (f" OFFSET {self.offset}" if self.offset else "")
        )

    @property
    def ranked(self) -> str:
        """All rows, with the rank of their sort keys as the last column."""
        order = self.order or "1"
        return f"SELECT {self.columns}, dense_rank() OVER (ORDER BY {order}) AS place FROM {self.source}"


TOPS = {
    "few of many ties": Top("a, b, s", "t", "a", 7),
    "descending": Top("a, b, s, d", "t", "b DESC, s", 6),
    "nulls": Top("a, s", "t", "s DESC NULLS FIRST, a NULLS LAST", 8),
    "doubles": Top("d, a", "t", "d DESC", 7),
    "a dropped key": Top("s", "t", "b, d", 9),
    "by an expression": Top("a, b", "t", "a + b DESC, upper(s)", 5),
    "with offset": Top("a, b, s", "t", "b", 4, 6),
    "offset alone": Top("a, s", "t", "s, a", None, 7),
    "without order": Top("a, b", "t", "", 5),
    "without order, with offset": Top("a, b", "t", "", 5, 3),
    "offset alone, without order": Top("a", "t", "", None, 4),
    "more than there are": Top("a, b, s, d", "t", "a", 1000),
    "one row": Top("s, b", "t", "b DESC", 1),
    "of an aggregate": Top("s, n", "(SELECT s, count(*) AS n FROM t GROUP BY s)", "n DESC", 2),
    "of a join": Top("b, c", "(SELECT t.b, u.c FROM t JOIN u ON t.a = u.a)", "c DESC, b", 6, 2),
    "of a union": Top("a, s", "(SELECT a, s FROM t UNION ALL SELECT c, s FROM u)", "a", 11),
}


@pytest.mark.long
@pytest.mark.parametrize("name", sampled(TOPS, 2))
def test_the_first_rows_are_sparks_but_for_ties(spark: SparkSession, name: str) -> None:
    top = TOPS[name]
    bench = Workbench(spark)
    for table, ddl in TABLES.items():
        bench.source(table, ddl, "changelog")
    circuit = lower(bench.view("v", top.sql).project())
    assert any(isinstance(node, TopK) for node in circuit.nodes)
    histories = {table: list(history(random.Random(f"{name}{table}"))) for table in TABLES}
    content: Rows = Counter()
    for change in steps_of(circuit, DictStore(), histories):
        content = plus(content, change)
    batch = small(spark)
    show_batch(batch, histories)
    ranked = [(repr(tuple(row[:-1])), row[-1]) for row in batch.sql(top.ranked).collect()]
    theirs = Counter(repr(tuple(row)) for row in batch.sql(top.sql).collect())
    check(top, ranked, theirs)
    ours: Counter[str] = Counter()
    for row, weight in content.items():
        ours[repr(row)] += weight
    check(top, ranked, ours)


def check(top: Top, ranked: list[tuple[str, int]], found: Counter[str]) -> None:
    """Asserts that `found` is one of the answers that Spark may give. `ranked`: every row with the rank of its sort keys."""
    ranks = sorted(rank for _, rank in ranked)
    window = ranks[top.offset : None if top.limit is None else top.offset + top.limit]
    assert sum(found.values()) == len(window)
    if not window:
        return
    low, high = window[0], window[-1]
    inside = Counter(row for row, rank in ranked if low < rank < high)
    assert not inside - found, "a row whose place is certain is missing"
    first, last = (Counter(row for row, rank in ranked if rank == edge) for edge in (low, high))
    rest = found - inside
    if low == high:
        assert not rest - first, "a row that does not tie is there"
        return
    assert not rest - (first + last), "a row that does not tie is there"
    of_first = window.count(low)
    fewest, most = sum((rest - last).values()), sum((rest & first).values())
    assert fewest <= of_first <= most, "too many rows of one tie, and too few of the other"


@pytest.mark.parametrize(
    ("found", "fits"),
    [
        ("abc", True),
        ("abd", True),
        ("acd", False),
        ("ab", False),
        ("abcd", False),
        ("abb", False),
        ("abe", False),
        ("bcd", False),
    ],
)
def test_the_comparison_refuses_what_spark_may_not_answer(found: str, fits: bool) -> None:
    ranked = [("a", 1), ("b", 2), ("c", 3), ("d", 3), ("e", 4)]
    if fits:
        check(Top("", "", "x", 3), ranked, Counter(found))
    else:
        with pytest.raises(AssertionError):
            check(Top("", "", "x", 3), ranked, Counter(found))


def test_the_comparison_counts_the_rows_of_both_ties() -> None:
    ranked = [("a", 1), ("b", 1), ("c", 2), ("d", 3), ("e", 3)]
    for found in ("bcd", "ace"):
        check(Top("", "", "x", 3, 1), ranked, Counter(found))
    for found in ("abc", "cde"):
        with pytest.raises(AssertionError):
            check(Top("", "", "x", 3, 1), ranked, Counter(found))
