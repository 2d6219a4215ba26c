"""`stepwell dev produce` and `dev consume`: messages by hand, on the broker of the project or on the local one.

A line is a value, or a key, a tab and a value. JSON has no tabs of its own, so nothing of it is cut. `null` as a value is a tombstone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from io_kafka.clients.console_messages import ConsoleMessage, messages_of, send
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from stepwell.commands.common import (
    JsonOption,
    SetOption,
    SpecOption,
    project_of,
    report_faults,
    settings_of,
    show,
    warn_of_visible,
)
from stepwell.errors import StepwellError
from stepwell.project.settings import load_settings
from stepwell.project.spec_file import is_project

TOMBSTONE = "null"

TopicArgument = Annotated[str, typer.Argument(help="The topic.")]


def produce(
    topic: TopicArgument,
    file: Annotated[Path | None, typer.Argument(help="The lines, if not those of standard input.")] = None,
    *,
    key: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="The key is a JSON object of these members of each value: id, or a,b."),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Of each message. May be given several times.")
    ] = None,
    partitions: Annotated[int, typer.Option(min=1, max=10_000, help="Of the topic, if it has to be made.")] = 1,
    spec: SpecOption = None,
    conf: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send lines as messages: VALUE, or KEY, a tab and VALUE; null deletes a key. The topic is made if it is missing."""
    with report_faults(as_json):
        columns = tuple(name.strip() for name in key.split(",")) if key else ()
        headers = tuple(_header(each) for each in header or ())
        settings = _kafka(spec, conf)
        Topics(settings).ensure(topic, partitions)
        if file is None:
            sent = send(settings, topic, messages_from(sys.stdin, columns, headers))
        else:
            with file.open(encoding="utf-8") as lines:
                sent = send(settings, topic, messages_from(lines, columns, headers))
        show({"topic": topic, "sent": sent}, as_json=as_json, text=f"sent {sent:,} messages to {topic}")


def consume(
    topic: TopicArgument,
    *,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many messages.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C.")] = False,
    spec: SpecOption = None,
    conf: SetOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with partition, offset, timestamp and headers.")
    ] = False,
) -> None:
    """Print the committed messages of a topic, from its beginning: KEY, a tab and VALUE."""
    with report_faults(as_json):
        for number, message in enumerate(messages_of(_kafka(spec, conf), topic, follow=follow), 1):
            sys.stdout.write(
                (json.dumps(_as_json(message), ensure_ascii=False) if as_json else _as_line(message)) + "\n"
            )
            sys.stdout.flush()
            if number == count:
                return


def _kafka(spec: Path | None, conf: list[str] | None) -> KafkaSettings:
    """Returns the settings of Kafka: those of the project if there is one here, or else those of the environment."""
    of_project = spec is not None or is_project(Path.cwd())
    if of_project:
        return KafkaSettings.parse(project_of(spec, conf).settings.kafka)
    given = settings_of(conf)
    kafka = KafkaSettings.parse(load_settings({}, given).kafka)
    warn_of_visible(given)
    return kafka


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text}: write NAME=VALUE", param_hint="--header")
    return name, value.encode()


def messages_from(
    lines: Iterable[str], columns: tuple[str, ...], headers: tuple[tuple[str, bytes], ...]
) -> Iterator[ConsoleMessage]:
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\n")
        if not text:
            continue
        before, tab, after = text.partition("\t")
        value = after if tab else text
        key = before if tab else _key_of(text, columns, number) if columns else None
        yield ConsoleMessage(
            None if key is None else key.encode(), None if value == TOMBSTONE else value.encode(), headers
        )


def _key_of(text: str, columns: tuple[str, ...], number: int) -> str:
    """Returns the key of a value in the form that the keys of Stepwell's own outputs have. Raises StepwellError for a value that is no object or
    lacks a member."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    missing = [name for name in columns if not isinstance(found, dict) or name not in found]
    if missing:
        raise StepwellError(
            f"line {number} has no {', '.join(missing)} for the key: {text[:200]}",
            "Each value has to be a JSON object with these members; or write the key and a tab before the value.",
        )
    return json.dumps({name: found[name] for name in columns}, separators=(",", ":"), ensure_ascii=False)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _as_line(message: ConsoleMessage) -> str:
    value = _text(message.value)
    shown = TOMBSTONE if value is None else value
    return shown if message.key is None else f"{_text(message.key)}\t{shown}"


def _as_json(message: ConsoleMessage) -> dict[str, Any]:
    return {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
        "key": _text(message.key),
        "value": _text(message.value),
        "headers": {name: _text(value) for name, value in message.headers},
    }
