"""The page of the service: what it shows, that no text breaks out of it, and who may see it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import httpx
import pyarrow as pa
import pytest

from base import secrets
from base.version import VersionId
from coordinator.checkpoints.view_queries import NoAnswer, ViewQueries
from coordinator.checkpoints.view_rows import ViewRows
from coordinator.measures import EVENT_CHARACTERS_MAX, ProjectShown
from coordinator.requests import Requests
from coordinator.status import StatusBoard
from engine.operators.findings import Work
from stepwell.service.endpoint import Endpoint, who_answers
from stepwell.service.metrics.exposition import Exposition
from stepwell.service.page import access as access_module
from stepwell.service.page.access import TICKET_SECONDS_MAX, TICKETS_MAX, Access
from stepwell.service.page.content import SECTIONS, Shown, sections_of
from stepwell.service.page.graph import GridPlace, PipelineGraph, drawing_of, graph_of
from stepwell.service.page.rates import Rate, Rates
from stepwell.service.page.routes import HEADERS, page_of
from stepwell.service.page.rows import ROWS_MAX, STATE_BYTES_MAX, NoRows, kept_views, rows_table, view_to_read
from stepwell.service.page.svg import Line, chart_svg
from stepwell.service.page.texts import number_text, seconds_text
from stepwell.service.server import ControlServer
from tests.engine.test_stages import whole_circuit
from tests.stepwell.test_metrics import busy_board
from tests.stepwell.transitions import under_way
from tests.stepwell.unasked import unasked

EVIL = "<script>alert(1)</script>\"&'"
VOID = {"meta", "link", "input"}


class Page(HTMLParser):
    """Reads a document, and asserts that its tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def shown(board: StatusBoard, rates: dict[str, Rate] | None = None) -> Shown:
    project = board.measures.project
    graph = PipelineGraph((), ()) if project is None else graph_of(project.circuit)
    look = Exposition(board).look()
    if project is None:
        return Shown(look, rates or {}, graph)
    return Shown(look, rates or {}, graph, project.topics, frozenset(kept_views(project.circuit)))


def whole_board() -> StatusBoard:
    board = busy_board()
    board.measures.show_project(ProjectShown(whole_circuit(), {"source left": (f"topic-{EVIL}",)}))
    board.update(
        in_error={"rest": EVIL, f"output {EVIL}": EVIL},
        layout_fault=EVIL,
        transition=under_way(),
        transition_last={"number": 2, "outcome": EVIL, "pause_ms": 3.0},
        layout={"number": 4, "members": {"0": {"slots": 65536}}, "change": {"mode": EVIL, "bytes_moved": 7}},
    )
    return board


# The graph


def test_the_graph_has_views_sources_and_outputs_and_what_they_read() -> None:
    graph = graph_of(whole_circuit())
    edges = {(graph.names[origin], graph.names[reader]) for origin, reader in graph.edges}
    assert set(graph.names) == {
        *("source left", "source right", "view by_word", "view rest", "view total", "view counts"),
        *("output by_word", "output rest", "output total", "output counts"),
    }
    assert edges == {
        ("source left", "view by_word"),
        ("source right", "view by_word"),
        ("view by_word", "output by_word"),
        ("source left", "view rest"),
        ("source right", "view rest"),
        ("view by_word", "view rest"),
        ("view rest", "output rest"),
        ("source left", "view total"),
        ("view total", "output total"),
        ("source left", "view counts"),
        ("source right", "view counts"),
        ("view counts", "output counts"),
    }


def test_boxes_do_not_overlap_and_edges_go_to_the_right() -> None:
    drawing = drawing_of(graph_of(whole_circuit()))
    taken = [*drawing.boxes, *(place for path in drawing.paths for place in path[1:-1])]
    assert len(set(taken)) == len(taken), "not even by a bend of an edge"
    for path in drawing.paths:
        assert all(one.column + 1 == other.column for one, other in itertools.pairwise(path))
    assert drawing_of(PipelineGraph((), ())).boxes == ()


