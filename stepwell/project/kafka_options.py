"""The options of Spark's Kafka source, as a definition gives them to `spark.readStream.format("kafka")` -> what a source reads.

Guarantee: every option is honoured, or has no effect on the rows and is noted for `dry-run`, or is refused by name. One pipeline begins to read
a topic at one place, so readers of a topic must agree on where (`disagreements`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from base.secrets import mask_value, remember_all
from coordinator.starting.topics.positions import LATEST as LATEST_NUMBER
from coordinator.starting.topics.positions import Since, offsets_given, start_in
from stepwell.errors import Location, ProjectError, UnsupportedError, did_you_mean
from stepwell.project.record_columns import record_schema
from stepwell.project.settings import Settings
from stepwell.project.tables import SourceSpec

_STRATEGIES = ("subscribe", "subscribePattern", "assign")
_STRATEGY_OF_TIME = "startingOffsetsByTimestampStrategy"
_HONOURED = (
    *_STRATEGIES, "startingOffsets", "startingTimestamp", _STRATEGY_OF_TIME, "endingOffsets", "includeHeaders", "failOnDataLoss",
)  # fmt: skip

_OF_A_STEP = "the settings stepwell.step.rows.max and stepwell.step.bytes.max bound a step"
_OF_SPARKS_TASKS = "each partition is read by one worker"
_OF_SPARKS_CLIENT = "Stepwell's own reader tries again by itself"
_WITHOUT_EFFECT = {
    "maxOffsetsPerTrigger": _OF_A_STEP,
    "minOffsetsPerTrigger": _OF_A_STEP,
    "maxTriggerDelay": _OF_A_STEP,
    "minPartitions": _OF_SPARKS_TASKS,
    "maxRecordsPerPartition": _OF_SPARKS_TASKS,
    "groupIdPrefix": "Stepwell's reader joins no consumer group",
    "kafka.group.id": "Stepwell's reader joins no consumer group",
    "kafkaConsumer.pollTimeoutMs": _OF_SPARKS_CLIENT,
    "fetchOffset.numRetries": _OF_SPARKS_CLIENT,
    "fetchOffset.retryIntervalMs": _OF_SPARKS_CLIENT,
}
"""Options that change how Spark reads, and not which rows it gets, and what holds here instead."""

_AT_A_TIME = "Write startingTimestamp, which is for all partitions, or the offsets themselves in startingOffsets."
_WITHOUT_END = "Leave it out: a view is kept up to date with what arrives. Write a WHERE on offset or timestamp to leave messages out."
_REFUSED = {
    "startingOffsetsByTimestamp": _AT_A_TIME,
    "endingTimestamp": _WITHOUT_END,
    "endingOffsetsByTimestamp": _WITHOUT_END,
}

_TRUE, _FALSE = "true", "false"
EARLIEST, LATEST = "earliest", "latest"

_PATTERN = re.compile(
    r"(?:[\w\- .]|\\[.\-_dDwW]|\[\^?(?:[\w\-.]|\\[.\-_dDwW])+\]|\((?:\?:|(?!\?))|\)|[|*+?^$]|\{\d+(?:,\d*)?\})*",
    re.ASCII,
)
"""The patterns that Java and Python read alike, for names of topics, which are ASCII."""


@dataclass(frozen=True)
class LoadPlace:
    """Where a definition calls `load()`: for errors."""

    location: Location
    view: str | None


@dataclass(frozen=True)
class _Topics:
    """What a reader reads: topics, some partitions of them, or all topics whose names match a pattern. `text` is for users, and part of the
    source's name."""

    names: tuple[str, ...] = ()
    places: tuple[tuple[str, int], ...] | None = None
    pattern: str | None = None

    @classmethod
    def of_places(cls, places: Sequence[tuple[str, int]]) -> _Topics:
        return cls(tuple(sorted({topic for topic, _ in places})), tuple(places))

    @property
    def text(self) -> str:
        if self.pattern is not None:
            return f"pattern {self.pattern}"
        if self.places is not None:
            return ", ".join(f"{topic}/{number}" for topic, number in self.places)
        return ", ".join(self.names)


def reader_spec(options: Mapping[str, str], streaming: bool, place: LoadPlace, settings: Settings) -> SourceSpec:
    """The source that a reader with these options reads. `streaming`: whether it is `spark.readStream`, whose default for `startingOffsets` is
    another. Raises ProjectError."""
    return _Reader(options, streaming, place, settings).spec()


