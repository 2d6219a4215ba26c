"""The process of a service that answers queries: a Spark that has started, and the project as it is resolved.

python -m stepwell.commands.query_process      started by query_keeper.py, and by nobody else

    standard input    a pickle of the Project as the service was started with it, and then one query a line, as JSON (QueryBody)
    standard output   an answer a line: {"found": {...}}, {"refused": {...}} if the query is wrong, or {"not_here": "why"}

Guarantees: an answer is that of a command with a Spark of its own (query_here.py), because the same code makes it (query_answers.py). A query
is not answered here if that could differ: the files, or the settings, are not those that this process has; or its answer depends on the
process, because it reads files. One query is answered after the other. The process ends with its standard input, whatever it does at the
moment, and its JVM ends with it. It has a lower priority than the service.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from typing import IO

from stepwell.commands.query_here import in_local_mode
from stepwell.commands.spark import jvm_is_gone, start_spark
from stepwell.project.loading import Project

NICENESS = 5
"""The steps come first. A machine that is not busy answers as fast as without it."""


def main() -> None:
    os.nice(NICENESS)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a definition in Python may print
    started: Project = pickle.load(sys.stdin.buffer)  # the service has written it
    lines = queue.SimpleQueue[bytes]()
    threading.Thread(target=_read, args=(sys.stdin.buffer, lines), name="queries", daemon=True).start()
    with start_spark(in_local_mode(started), ends_with_process=True) as spark:
        from stepwell.commands.query_answering import Answering  # while Spark starts

        answering = Answering(started)
        if lines.empty():
            answering.warm_up(spark.session)
        while True:
            reply = answering.reply(lambda: spark.session, lines.get())
            replies.write(reply + b"\n")
            replies.flush()
            if jvm_is_gone():
                return


def _read(requests: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    """Until the service closes its end, or is gone: then nobody waits for an answer."""
    for line in requests:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