def test_the_order_of_a_layer_avoids_crossings() -> None:
    graph = PipelineGraph(tuple("abcdef"), ((0, 5), (1, 4), (2, 3)))
    drawing = drawing_of(graph)
    rows = [(path[0].row, path[1].row) for path in drawing.paths]
    assert all((a < c) == (b < d) for (a, b), (c, d) in itertools.combinations(rows, 2)), rows
    assert drawing.boxes[0] == GridPlace(0, 0)


# What it shows


@pytest.mark.parametrize("board", [StatusBoard("p"), whole_board()], ids=["new", "busy"])
def test_the_page_is_well_formed_and_no_text_breaks_out(board: StatusBoard) -> None:
    text = page_of(EVIL, sections_of(shown(board)))
    page = Page(text)
    assert [each.get("src") for each in page.all("script")] == ["/page/page.js"], "no text became a script"
    assert not any(name.startswith("on") or name == "style" for _, attributes in page.tags for name in attributes)
    addresses = [each for _, found in page.tags for each in (found.get("href"), found.get("src")) if each]
    assert all(each.startswith(("#", "/page/", "data:,")) for each in addresses), "it works without a network"
    ids = [found["id"] for _, found in page.tags if "id" in found]
    assert len(ids) == len(set(ids)) and {each[1:] for each in addresses if each[0] == "#"} <= set(ids)
    assert {f"part-{name}" for name in SECTIONS} <= set(ids)


def test_every_panel_shows_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {"view by_word": Rate(1234.0, 0.5), "source left": Rate(10.0, 0.1)}
    board = whole_board()
    board.update(state_bytes={"view by_word": 2_000_000})
    monkeypatch.setattr(board, "_rows_per_s", lambda now: 41234.5)
    found = {name: " ".join(Page(html).words) for name, html in sections_of(shown(board, rates)).items()}
    assert "41.2k" in found["summary"] and "run" in found["summary"]
    assert "view rest has no answer" in found["problems"] and EVIL in found["problems"]
    assert "the checkpoint store" in found["problems"] and "recovery" in found["problems"]
    assert "1,234 rows/s · 50 % busy" in found["graph"] and "2 MB of state" in found["graph"]
    assert "view by_word" in found["views"] and "error rows" in found["views"]
    assert "p99" in found["steps"] and "read" in found["steps"]
    assert "orders/1" in found["lag"]
    assert "before step 1" in found["state"] and "2.5 s behind" in found["state"]
    assert "65.5k" in found["workers"] and "A change of the layout is under way" in found["workers"]
    assert "To revision 5" in found["change"]


def test_kafka_that_is_away_and_steps_without_a_checkpoint_are_told() -> None:
    found = shown(whole_board())
    away = replace(found.seen, status={**found.status, "kafka_fault": "no broker", "step": 7, "checkpoint_age_s": 30.0})
    sections = sections_of(replace(found, seen=away))
    assert "Kafka does not answer" in sections["problems"] and "30 s old, 7 steps since" in sections["summary"]
    assert "has all steps" in sections_of(shown(StatusBoard("p")))["summary"]


def test_what_is_in_error_is_red_in_the_graph_and_in_the_table() -> None:
    found = sections_of(shown(whole_board()))
    assert found["graph"].count("box view bad") == 1 and found["views"].count("<tr class=bad>") == 1
    assert "Nothing is wrong" in sections_of(shown(StatusBoard("p")))["problems"]


def test_a_partition_of_which_nothing_was_read_makes_no_time() -> None:
    board = StatusBoard("p")
    board.update(lag={"in/0": 5})
    assert "late by</dt><dd>–" in sections_of(shown(board))["summary"]
    board.update(lag={"in/0": 0})
    assert "late by</dt><dd>0 ms" in sections_of(shown(board))["summary"]


def rows_of(parts: list[pa.Table]) -> ViewRows:
    """As the workers answer."""
    streams = []
    for part in parts:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part)
        streams.append(sink.getvalue())
    return ViewRows(VersionId(4, 71, "c"), (tuple(streams),))


