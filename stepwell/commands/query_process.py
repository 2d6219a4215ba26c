"""The process of a service that answers queries: a Spark that has started, and the project as it is resolved.

python -m stepwell.commands.query_process      started by query_keeper.py, and by nobody else

    standard input    a pickle of Started, and then one query a line, as JSON (QueryBody)
    standard output   an answer a line: {"found": {...}}, {"refused": {...}} if the query is wrong, or {"not_here": "why"}

Guarantees: an answer is that of a command with a Spark of its own (query_here.py), because the same code makes it (query_answers.py). A query
is not answered here if that could differ: the files, or the settings, are not those that this process has; or its answer depends on the
process, because it reads files. One query is answered after the other. The process ends with its standard input, whatever it does at the
moment, and its JVM ends with it. It has a lower priority than the service.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import sys
import threading
from collections.abc import Callable
from typing import IO, Any

import psutil
from pyspark.sql import SparkSession

from stepwell.commands.query_answers import Answers
from stepwell.commands.query_here import in_local_mode
from stepwell.commands.query_started import Started
from stepwell.commands.spark import jvm_is_gone, start_spark
from stepwell.inspection.asked import Asked
from stepwell.inspection.query_errors import AnswerBrokeOff, NoState, QueryError, ReadsElsewhere
from stepwell.planning.files_now import forget_modules, project_now
from stepwell.planning.query_key import query_key
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient

NICENESS = 5
"""The steps come first. A machine that is not busy answers as fast as without it."""

MEMORY_BYTES_MAX = 1 << 30
"""After an answer that has needed more, the process ends, and a later query starts another one. It begins with half of it."""

ANSWER_BYTES_MAX = 16 << 20
"""Of the JSON. It passes through the memory of the service."""


class Answering:
    """The answers about the files as they are. Others are begun when they have changed."""

    def __init__(self, started: Project) -> None:
        self._started, self._client = started, ControlClient(started.state_folder)
        self._key: str | None = None
        self._answers: Answers | None = None

    def answer(self, session: Callable[[], SparkSession], asked: Asked, key: str | None) -> dict[str, Any]:
        """What to send. `session`: waits for the process's."""
        try:
            project = project_now(self._started)
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


def main() -> None:
    os.nice(NICENESS)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a definition in Python may print
    started: Started = pickle.load(sys.stdin.buffer)  # the service has written it
    lines = queue.SimpleQueue[bytes]()
    threading.Thread(target=_read, args=(sys.stdin.buffer, lines), name="queries", daemon=True).start()
    with start_spark(in_local_mode(started.project), ends_with_process=True) as spark:
        answering = Answering(started.project)
        while True:
            try:
                line = lines.get(timeout=started.idle_s)
            except queue.Empty:
                return
            reply = _reply(answering, lambda: spark.session, json.loads(line))
            replies.write(reply + b"\n")
            replies.flush()
            if jvm_is_gone() or _memory_bytes() > MEMORY_BYTES_MAX:
                return


def _read(requests: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    """Until the service closes its end, or is gone: then nobody waits for an answer."""
    for line in requests:
        lines.put(line)
    os._exit(0)


def _memory_bytes() -> int:
    """Of this process and its JVM."""
    own = psutil.Process()
    return sum(process.memory_info().rss for process in (own, *own.children(recursive=True)))


def _reply(answering: Answering, session: Callable[[], SparkSession], body: dict[str, Any]) -> bytes:
    key = body.pop("key")
    answer = answering.answer(session, Asked(**body), key)
    reply = json.dumps(answer, default=str, ensure_ascii=False).encode()
    return reply if len(reply) <= ANSWER_BYTES_MAX else json.dumps({"not_here": "the answer is too large"}).encode()


if __name__ == "__main__":
    main()
