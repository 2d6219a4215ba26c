"""Names that both the project and a catalog of Spark have, such as those of tables that Spark's own pipelines have written.

Guarantee: such a name is the project's. Spark finds the catalog's table first, because a name of the project is registered only when Spark
misses it (plans.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from stepwell.planning.leaves import leaves_of

_SESSION_CATALOG = "spark_catalog"
_NAME = re.compile(r"`([^`]+)`(?:,|$)")
_VIEW = re.compile(r"View \(`[^`]+`\.`([^`]+)`\.`([^`]+)`")


class OwnNames:
    """The names of the project's tables and views in Spark's catalog. `names`: those that the project defines. The catalog is asked once, when
    this is made."""

    def __init__(self, names: Iterable[str], spark: SparkSession) -> None:
        manager: Any = spark._jsparkSession.sessionState().catalogManager()
        self._database = str(manager.currentNamespace()[-1]) if len(manager.currentNamespace()) else ""
        lower = {name.lower() for name in names}
        if str(manager.currentCatalog().name()) == _SESSION_CATALOG:
            there = spark._jsparkSession.sessionState().catalog().listTables(self._database).mkString(",")
            lower &= {name.lower() for name in _NAME.findall(there)}
        self._doubtful = lower

    def read_from_catalog(self, analysed: Any) -> str | None:
        """A name of the project for which Spark has taken the catalog's table or view of the current database in this plan."""
        if not self._doubtful:
            return None
        found = [_identifier(leaf) for leaf in leaves_of(analysed)] + _VIEW.findall(str(analysed.toString()))
        return next(
            (name for database, name in found if database == self._database and name.lower() in self._doubtful), None
        )


def _identifier(leaf: Any) -> tuple[str, str]:
    """The database and the name of the table that a leaf reads; empty if it has none."""
    kind = leaf.getClass().getSimpleName()
    if kind in ("DataSourceV2Relation", "StreamingRelationV2") and leaf.identifier().isDefined():
        identifier = leaf.identifier().get()
        namespace = list(identifier.namespace())
        return str(namespace[-1]) if namespace else "", str(identifier.name())
    if kind == "HiveTableRelation":
        return _of_table(leaf.tableMeta())
    if kind in ("LogicalRelation", "StreamingRelation"):
        table = leaf.catalogTable() if kind == "LogicalRelation" else leaf.dataSource().catalogTable()
        return _of_table(table.get()) if table.isDefined() else ("", "")
    return "", ""


def _of_table(table: Any) -> tuple[str, str]:
    database = table.identifier().database()
    return str(database.get()) if database.isDefined() else "", str(table.identifier().table())