class _Reader:
    def __init__(self, options: Mapping[str, str], streaming: bool, place: LoadPlace, settings: Settings) -> None:
        self.options, self.streaming, self.place, self.settings = options, streaming, place, settings
        self.values = {name.lower(): value for name, value in options.items()}  # Spark's options ignore case
        remember_all(options)
        self.notes: list[str] = []

    def spec(self) -> SourceSpec:
        for name, value in self.options.items():
            self.check_option(name, value)
        if not self.flag("failOnDataLoss", default=True):
            self.refuse(
                "failOnDataLoss = false is not supported: a step that left lost messages out could not be replayed",
                "Leave it out. If input is lost, `stepwell run --full-refresh` begins with what is there.",
            )
        if self.values.get("endingoffsets", LATEST).lower() != LATEST:
            self.refuse(f"endingOffsets = {self.values['endingoffsets']} is not supported", _WITHOUT_END)
        topics = self.topics()
        with_headers = self.flag("includeHeaders", default=False)
        return SourceSpec(
            handle=f"kafka({topics.text}{'; headers' if with_headers else ''})",
            topics=topics.names,
            mode="append",
            key=(),
            schema=record_schema(with_headers),
            starting_offsets=self.starting_offsets(topics),
            on_error="fail",
            dead_letter_topic=None,
            location=self.place.location,
            format="record",
            notes=tuple(self.notes),
            partitions=topics.places,
            pattern=topics.pattern,
        )

    def error(self, message: str, what_to_do: str = "") -> NoReturn:
        raise ProjectError(message, what_to_do, view=self.place.view, location=self.place.location)

    def refuse(self, message: str, what_to_do: str) -> NoReturn:
        raise UnsupportedError(message, what_to_do, view=self.place.view, location=self.place.location)

    def check_option(self, name: str, value: str) -> None:
        without_effect = _known_name(name, _WITHOUT_EFFECT)
        if without_effect is not None:
            self.notes.append(f"{name} = {value} has no effect: {_WITHOUT_EFFECT[without_effect]}")
        elif name.lower().startswith("kafka."):
            self.check_client(name, value)
        elif (refused := _known_name(name, _REFUSED)) is not None:
            self.refuse(f"option {name} is not supported", _REFUSED[refused])
        elif _known_name(name, _HONOURED) is None:
            self.error(f"{name} is not an option of the Kafka source", did_you_mean(name, _HONOURED, "options"))

    def check_client(self, name: str, value: str) -> None:
        """Refuses a setting of the client that differs from the pipeline's: there is one client for all, and all output of a step is one
        transaction of one broker."""
        key = name[len("kafka.") :].lower()
        own = self.settings.kafka.get(key)
        if key == "isolation.level" and value.lower() == "read_committed":
            return
        if key == "bootstrap.servers":
            if own is None or _servers(own) != _servers(value):
                self.error(
                    f"{name} = {value} is not the pipeline's broker, which is {own}",
                    f"Put it under configuration: in spark-pipeline.yml (kafka.bootstrap.servers: '{value}'). A pipeline has one broker, "
                    "because all output of a step is one transaction.",
                )
        elif own != value:
            what = "is not set" if own is None else f"is {mask_value(name, own)}"
            self.error(
                f"{name} = {mask_value(name, value)} differs from the pipeline's own, which {what}",
                f"Put {name} under configuration: in spark-pipeline.yml, or leave it out. A pipeline has one client, librdkafka.",
            )

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.values.get(name.lower(), str(default)).lower()
        if value not in (_TRUE, _FALSE):
            self.error(f"{name} = {value} is neither true nor false")
        return value == _TRUE

    def topics(self) -> _Topics:
        given = [name for name in _STRATEGIES if name.lower() in self.values]
        if len(given) != 1:
            found = f"it has {' and '.join(given)}" if given else "it has none"
            self.error(f"a Kafka reader needs one of {', '.join(_STRATEGIES)}, and {found}",
                       'Name the topics: .option("subscribe", "orders") or "orders, returns".')  # fmt: skip
        if given[0] == "assign":
            return _Topics.of_places(self.assigned_partitions())
        if given[0] == "subscribePattern":
            return _Topics(pattern=self.pattern())
        names = [name.strip() for name in self.values["subscribe"].split(",")]
        if not all(names):
            self.error(
                f"subscribe = {self.values['subscribe']!r} names no topic", 'Write "orders", or "orders, returns".'
            )
        return _Topics(tuple(sorted(set(names))))

    def assigned_partitions(self) -> list[tuple[str, int]]:
        value = self.values["assign"]
        try:
            places = sorted(
                {(topic, int(number)) for topic, numbers in json.loads(value).items() for number in numbers}
            )
        except (ValueError, TypeError, AttributeError):
            places = []
        if not places or any(not topic or number < 0 for topic, number in places):
            self.error(
                f"assign = {value} names no partitions", 'Write {"orders": [0, 1]}: numbers of partitions by topic.'
            )
        return places

    def pattern(self) -> str:
        value = self.values["subscribepattern"].strip()
        if not _is_understood(value):
            self.refuse(
                f"subscribePattern = {value} is not supported",
                "Write letters, digits, ., \\., [...], \\d, \\w, groups, | and the repetitions *, +, ?, {n,m}, which Java and Python read "
                "alike.",
            )
        return value

    def starting_offsets(self, topics: _Topics) -> str:
        """earliest, latest, the text of a Since, or Spark's JSON with an entry for every topic. As in Spark, a timestamp goes before offsets."""
        if "startingtimestamp" in self.values:
            return str(self.since())
        default = LATEST if self.streaming else EARLIEST
        if "startingoffsets" not in self.values and self.streaming:
            self.notes.append(
                f"reads {topics.text} from the end that it has at the first start, which is Spark's default for a stream; "
                "startingOffsets = earliest reads what is there already"
            )
        value = self.values.get("startingoffsets", default).strip()
        if value.lower() in (EARLIEST, LATEST):
            if value.lower() == LATEST and not self.streaming:
                self.error(
                    "startingOffsets = latest would read nothing",
                    "Spark refuses it for spark.read too: use spark.readStream, or earliest.",
                )
            return value.lower()
        offsets = offsets_given(value)
        if offsets is None:
            example = topics.names[0] if topics.names else "topic"
            self.error(
                f"startingOffsets = {value} is not known",
                f'It is earliest, latest, or {{"{example}": {{"0": 23, "1": -2}}}}: by partition, -2 earliest, -1 latest.',
            )
        if topics.pattern is None and offsets.keys() != set(topics.names):
            self.error(
                f"startingOffsets names {', '.join(sorted(offsets)) or 'no topic'}, and the reader reads {', '.join(topics.names)}",
                "Name every topic that is read, and no other.",
            )
        if not self.streaming and any(at == LATEST_NUMBER for places in offsets.values() for at in places.values()):
            self.error(
                f"startingOffsets = {value} has the end of a partition",
                "Spark refuses -1 for spark.read too: use spark.readStream.",
            )
        return json.dumps(offsets, sort_keys=True)

    def since(self) -> Since:
        value = self.values["startingtimestamp"].strip()
        strategy = self.values.get(_STRATEGY_OF_TIME.lower(), "error").strip().lower()
        if not (value.isascii() and value.isdecimal()):
            self.error(
                f"startingTimestamp = {value} is not known", "Write the milliseconds since 1970, such as 1700000000000."
            )
        if strategy not in ("error", LATEST):
            self.error(f"{_STRATEGY_OF_TIME} = {strategy} is not known", "It is error or latest.")
        return Since(int(value), strategy == LATEST)


