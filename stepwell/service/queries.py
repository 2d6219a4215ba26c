"""The part of the control endpoint that answers queries.

POST /query     {"sql": "SELECT ...", "limit": 1000, "of_next": false, "as_json": true, "key": "..."}

The answer is made by another process (commands/query_keeper.py). With 200 comes what it says: {"found": {...}}, or {"refused": {...}} if the
query is wrong. Everything else is 409 with the reason, and the client has to find the answer by itself: `key` is not that of the project
as the service has it, too many queries wait, or the time is over.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from stepwell.service.bodies import JsonAnswer, validation_text
from stepwell.service.codes import MALFORMED, REFUSED

SQL_CHARACTERS_MAX = 1_000_000
"""The largest number of characters of one query. It is parsed by Spark, which takes seconds for as long a text."""


class QueryBody(BaseModel):
    """The body of POST /query. `key`: see planning/query_key.py."""

    model_config = ConfigDict(extra="forbid", strict=True)

    sql: str = Field(max_length=SQL_CHARACTERS_MAX)
    limit: int = Field(ge=1)
    of_next: bool
    as_json: bool
    key: str | None


class NotAnswered(Exception):
    """The service gives no answer to a query, for this reason, and whoever asks has to find it by itself. No user sees it."""


AnswerQuery = Callable[[QueryBody], bytes]
"""The answer, as JSON. It may take long. Raises NotAnswered."""


class QueryRoute:
    """The handler of /query."""

    def __init__(self, answer_query: AnswerQuery) -> None:
        self._answer_query = answer_query

    async def answer(self, request: Request) -> Response:
        """The rows stand in the answer as they are, also if one of them has the text of a secret."""
        try:
            body = QueryBody.model_validate_json(await request.body())
        except ValidationError as fault:
            return JsonAnswer({"error": validation_text(fault)}, MALFORMED)
        try:
            answer = await run_in_threadpool(self._answer_query, body)
        except NotAnswered as fault:
            return JsonAnswer({"error": str(fault)}, REFUSED)
        return Response(answer, media_type="application/json")
