"""The parts of `stepwell bundle`, by the name of the file in the archive. Each gives a text, or what is written as JSON, or raises what keeps it
from that."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import psutil

from coordinator.topic_names import log_topic_of
from io_kafka.clients.settings import KafkaSettings, client_version
from io_kafka.clients.step_log_reader import StepLogReader
from io_kafka.clients.topics import Topics
from io_kafka.errors import KafkaFault
from io_kafka.step_log.state import StepLogState
from stepwell.commands.log_lines import SERVICE_LOG, SPARK_LOG
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient
from stepwell.service.last_run import read_last_run

ANSWER_SECONDS_MAX = 5.0
"""The time for an answer of the broker. A user that gathers a bug report should not wait longer for one that is down."""

RECORDS_MAX = 1000
"""The last records of the step log: some minutes of a busy pipeline."""

LOG_BYTES_MAX = 2 << 20
"""The end of each log."""

FILES_MAX = 5000
"""How many files of the state folder are listed with their sizes."""

PACKAGES = (
    "pyspark",
    "pyarrow",
    "duckdb",
    "lmdb",
    "confluent-kafka",
    "pandas",
    "numpy",
    "pydantic",
    "starlette",
    "uvicorn",
)


class NothingThere(Exception):
    """There is no such file, or nothing in it."""


class BundleFacts:
    """What several parts need. `project`: None if there is none that can be read. The broker is asked once, whether it answers or not."""

    def __init__(self, project: Project | None) -> None:
        self._project = project
        self._topics: Topics | KafkaFault | None = None
        self._log: StepLogState | KafkaFault | None = None

    @property
    def may_have_project(self) -> Project | None:
        return self._project

    @property
    def project(self) -> Project:
        assert self._project is not None, "a part of the machine asks for a project"
        return self._project

    @property
    def folder(self) -> Path:
        return self.project.state_folder

    @property
    def reader(self) -> StepLogReader:
        self.topics()
        return StepLogReader(KafkaSettings.parse(self.project.settings.kafka), log_topic_of(self.project.name))

    def topics(self) -> Topics:
        """Raises KafkaFault within ANSWER_SECONDS_MAX if the broker does not answer."""
        if self._topics is None:
            self._topics = _answer(self._ask_topics)
        return _answer_or_raise(self._topics)

    def log(self) -> StepLogState:
        if self._log is None:
            self._log = _answer(self.reader.read)
        return _answer_or_raise(self._log)

    def _ask_topics(self) -> Topics:
        topics = Topics(KafkaSettings.parse(self.project.settings.kafka), timeout_s=ANSWER_SECONDS_MAX)
        topics.names()
        return topics


T = TypeVar("T")


def _answer(ask: Callable[[], T]) -> T | KafkaFault:
    try:
        return ask()
    except KafkaFault as fault:
        return fault


def _answer_or_raise(answer: T | KafkaFault) -> T:
    if isinstance(answer, KafkaFault):
        raise answer
    return answer


Part = Callable[[BundleFacts], Any]


def _versions(facts: BundleFacts) -> dict[str, Any]:
    from stepwell.doctor.machine import machine_checks
    from stepwell.spark.session import cores

    project = facts.may_have_project
    return {
        "stepwell": _version("stepwell"),
        "python": sys.version,
        "packages": {name: _version(name) for name in PACKAGES},
        "librdkafka": client_version(),
        "machine": {
            "system": platform.platform(),
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
            "cores_for_us": cores(),
            "memory_bytes": psutil.virtual_memory().total,
            "memory_free_bytes": psutil.virtual_memory().available,
            "locale": {name: os.environ[name] for name in ("LANG", "LC_ALL", "LC_CTYPE") if name in os.environ},
        },
        "checks": [asdict(check) for check in machine_checks(None if project is None else project.storage)],
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _settings(facts: BundleFacts) -> dict[str, Any]:
    project = facts.project
    return {
        "name": project.name,
        "spec_file": str(project.spec_file),
        "storage": str(project.storage),
        "libraries": project.libraries,
        "definition_files": [str(path.relative_to(project.root)) for path in project.definition_files()],
        "settings": project.settings.show(),
        "environment": sorted(name for name in os.environ if name.startswith("STEPWELL_")),
    }


def _status(facts: BundleFacts) -> dict[str, Any]:
    return ControlClient(facts.folder).status()


def _last_run(facts: BundleFacts) -> dict[str, Any]:
    found = read_last_run(facts.folder)
    if found is None:
        raise NothingThere("no run of this project has ended on this host")
    return found


def _log_of(name: str) -> Part:
    def end(facts: BundleFacts) -> str:
        """Returns the end of the log in the file and in the one before it."""
        paths = [path for path in (facts.folder / f"{name}.1", facts.folder / name) if path.is_file()]
        content = b"".join(_end_of(path) for path in paths)[-LOG_BYTES_MAX:]
        if not content:
            raise NothingThere(f"there is no {facts.folder / name}, or nothing in it")
        return content.decode(errors="replace")

    return end


def _end_of(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOG_BYTES_MAX))
        return file.read()


def _step_log(facts: BundleFacts) -> str:
    """The last records, one a line. The row of which an error is an example is left out."""
    lines = deque[str](maxlen=RECORDS_MAX)
    for offset, record in facts.reader.read_last(RECORDS_MAX):
        lines.append(json.dumps({"offset": offset, **_without_rows(record.model_dump(mode="json"))}))
    return "".join(f"{line}\n" for line in lines)


def _without_rows(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: "(left out)" if name == "example" else _without_rows(part) for name, part in value.items()}
    return [_without_rows(part) for part in value] if isinstance(value, list | tuple) else value


def _layout(facts: BundleFacts) -> dict[str, Any]:
    """The owners of the slots, as the step log has them."""
    from stepwell.inspection.layouts import of_log

    log = facts.log()
    if log.layout is None:
        raise NothingThere("the pipeline has no layout yet")
    last = read_last_run(facts.folder) or {}
    return of_log(log.layout, log, last.get("worker_bytes", {}))


def _sizes(facts: BundleFacts) -> dict[str, Any]:
    """Returns the sizes of the files of the state folder, and what is free on its disk."""
    folder = facts.folder
    paths = sorted(islice((path for path in folder.rglob("*") if path.is_file()), FILES_MAX))
    place = next(each for each in (folder, *folder.parents) if each.exists())
    usage = shutil.disk_usage(place)
    return {
        "folder": str(folder),
        "disk": {"total_bytes": usage.total, "free_bytes": usage.free},
        "files": {str(path.relative_to(folder)): _size(path) for path in paths},
    }


def _size(path: Path) -> int | None:
    """None if the file has just been removed."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def _offsets(facts: BundleFacts) -> dict[str, Any]:
    """The ends of the topics that the pipeline knows, and where it is in its inputs."""
    topics, log = facts.topics(), facts.log()
    known = sorted(log.topics.keys() & topics.names())
    return {
        "ends": {str(place): end for place, end in sorted(topics.end_offsets(known).items())},
        "read_up_to": {str(place): at for place, at in sorted(log.next_offsets.items())},
    }


