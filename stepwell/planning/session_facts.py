"""What the analysis of a query takes from Spark's session besides the query and the tables that it reads.

Guarantee: two sessions with equal facts make equal plans of equal SQL texts over equal tables, as far as the texts use Spark's own functions.
"""

from __future__ import annotations

from typing import Any

import xxhash
from pyspark.sql import SparkSession

_CONF = ("spark.sql.", "spark.jars", "spark.driver.extraClassPath", "spark.plugins")
"""The beginnings of the settings that analysis and optimiser read, or that give Spark other code."""

_NOT_CONF = ("spark.sql.warehouse.dir", "spark.sql.artifact.")
"""Where files lie, which differs with the folder in which a command is called."""

_PROPERTIES = ("java.version", "java.vendor", "user.language", "user.country", "file.encoding")
"""The properties of the JVM on which plans depend. The optimiser computes constant expressions, and some of them depend on Java's tables of
languages."""

_EXTENSIONS = "spark.sql.extensions"
_REGISTRIES = ("functionRegistry", "tableFunctionRegistry")


def session_digest(spark: SparkSession) -> str | None:
    """Returns a digest of the settings in force, also those that nobody has set, of the place where Spark looks names up, and of the JVM. None
    if rules of others are part of the session, of which nobody knows what they read."""
    given: dict[str, str] = spark.conf.getAll
    if given.get(_EXTENSIONS):
        return None
    state: Any = spark._jsparkSession.sessionState()
    defaults = str(state.conf().getAllDefinedConfs().mkString("\n")).splitlines()
    manager = state.catalogManager()
    jvm: Any = spark._jvm
    system = getattr(jvm, "java.lang.System")
    facts = (
        sorted((key, value) for key, value in given.items() if key.startswith(_CONF) and not key.startswith(_NOT_CONF)),
        sorted(line for line in defaults if not line.lstrip("(").startswith(_NOT_CONF)),
        str(manager.currentCatalog().name()),
        list(manager.currentNamespace()),
        spark.version,
        [str(system.getProperty(name)) for name in _PROPERTIES],
    )
    return xxhash.xxh3_128_hexdigest(repr(facts).encode())


def functions_of_session(spark: SparkSession) -> frozenset[str]:
    """The names, in small letters, of the functions that the session has beside Spark's own."""
    jvm: Any = spark._jvm
    state: Any = spark._jsparkSession.sessionState()
    found: set[str] = set()
    for name in _REGISTRIES:
        own = getattr(jvm, f"org.apache.spark.sql.catalyst.analysis.{name[0].upper()}{name[1:]}").builtin()
        found |= _names(getattr(state, name)()) - _names(own)
    return frozenset(name.rpartition(".")[2].lower() for name in found)


def _names(registry: Any) -> set[str]:
    return set(str(registry.listFunction().mkString("\n")).splitlines())
