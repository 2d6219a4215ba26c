"""What a service answers to `stepwell query` is what the command prints without one, to the byte."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from base.fault import ExitCode
from coordinator.requests import Requests
from coordinator.status import StatusBoard
from stepwell.commands import query_answers, query_here, query_keeper
from stepwell.commands.query import ROWS_OF_SERVICE_MAX
from stepwell.commands.query_answering import ANSWER_BYTES_MAX, Answering
from stepwell.commands.query_answers import Answers
from stepwell.commands.query_keeper import QueryKeeper
from stepwell.inspection.query_errors import QueryError
from stepwell.inspection.query_request import Found, QueryRequest
from stepwell.planning.query_key import query_key
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient
from stepwell.service.endpoint import Endpoint
from stepwell.service.http_thread import HttpThread
from stepwell.service.server import ControlServer
from tests.conftest import Broker
from tests.stepwell.command_line import CommandLine
from tests.stepwell.test_query import ROW, SQL, Auction
from tests.stepwell.unasked import unasked

EVERY_TYPE = """
CREATE MATERIALIZED VIEW every AS SELECT item, price, at, tags, raw, item IS NULL AS lacks, CAST(1 AS TINYINT) AS tiny,
  CAST(-2 AS SMALLINT) AS small, 3 AS whole, 4L AS large, CAST('NaN' AS FLOAT) AS no_number, CAST('-Infinity' AS DOUBLE) AS endless,
  1.0E-7D AS less, -0.0D AS nothing, 12345678901234567890.123456789BD AS exact, DATE'0001-01-01' AS day,
  TIMESTAMP_NTZ'2026-01-02 03:04:05.678901' AS ntz,
  INTERVAL '1-2' YEAR TO MONTH AS months, INTERVAL '1 02:03:04.5' DAY TO SECOND AS lapse, map('a', 1, 'b', NULL) AS pairs,
  named_struct('x', X'00FF41', 'y', array(map(1, DATE'2026-01-01'))) AS nested,
  'tab\t"quote" [bold]ü' AS words, CAST(NULL AS VOID) IS NULL AS empty
