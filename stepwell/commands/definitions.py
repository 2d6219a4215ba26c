"""A project's definitions, resolved by a command that does not run them.

Spark's JVM takes seconds to start. Meanwhile Python loads the modules that plan, and the plans that are kept.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from stepwell.commands.spark import start_spark
from stepwell.project.loading import Project

if TYPE_CHECKING:
    from stepwell.planning.kept_definitions import KeptDefinitions  # loads the analyser


@contextmanager
def planning_session(
    project: Project, *, ends_with_process: bool = False
) -> Iterator[tuple[SparkSession, KeptDefinitions]]:
    """The project's session and what is kept of its definitions, while the body runs. `ends_with_process`: the command has little to do
    afterwards, and does not wait for the end of Spark (StartingSpark.leave). Raises SparkUnavailable."""
    with start_spark(project, ends_with_process=ends_with_process) as spark:
        from stepwell.lowering import driver  # noqa: F401  every command that plans needs it afterwards
        from stepwell.planning.kept_definitions import KeptDefinitions

        kept = KeptDefinitions.of(project)
        gc.freeze()  # plans are many objects, and the command ends when it needs them no longer
        yield spark.session, kept
