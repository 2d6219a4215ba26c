"""`stepwell doctor`: checks everything that a run needs, and says how to fix it. It works with a broken project and without a project."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from base.fault import ExitCode
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from stepwell.commands.common import JsonOption, SetOption, SpecOption, out, project_of, report_faults, show
from stepwell.commands.definitions import planning_session
from stepwell.commands.missing_inputs import is_local_broker
from stepwell.commands.spark import SparkUnavailable
from stepwell.doctor.check import Check
from stepwell.doctor.kafka import (
    broker_checks,
    dead_letter_checks,
    has_no_state,
    input_checks,
    log_checks,
    output_checks,
    plan_topic_check,
    recorded_topics,
)
from stepwell.doctor.machine import disk_check, machine_checks
from stepwell.doctor.registry import registry_checks
from stepwell.doctor.rights import right_checks, wanted_by
from stepwell.doctor.state import found_here, state_checks
from stepwell.doctor.store import store_checks
from stepwell.errors import StepwellError
from stepwell.planning.plans import ResolvedProject
from stepwell.planning.resolver import resolve
from stepwell.project.loading import Project

LEVEL_CHARACTERS, NAME_CHARACTERS = 4, 34
"""The widths of the columns. The checks are printed as they are made, so the longest name is not known; a longer one takes two lines."""

_COLOURS = {"OK": "green", "WARN": "yellow", "FAIL": "bold red"}


def doctor(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Check Java, Spark, broker, topics, registries, disk, checkpoint store and state, and say how to correct each."""
    with report_faults(as_json):
        checks = []
        for check in examine_in_turn(spec, conf):
            checks.append(check)
            if not as_json:
                out.print(_row(check))
        failed = sum(check.level == "FAIL" for check in checks)
        show({"checks": [asdict(check) for check in checks], "failed": failed}, as_json=as_json, text=_commands(checks))
        if failed:
            raise typer.Exit(int(ExitCode.MACHINE))


def examine(spec: Path | None) -> list[Check]:
    """All checks that can be made. If something prevents further checks, it is itself a failed check."""
    return list(examine_in_turn(spec))


def examine_in_turn(spec: Path | None, conf: list[str] | None = None) -> Iterator[Check]:
    """Yields the checks of `examine`, one after the other. Spark reads the definitions, which takes longer than all other checks together."""
    try:
        project = project_of(spec, conf)
    except StepwellError as error:
        yield from machine_checks(None)
        yield Check("project", "FAIL", error.message, error.what_to_do or "Correct spark-pipeline.yml.")
        return
    machine = machine_checks(project.storage)
    if project.settings.stepwell.local_dir is not None and not project.on_cluster:
        machine.append(disk_check(project.databases.databases, name="disk of the state", setting="stepwell.local.dir"))
    yield from machine
    yield Check("project", "OK", f"{project.name}, {project.spec_file}")
    broker, topics = broker_checks(project.settings.kafka)
    yield from broker
    yield from store_checks(project.settings.stepwell.store)
    if topics is not None:
        yield plan_topic_check(topics, project.name)
    resolved = None
    if all(check.level != "FAIL" for check in machine):
        resolved, found = _definition_checks(project, topics)
        yield from found
    if topics is not None:
        written, databases = _written_topics(resolved), found_here(project)
        yield from log_checks(project.settings.kafka, topics, project.name, written, databases)
        yield from _right_checks(project, resolved, topics)
    kafka = project.settings.kafka
    yield from state_checks(project, lambda: topics is not None and has_no_state(kafka, topics, project.name))


def _definition_checks(project: Project, topics: Topics | None) -> tuple[ResolvedProject | None, list[Check]]:
    """The project, if its definitions can be read; and the checks of them, and of the topics and registries that they name."""
    try:
        with planning_session(project) as (session, kept):
            resolved = resolve(project, session, kept)
    except SparkUnavailable as error:
        return None, [Check("spark", "FAIL", error.message, error.what_to_do)]
    except StepwellError as error:
        return None, [Check("definitions", "FAIL", str(error), "See `stepwell dry-run`.")]
    found = f"{len(resolved.sources)} sources, {len(resolved.views)} views"
    of_topics = [] if topics is None else _topic_checks(resolved, topics)
    return resolved, [Check("definitions", "OK", found), *of_topics, *registry_checks(resolved)]


def _written_topics(resolved: ResolvedProject | None) -> set[str]:
    """The topics for outputs and for malformed messages; none if the definitions cannot be read."""
    if resolved is None:
        return set()
    outputs = {view.output.topic for view in resolved.views if view.output is not None}
    return outputs | {source.dead_letter_topic for source in resolved.sources if source.dead_letter_topic is not None}


def _right_checks(project: Project, resolved: ResolvedProject | None, topics: Topics) -> list[Check]:
    """Returns the checks of the rights for all that the definitions name. If these cannot be read, they are those for what every pipeline
    needs."""
    sources = () if resolved is None else resolved.sources
    outputs = [] if resolved is None else [view.output for view in resolved.views if view.output is not None]
    wanted = wanted_by(project.name, topics, sources, outputs)
    return right_checks(KafkaSettings.parse(project.settings.kafka), topics, project.name, wanted)


def _topic_checks(resolved: ResolvedProject, topics: Topics) -> list[Check]:
    outputs = [view.output for view in resolved.views if view.output is not None]
    interval_s = resolved.project.settings.stepwell.checkpoint_interval
    kafka = resolved.project.settings.kafka
    return [
        *input_checks(topics, resolved.sources, interval_s, run_makes_them=is_local_broker(kafka["bootstrap.servers"])),
        *output_checks(topics, outputs, recorded_topics(kafka, topics, resolved.project.name)),
        *dead_letter_checks(topics, kafka, resolved.sources),
    ]


def _commands(checks: list[Check]) -> RenderableType:
    """What is to be called, each on a line of its own to be copied."""
    commands = [command for check in checks for command in check.commands]
    return Group(*(Text(command, overflow="ignore") for command in commands))


def _row(check: Check) -> Table:
    """A table of one row, whose columns are as wide as those of the other rows."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(width=LEVEL_CHARACTERS)
    table.add_column(width=NAME_CHARACTERS, overflow="fold")
    table.add_column()
    what_to_do = f"\n[dim]->[/] {escape(check.what_to_do)}" if check.what_to_do else ""
    table.add_row(f"[{_COLOURS[check.level]}]{check.level}[/]", escape(check.name), escape(check.found) + what_to_do)
    return table