def test_the_rows_of_a_view_are_the_first_of_all_workers() -> None:
    parts = [pa.table({"word": [EVIL, None], "n": [1, 2]}), pa.table({"word": ["x" * 500] * 300, "n": [3] * 300})]
    html = rows_table("v", rows_of(parts))
    words = Page(html).words
    assert (
        f"the first {ROWS_MAX} of 302 rows, in no order, before step 71" in words and EVIL in words and "NULL" in words
    )
    assert html.count("<tr>") == 1 + ROWS_MAX and max(map(len, words)) == 200
    assert "2 rows, in no order" in rows_table("v", rows_of(parts[:1]))


def test_only_kept_views_that_are_not_large_are_read() -> None:
    circuit = whole_circuit()
    assert view_to_read("total", circuit, {"view total": STATE_BYTES_MAX}, {"0": 2 * STATE_BYTES_MAX}).name == "total"
    with pytest.raises(NoRows, match="no kept view source"):
        view_to_read("source", circuit, {}, {})
    with pytest.raises(NoRows, match=r"has 67\.1 MB of state.*\n  Use `stepwell query`"):
        view_to_read("total", circuit, {"view total": STATE_BYTES_MAX + 1}, {})
    with pytest.raises(NoRows, match="no kept view total"):
        view_to_read("total", None, {}, {})


def test_a_view_whose_size_is_not_known_is_read_only_if_the_whole_state_is_small() -> None:
    circuit, half = whole_circuit(), STATE_BYTES_MAX // 2
    assert view_to_read("total", circuit, {}, {"0": half, "1": half}).name == "total"
    for state_bytes, worker_bytes in (({}, {}), ({}, {"0": half, "1": half + 1}), ({"view rest": 1}, {"0": 1 << 40})):
        with pytest.raises(
            NoRows, match=r"size of the view total is not known yet.*\n  Ask again after the next checkpoint"
        ):
            view_to_read("total", circuit, state_bytes, worker_bytes)


def test_rows_need_the_cookie_and_a_fault_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def ask(self: ViewQueries, views: list[str], seconds: float) -> ViewRows:
        asked.extend(views)
        if len(asked) > 1:
            raise NoAnswer(EVIL, "Ask again.")
        return rows_of([pa.table({"n": [17]})])

    monkeypatch.setattr(ViewQueries, "ask", ask)
    with serving(whole_board()) as endpoint, httpx.Client(base_url=endpoint.url, trust_env=False) as browser:
        assert browser.get("/page/rows?view=total").status_code == 401 and not asked
        browser.post("/page/login", data={"token": endpoint.token})
        assert "/page/rows?view=total" in browser.get("/page").text
        assert '<th scope="row">17</th>' in browser.get("/page/rows?view=total").text
        answer = browser.get("/page/rows?view=total")
        assert answer.status_code == 409 and "Ask again." in answer.text
        assert [each.get("src") for each in Page(answer.text).all("script")] == []
        assert browser.get("/page/rows?view=" + EVIL).status_code == 409 and set(asked) == {"total"}


def test_rates_are_over_the_last_looks_and_first_since_the_run_began() -> None:
    rates = Rates(100.0)

    def look(at: float, rows: int) -> float:
        measured: Any = SimpleNamespace(work={"view v": Work(1000.0 * rows, rows)})
        return rates.look(at, measured)["view v"].rows

    assert look(110.0, 50) == pytest.approx(5.0)
    assert look(112.0, 50) == pytest.approx(50 / 12)
    assert look(140.0, 106) == pytest.approx(56 / 28), "what is older than the window does not count"
    assert look(141.0, 106) == pytest.approx(56 / 29)


def test_numbers_and_times_are_short() -> None:
    assert [number_text(each) for each in (0, 7, 0.1234, 1234.0, 12_345, 4.56e6, 7e9, None)] == [
        *("0", "7", "0.123", "1,234", "12.3k", "4.56M", "7G", "–"),
    ]
    assert [seconds_text(each) for each in (0.0123, 3.4, 300.0, 9000.0, 259_200.0)] == [
        "12.3 ms",
        "3.4 s",
        "5 min",
        "2.5 h",
        "3 d",
    ]


def test_a_line_has_gaps_where_nothing_was_measured() -> None:
    drawn = re.findall(
        r'class="plot first" d="([^"]*)"', chart_svg("t", [Line("x", "first", [1, 2, None, None, 4])], "ms")
    )
    assert drawn[0].count("M") == 2 and drawn[0].count("L") == 1


