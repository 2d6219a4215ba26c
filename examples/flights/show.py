"""What the demos share: the sequence of a run, waiting for events with progress bars, and the table of results.

A demo is a `Show` that says what runs beside the service, and what is killed while it runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from examples.flights import data
from examples.flights.edit import Edited
from examples.flights.feed import Feed
from examples.flights.progress import StepLogWatch
from examples.flights.resize import Resized
from examples.flights.service import Service, ServiceFailed
from examples.flights.verdict import ViewResult, judge
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from stepwell.commands.spark import spark_session
from stepwell.project.loading import Project, load_project

PROJECT = Path(__file__).with_name("project")

LOOK_SECONDS = 0.2
"""The time between two looks at the step log. It is also the error of the measured recovery time."""

PHASE_SECONDS_MAX = 600.0
"""The deadline of each phase: many times what it takes on a quiet machine."""


@dataclass(frozen=True)
class Recovery:
    """What was killed, how many steps had to be computed again, and the time until a new step was there."""

    what: str
    steps_replayed_at_least: int
    seconds: float


@dataclass(frozen=True)
class Totals:
    """The figures of a run. `rows_per_s`: input messages divided by the time in which the service was alive and had made its first step,
    without those that were sent slowly. `recovery_s` is the longest of the recoveries. `resized`: the change of the number of workers, and
    `edited`: that of the project, if there was one."""

    input_messages: int
    steps: int
    checkpoints: int
    epochs: int
    steps_replayed_at_least: int
    rows_per_s: float
    recovery_s: float
    recoveries: tuple[Recovery, ...]
    resized: Resized | None
    edited: Edited | None
    equal: bool


@dataclass(frozen=True)
class Stage:
    """What a demo has to do with while the service streams. `messages`: how many there are."""

    service: Service
    watch: StepLogWatch
    feed: Feed
    story: Story
    messages: int

    def totals(
        self,
        lived_s: float,
        recoveries: tuple[Recovery, ...],
        resized: Resized | None = None,
        edited: Edited | None = None,
        slow_messages: int = 0,
    ) -> Totals:
        """At the end. `lived_s`: how long the service was alive after its first step, without the time in which `slow_messages` came."""
        return Totals(
            input_messages=self.messages,
            steps=self.watch.state.steps,
            checkpoints=self.watch.state.checkpoints[-1].version,
            epochs=self.watch.state.epoch + 1,
            steps_replayed_at_least=sum(recovery.steps_replayed_at_least for recovery in recoveries),
            rows_per_s=round((self.messages - slow_messages) / lived_s),
            recovery_s=max(recovery.seconds for recovery in recoveries),
            recoveries=recoveries,
            resized=resized,
            edited=edited,
            equal=False,  # until it is proved
        )


class Show(ABC):
    """One run in `folder`, which is emptied first. `gate_at`: the share of the input that is sent before `feed.open_gate()`."""

    gate_at = 1.0

    def __init__(self, folder: Path, console: Console, flights_max: int | None = None) -> None:
        self.folder, self.console = folder, console
        self._flights_max = flights_max

    @abstractmethod
    def start_world(self) -> str:
        """Ends what an earlier run left, empties the folder, and starts what the service needs. Returns the brokers' addresses."""

    @abstractmethod
    def end_world(self) -> None:
        """Ends what `start_world` has started."""

    @abstractmethod
    def happen(self, stage: Stage) -> Totals:
        """Starts the service, disturbs it, and stops it when it has read everything."""

    @property
    def service_settings(self) -> Mapping[str, str]:
        """Settings of the service beside those of the project, once the world has started."""
        return {}

    def run(self) -> tuple[list[ViewResult], Totals]:
        servers = self.start_world()
        try:
            return self._with_brokers(servers)
        finally:
            self.end_world()

    def _with_brokers(self, servers: str) -> tuple[list[ViewResult], Totals]:
        shutil.copytree(PROJECT, self.folder / "project", ignore=shutil.ignore_patterns("__pycache__"))
        spec = self.folder / "project" / "spark-pipeline.yml"
        project = load_project(spec, {"kafka.bootstrap.servers": servers})
        topics = Topics(KafkaSettings.parse({"bootstrap.servers": servers}))
        for topic, partitions in data.TOPICS.items():
            topics.ensure(topic, partitions)
        watch = StepLogWatch(servers, f"stepwell.{project.name}.steps")
        service = Service(project, servers, self.folder / "service.log", self.service_settings)
        self.console.print(f"watch it from elsewhere: stepwell status --watch --spec {spec}")
        try:
            totals = self._stream(servers, service, watch)
        finally:
            service.end()
        results = self._judge(load_project(spec, {"kafka.bootstrap.servers": servers}), servers, watch)
        return results, replace(totals, equal=bool(results) and all(result.equal for result in results))

    def _stream(self, servers: str, service: Service, watch: StepLogWatch) -> Totals:
        tables = data.load(self._flights_max)
        messages = list(chain(data.reference(tables), data.stream(tables)))
        feed = Feed(servers, messages, gate_at=int(self.gate_at * len(messages)))
        with progress_bars(self.console) as progress:
            story = Story(service, watch, feed, progress, len(messages))
            feed.start()
            return self.happen(Stage(service, watch, feed, story, len(messages)))

    def _judge(self, project: Project, servers: str, watch: StepLogWatch) -> list[ViewResult]:
        with self.console.status("comparing every view with Spark's batch answer") as status:
            few = replace(project.settings, spark={**project.settings.spark, "spark.sql.shuffle.partitions": "2"})
            with spark_session(replace(project, settings=few), self.folder / "spark-batch.log") as spark:
                return judge(project, spark, servers, watch.state, lambda view: status.update(f"compared {view}"))


