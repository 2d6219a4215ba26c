"""`stepwell query` without Spark, for the queries that can do without (inspection/plain_query.py)."""

from __future__ import annotations

from base.fault import Fault
from stepwell.inspection.plain_answer import plain_answer
from stepwell.inspection.plain_query import PlainQuery
from stepwell.inspection.query_request import Found, QueryRequest
from stepwell.planning.kept_circuit import read_circuit
from stepwell.project.loading import Project


def ask_plainly(project: Project, key: str | None, asked: QueryRequest, plain: PlainQuery) -> Found | None:
    """The answer; None if Spark has to find it, or has to find out what is wrong: it knows the project's definitions, and says more. `key`: the
    query_key of the project."""
    circuit = read_circuit(project, key)
    if circuit is None:
        return None
    try:
        return plain_answer(project, circuit, asked, plain)
    except Fault:
        return None
