"""A schema registry of the tests: what its API says of it, in memory, over HTTP. It shares no code with the client."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

FIRST_ID = 100_001  # of more than one byte


@dataclass
class SchemaRegistry:
    """`busy`: how many of the next requests get 503. `instead`: the status, the body and the headers of every answer, whatever was asked; a
    proxy without a backend, or another server, answers so. `kinds`: none in a registry from before there were others. `asked`: method and path
    of every request. `incompatible`: subjects, and why whatever is compared with them is not compatible."""

    url: str = ""
    auth: str | None = None
    busy: int = 0
    refuse: tuple[int, str] | None = None
    instead: tuple[int, bytes, dict[str, str]] | None = None
    ids: dict[str, int] = field(default_factory=dict)
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    kinds: tuple[str, ...] = ("JSON", "PROTOBUF", "AVRO")
    incompatible: dict[str, str] = field(default_factory=dict)

    def add(self, subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        """The id of a schema, which is the same for the same schema."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        number = self.ids.setdefault(f"{kind} {text} {references}", FIRST_ID + len(self.ids))
        body: dict[str, Any] = {"schema": text}
        if kind != "AVRO":
            body["schemaType"] = kind
        if references:
            body["references"] = list(references)
        self.schemas[number] = body
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def text_of(self, subject: str) -> Any:
        """The last schema of a subject."""
        return json.loads(self.schemas[self.subjects[subject][-1]]["schema"])

    async def answer(self, request: Request) -> Response:
        self.asked.append(f"{request.method} {request.url.path}")
        if self.instead is not None:
            status, body, headers = self.instead
            return Response(body, status, headers)
        if self.busy:
            self.busy -= 1
            return JSONResponse({"message": "busy"}, 503)
        expected = None if self.auth is None else "Basic " + base64.b64encode(self.auth.encode()).decode()
        if expected is not None and request.headers.get("authorization") != expected:
            return JSONResponse({"message": "who are you"}, 401)
        if self.refuse is not None:
            return JSONResponse({"message": self.refuse[1]}, self.refuse[0])
        if request.url.path == "/schemas/types":
            if not self.kinds:
                return JSONResponse({"error_code": 404, "message": "HTTP 404 Not Found"}, 404)
            return JSONResponse(list(self.kinds))
        if request.url.path.startswith("/compatibility/"):
            return self._compared(request.path_params["subject"])
        match request.path_params:
            case {"id": number}:
                return self._shown(number)
            case {"subject": subject, "version": version}:
                found = self.subjects.get(subject, [])
                return self._shown(found[version - 1] if version <= len(found) else -1)
            case {"subject": subject}:
                body = await request.json()
                return JSONResponse({"id": self.add(subject, body["schema"], body.get("schemaType", "AVRO"))})
        raise AssertionError(request.url)

    def _compared(self, subject: str) -> JSONResponse:
        if subject not in self.subjects:
            return JSONResponse({"error_code": 40401, "message": "Subject not found"}, 404)
        reason = self.incompatible.get(subject)
        return JSONResponse({"is_compatible": reason is None, "messages": [] if reason is None else [reason]})

    def _shown(self, number: int) -> JSONResponse:
        if number not in self.schemas:
            return JSONResponse({"error_code": 40403, "message": "Schema not found"}, 404)
        return JSONResponse(self.schemas[number])


@contextmanager
def schema_registry(auth: str | None = None) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(auth=auth)
    app = Starlette(
        routes=[
            Route("/schemas/ids/{id:int}", registry.answer),
            Route("/schemas/types", registry.answer),
            Route("/compatibility/subjects/{subject}/versions/latest", registry.answer, methods=["POST"]),
            Route("/subjects/{subject}/versions/{version:int}", registry.answer),
            Route("/subjects/{subject}/versions", registry.answer, methods=["POST"]),
        ]
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    registry.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield registry
    finally:
        server.should_exit = True
        thread.join(10)
