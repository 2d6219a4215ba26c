"""What the process of a service does with the queries that it gets (query_process.py)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from stepwell.commands.query_answers import Answers
from stepwell.inspection.query_errors import AnswerBrokeOff, NoState, QueryError, ReadsElsewhere
from stepwell.inspection.query_request import QueryRequest
from stepwell.inspection.query_rows import collect_rows
from stepwell.planning.files_now import forget_modules, project_now
from stepwell.planning.query_key import query_key
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient

ANSWER_BYTES_MAX = 16 << 20
"""The largest number of bytes of an answer's JSON. It passes through the memory of the service."""


class Answering:
    """The answers about the files as they are. Others are begun when they have changed."""

    def __init__(self, started: Project) -> None:
        self._started, self._client = started, ControlClient(started.state_folder)
        self._key: str | None = None
        self._answers: Answers | None = None

    def warm_up(self, session: SparkSession) -> None:
        """The first answer of a JVM takes seconds, because it loads its classes for it. So one is made that nobody has asked for."""
        rows = session.newSession().createDataFrame(pa.table({"x": [1]}))
        for as_json in (False, True):
            collect_rows(rows, 1, as_json=as_json)

    def reply(self, session: Callable[[], SparkSession], line: bytes) -> bytes:
        """To one line of queries. `session`: waits for the process's."""
        body = json.loads(line)
        key = body.pop("key")
        answer = self._answer(session, QueryRequest(**body), key)
        reply = json.dumps(answer, default=str, ensure_ascii=False).encode()
        return reply if len(reply) <= ANSWER_BYTES_MAX else json.dumps({"not_here": "the answer is too large"}).encode()

    def _answer(self, session: Callable[[], SparkSession], asked: QueryRequest, key: str | None) -> dict[str, Any]:
        try:
            project = project_now(self._started, may_lack=True)  # no secret is in the environment
            if key is None or query_key(project) != key:
                return {"not_here": "the files or the settings are not those of the service"}
            answers = self._of_files(project, key)
            return {"found": answers.answer(session(), self._client, asked, only_views=True)}
        except (QueryError, NoState) as refused:
            if isinstance(refused, AnswerBrokeOff | ReadsElsewhere):
                return {"not_here": refused.message}
            kind, message, what_to_do = type(refused).__name__, refused.message, refused.what_to_do
            return {"refused": {"kind": kind, "message": message, "what_to_do": what_to_do}}
        except Exception as fault:  # also a mistake of ours: it is told where its trace is seen
            return {"not_here": f"it ended with {type(fault).__name__}"}

    def _of_files(self, project: Project, key: str) -> Answers:
        if self._answers is None or self._key != key:
            forget_modules(project.root)
            self._answers, self._key = Answers(project, key), key
        return self._answers
