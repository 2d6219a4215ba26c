"""Queries that need no Spark have the answers that Spark gives."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from coordinator.starting.errors import CircuitChanged
from engine.model.circuit import Circuit, Output
from stepwell.commands.query_answers import answer_of
from stepwell.commands.query_plain import ask_plainly
from stepwell.inspection.plain_answer import plain_answer
from stepwell.inspection.plain_query import OrderItem, PlainQuery, plain_query
from stepwell.inspection.query_request import QueryRequest
from stepwell.planning.kept_circuit import keep_circuit
from stepwell.service.client import ControlClient
from tests.conftest import Broker
from tests.stepwell.test_query import Auction

SQL = """
CREATE STREAMING TABLE typed (
  id BIGINT, small SMALLINT, name STRING, price DECIMAL(10, 2), tiny DECIMAL(3, 3), ratio DOUBLE, single FLOAT, ok BOOLEAN, day DATE,
  at TIMESTAMP, local TIMESTAMP_NTZ, raw BINARY, tags ARRAY<STRING>
) USING kafka TBLPROPERTIES ('subscribe' = '@bids', 'format' = 'json');
CREATE MATERIALIZED VIEW Wide AS SELECT * FROM typed;
CREATE MATERIALIZED VIEW `9odd` AS SELECT id, name AS `the name`, name AS `date`, at - at AS nothing, nullif(1, 1) AS never FROM typed;
CREATE MATERIALIZED VIEW simple AS SELECT id, name, ratio FROM typed WHERE id IS NOT NULL;
CREATE MATERIALIZED VIEW passed_on TBLPROPERTIES ('topic' = '@passed', 'mode' = 'append') AS SELECT name FROM typed;
"""

ROWS: tuple[dict[str, object], ...] = (
    {
        "id": 1, "small": -7, "name": "Zoë", "price": "12.50", "tiny": "-0.001", "ratio": -0.0, "single": 0.1, "ok": True,
        "day": "0001-01-01", "at": "2026-01-02T03:04:05.000006Z", "local": "1969-12-31T23:59:59.5", "raw": "AAH/", "tags": ["a", None],
    },
    {
        "id": 2, "small": 32767, "name": "a\"b\n", "price": "-99999999.99", "tiny": "0", "ratio": 1e300, "single": 1e-10, "ok": False,
        "day": "9999-12-31", "at": "1600-02-29T00:00:00Z", "local": "2026-06-01T12:00:00", "raw": "", "tags": [],
    },
    {"id": 3, "name": "", "ratio": "NaN", "single": "Infinity", "price": "0"},
    {"id": 4, "name": "z", "ratio": 123456789.125, "single": 16777216, "price": "0.10", "tiny": "0.5", "small": 0},
    {"id": None},
)  # fmt: skip

PLAIN = (
    "SELECT * FROM simple",
    "SELECT id, small, name, price, tiny, ratio, single, ok, day, at, local, raw FROM wide",
    "select ID, Name from WIDE order by id desc limit 3;",
    "SELECT name, id\nFROM wide\nORDER BY 2 NULLS LAST, 1",
    "SELECT name FROM wide ORDER BY price DESC NULLS FIRST, id ASC",
    "SELECT id FROM wide ORDER BY day, at DESC, local NULLS LAST, raw, tiny, small, id",
    "SELECT id FROM wide ORDER BY name LIMIT 0",
    "SELECT `the name`, `DATE` FROM `9ODD` ORDER BY id DESC LIMIT 2",
    "SELECT never, id FROM `9odd`",
)

LEFT_TO_SPARK = (
    "SELECT * FROM wide",  # an array
    "SELECT * FROM `9odd`",  # an interval
    "SELECT id FROM wide ORDER BY ratio",
    "SELECT id FROM wide ORDER BY ok",
    "SELECT id FROM wide ORDER BY 2",
    "SELECT id FROM wide ORDER BY 0",
    "SELECT id, id FROM wide",
    "SELECT id, ID FROM wide",
    "SELECT other FROM wide",
    "SELECT id FROM wide ORDER BY other",
    "SELECT name FROM passed_on",
    "SELECT name FROM typed",
    "SELECT name FROM nowhere",
)
"""Of the form of a plain query. That they cannot be answered shows when the view is known."""


@pytest.fixture(scope="module")
def auction(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Auction]:
    found = Auction(spark, broker, tmp_path_factory.mktemp("plain"), f"t{uuid.uuid4().hex[:12]}-", SQL)
    found.send(*ROWS)
    found.run()
    yield found


@pytest.mark.parametrize("as_json", [False, True])
def test_an_answer_without_spark_is_that_of_spark(auction: Auction, as_json: bool) -> None:
    client = ControlClient(auction.project.project.state_folder)
    for sql in PLAIN:
        for limit in (2, 100):
            asked = QueryRequest(sql, limit, of_next=False, as_json=as_json)
            plain = plain_query(sql)
            assert plain is not None, sql
            found = plain_answer(auction.project.project, auction.circuit, asked, plain)
            expected = answer_of(auction.project, auction.circuit, client, asked)
            assert found is not None, sql
            is_ordered = bool(plain.order)
            if is_ordered or limit > len(ROWS):
                assert as_told(found, is_ordered) == as_told(expected, is_ordered), sql
            assert (found["more"], len(found["rows"])) == (expected["more"], len(expected["rows"])), sql


def as_told(answer: dict[str, Any], is_ordered: bool) -> str:
    """The answer as the command gets it from wherever it comes. Rows without an order may come in any."""
    rows = [json.dumps(row) for row in answer["rows"]]
    return json.dumps({**answer, "rows": rows if is_ordered else sorted(rows)})


def test_what_spark_has_to_answer_is_left_to_it(auction: Auction) -> None:
    project = auction.project.project
    for sql in LEFT_TO_SPARK:
        asked, plain = QueryRequest(sql, 10, of_next=False, as_json=False), plain_query(sql)
        assert plain is not None, sql
        assert plain_answer(project, auction.circuit, asked, plain) is None, sql
    asked, plain = QueryRequest(PLAIN[0], 10, of_next=False, as_json=False), plain_query(PLAIN[0])
    assert plain is not None
    for setting, answers in (("spark.sql.caseSensitive", False), ("spark.sql.shuffle.partitions", True)):
        settings = replace(project.settings, spark={setting: "1"})
        found = plain_answer(replace(project, settings=settings), auction.circuit, asked, plain)
        assert (found is not None) == answers, setting


def test_the_circuit_is_known_by_the_files_and_a_fault_is_left_to_spark(auction: Auction) -> None:
    project, sql = auction.project.project, PLAIN[0]
    asked, plain = QueryRequest(sql, 10, of_next=False, as_json=True), plain_query(sql)
    assert plain is not None
    assert ask_plainly(project, "a" * 32, asked, plain) is None
    keep_circuit(project, "a" * 32, auction.circuit)
    assert ask_plainly(project, None, asked, plain) is None
    found = ask_plainly(project, "a" * 32, asked, plain)
    assert found is not None and {row["id"] for row in found["rows"]} == {1, 2, 3, 4}
    other = with_another_topic(auction.circuit)
    with pytest.raises(CircuitChanged):
        plain_answer(project, other, asked, plain)
    keep_circuit(project, "b" * 32, other)
    assert ask_plainly(project, "b" * 32, asked, plain) is None


def with_another_topic(circuit: Circuit) -> Circuit:
    """The circuit of a project that has the same kept views."""
    return Circuit(
        tuple(replace(node, handle="elsewhere") if isinstance(node, Output) else node for node in circuit.nodes)
    )


def test_other_texts_are_not_plain() -> None:
    for sql in (
        "",
        "SELECT",
        "SELECT a FROM",
        "SELECT a FROM v LIMIT",
        "SELECT a, FROM v",
        "SELECT a b FROM v",
        "SELECT a AS b FROM v",
        "SELECT a FROM v w",
        "SELECT a FROM v, w",
        "SELECT a FROM x.v",
        "SELECT v.a FROM v",
        "SELECT *, a FROM v",
        "SELECT a + 1 FROM v",
        "SELECT f(a) FROM v",
        "SELECT 1 FROM v",
        "SELECT 'a' FROM v",
        'SELECT "a" FROM v',
        "SELECT a FROM v WHERE a",
        "SELECT a FROM v -- all",
        "SELECT /* all */ a FROM v",
        "SELECT DISTINCT a FROM v",
        "SELECT ALL a FROM v",
        "SELECT null FROM v",
        "SELECT a FROM v ORDER BY ALL",
        "SELECT a FROM v ORDER BY a NULLS",
        "SELECT a FROM v ORDER a",
        "SELECT a FROM v LIMIT ALL",
        "SELECT a FROM v LIMIT 1L",
        "SELECT a FROM v LIMIT 1e3",
        "SELECT a FROM v LIMIT 3000000000",
        "SELECT a FROM v LIMIT 1 OFFSET 1",
        "SELECT a FROM v LIMIT 1 ORDER BY a",
        "SELECT a FROM v;;",
        "SELECT a FROM v; SELECT a FROM v",
        "SELECT ä FROM v",
        "SELECT `a``b` FROM v",
        "SELECT `` FROM v",
        "FROM v SELECT a",
        "TABLE v",
    ):
        assert plain_query(sql) is None, sql


def test_the_form_is_read() -> None:
    first, last = OrderItem("a", descending=False, nulls_first=True), OrderItem(2, descending=True, nulls_first=False)
    assert plain_query("SELECT*FROM v") == PlainQuery("v", None, (), None)
    assert plain_query("select `a b`,c\tFrom V\r\nLimit 7 ; ") == PlainQuery("V", ("a b", "c"), (), 7)
    assert plain_query("SELECT a FROM v ORDER BY a, 2 DESC") == PlainQuery("v", ("a",), (first, last), None)
    for text, nulls_first in (("ASC NULLS LAST", False), ("DESC NULLS FIRST", True), ("NULLS FIRST", True)):
        found = plain_query(f"SELECT a FROM v ORDER BY a {text}")
        assert found is not None
        assert found.order == (OrderItem("a", descending="DESC" in text, nulls_first=nulls_first),)


def test_a_word_that_is_taken_for_a_name_is_one_for_spark(spark: SparkSession) -> None:
    """All words of the language that Spark knows."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    words = spark._jvm.org.apache.spark.sql.catalyst.util.SQLKeywordUtils.keywords().mkString(" ").split()
    form = "SELECT {0}, a FROM {0} ORDER BY {0} DESC NULLS LAST, a LIMIT 3"
    names = [word for word in words if plain_query(form.format(word)) is not None]
    assert 200 < len(names) < len(words)

    def plan(name: str) -> str:
        return str(parser.parsePlan(form.format(name)).toString()).lower()

    assert [name for name in names if plan(name) != plan(f"`{name}`")] == []