FROM bids;
"""

ASKED = (
    "SELECT * FROM every ORDER BY item, price",
    "SELECT item, item, n AS `a.b` FROM best ORDER BY 1",
    "SELECT * FROM together",
    "SELECT item, count(*) AS n, sum(price) AS total FROM all_bids GROUP BY item ORDER BY item",
    "WITH b AS (SELECT * FROM best) SELECT sum(n) AS n FROM b WHERE item IN (SELECT item FROM all_bids)",
    "SELECT * FROM best WHERE false",
    "SELECT 1 AS one",
    "SELECT 1 / (n - n) AS x FROM best",
    "SELECT nothing FROM best",
    "SELECT * FROM bestt",
    "SELECT * FROM bids",
    "SELECT * FROM passed_on",
    "DROP VIEW best",
    "SELEC 1",
)

FORMS: tuple[list[str], ...] = ([], ["--json"], ["--limit", "1"])
EVERY_FORM = 1
"""So many of the queries are asked in each form, and the others in one of them."""


class InThisProcess:
    """Stands in for the process of the keeper."""

    asked = 0

    def __init__(self, spark: SparkSession, project: Project) -> None:
        self._spark, self._answering = spark, Answering(project)
        self._answering.warm_up(spark)

    def ask(self, line: bytes, deadline: float) -> bytes:
        InThisProcess.asked += 1
        return self._answering.reply(lambda: self._spark, line)

    def memory_bytes(self) -> int:
        return 0

    def end(self, *, waits_for_jvm: bool = True) -> None: ...

    def close(self) -> None: ...


class Here:
    """A command that answers by itself, with the session of the tests."""

    def __init__(self, spark: SparkSession) -> None:
        self.asked, self._spark = 0, spark

    def __call__(self, project: Project, key: str | None, client: ControlClient, asked: QueryRequest) -> Found:
        self.asked += 1
        return Answers(project, key).answer(self._spark, client, asked)


@pytest.fixture
def here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Here:
    made = Here(spark)
    monkeypatch.setattr(query_here, "ask_here", made)
    monkeypatch.setattr(query_keeper, "_Process", partial(InThisProcess, spark))
    return made


def test_a_service_answers_what_the_command_prints_without_one(
    spark: SparkSession, broker: Broker, tmp_path: Path, topic_prefix: str, here: Here
) -> None:
    auction = Auction(spark, broker, tmp_path / "project", topic_prefix, SQL + EVERY_TYPE)
    auction.send(ROW, {"item": "cup", "price": "1.5", "at": "2026-01-02T03:04:05Z", "raw": ""}, {}, {"item": "vase"})
    auction.run()
    project = auction.project.project
    line = CommandLine(project.root, broker.bootstrap_servers, tmp_path / "cache")
    keeper = QueryKeeper(project)
    server = ControlServer(
        Requests(), StatusBoard("p"), 0, {}, plan_files=lambda: pytest.fail("planned"), answer_query=keeper.answer
    )
    server.start()
    try:
        for number, sql in enumerate(ASKED):
            for more in FORMS if number < EVERY_FORM else (FORMS[number % len(FORMS)],):
                asked = here.asked
                without = line.here("query", sql, *more)
                needs_spark = here.asked - asked
                server.endpoint.write(project.state_folder)
                before = (here.asked, InThisProcess.asked)
                assert line.here("query", sql, *more) == without, sql
                assert (here.asked, InThisProcess.asked) == (before[0], before[1] + needs_spark), sql
                server.endpoint.remove(project.state_folder)
        server.endpoint.write(project.state_folder)
        _leaves_to_the_command(line, here, project)
    finally:
        keeper.close()
        server.close()


def _leaves_to_the_command(line: CommandLine, here: Here, project: Project) -> None:
    """What could be another answer in another process, what would be too much, and what is told by the definitions."""
    (project.root / "rows.csv").write_text("1\n2\n")
    for code, *arguments in (
        (0, f"SELECT count(*) AS n FROM csv.`{project.root}/rows.csv`"),
        (0, "SELECT count(*) AS n FROM best", "--limit", str(ROWS_OF_SERVICE_MAX + 1)),
        (0, "SELECT count(*) AS n FROM best", "--conf", "spark.sql.ansi.enabled=true"),
        (0, f"SELECT repeat('x', {ANSWER_BYTES_MAX}) AS x"),
    ):
        before = here.asked
        assert line.here("query", *arguments, "--json").code == code, arguments
        assert here.asked == before + 1, arguments
    definitions = project.root / "transformations" / "a.sql"
    definitions.write_text(definitions.read_text().replace("max(price)", "min(price)"))
    told = line.here("query", "SELECT * FROM best")
    assert told.code == ExitCode.STATE and "view best" in told.err
    definitions.write_text(definitions.read_text().replace("min(price)", "max(price) /* the same */"))
    before = here.asked
    assert line.here("query", "SELECT * FROM best").code == 0
    assert here.asked == before, "the service sees the files as they are"


def test_a_command_is_on_its_own_where_no_service_answers(tmp_path: Path) -> None:
    """One of a release that knows no queries, another program at its port, one that has ended, one that is busy, none."""
    client, body = ControlClient(tmp_path), {"sql": "SELECT 1"}
    assert client.query(body) is None

    answers: list[Response] = [
        JSONResponse({"error": "query: one of pause, resume, stop, checkpoint"}, 404),
        Response("<html>another program</html>"),
        JSONResponse(["another program"]),
    ]

    async def other(request: Request) -> Response:
        return answers[0]

    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    served = HttpThread(bound, [Route("/{what}", other, methods=["POST"])], "other")
    Endpoint.new(bound.getsockname()[1]).write(tmp_path)
    served.start()
    while answers:
        assert client.query(body) is None
        answers.pop(0)
    served.close()
    assert client.query(body) is None
    server = ControlServer(
        Requests(), StatusBoard("p"), 0, {}, plan_files=lambda: pytest.fail("planned"), answer_query=unasked
    )
    server.endpoint.write(tmp_path)
    server.start()
    try:
        assert client.query({"sql": "SELECT 1", "limit": 1, "of_next": False, "as_json": True, "key": None}) is None
        assert client.query(body) is None
    finally:
        server.close()


def test_the_definitions_are_read_for_what_is_wrong_alone(
    spark: SparkSession, broker: Broker, tmp_path: Path, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    auction = Auction(spark, broker, tmp_path, topic_prefix)
    auction.send(ROW)
    auction.run()
    project = auction.project.project
    key, client = query_key(project), ControlClient(project.state_folder)
    asked = partial(QueryRequest, limit=10, of_next=False, as_json=True)
    first = Answers(project, key).answer(spark, client, asked("SELECT * FROM best"))
    with monkeypatch.context() as changed:
        changed.setattr(query_answers, "resolve", lambda *_: pytest.fail("resolved"))
        assert Answers(project, key).answer(spark, client, asked("SELECT * FROM best")) == first
    with pytest.raises(QueryError, match="bids is a source"):
        Answers(project, key).answer(spark, client, asked("SELECT * FROM bids"))
    assert len(list((project.state_folder / query_answers.KEPT_FOLDER).iterdir())) == 1
