"""What `stepwell query` asks, in whichever process the answer is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class QueryRequest:
    """One query over the views, with what the user asks for beside it. `limit`: rows at most. `of_next`: of the views of the next revision.
    `as_json`: with rows for programs and not for users."""

    sql: str
    limit: int
    of_next: bool
    as_json: bool


Found = dict[str, Any]
"""The answer: `step`, `checkpoint`, `columns`, `rows`, and whether there are `more` of them than the limit. It is the same after a way through
JSON, but that the rows for users are lists then."""

NOT_HERE = b'{"not_here"'
"""The beginning of the answer of a process that says why there is none; see commands/query_process.py."""