def _plan(facts: BundleFacts) -> str:
    """The circuit of the state on this host, a node a line."""
    from coordinator.starting.workers.circuit_file import CIRCUIT_FILE, read_owner

    owner = read_owner(facts.folder)
    if owner is None:
        raise NothingThere(f"there is no {CIRCUIT_FILE} in {facts.folder}")
    lines = [f"circuit {owner.fingerprint}, databases {', '.join(owner.databases)}"]
    for index, (number, node) in enumerate(zip(owner.numbers, json.loads(owner.circuit), strict=True)):
        kind, inputs = node.pop("kind"), ", ".join(map(str, node.pop("inputs")))
        lines.append(f"{index} (number {number}): {kind}({inputs}) {json.dumps(node)}")
    return "\n".join(lines) + "\n"


def _state(facts: BundleFacts) -> list[dict[str, Any]]:
    from stepwell.doctor.state import state_checks

    return [asdict(check) for check in state_checks(facts.project)]


MACHINE_PARTS: dict[str, Part] = {"versions.json": _versions}

PROJECT_PARTS: dict[str, Part] = {
    "settings.json": _settings,
    "status.json": _status,
    "last_run.json": _last_run,
    "service.log": _log_of(SERVICE_LOG),
    "spark.log": _log_of(SPARK_LOG),
    "step_log.jsonl": _step_log,
    "layout.json": _layout,
    "offsets.json": _offsets,
    "sizes.json": _sizes,
    "state.json": _state,
    "plan.txt": _plan,
}
