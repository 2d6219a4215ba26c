"""The plans of a project's definitions, kept in its state folder, so that a command plans only what has changed.

Guarantees: the plans of a view are used again only if everything is equal that Spark made them of:

- the SQL of its flows, their settings, its declared columns, and whether it is streaming;
- the SQL and the settings of every temporary view in them, because those are inlined;
- the name and the columns, with types and nullability, of every source and view that they read. Spark sees nothing else of them,
  because they are opaque leaves without rows (leaves.py);
- the session (session_facts.py), and what is installed (installed.py).

Everything else is read, checked and made afresh by each command: definitions in Python, properties, sources, outputs, errors and
the circuit. So the project that a command gets is the one that it would have planned.

These are planned by each command: a query that is written in Python, also below a view in SQL if it is inlined there; AUTO CDC; a
query that reads files or tables of Spark's catalogs, whose columns are not the project's; and a query that calls a function of the
user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import xxhash
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from stepwell.catalyst.analysed import Analysed
from stepwell.planning.batch_tables import BATCH_KINDS, STREAM_KINDS
from stepwell.planning.kept_folder import KeptFolder
from stepwell.planning.plans import FlowPlan
from stepwell.planning.session_facts import functions_of_session, session_digest
from stepwell.project.auto_cdc import AutoCdcQuery
from stepwell.project.elements import Definitions, FlowDefinition, OutputDefinition, SqlQuery, words
from stepwell.project.loading import Project
from stepwell.project.sql_files import SqlFile, read_sql

KEPT_FOLDER = "definitions"

_OF_USERS = frozenset(
    {
        *BATCH_KINDS,
        *STREAM_KINDS,
        *("PythonUDF", "PythonUDAF", "PythonUDTF", "ScalaUDF", "ScalaUDAF", "ScalaAggregator"),
        *("SQLScalarFunction", "SQLFunctionExpression", "SQLFunctionNode", "SQLTableFunction"),
        *("HiveSimpleUDF", "HiveGenericUDF", "HiveGenericUDTF", "HiveUDAFFunction"),
        *("ApplyFunctionExpression", "V2Aggregator"),
    }
)
"""Classes in an analysed plan that say that it depends on more than the SQL and the tables of the project."""

_CALLS = frozenset({"Invoke", "StaticInvoke"})
"""Calls of Java code. Spark's own functions have them too, and so have those of catalogs."""


@dataclass(frozen=True)
class Input:
    """What a query reads. `name` is in small letters. `digest`: of the SQL of a temporary view; otherwise of the columns of a source or view."""

    name: str
    is_temporary: bool
    digest: str


@dataclass(frozen=True)
class KeptView:
    """The plans of the flows of a view, and what they were made of beside their own texts. Of a temporary view there are none: it is kept that
    Spark could analyse it."""

    inputs: tuple[Input, ...]
    schema: StructType
    plans: tuple[FlowPlan, ...]

    @property
    def inlined(self) -> frozenset[str]:
        return frozenset(each.name for each in self.inputs if each.is_temporary)


