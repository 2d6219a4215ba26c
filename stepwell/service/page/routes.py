"""The page of the service, on the port of the control endpoint.

GET  /page                 the page, or the form that asks for the token
GET  /page/data            its sections, which the page takes every two seconds while it is seen
POST /page/login           the form: {token}; it sets the cookie
POST /page/ticket          for `stepwell page`, with the token: an address that opens the page once
GET  /page/open?ticket=    that address; it sets the cookie
GET  /page/rows?view=      the first rows of a kept view, as of the last checkpoint
GET  /page/page.css, /page/page.js

Nothing is made before somebody looks, and nothing can be changed from here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from html import escape
from importlib import resources
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from base.secrets import hidden
from coordinator.measures import ProjectShown
from coordinator.requests import Requests
from coordinator.status import StatusBoard
from engine.model.circuit import View
from stepwell.service.bodies import JsonAnswer
from stepwell.service.endpoint import READ_SECONDS_MAX, Endpoint
from stepwell.service.metrics.exposition import Exposition
from stepwell.service.page.access import TICKET_SECONDS_MAX, Access
from stepwell.service.page.content import SECTIONS, Shown, sections_of
from stepwell.service.page.graph import NOTHING_DRAWN, graph_of
from stepwell.service.page.rates import Rates
from stepwell.service.page.rows import kept_views, rows_table, view_to_read

FORM_BYTES_MAX = 4096

ASSETS: Mapping[str, str] = {"page.css": "text/css", "page.js": "text/javascript"}

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Nothing is loaded from elsewhere and nothing runs that is not a file of ours, even if a text slipped through unescaped."""


class PageRoutes:
    def __init__(self, requests: Requests, board: StatusBoard, exposition: Exposition, endpoint: Endpoint) -> None:
        self._requests, self._board, self._exposition = requests, board, exposition
        self._access, self._rates = Access(endpoint.token), Rates(time.time())
        port = endpoint.url.rpartition(":")[2]
        self._lock = threading.Lock()
        self._drawn: ProjectShown | None = None
        self._graph = NOTHING_DRAWN
        self._cookie_name = f"stepwell_page_{port}"  # cookies know no ports, and a host may have several services

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/page", self._page),
            Route("/page/data", self._data),
            Route("/page/rows", self._rows),
            Route("/page/login", self._login, methods=["POST"]),
            Route("/page/ticket", self._ticket, methods=["POST"]),
            Route("/page/open", self._open),
            *(Route(f"/page/{name}", self._asset) for name in ASSETS),
        ]

    async def _page(self, request: Request) -> Response:
        if not self._may_see(request):
            return _html(form(""), 401)
        return _html(page_of(self._board.show()["pipeline"], await run_in_threadpool(self._sections)))

    async def _data(self, request: Request) -> Response:
        if not self._may_see(request):
            return JSONResponse({"error": "log in again"}, 401, HEADERS)
        return JsonAnswer({"sections": await run_in_threadpool(self._sections)}, headers=HEADERS)

    async def _rows(self, request: Request) -> Response:
        if not self._may_see(request):
            return _html(form(""), 401)
        name, project = request.query_params.get("view", ""), self._board.measures.project
        try:
            circuit, status = None if project is None else project.circuit, self._board.show()
            view = view_to_read(name, circuit, status["state_bytes"], status["worker_bytes"])
            return _html(rows_page(name, await run_in_threadpool(self._read, view)))
        except Exception as fault:  # also of a worker: whoever asks gets it, and the pipeline goes on
            return _html(rows_page(name, f'<p class="bad" role="alert">{escape(str(fault))}</p>'), 409)

    def _read(self, view: View) -> str:
        return rows_table(view.name, self._requests.questions.ask([view.name], READ_SECONDS_MAX))

    async def _login(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > FORM_BYTES_MAX:
                return _html(form("That is not the token."), 413)
        given = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        if not self._access.is_token(given):
            return _html(form("That is not the token."), 401)
        return self._with_cookie()

    async def _ticket(self, request: Request) -> Response:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not self._access.is_token(given):
            return JSONResponse({"error": "a token is needed: it stands in the project's storage folder"}, 401)
        return JSONResponse({"path": f"/page/open?ticket={self._access.new_ticket()}", "seconds": TICKET_SECONDS_MAX})

    async def _open(self, request: Request) -> Response:
        if not self._access.take_ticket(request.query_params.get("ticket", "")):
            return _html(form("This address was used, or is too old. `stepwell page` makes another one."), 401)
        return self._with_cookie()

    async def _asset(self, request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        text = resources.files(__package__).joinpath(name).read_text()
        return Response(text, media_type=ASSETS[name], headers={**HEADERS, "Cache-Control": "max-age=3600"})

    def _may_see(self, request: Request) -> bool:
        return self._access.is_cookie(request.cookies.get(self._cookie_name, ""))

    def _with_cookie(self) -> Response:
        answer = RedirectResponse("/page", 303, HEADERS)
        answer.set_cookie(self._cookie_name, self._access.cookie, path="/page", httponly=True, samesite="strict")
        return answer

    def _sections(self) -> dict[str, str]:
        seen, project = self._exposition.look(), self._board.measures.project
        with self._lock:
            rates = self._rates.look(seen.now, seen.measured)
            if project is not self._drawn:
                self._drawn, self._graph = project, NOTHING_DRAWN if project is None else graph_of(project.circuit)
            graph = self._graph
        if project is None:
            return sections_of(Shown(seen, rates, graph))
        return sections_of(Shown(seen, rates, graph, project.topics, frozenset(kept_views(project.circuit))))


def page_of(pipeline: str, sections: Mapping[str, str]) -> str:
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, (title, _) in SECTIONS.items())
    parts = "".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2><div id="part-{name}">{sections[name]}</div></section>'
        for name, (title, _) in SECTIONS.items()
    )
    return _document(
        f"{pipeline} – Stepwell",
        f'<a class="skip" href="#summary">to the content</a><header><h1>{escape(pipeline)}</h1>'
        f'<p id="when" role="status">as of this moment</p><nav aria-label="sections">{links}</nav></header><main>{parts}</main>',
        script=True,
    )


def rows_page(name: str, content: str) -> str:
    return _document(
        f"{name} – Stepwell",
        f'<header><h1>{escape(name)}</h1><p><a href="/page">back to the pipeline</a></p></header><main><section>{content}</section></main>',
        script=False,
    )


def form(fault: str) -> str:
    told = f'<p class="bad" role="alert">{escape(fault)}</p>' if fault else ""
    return _document(
        "Stepwell",
        f"<main><h1>Stepwell</h1>{told}<p>The page is for who may read the project's storage folder. <code>stepwell page</code> opens it "
        "without a question. Or give the token that stands in <code>endpoint.json</code> there.</p>"
        '<form method="post" action="/page/login"><label>Token <input name="token" type="password" autocomplete="off" required autofocus>'
        "</label> <button>See the pipeline</button></form></main>",
        script=False,
    )


def _document(title: str, body: str, *, script: bool) -> str:
    runs = '<script src="/page/page.js" defer></script>' if script else ""
    refresh = '<noscript><meta http-equiv="refresh" content="10"></noscript>' if script else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f'<link rel="stylesheet" href="/page/page.css"><link rel="icon" href="data:,">{refresh}{runs}</head><body>{body}</body></html>'
    )


def _html(text: str, status: int = 200) -> Response:
    return Response(hidden(text), status, HEADERS, "text/html")
