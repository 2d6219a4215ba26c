"""Why a query has no answer."""

from __future__ import annotations

from base.fault import ExitCode
from stepwell.errors import StepwellError


class QueryError(StepwellError):
    """The query is wrong or not supported."""


class AnswerBrokeOff(QueryError):
    """Spark did not send the whole answer."""


class ReadsElsewhere(QueryError):
    """The query reads files or tables that are not the project's views, and only a process that starts for it may do so."""


class NoState(StepwellError):
    """There is no state to query, or the workers did not reach the same version in time."""

    exit_code = ExitCode.STATE
