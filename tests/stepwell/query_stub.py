"""A process for queries that is played: what it does is the SQL.

answer: says so, with its process id; not here: has no answer; wait: never answers; end: ends
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time


def main() -> None:
    pickle.load(sys.stdin.buffer)
    for line in sys.stdin.buffer:
        sql = json.loads(line)["sql"]
        if sql == "wait":
            time.sleep(3600)
        if sql == "end":
            return
        said = {"not_here": "it is elsewhere"} if sql == "not here" else {"found": {"pid": os.getpid(), "sql": sql}}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