def _known_name(name: str, known: Iterable[str]) -> str | None:
    return next((one for one in known if one.lower() == name.lower()), None)


def _is_understood(pattern: str) -> bool:
    if not pattern or _PATTERN.fullmatch(pattern) is None:
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _servers(text: str) -> frozenset[str]:
    """The addresses, without regard to their order. Spark's guides write localhost, and a pipeline's default is 127.0.0.1."""
    return frozenset(re.sub(r"^localhost(?=:|$)", "127.0.0.1", part.strip().lower()) for part in text.split(","))


def disagreements(sources: Sequence[SourceSpec]) -> list[ProjectError]:
    """An error for each topic that two sources begin to read at different places. A pipeline has one position in a topic."""
    errors: list[ProjectError] = []
    first: dict[str, SourceSpec] = {}
    for source in sorted(sources, key=lambda source: source.format != "record"):  # readers first
        for topic in source.topics:
            other = first.setdefault(topic, source)
            if _start(other, topic) != _start(source, topic):
                view = None if source.format == "record" else source.handle
                errors.append(disagreement(source, other, topic, view))
    return errors


def disagreement(source: SourceSpec, other: SourceSpec, topic: str, view: str | None = None) -> ProjectError:
    return ProjectError(
        f"topic {topic} is read from {_start_text(source, topic)} here, and from {_start_text(other, topic)} at {other.location}",
        "A pipeline begins to read a topic at one place: write the same startingOffsets at both.",
        view=view,
        location=source.location,
    )


def starts_alike(one: SourceSpec, other: SourceSpec) -> bool:
    """Whether two sources over the same topics begin at the same places."""
    if one.pattern is not None:
        return one.starting_offsets == other.starting_offsets
    return all(_start(one, topic) == _start(other, topic) for topic in one.topics)


def _start(source: SourceSpec, topic: str) -> str | dict[int, int]:
    return start_in(source.starting_offsets, topic)


def _start_text(source: SourceSpec, topic: str) -> str:
    start = _start(source, topic)
    return start if isinstance(start, str) else f"offsets {json.dumps(start)}" if start else EARLIEST