# Who may see it


@contextmanager
def serving(board: StatusBoard) -> Iterator[Endpoint]:
    server = ControlServer(Requests(), board, 0, {}, plan_files=lambda: pytest.fail("planned"), answer_query=unasked)
    server.start()
    try:
        yield server.endpoint
    finally:
        server.close()


def test_the_page_is_seen_with_a_ticket_or_the_token_and_its_cookie_controls_nothing() -> None:
    with serving(whole_board()) as endpoint, httpx.Client(base_url=endpoint.url, trust_env=False) as browser:
        right = {"Authorization": f"Bearer {endpoint.token}"}
        assert browser.get("/page").status_code == browser.get("/page/data").status_code == 401
        assert "totals" not in browser.get("/page").text
        assert browser.post("/page/ticket").status_code == 401
        path = browser.post("/page/ticket", headers=right).json()["path"]
        assert endpoint.token not in path
        opened = browser.get(path, follow_redirects=True)
        assert opened.status_code == 200 and "view by_word" in opened.text and opened.url.path == "/page"
        assert endpoint.token not in opened.text and endpoint.token not in str(browser.cookies)
        cookie = browser.get(path).headers.get("set-cookie")
        assert cookie is None and browser.get(path).status_code == 401, "a ticket is good once"
        assert browser.get("/page/data").json()["sections"].keys() == SECTIONS.keys()
        assert browser.post("/stop").status_code == browser.get("/status").status_code == 401
        for name, value in HEADERS.items():
            assert browser.get("/page").headers[name] == value
    with serving(StatusBoard("p")) as endpoint, httpx.Client(base_url=endpoint.url, trust_env=False) as browser:
        assert browser.post("/page/login", data={"token": "guessed"}).status_code == 401
        assert browser.post("/page/login", data={"token": "x" * 5000}).status_code == 413
        answer = browser.post("/page/login", data={"token": endpoint.token})
        assert answer.status_code == 303 and answer.headers["location"] == "/page"
        flags = answer.headers["set-cookie"].lower()
        assert "httponly" in flags and "samesite=strict" in flags and "path=/page" in flags
        assert browser.get("/page").status_code == 200
        assert {browser.get(f"/page/{name}").status_code for name in ("page.css", "page.js")} == {200}
        assert browser.get("/page/content.py").status_code in (401, 404, 405)


def test_a_ticket_ends_after_a_minute_and_there_are_never_many(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(access_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    access = Access("t" * 32)
    one, other = access.new_ticket(), access.new_ticket()
    assert access.take_ticket(one) and not access.take_ticket(one) and not access.take_ticket("guessed")
    now[0] = TICKET_SECONDS_MAX + 1
    assert not access.take_ticket(other)
    many = [access.new_ticket() for _ in range(TICKETS_MAX + 1)]
    assert not access.take_ticket(many[0]) and access.take_ticket(many[-1])


def test_no_secret_is_on_the_page_and_no_name_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_known", secrets._Known())
    hush = "hush <of> all"
    for password in (hush, "pipeline", "sections"):
        secrets.remember(password)
    board = StatusBoard("pipeline")
    board.update(phase="run", layout_fault=f"it said {hush}", kafka_up=False, kafka_fault=f"it said {hush}")
    board.measures.note_event("recovery", ValueError("x" * (EVENT_CHARACTERS_MAX - 5) + hush))
    with serving(board) as endpoint, httpx.Client(base_url=endpoint.url, trust_env=False) as browser:
        browser.post("/page/login", data={"token": endpoint.token})
        page, data = browser.get("/page").text, browser.get("/page/data").json()
        status = browser.get("/status", headers={"Authorization": f"Bearer {endpoint.token}"}).json()
        assert data["sections"].keys() == SECTIONS.keys(), "keys stay"
        for text in (page, str(data), str(status)):
            assert "it said ***" in text and "of&gt; all" not in text and hush not in text
        assert "xhush" not in page + str(data), "a part of a secret is left where the text was cut"
        assert status["pipeline"] == "pipeline"
        assert who_answers(endpoint.url) == {"pipeline": "pipeline", "epoch": 0, "pid": endpoint.pid}
