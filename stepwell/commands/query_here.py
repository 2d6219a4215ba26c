"""`stepwell query` with a Spark of its own. Spark's JVM takes seconds to start. Meanwhile Python loads the rest."""

from __future__ import annotations

import gc
from dataclasses import replace

from base.spark_master import MASTER_KEY
from stepwell.commands.spark import start_spark
from stepwell.inspection.query_request import Found, QueryRequest
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient


def ask_here(project: Project, key: str | None, client: ControlClient, asked: QueryRequest) -> Found:
    """The answer. `key`: the query_key of the project. Raises QueryError, NoState, CircuitChanged and other faults. Spark ends with this
    process, for which nobody waits."""
    with start_spark(in_local_mode(project), ends_with_process=True) as spark:
        from stepwell.commands.query_answers import Answers  # loads the engine and the analyser

        answers = Answers(project, key)
        gc.freeze()  # the command ends when it needs them no longer
        return answers.answer(spark.session, client, asked)


def in_local_mode(project: Project) -> Project:
    """Returns the project as Spark on this host plans and queries it, in local mode. On the cluster, the service may hold all task slots."""
    spark = {key: value for key, value in project.settings.spark.items() if key != MASTER_KEY}
    return replace(project, settings=replace(project.settings, spark=spark)) if project.on_cluster else project