class KeptDefinitions:
    """What is kept of one project. `begin` is called when the definitions are loaded; `save` when all is planned."""

    def __init__(self, folder: KeptFolder) -> None:
        self._folder = folder
        self._of_files: str | None = None  # the session's digest while files are loaded
        self._session: str | None = None
        self._functions: frozenset[str] = frozenset()
        self._has_catalogs = False
        self._definitions: Definitions
        self._outputs: dict[str, OutputDefinition] = {}

    @classmethod
    def of(cls, project: Project) -> KeptDefinitions:
        """All of it is read now, which takes a second for a hundred large views: do it while Spark starts."""
        return cls(KeptFolder(project.state_folder / KEPT_FOLDER))

    @classmethod
    def nothing(cls) -> KeptDefinitions:
        """Returns what a planning uses that must make everything afresh. It keeps nothing either."""
        return cls(KeptFolder(None))

    def read_sql(self, text: str, name: str, spark: SparkSession) -> SqlFile:
        """Reads a file as sql_files.read_sql does. The result depends on the text and the session alone."""
        if self._of_files is None and self._folder.keeps:
            self._of_files = session_digest(spark)
        if self._of_files is None:
            return read_sql(text, name, spark)
        key = _digest("file", self._of_files, name, text)
        found = self._folder.get(key)
        if found is None:
            found = read_sql(text, name, spark)
            if not any(isinstance(flow.query, AutoCdcQuery) for flow in found.flows):  # it has parts of Spark's plan
                self._folder.put(key, found)
        assert isinstance(found, SqlFile)
        return found

    def begin(self, definitions: Definitions, *, has_python: bool) -> None:
        """`has_python`: whether the project's own code was executed in the session."""
        self._definitions = definitions
        self._outputs = {output.name.lower(): output for output in definitions.outputs}
        if not self._folder.keeps:
            return  # then no view has a key
        if has_python or self._of_files is None:
            self._session = session_digest(definitions.spark)
            self._functions = functions_of_session(definitions.spark)
        else:
            self._session = self._of_files
        self._has_catalogs = any(key.startswith("spark.sql.catalog.") for key in definitions.spark.conf.getAll)

    def find(
        self, output: OutputDefinition, schema_of: Callable[[OutputDefinition], StructType | None]
    ) -> KeptView | None:
        """What is kept of `output`, if it is still true. `schema_of` resolves a source or view that its query reads; None if that cannot
        be resolved now."""
        key = self._key(output)
        found = None if key is None else self._folder.get(key)
        if found is None:
            return None
        assert isinstance(found, KeptView)
        # The temporary views come first. While they are as they were, the query reads these sources and views, and otherwise perhaps others.
        for each in sorted(found.inputs, key=lambda each: not each.is_temporary):
            known = self._outputs.get(each.name)
            if known is None or (known.kind == "temporary_view") != each.is_temporary:
                return None
            schema = None if each.is_temporary else schema_of(known)
            if self._input(each.name, schema) != each:
                return None
        flows = self._definitions.flows_of(output.name)
        assert len(found.plans) in (0, len(flows))
        plans = (
            replace(plan, name=flow.name, location=flow.location)
            for plan, flow in zip(found.plans, flows, strict=False)
        )
        return replace(found, plans=tuple(plans))

    def keep(
        self,
        output: OutputDefinition,
        schema: StructType,
        analysed: Iterable[Analysed],
        plans: Sequence[FlowPlan],
        schemas: Mapping[str, StructType],
    ) -> None:
        """Keeps what was planned of `output`, if it depends on nothing but what can be compared. `schemas`: of the sources and views that
        are resolved, by their names in small letters."""
        key = self._key(output)
        if key is None:
            return
        inputs: dict[str, Input] = {}
        for each in analysed:
            if each.classes & _OF_USERS or (self._has_catalogs and each.classes & _CALLS):
                return
            for name in each.views:
                found = self._input(name.lower(), schemas.get(name.lower()))
                if found is None:
                    return
                inputs[found.name] = found
        if all(leaf.lower() in inputs for plan in plans for leaf in plan.leaves):
            self._folder.put(key, KeptView(tuple(inputs.values()), schema, tuple(plans)))

    def save(self, *, is_whole: bool) -> None:
        """`is_whole`: everything was planned, so what was not used belongs to nothing any more."""
        self._folder.save(is_whole=is_whole)

    def _key(self, output: OutputDefinition) -> str | None:
        """None if the definition, or the session, may depend on more than can be compared."""
        texts = [self._text(flow) for flow in self._definitions.flows_of(output.name)]
        if self._session is None or not texts or None in texts:
            return None
        declared = None if output.schema is None else output.schema.json()
        return _digest("view", self._session, output.kind, declared, texts)

    def _text(self, flow: FlowDefinition) -> str | None:
        """Returns a digest of the SQL of a flow and its settings. None if it is not in SQL, or may call a function that is not Spark's."""
        query = flow.query
        if not isinstance(query, SqlQuery):
            return None
        # IDENTIFIER may make a name of parts.
        if self._functions and not (self._functions | {"identifier"}).isdisjoint(words(query.statement)):
            return None
        chosen = f"{query.select.__module__}.{query.select.__qualname__}"
        return _digest(query.statement, chosen, query.columns, sorted(flow.spark_conf.items()))

    def _input(self, name: str, schema: StructType | None) -> Input | None:
        """A name that a query reads, as it is now. None for a name of which nothing can be said: it is not the project's, or not in SQL."""
        output = self._outputs.get(name)
        if output is None:
            return None
        match output.kind:
            case "temporary_view":
                text = self._text(self._definitions.flows_of(output.name)[0])
                return None if text is None else Input(name, True, _digest(output.name, text))
            case "materialized_view" | "table":
                return None if schema is None else Input(name, False, _digest(output.name, schema.json()))
            case "sink":
                return None


def _digest(*parts: Any) -> str:
    return xxhash.xxh3_128_hexdigest(repr(parts).encode())
