"""Stepwell, measured as users run it: `stepwell run --available-now` on a plain project, in a separate process.

The end of a step is read from the step log: the record of a step has the time at which it was sent to the broker, in the step's own transaction.
The parts of a step's time come from the service's status, which is read while it runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from bench import measure
from bench.measure import Watch
from bench.result import Result, Step, fill
from bench.topics import Bench, read_all
from bench.workloads import BUILD, DEFAULT, PROJECTS, Case
from coordinator.topic_names import log_topic_of
from io_kafka.step_log.records import DivisionRecord, Record, StepRecord, decode
from stepwell.errors import StepwellError
from stepwell.project.loading import STATE_FOLDER
from stepwell.service.client import ControlClient
from stepwell.service.last_run import read_last_run

MEASURED_KINDS = ("division", "step")

ENGINE = "stepwell"
RUN_SECONDS_MAX = 1_800
LOOK_SECONDS = 0.25
ROOT = Path(__file__).resolve().parent.parent


class RunFailed(Exception):
    """An engine ended with an error, or did not end."""


@dataclass(frozen=True)
class Checkout:
    """A version of Stepwell: a checkout of its repository, and the Python of the virtual environment that `make` has made there."""

    root: Path
    python: Path


HERE = Checkout(ROOT, Path(sys.executable))


def checkout_of(root: Path) -> Checkout:
    """Raises SystemExit if `make` has not made its virtual environment."""
    python = root.resolve() / ".venv" / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"{python} does not exist: `make -C {root} .venv/.installed` makes the virtual environment")
    return Checkout(root.resolve(), python)


@dataclass(frozen=True)
class Prepared:
    """A copy of a project with names of its own, so that runs do not share topics."""

    name: str
    folder: Path
    output: str
    topic: str

    @property
    def spec(self) -> Path:
        return self.folder / "spark-pipeline.yml"

    @property
    def storage(self) -> Path:
        return self.folder / "storage"


def prepare(
    bench: Bench,
    case: Case,
    starts: Mapping[int, int] | None = None,
    source: Path | None = None,
    topic: str | None = None,
) -> Prepared:
    """The case's project, which reads the last `case.rows` messages of its topic. With `source`, it reads another `topic` from `starts` on."""
    topic = topic or case.workload.topic
    if starts is None:
        starts = bench.start_offsets(topic, case.rows)
    plain = case.workload.name.lower()
    name = f"{case.name}-{uuid.uuid4().hex[:6]}"
    folder = BUILD / "runs" / name
    shutil.copytree(source or PROJECTS / plain, folder)
    offsets = json.dumps({topic: {str(p): o for p, o in starts.items()}})
    for file in [folder / "spark-pipeline.yml", *folder.glob("transformations/*.sql")]:
        text = (
            file.read_text()
            .replace(f"name: {plain}", f"name: {name}")
            .replace(f"'topic' = '{plain}", f"'topic' = '{name}")
        )
        subscribe = f"'subscribe' = '{case.workload.topic}'"
        file.write_text(text.replace(subscribe, f"'subscribe' = '{topic}', 'startingOffsets' = '{offsets}'"))
    return Prepared(name, folder, name, topic)


def settings(case: Case) -> list[str]:
    return [] if case.step_rows == DEFAULT else ["--conf", f"stepwell.step.rows.max={case.step_rows}"]


