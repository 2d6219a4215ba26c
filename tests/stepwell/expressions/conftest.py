"""Spark and Stepwell over the columns of edges.py, for the tests of this folder."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.stepwell.expressions.harness import Oracle


@pytest.fixture(scope="session")
def session_oracle(spark: SparkSession) -> Oracle:
    return Oracle(spark)


@pytest.fixture(scope="module")
def oracle(session_oracle: Oracle, request: pytest.FixtureRequest) -> Oracle:
    """The expressions of those tests of the module that were selected are planned together."""
    selected = [
        item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)
    ]
    session_oracle.plan(
        [
            item.callspec.params["sql"]
            for item in selected
            if hasattr(item, "callspec") and "sql" in item.callspec.params
        ]
    )
    return session_oracle
