"""Errors of Spark and of the user's code -> Stepwell's errors, with view, file and line; the settings under which a query is analysed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stepwell.errors import (
    FilesGone,
    Location,
    ProjectError,
    StepwellError,
    UnsupportedError,
)
from stepwell.planning.reads import NotStreaming
from stepwell.project import refusals
from stepwell.project.definitions import location_in
from stepwell.project.elements import FlowDefinition, PythonQuery
from stepwell.project.flow_conf import conf_in_force
from stepwell.project.loading import Project
from stepwell.spark.session import connection_lost

# Spark's only name of the error "is not a temp view of streaming logical plan".
_NOT_STREAMING = "_LEGACY_ERROR_TEMP_1008"
_NO_FILES = "PATH_NOT_FOUND"
# Of a name of three parts whose first is no catalog.
_NO_CATALOG = "REQUIRES_SINGLE_PART_NAMESPACE"
STREAMING_SUBQUERY = "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY"


class Blocked(Exception):
    """A view cannot be resolved because a view that it reads cannot. The error of that other view has been recorded already."""


class MissingTable(Exception):
    """A query reads a table that Spark does not know yet. `location` is the place of the query's reference."""

    def __init__(self, name: str, location: Location) -> None:
        super().__init__(name)
        self.name = name
        self.location = location


@contextlib.contextmanager
def with_conf(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    """Applies the settings of the flow's SET statements while the body runs. A flow's settings of how Spark runs are left out."""
    conf = conf_in_force(conf)
    before = {key: spark.conf.get(key, None) for key in conf}
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


@contextlib.contextmanager
def error_of_time_zone(project: Project, flow: FlowDefinition | None = None) -> Iterator[None]:
    try:
        yield
    except StepwellError as error:
        location = flow.location if flow else Location(project.spec_file.name)
        raise ProjectError(
            error.message, error.what_to_do, view=flow.target if flow else None, location=location
        ) from None


@contextlib.contextmanager
def translate_errors(flow: FlowDefinition, project: Project, view: str, *, users_code: bool) -> Iterator[None]:
    """Translates errors of Spark and of the user's code into Stepwell's errors, with the line where they arose.

    `users_code` says whether the body runs the user's code. If it does not, then an exception that is not Spark's is a bug in Stepwell,
    and is not translated."""
    try:
        yield
    except (StepwellError, MissingTable, Blocked):
        raise
    except Exception as error:
        if connection_lost(error) or not (users_code or isinstance(error, PySparkException | Py4JJavaError)):
            raise
        location = flow.location
        if isinstance(flow.query, PythonQuery):
            found = location_in(error, project.root / location.file, location.file)
            location = found if found.line is not None else location
        if isinstance(error, Py4JJavaError):
            what_to_do = (
                "Spark itself fails to plan this query. Correct the constants in it, or write it in another way."
            )
            raise ProjectError(_of_the_jvm(error), what_to_do, view=view, location=location) from error
        known = _of_condition(error, project, view, location) if isinstance(error, PySparkException) else None
        if known is not None:
            raise known from None
        raise refusals.python_error(error, location, view) from error


def _of_condition(error: PySparkException, project: Project, view: str, location: Location) -> Exception | None:
    """What an error with one of Spark's conditions means here; None if it means what Spark says."""
    condition, parameters = error.getCondition(), error.getMessageParameters() or {}
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        return MissingTable(str(parameters["relationName"]).replace("`", ""), location)
    if condition == _NO_FILES:
        return FilesGone(
            refusals.first_line(error),
            "Their rows are read once. Spark needs the files to plan the project, also at a later start: put them back. "
            "Or start with `stepwell run --as-recorded`, which plans nothing.",
            view=view,
            location=location,
        )
    if condition == _NO_CATALOG:
        name = str(parameters.get("identifier")).replace("`", "")
        catalog = name.partition(".")[0]
        return ProjectError(
            f"{name} is not defined in this project, and Spark has no catalog {catalog}",
            f"Put spark.sql.catalog.{catalog} and its settings under configuration: in {project.spec_file.name}.",
            view=view,
            location=location,
        )
    if condition == _NOT_STREAMING:
        return NotStreaming(
            f"{parameters.get('quoted')} is read as a stream, and this is not a streaming flow",
            "Read it with spark.read.table(name) or FROM name; or make this a streaming table (@dp.table).",
            view=view,
            location=location,
        )
    if condition == STREAMING_SUBQUERY:
        return UnsupportedError(
            "a flow in Python, or an AUTO CDC, has a subquery over a stream",
            "Write the subquery as a join (left_semi for IN, left_anti for NOT EXISTS), or a flow in Python in SQL. For AUTO CDC, compute it "
            "in a temporary view, and make that the source.",
            view=view,
            location=location,
        )
    return None


def _of_the_jvm(error: Py4JJavaError) -> str:
    """The text of an exception that PySpark does not translate: one that Spark throws while it optimises, by design or not."""
    java = error.java_exception
    message = str(java.getMessage()).split("\n")[0]
    return message if message.startswith("[") else f"Spark fails with {java.getClass().getSimpleName()}: {message}"