class Story:
    """Waits for events, moves the progress bars, and ends the demo if the service or the feed has died."""

    def __init__(self, service: Service, watch: StepLogWatch, feed: Feed, progress: Progress, total: int) -> None:
        self._service, self._watch, self._feed, self._progress = service, watch, feed, progress
        self._sent: TaskID = progress.add_task("sent", total=total, note="")
        self._read: TaskID = progress.add_task("read", total=total, note="")

    def say(self, note: str) -> None:
        self._progress.update(self._read, note=note)

    def until(self, note: str, event: Callable[[], bool]) -> None:
        self.say(note)
        deadline = time.monotonic() + PHASE_SECONDS_MAX
        while True:
            self._look()
            if event():
                return
            self._service.require_alive()
            if self._feed.fault is not None:
                raise self._feed.fault
            if time.monotonic() > deadline:
                raise ServiceFailed(f"not over after {PHASE_SECONDS_MAX:g} s: {note}")
            time.sleep(LOOK_SECONDS)

    def meanwhile(self, note: str, action: Callable[[], None], beside: Callable[[], None] = lambda: None) -> None:
        """Does something that takes a while, in a thread of its own, and goes on looking until it is done. `beside` is done at every look."""
        done = _Action(action)
        done.start()

        def is_done() -> bool:
            beside()
            return not done.is_alive()

        self.until(note, is_done)
        if done.fault is not None:
            raise done.fault

    def _look(self) -> None:
        self._watch.look()
        read = self._watch.messages_read
        self._feed.service_has_read(read)
        self._progress.update(self._sent, completed=self._feed.sent)
        self._progress.update(self._read, completed=read)


class _Action(threading.Thread):
    """Does `action`, and keeps what it raised."""

    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__(name="action", daemon=True)
        self._action = action
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            self._action()
        except BaseException as fault:
            self.fault = fault


def progress_bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )


def table_of(results: list[ViewResult], totals: Totals) -> Table:
    title = "every view, read back from Kafka, against Spark's batch answer"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=0)  # fits into 80 columns
    table.add_column("view", no_wrap=True)
    for name in ("rows", "equal", "duplicates", "lost", "steps", "rows/s", "time to\nrecover"):
        table.add_column(name, justify="right")
    for result in results:
        table.add_row(
            result.view,
            f"{result.rows:,}",
            "yes" if result.equal else "[bold red]NO[/]",
            f"{result.duplicates:,}",
            f"{result.lost:,}",
            f"{result.steps:,}",
        )
    table.add_section()
    table.add_row(
        "all input",
        f"{totals.input_messages:,}",
        "yes" if totals.equal else "[bold red]NO[/]",
        f"{sum(r.duplicates for r in results):,}",
        f"{sum(r.lost for r in results):,}",
        f"{totals.steps:,}",
        f"{totals.rows_per_s:,.0f}",
        f"{totals.recovery_s:.1f} s",
    )
    if len(totals.recoveries) > 1:
        table.add_section()
        for recovery in totals.recoveries:
            table.add_row(recovery.what, *[""] * 6, f"{recovery.seconds:.1f} s")
    return table


def table_of_change(change: Resized) -> Table:
    title = "the number of workers, changed while the flights stream"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for name in ("workers", "mode", "moved", "time", "cuts", "longest\ncut", "longest\nstep", "pause"):
        table.add_column(name, justify="right")
    table.add_row(
        f"{change.workers_before} to {change.workers_after}",
        change.mode,
        f"{change.bytes_moved / 1e6:.1f} MB",
        f"{change.seconds:.1f} s",
        f"{change.cuts}",
        f"{change.longest_cut_ms:.0f} ms",
        f"{change.longest_step_ms:.0f} ms",
        f"{change.paused_ms:.0f} ms",
    )
    return table


def table_of_edit(edited: Edited) -> Table:
    title = f"{edited.view}, edited while the flights stream"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    table.add_column("was, and is now", no_wrap=True)
    for name in ("state\nkept", "rows of\nstate read", "filled\nin", "all\nin", "pause", "messages of\nthe switch"):
        table.add_column(name, justify="right")
    table.add_row(
        f"{edited.before}\n{edited.after}",
        f"{100 * edited.kept_share:.2f} %",
        "unknown" if edited.rows_read is None else f"{edited.rows_read:,}",
        f"{edited.filling_s:.1f} s",
        f"{edited.seconds:.1f} s",
        f"{edited.paused_ms:.0f} ms",
        f"{edited.messages:,}",
    )
    return table


def write_json(path: Path, results: list[ViewResult], totals: Totals) -> None:
    views = [{"equal": result.equal, **asdict(result)} for result in results]
    path.write_text(json.dumps({"views": views, "totals": asdict(totals)}, indent=2) + "\n")


def main(show: type[Show], description: str, folder: Path) -> int:
    """The command line of a demo. Returns the exit status."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=folder, help="emptied first")
    parser.add_argument("--flights", type=int, default=None, help="about so many of the flights instead of all")
    arguments = parser.parse_args()
    console, report = Console(), arguments.folder.absolute().with_suffix(".json")
    report.unlink(missing_ok=True)
    try:
        results, totals = show(arguments.folder.absolute(), console, arguments.flights).run()
    except ServiceFailed as fault:
        console.print(f"[bold red]{fault}[/]\nThe whole log: {arguments.folder / 'service.log'}", markup=True)
        return 1
    write_json(report, results, totals)
    console.print(table_of(results, totals))
    if totals.resized is not None:
        console.print(table_of_change(totals.resized))
    if totals.edited is not None:
        console.print(table_of_edit(totals.edited))
    for result in results:
        for example in result.examples:
            console.print(f"{result.view}: {example}", markup=False)
    return 0 if totals.equal else 1
