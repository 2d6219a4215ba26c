"""`stepwell steps`: what the step log says about single steps. It reads only Kafka and fences nothing, so it works beside a running service.

For consumers it shows the input of step N, and the offsets where its output ends. For producers it shows the step that has read an offset.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType

from base.fault import Fault
from coordinator.revisions.document import PlanDocument, document_of
from coordinator.topic_names import log_topic_of, plan_topic_of
from engine.run.plan_document import BadDocument
from io_kafka.clients.plan_topic import read_plan
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import StepLogReader
from io_kafka.errors import UnknownTopic
from io_kafka.step_log.revision_records import RevisionRecord
from io_kafka.step_log.state import StepLogState
from stepwell.commands.common import JsonOption, SetOption, SpecOption, plain_table, project_of, report_faults, show
from stepwell.errors import StepwellError
from stepwell.project.loading import Project

STEPS_SHOWN = 10
"""These fit on a screen. `steps N` shows any other step."""

_PLACE = re.compile(r"([\w.-]+)/(\d+):(\d+)", re.ASCII)


def steps(
    step: Annotated[int | None, typer.Argument(min=0, metavar="[N]", help="One step, with all its offsets.")] = None,
    offset: Annotated[
        str | None, typer.Option("--offset", metavar="TOPIC/PARTITION:OFFSET", help="In which step it was recorded.")
    ] = None,
    spec: SpecOption = None,
    conf: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the last steps, or one step, or the step of an input offset."""
    if step is not None and offset is not None:
        raise typer.BadParameter("give a step or --offset, not both")
    place = None if offset is None else _parse_place(offset)
    with report_faults(as_json):
        log = read_log(project_of(spec, conf))
        if place is not None:
            found = step_of_offset(log, *place)
            show(found, as_json=as_json, text=_offset_text(found))
        elif step is not None:
            one = describe_step(log, step)
            show(one, as_json=as_json, text=_step_text(one))
        else:
            last = list_steps(log)
            show(last, as_json=as_json, text=_list_text(last))


def _parse_place(text: str) -> tuple[str, int, int]:
    match = _PLACE.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text}: write TOPIC/PARTITION:OFFSET, such as orders/0:42", param_hint="--offset")
    return match[1], int(match[2]), int(match[3])


def read_log(project: Project, pipeline: str | None = None) -> StepLogState:
    """Returns the state of the step log of the project's pipeline, or of another one on the same broker. Raises StepwellError if it has none."""
    name = pipeline or project.name
    topic = log_topic_of(name)
    try:
        return StepLogReader(KafkaSettings.parse(project.settings.kafka), topic).read()
    except UnknownTopic:
        raise StepwellError(
            f"pipeline {name} has never run on this broker: there is no topic {topic}",
            "Start it with `stepwell run`.",
        ) from None


def read_document(project: Project, record: RevisionRecord) -> PlanDocument | None:
    """The plan document of a revision; None if it cannot be read."""
    try:
        settings = KafkaSettings.parse(project.settings.kafka)
        return document_of(read_plan(settings, plan_topic_of(project.name), record.plan))
    except (Fault, BadDocument):
        return None


def describe_step(log: StepLogState, step: int) -> dict[str, Any]:
    """`state` is: committed; divided (its input is recorded, its output not yet committed); truncated (no longer in the log); not yet."""
    found: dict[str, Any] = {"step": step, "state": _state(log, step), "first": log.first, "last": log.step_last}
    division = log.divisions.get(step)
    if division is not None:
        found["epoch"] = division.epoch
        found["on_error"] = dict(division.on_error)
        found["inputs"] = [r.model_dump() for r in division.ranges]
    record = log.step_records.get(step)
    if record is not None:
        messages = {(part.topic, part.partition): part.messages for part in record.inputs}
        for part in found["inputs"]:
            part["messages"] = messages.get((part["topic"], part["partition"]))
        found["epoch"] = record.epoch
        found["encoder"] = record.encoder
        found["outputs"] = [part.model_dump() for part in record.outputs]
        found["skipped"] = dict(record.skipped)
    return found


def _state(log: StepLogState, step: int) -> str:
    if step < log.first:
        return "truncated"
    if step < log.steps:
        return "committed"
    return "divided" if step in log.divisions else "not yet"


