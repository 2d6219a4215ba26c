"""The only adapter to `pyspark.pipelines`, whose classes may move between minor versions.

Python files register their definitions through Spark's own decorators. SQL files are split and parsed by Spark's own
code (`sql_files`). The result is plain data (`elements`). A construct of Spark that Stepwell does not run is refused, and
the error says how to write it today.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, Table, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from base.secrets import mask_value
from stepwell.errors import Location, ProjectError, StepwellError, UnsupportedError, raise_all
from stepwell.project import auto_cdc, refusals, stored
from stepwell.project.auto_cdc import AutoCdcQuery, ColumnChoice
from stepwell.project.elements import (
    KIND_NAMES,
    Definitions,
    FlowDefinition,
    Kind,
    OutputDefinition,
    PythonQuery,
    SqlQuery,
    check,
    name_in_python,
)
from stepwell.project.flow_conf import check_conf, conf_notes
from stepwell.project.loading import Project
from stepwell.project.sql_files import SqlFile, read_sql
from stepwell.project.text_files import read_text
from stepwell.spark.fixed import FIXED_SQL
from stepwell.spark.session import connection_lost

__all__ = [
    "KIND_NAMES",
    "Definitions",
    "FlowDefinition",
    "Kind",
    "OutputDefinition",
    "PythonQuery",
    "SqlQuery",
    "active",
    "enter_folder",
    "load_definitions",
    "location_in",
    "quiet_spark",
]


ReadSql = Callable[[str, str, SparkSession], SqlFile]
"""From the text of a file, its name and the session to what it defines."""


def load_definitions(project: Project, spark: SparkSession, read: ReadSql = read_sql) -> Definitions:
    """Executes the project's Python files and parses its SQL files with `read`, in a new session.

    Raises ProjectError with file and line, or ProjectErrors for several errors.
    """
    own = spark.newSession()
    _configure(own, project)
    registry = _Registry(project.root, own, read)
    registry.notes += _look_up_in(own, project)
    errors: list[ProjectError] = []
    files = project.definition_files()
    with graph_element_registration_context(registry), enter_folder(project.root), active(own):
        for file in files:
            try:
                _load_file(file, registry, own)
            except ProjectError as error:
                if connection_lost(error):
                    raise
                errors.append(error)
    if not files:
        raise ProjectError(
            f"the project has no definitions: no file matches libraries: {', '.join(project.libraries)}",
            "Name the files so:\n    libraries:\n      - glob:\n          include: transformations/**",
            location=Location(project.spec_file.name),
        )
    raise_all(errors + check(registry.outputs, registry.flows))
    return Definitions(tuple(registry.outputs), tuple(registry.flows), own, tuple(registry.notes))


def _configure(spark: SparkSession, project: Project) -> None:
    check_conf(project.settings.spark, location=Location(project.spec_file.name))
    for key, value in {**project.settings.spark, **FIXED_SQL}.items():
        try:
            spark.conf.set(key, value)
        except PySparkException as error:
            if "CANNOT_MODIFY" not in str(error.getCondition()):  # such settings are fixed at the start of the session
                raise ProjectError(
                    f"{key} = {mask_value(key, value)}: {refusals.first_line(error)}",
                    location=Location(project.spec_file.name),
                ) from None


def _look_up_in(spark: SparkSession, project: Project) -> list[str]:
    """Makes the catalog and the database of the project file those of the session. A project that reads no table by a name in them needs
    neither, so it is only noted that they are not there."""
    found = []
    for what, name, choose in (
        ("catalog", project.catalog, spark.catalog.setCurrentCatalog),
        ("database", project.database, spark.catalog.setCurrentDatabase),
    ):
        try:
            if name is not None:
                choose(name)
        except (
            PySparkException,
            Py4JJavaError,
        ) as error:  # Spark's class of a catalog that is not there is unknown to PySpark
            if connection_lost(error):
                raise
            java = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
            reason = refusals.first_line(Exception(java))
            found.append(
                f"{project.spec_file.name}: {what} {name} has no effect, because Spark does not have it: {reason}"
            )
    return found


@contextlib.contextmanager
def quiet_spark() -> Iterator[None]:
    """Silences the loggers of PySpark, which log every analysis error with the JVM's stack. Here such errors are expected and translated.

    The loggers are created in Spark's way. A logger that the plain logging module created first would fail on Spark's arguments."""
    loggers = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


@contextlib.contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Lets SparkSession.active() return `spark`, because definitions may call it."""
    holder = getattr(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    before, known = holder.getActiveSession(), SparkSession._activeSession
    holder.setActiveSession(spark._jsparkSession)
    SparkSession._activeSession = spark  # PySpark's own copy
    try:
        yield
    finally:
        SparkSession._activeSession = known
        if before.isDefined():
            holder.setActiveSession(before.get())
        else:
            holder.clearActiveSession()


@contextlib.contextmanager
def enter_folder(path: Path) -> Iterator[None]:
    """Runs the body in the project's folder, as `spark-pipelines` does. So definitions can open files by relative paths. Modules that the body
    imports leave no byte code: Python would take it for a module that is changed within a second and keeps its size."""
    before, writes_nothing = Path.cwd(), sys.dont_write_bytecode
    os.chdir(path)
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        os.chdir(before)
        sys.dont_write_bytecode = writes_nothing


class _Registry(GraphElementRegistry):  # type: ignore[misc]
    """The registry that Spark's decorators call. No object of pyspark.pipelines leaves it."""

    def __init__(self, root: Path, spark: SparkSession, read: ReadSql) -> None:
        self.root = root
        self.spark = spark
        self.read = read
        self.outputs: list[OutputDefinition] = []
        self.flows: list[FlowDefinition] = []
        self.notes: list[str] = []

    def location(self, place: SourceCodeLocation) -> Location:
        return Location(self.relative(Path(place.filename)), place.line_number)

    def relative(self, path: Path) -> str:
        path = path if path.is_absolute() else self.root / path
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def register_output(self, output: Output) -> None:
        location = self.location(output.source_code_location)
        common: dict[str, Any] = {"name": name_in_python(output.name), "comment": output.comment, "location": location}
        if isinstance(output, TemporaryView):
            self.outputs.append(OutputDefinition("temporary_view", **common))
        elif isinstance(output, Sink):
            properties = {key: str(value) for key, value in output.options.items()}
            self.outputs.append(OutputDefinition("sink", format=output.format, properties=properties, **common))
        elif isinstance(output, MaterializedView | StreamingTable):
            kind: Kind = "materialized_view" if isinstance(output, MaterializedView) else "table"
            self.outputs.append(OutputDefinition(kind, **common, **self._table(output, location)))
        else:
            kind_name = type(output).__name__
            raise UnsupportedError(f"{kind_name} is not known to Stepwell", view=output.name, location=location)

    def _table(self, output: Table, location: Location) -> dict[str, Any]:
        schema = output.schema
        if isinstance(schema, str):
            try:
                schema = StructType.fromDDL(schema)
            except PySparkException as error:
                raise ProjectError(
                    f"schema: {refusals.first_line(error)}", view=output.name, location=location
                ) from None
        if schema is not None:
            refusals.check_declared(schema, output.name, location)
        properties = {key: str(value) for key, value in (output.table_properties or {}).items()}
        arranged = {"partition_cols": output.partition_cols or (), "cluster_by": output.cluster_by or ()}
        return {
            "schema": schema,
            "format": output.format,
            "properties": properties,
            "stored_by": tuple(name for names in arranged.values() for name in names),
            "notes": tuple(stored.arranged_note(names, how) for how, names in arranged.items() if names),
        }

    def register_flow(self, flow: Flow) -> None:
        self._add_flow(flow.name, flow.target, PythonQuery(flow.func), flow)

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        location = self.location(flow.source_code_location)

        def names(parameter: str) -> tuple[str, ...]:
            return auto_cdc.names_of(getattr(flow, parameter), parameter, self.spark, location, flow.target)

        def choice(parameter: str, other: str) -> ColumnChoice | None:
            """Empty lists are as good as none, as in Spark."""
            if named := names(parameter):
                return ColumnChoice(named)
            return ColumnChoice(excluded, True) if (excluded := names(other)) else None

        deletes = flow.apply_as_deletes
        query = AutoCdcQuery(
            target=name_in_python(flow.target),
            location=location,
            source=auto_cdc.read_table(flow.source),
            keys=names("keys"),
            sequence=auto_cdc.value_of(flow.sequence_by, "sequence_by", location, flow.target),
            deletes=None if deletes is None else auto_cdc.value_of(deletes, "apply_as_deletes", location, flow.target),
            scd_type=int(flow.stored_as_scd_type or 1),
            columns=choice("column_list", "except_column_list"),
            tracked=choice("track_history_column_list", "track_history_except_column_list"),
        )
        query.check()
        self._add_flow(flow.name or flow.target, flow.target, query, flow)

    def _add_flow(self, name: str, target: str, query: PythonQuery | AutoCdcQuery, flow: Flow | AutoCdcFlow) -> None:
        location, target = self.location(flow.source_code_location), name_in_python(target)
        conf = {key: str(value) for key, value in flow.spark_conf.items()}
        check_conf(conf, view=target, location=location)
        self.flows.append(
            FlowDefinition(
                name=name_in_python(name),
                target=target,
                query=query,
                location=location,
                spark_conf=conf,
                notes=conf_notes(conf),
            )
        )

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        found = self.read(sql_text, self.relative(file_path), self.spark)
        self.outputs += found.outputs
        self.flows += found.flows
        self.notes += found.notes


def _load_file(file: Path, registry: _Registry, spark: SparkSession) -> None:
    name = registry.relative(file)
    if file.suffix == ".sql":
        registry.register_sql(read_text(file, name), file)
    elif file.suffix == ".py":
        _execute(file, name, spark)
    else:
        raise ProjectError(
            "is neither a .py nor a .sql file",
            "Move it out of the folders under libraries:, or name the files there one by one.",
            location=Location(name),
        )


class _FreshLoader(importlib.machinery.SourceFileLoader):
    """Compiles the file that is there. Python's own loader takes the byte code that it has kept if the size of the file and the second of its
    last change are the same. A file that was edited twice within a second would then be read as before, and a transition would change
    nothing."""

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def _execute(file: Path, name: str, spark: SparkSession) -> None:
    """Runs a Python file as Spark does: as a separate module, with `spark` in its namespace."""
    spec = importlib.util.spec_from_file_location(file.stem, str(file), loader=_FreshLoader(file.stem, str(file)))
    assert spec is not None and spec.loader is not None, file
    module = importlib.util.module_from_spec(spec)
    module.__dict__["spark"] = spark
    try:
        spec.loader.exec_module(module)
    except StepwellError:
        raise
    except Exception as error:
        raise refusals.python_error(error, location_in(error, file, name)) from error


def location_in(error: BaseException, file: Path, name: str) -> Location:
    """The innermost line of `file` in the error's traceback."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return Location(name, error.lineno)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return Location(name, lines[-1] if lines else None)
