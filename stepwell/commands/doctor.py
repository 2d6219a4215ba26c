"""`stepwell doctor`: checks everything that a run needs, and says how to fix it. It works with a broken project and without a project."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from base.fault import ExitCode
from io_kafka.clients.topics import Topics
from stepwell.commands.common import JsonOption, SpecOption, project_of, report_faults, show
from stepwell.commands.definitions import planning_session
from stepwell.commands.missing_inputs import is_local_broker
from stepwell.commands.spark import SparkUnavailable
from stepwell.doctor.check import Check
from stepwell.doctor.kafka import broker_checks, input_checks, layout_checks, log_check, output_checks, plan_topic_check
from stepwell.doctor.machine import machine_checks
from stepwell.doctor.registry import registry_checks
from stepwell.doctor.state import state_checks
from stepwell.doctor.store import store_checks
from stepwell.errors import StepwellError
from stepwell.planning.plans import ResolvedProject
from stepwell.planning.resolver import resolve
from stepwell.project.loading import Project

_COLOURS = {"OK": "green", "WARN": "yellow", "FAIL": "bold red"}


def doctor(spec: SpecOption = None, as_json: JsonOption = False) -> None:
    """Check Java, Spark, broker, topics, registries, disk, checkpoint store and state, and say how to correct each."""
    with report_faults(as_json):
        checks = examine(spec)
        failed = sum(check.level == "FAIL" for check in checks)
        show({"checks": [asdict(check) for check in checks], "failed": failed}, as_json=as_json, text=_table(checks))
        if failed:
            raise typer.Exit(int(ExitCode.MACHINE))


def examine(spec: Path | None) -> list[Check]:
    """All checks that can be made. If something prevents further checks, it is itself a failed check."""
    try:
        project = project_of(spec)
    except StepwellError as error:
        return [
            *machine_checks(None),
            Check("project", "FAIL", error.message, error.what_to_do or "Correct spark-pipeline.yml."),
        ]
    machine = machine_checks(project.storage)
    checks = [*machine, Check("project", "OK", f"{project.name}, {project.spec_file}")]
    checks += store_checks(project.settings.stepwell.store)
    broker, topics = broker_checks(project.settings.kafka)
    checks += broker
    if topics is not None:
        checks.append(log_check(topics, project.name))
        checks.append(plan_topic_check(topics, project.name))
        checks += layout_checks(project.settings.kafka, topics, project.name)
    if all(check.level != "FAIL" for check in machine):
        checks += _definition_checks(project, topics)
    return [*checks, *state_checks(project)]


def _definition_checks(project: Project, topics: Topics | None) -> list[Check]:
    """The checks of the definitions, and of the topics and registries that they name."""
    try:
        with planning_session(project) as (session, kept):
            resolved = resolve(project, session, kept)
    except SparkUnavailable as error:
        return [Check("spark", "FAIL", error.message, error.what_to_do)]
    except StepwellError as error:
        return [Check("definitions", "FAIL", str(error), "See `stepwell dry-run`.")]
    found = f"{len(resolved.sources)} sources, {len(resolved.views)} views"
    of_topics = [] if topics is None else _topic_checks(resolved, topics)
    return [Check("definitions", "OK", found), *of_topics, *registry_checks(resolved)]


def _topic_checks(resolved: ResolvedProject, topics: Topics) -> list[Check]:
    outputs = [view.output for view in resolved.views if view.output is not None]
    interval_s = resolved.project.settings.stepwell.checkpoint_interval
    local = is_local_broker(resolved.project.settings.kafka["bootstrap.servers"])
    return input_checks(topics, resolved.sources, interval_s, run_makes_them=local) + output_checks(topics, outputs)


def _table(checks: list[Check]) -> Table:
    table = Table("", "", "", box=None, show_header=False, pad_edge=False)
    for check in checks:
        what_to_do = f"\n[dim]->[/] {escape(check.what_to_do)}" if check.what_to_do else ""
        table.add_row(
            f"[{_COLOURS[check.level]}]{check.level}[/]", escape(check.name), escape(check.found) + what_to_do
        )
    return table