def step_of_offset(log: StepLogState, topic: str, partition: int, offset: int) -> dict[str, Any]:
    """`state` is that of a step, or `not read` for an offset before the pipeline's first one. Raises StepwellError if the pipeline does not
    read this partition."""
    found: dict[str, Any] = {"topic": topic, "partition": partition, "offset": offset, "step": None}
    known = {(place.topic, place.partition) for place in log.next_offsets}
    if (topic, partition) not in known:
        shown = ", ".join(f"{name}/{number}" for name, number in sorted(known)) or "nothing yet"
        raise StepwellError(f"the pipeline has read nothing of {topic}/{partition}", f"It has read {shown}.")
    ranges = [
        (step, r)
        for step, division in sorted(log.divisions.items())
        for r in division.ranges
        if (r.topic, r.partition) == (topic, partition)
    ]
    for step, r in ranges:
        if r.start <= offset < r.end:
            return {**found, "step": step, "state": _state(log, step)}
    end = next(at for place, at in log.next_offsets.items() if (place.topic, place.partition) == (topic, partition))
    if offset >= end:
        return {**found, "state": "not yet"}
    return {**found, "state": "truncated" if log.first else "not read"}


def list_steps(log: StepLogState) -> dict[str, Any]:
    """The last steps, oldest first."""
    shown = range(max(log.first, log.division_next - STEPS_SHOWN), log.division_next)
    return {"first": log.first, "last": log.step_last, "epoch": log.epoch, "steps": [_summary(log, s) for s in shown]}


def _summary(log: StepLogState, step: int) -> dict[str, Any]:
    """A step in short. `messages` are the numbers of messages read and written; None if the log does not have them."""
    division, record = log.divisions[step], log.step_records.get(step)
    return {
        "step": step,
        "state": _state(log, step),
        "epoch": division.epoch if record is None else record.epoch,
        "offsets": sum(r.end - r.start for r in division.ranges),
        "messages_read": sum(part.messages for part in record.inputs) if record is not None and record.inputs else None,
        "messages_written": None if record is None else sum(part.messages for part in record.outputs),
        "skipped": 0 if record is None else sum(record.skipped.values()),
    }


# For users


def _list_text(found: dict[str, Any]) -> RenderableType:
    if not found["steps"]:
        return "no step has run yet"
    columns = ("step", "state", "epoch", "offsets", "messages_read", "messages_written", "skipped")
    table = plain_table(*(column.replace("_", " ") for column in columns))
    for step in found["steps"]:
        table.add_row(*("-" if step[column] is None else str(step[column]) for column in columns))
    return table


def _step_text(found: dict[str, Any]) -> RenderableType:
    step, last = found["step"], found["last"]
    if found["state"] == "truncated":
        return f"step {step}: truncated; the step log begins with step {found['first']}"
    if found["state"] == "not yet":
        return f"step {step}: not yet; " + ("no step has run" if last is None else f"the last one is step {last}")
    inputs = plain_table("input", "partition", "start", "end", "messages")
    for part in found["inputs"]:
        messages = part.get("messages")
        inputs.add_row(
            part["topic"],
            str(part["partition"]),
            str(part["start"]),
            str(part["end"]),
            "-" if messages is None else str(messages),
        )
    parts: list[RenderableType] = [f"step {step}: {found['state']}, epoch {found['epoch']}", inputs]
    if "outputs" in found:
        outputs = plain_table("output", "topic", "partition", "messages", "end", "digest")
        for part in found["outputs"]:
            outputs.add_row(
                part["handle"],
                part["topic"],
                str(part["partition"]),
                str(part["messages"]),
                str(part["end"]),
                part["digest"],
            )
        skipped = ", ".join(f"{source} {count}" for source, count in found["skipped"].items() if count)
        parts += [outputs, f"skipped: {skipped or 'none'}"]
    return Group(*parts)


def _offset_text(found: dict[str, Any]) -> str:
    place = f"{found['topic']}/{found['partition']}:{found['offset']}"
    texts = {
        "committed": f"{place} was recorded in step {found['step']}, whose output is committed",
        "divided": f"{place} was recorded in step {found['step']}, whose output is not committed yet",
        "truncated": f"{place}: truncated; it was recorded before the first step that the step log still holds",
        "not yet": f"{place} was not recorded yet",
        "not read": f"{place} lies before the offset at which the pipeline began to read",
    }
    return texts[found["state"]]
