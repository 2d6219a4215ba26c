"""The settings that a definition brings along: `spark_conf` in Python, and SET in SQL.

Spark applies them while it runs the flow. Here they are in force while the flow's query is analysed, so all settings that shape a plan work.
Of the others there are two kinds. Those that say how Spark runs a query change no answer, and `dry-run` notes that they have no effect. Those
that change what expressions give while they are evaluated are refused, because the circuit evaluates them with Spark's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from base.secrets import mask_value
from stepwell.catalyst.event_time import POLICY
from stepwell.errors import UnsupportedError
from stepwell.spark.fixed import FIXED_SQL, TIME_ZONE_KEY

_ANSI = "spark.sql.ansi.enabled"
_CORRUPT_RECORD = "spark.sql.columnNameOfCorruptRecord"

_DEFAULTS = {
    **FIXED_SQL,
    _ANSI: "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.cteRecursionLevelLimit": "100",
    "spark.sql.cteRecursionRowLimit": "1000000",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    "spark.sql.charAsVarchar": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.icu.caseMappings.enabled": "true",
    _CORRUPT_RECORD: "_corrupt_record",
}
"""Settings that change answers or plans, and the value with which circuits are made. Another value is refused."""

_IN_THE_QUERY = {
    _ANSI: "try_cast, try_divide and their like give NULL in place of an error",
    _CORRUPT_RECORD: "from_json has the option columnNameOfCorruptRecord",
}
"""What has the effect of a setting within a query."""

_OF_ANSWERS = ("spark.sql.ansi.", "spark.sql.legacy.")
"""Settings of these groups change what expressions give."""

_OF_RUNNING = (
    "pipelines.", "spark.databricks.", "spark.default.", "spark.driver.", "spark.dynamicAllocation.", "spark.eventLog.", "spark.executor.",
    "spark.hadoop.", "spark.kubernetes.", "spark.memory.", "spark.network.", "spark.scheduler.", "spark.shuffle.", "spark.speculation",
    "spark.task.", "spark.ui.", "spark.yarn.",
    "spark.sql.adaptive.", "spark.sql.autoBroadcastJoinThreshold", "spark.sql.broadcastTimeout", "spark.sql.cbo.", "spark.sql.codegen.",
    "spark.sql.execution.", "spark.sql.files.", "spark.sql.inMemoryColumnarStorage.", "spark.sql.join.", "spark.sql.orc.",
    "spark.sql.parquet.", "spark.sql.shuffle.", "spark.sql.sources.", "spark.sql.streaming.", "spark.sql.warehouse.",
)  # fmt: skip
"""Settings of these groups say how Spark runs a query and how it stores the result. Circuits do neither."""

_OF_FUNCTIONS = ("spark.sql.execution.pandas.", "spark.sql.execution.pyspark.", "spark.sql.execution.pythonUDF.")
"""These say how values are converted for functions in Python and back."""


def check_conf(conf: Mapping[str, str], **place: Any) -> None:
    """Raises UnsupportedError for a setting that would change answers. `place`: the view and location of the error. The time zone is checked
    where a flow is analysed, because its setting in the project's file is checked too."""
    for key, value in conf.items():
        default = _DEFAULTS.get(key)
        if key == TIME_ZONE_KEY or (default is not None and _is_same(key, str(value), default)):
            continue
        if default is not None or key.startswith(_OF_ANSWERS):
            raise UnsupportedError(
                f"{key} = {mask_value(key, str(value))} would change answers, which is not supported",
                _remedy(key),
                **place,
            )


def _is_same(key: str, value: str, default: str) -> bool:
    """Whether both values mean the same. Only the name of a column depends on case."""
    return value == default if key == _CORRUPT_RECORD else value.lower() == default.lower()


def _remedy(key: str) -> str:
    instead = "Leave the setting out, and write what it changes into the query"
    return f"{instead}: {_IN_THE_QUERY[key]}." if key in _IN_THE_QUERY else f"{instead}."


def conf_notes(conf: Mapping[str, str]) -> tuple[str, ...]:
    """What `dry-run` says of the settings that have no effect."""
    return tuple(
        f"{key} = {mask_value(key, str(value))} has no effect: Spark does not run this query, it plans it"
        for key, value in conf.items()
        if _is_of_running(key)
    )


def conf_in_force(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings that may shape a plan."""
    return {key: value for key, value in conf.items() if not _is_of_running(key)}


def _is_of_running(key: str) -> bool:
    if key in FIXED_SQL or key == POLICY or key.startswith(_OF_FUNCTIONS):
        return False
    return key.startswith(_OF_RUNNING)