def environment(bench: Bench, checkout: Checkout = HERE) -> dict[str, str]:
    """Of a command of Stepwell, of the version `checkout`."""
    path = os.pathsep.join(filter(None, [str(checkout.root), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "STEPWELL_KAFKA_BOOTSTRAP_SERVERS": bench.servers, "PYTHONPATH": path}


def command(bench: Bench, folder: Path, *arguments: str) -> None:
    """Runs a command of Stepwell in this folder to its end. Raises RunFailed."""
    whole = [str(HERE.python), "-m", "stepwell.cli", *arguments]
    done = subprocess.run(
        whole, env=environment(bench), cwd=folder, capture_output=True, text=True, check=False, timeout=RUN_SECONDS_MAX
    )
    if done.returncode != 0:
        raise RunFailed(f"`stepwell {arguments[0]}` ended with {done.returncode}: {done.stderr[-600:]}")


@contextlib.contextmanager
def started(
    bench: Bench, prepared: Prepared, arguments: list[str], checkout: Checkout = HERE
) -> Iterator[subprocess.Popen[str]]:
    """Runs `stepwell run` as a child process. The child and its children are ended when the body of `with` ends."""
    whole = [str(checkout.python), "-m", "stepwell.cli", "run", "--json", "--spec", str(prepared.spec), *arguments]
    with (prepared.folder / "run.out").open("w") as out, (prepared.folder / "run.err").open("w") as err:
        child = subprocess.Popen(
            whole, stdout=out, stderr=err, env=environment(bench, checkout), cwd=prepared.folder, text=True
        )
    try:
        yield child
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            measure.end_tree(psutil.Process(child.pid))
        child.wait()


def run(
    bench: Bench,
    case: Case,
    broker: int,
    extra: tuple[str, ...] = (),
    *,
    prepared: Prepared | None = None,
    checkout: Checkout = HERE,
) -> tuple[Result, Prepared]:
    """One measured run over a backlog. Raises RunFailed."""
    result = Result(ENGINE, case.workload.name, case.step_rows)
    prepared = prepared or prepare(bench, case)
    with (
        started(bench, prepared, ["--available-now", *settings(case), *extra], checkout) as child,
        Watch(child.pid, broker) as watch,
    ):
        looks = _looks_until_end(child, prepared)
    if child.returncode != 0:
        raise RunFailed(f"`stepwell run` ended with {child.returncode}: {_tail(prepared.folder / 'run.err')}")
    steps = steps_of(bench, prepared.name, prepared.topic)
    fill(result, steps, case.warm_rows, watch.usage)
    result.parts = _parts(looks, len(steps) - (result.steps or 0))
    result.checkpoints = _checkpoints([*looks, read_last_run(prepared.storage / STATE_FOLDER) or {}])
    result.live_mb = result.checkpoints[-1][2] if result.checkpoints else None
    result.state_mb = round(measure.folder_bytes(prepared.storage) / (1 << 20), 1)
    result.log_mb = bench.topic_mb(log_topic_of(prepared.name))
    return result, prepared


def steps_of(bench: Bench, name: str, topic: str) -> list[Step]:
    """The steps of a run in the step log, with the rows that they read of `topic`."""
    rows: dict[int, int] = {}
    steps: list[Step] = []
    for record, at_ms in _log_of(bench, name):
        if isinstance(record, DivisionRecord):
            rows[record.step] = sum(r.end - r.start for r in record.ranges if r.topic == topic)
        elif isinstance(record, StepRecord):
            steps.append(Step(at_ms / 1e3, rows[record.step]))
    return steps


def messages_of(bench: Bench, name: str) -> list[int]:
    """How many messages each step of a run has written."""
    records = (record for record, _ in _log_of(bench, name))
    return [sum(part.messages for part in r.outputs) for r in records if isinstance(r, StepRecord)]


def _log_of(bench: Bench, name: str) -> Iterator[tuple[Record, int]]:
    """The divisions and the records of steps in the step log, each with its timestamp in ms. Their form is that of all formats so far; other
    records may be of a format that this version does not read, because a checkout of another version can be measured."""
    log = log_topic_of(name)
    records = read_all(bench.servers, log)
    for offset, (value, at_ms) in enumerate(zip(records.value.to_pylist(), records.at_ms.to_pylist(), strict=True)):
        if json.loads(value)["kind"] in MEASURED_KINDS:
            yield decode(value, log, offset), at_ms


def _looks_until_end(child: subprocess.Popen[str], prepared: Prepared) -> list[dict[str, Any]]:
    """Reads the service's status until the process ends."""
    client = ControlClient(prepared.storage / STATE_FOLDER)
    looks: list[dict[str, Any]] = []
    deadline = time.monotonic() + RUN_SECONDS_MAX
    while child.poll() is None:
        if time.monotonic() > deadline:
            raise RunFailed(f"`stepwell run` did not end within {RUN_SECONDS_MAX} s")
        with contextlib.suppress(StepwellError):
            looks.append(client.status())
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(LOOK_SECONDS)
    return looks


def _parts(looks: Sequence[Mapping[str, Any]], warm_steps: int) -> dict[str, float]:
    """Mean milliseconds of the parts of a step, over the measured steps that a look has seen; each step counts once."""
    times = {look["step"]: look["last_step"] for look in looks if look["step"] >= warm_steps}
    kept = [t for t in times.values() if isinstance(t, dict)]
    return {name: round(float(np.mean([t[name] for t in kept])), 1) for name in (kept[0] if kept else {})}


def _checkpoints(looks: Sequence[Mapping[str, Any]]) -> list[tuple[int, float, float]]:
    """In the form of `Result.checkpoints`."""
    sizes = {
        look["checkpoint_step"]: tuple(
            round(sum(look[what].values()) / (1 << 20), 1) for what in ("disk_bytes", "state_bytes")
        )
        for look in looks
        if look.get("disk_bytes")
    }
    return [(step, disk, live) for step, (disk, live) in sizes.items()]


def _tail(file: Path) -> str:
    return " | ".join(file.read_text(errors="replace").strip().splitlines()[-6:])[-800:]
