"""`make demo`: from an empty folder to a table that says whether Stepwell kept its promise.

    broker, topics -> reference data -> service starts -> flights are sent, airlines and planes are corrected and deleted
    -> kill -9 -> service starts again, replays, continues -> all is read -> stepwell stop -> every view against Spark's batch answer

The exit status is 0 if every view is equal and every step was written once, otherwise 1. All files are in build/demo, and the table is in
build/demo.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from examples.flights import data
from examples.flights.feed import Feed
from examples.flights.progress import StepLogWatch
from examples.flights.service import Service, ServiceFailed
from examples.flights.verdict import ViewResult, judge
from io_kafka.broker.local import LocalBroker
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from stepwell.commands.spark import spark_session
from stepwell.project.loading import Project, load_project

PROJECT = Path(__file__).with_name("project")

KILL_AT = 0.4
"""The share of the input that is read before the kill. A checkpoint fits before it, and enough input is left after it."""

GATE_AT = 0.75
"""The share of the input that is sent before the kill. The rest is sent afterwards, so that the second run has something to read."""

LOOK_SECONDS = 0.2
"""The time between two looks at the step log. It is also the error of the measured recovery time."""

PHASE_SECONDS_MAX = 600.0
"""The deadline of each phase: many times what it takes on a quiet machine."""


@dataclass(frozen=True)
class Totals:
    """The figures of a run. `rows_per_s`: input messages divided by the time in which the service was alive and had made its first step."""

    input_messages: int
    steps: int
    checkpoints: int
    epochs: int
    steps_replayed_at_least: int
    rows_per_s: float
    recovery_s: float
    equal: bool


class Demo:
    """One run in `folder`, which is emptied first."""

    def __init__(self, folder: Path, console: Console, flights_max: int | None = None) -> None:
        self.folder, self.console = folder, console
        self._flights_max = flights_max

    def run(self) -> tuple[list[ViewResult], Totals]:
        broker = self._fresh_broker()
        try:
            return self._with_broker(broker.bootstrap_servers)
        finally:
            broker.stop()

    def _fresh_broker(self) -> LocalBroker:
        """Starts a broker in an empty folder. What an earlier run left is removed; if its broker still runs, it is stopped."""
        running = LocalBroker.running(self.folder / "broker")
        if running is not None:
            running.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        with self.console.status("starting a Kafka broker (the first time it is downloaded)"):
            broker = LocalBroker(self.folder / "broker").start(die_with_parent=True)
        self.console.print(f"Kafka broker at {broker.bootstrap_servers}")
        return broker

    def _with_broker(self, servers: str) -> tuple[list[ViewResult], Totals]:
        shutil.copytree(PROJECT, self.folder / "project", ignore=shutil.ignore_patterns("__pycache__"))
        spec = self.folder / "project" / "spark-pipeline.yml"
        project = load_project(spec, {"kafka.bootstrap.servers": servers})
        topics = Topics(KafkaSettings.parse({"bootstrap.servers": servers}))
        for topic, partitions in data.TOPICS.items():
            topics.ensure(topic, partitions)
        watch = StepLogWatch(servers, f"stepwell.{project.name}.steps")
        service = Service(self.folder / "project", servers, self.folder / "service.log")
        self.console.print(f"watch it from elsewhere: stepwell status --watch --spec {spec}")
        try:
            totals = self._stream(servers, service, watch)
        finally:
            service.end()
        results = self._judge(project, servers, watch)
        return results, replace(totals, equal=bool(results) and all(result.equal for result in results))

    # While the service runs

    def _stream(self, servers: str, service: Service, watch: StepLogWatch) -> Totals:
        tables = data.load(self._flights_max)
        messages = list(chain(data.reference(tables), data.stream(tables)))
        feed = Feed(servers, messages, gate_at=int(GATE_AT * len(messages)))
        with _progress(self.console) as progress:
            story = _Story(service, watch, feed, progress, len(messages))
            feed.start()
            service.start()
            story.until("the service starts", lambda: watch.state.steps > 0)
            story.until(
                "streaming", lambda: watch.messages_read > KILL_AT * len(messages) and watch.steps_after_checkpoint > 0
            )
            service.kill()
            watch.look()
            killed_at, replay = time.monotonic(), watch.steps_after_checkpoint
            feed.open_gate()
            restarted_at = service.start()
            story.until("killed with SIGKILL, recovering", lambda: len(watch.first_step_at) > 1)
            story.until("streaming", lambda: watch.messages_read == len(messages))
            done_at = time.monotonic()
            story.say("stopping at a checkpoint")
            service.stop()
            watch.look()
        first, second = min(watch.first_step_at), max(watch.first_step_at)
        assert first < second, "the second run has claimed an epoch of its own"
        lived_s = killed_at - watch.first_step_at[first] + done_at - watch.first_step_at[second]
        return Totals(
            input_messages=len(messages),
            steps=watch.state.steps,
            checkpoints=watch.state.checkpoints[-1].version,
            epochs=watch.state.epoch + 1,
            steps_replayed_at_least=replay,
            rows_per_s=round(len(messages) / lived_s),
            recovery_s=round(watch.first_step_at[second] - restarted_at, 1),
            equal=False,  # until it is proved
        )

    # Afterwards

    def _judge(self, project: Project, servers: str, watch: StepLogWatch) -> list[ViewResult]:
        with self.console.status("comparing every view with Spark's batch answer") as status:
            few = replace(project.settings, spark={**project.settings.spark, "spark.sql.shuffle.partitions": "2"})
            with spark_session(replace(project, settings=few), self.folder / "spark-batch.log") as spark:
                return judge(project, spark, servers, watch.state, lambda view: status.update(f"compared {view}"))


class _Story:
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

    def _look(self) -> None:
        self._watch.look()
        read = self._watch.messages_read
        self._feed.service_has_read(read)
        self._progress.update(self._sent, completed=self._feed.sent)
        self._progress.update(self._read, completed=read)


def _progress(console: Console) -> Progress:
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
    return table


def write_json(path: Path, results: list[ViewResult], totals: Totals) -> None:
    views = [{"equal": result.equal, **asdict(result)} for result in results]
    path.write_text(json.dumps({"views": views, "totals": asdict(totals)}, indent=2) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/demo"), help="emptied first")
    parser.add_argument("--flights", type=int, default=None, help="about so many of the flights instead of all")
    arguments = parser.parse_args()
    console, report = Console(), arguments.folder.absolute().with_suffix(".json")
    report.unlink(missing_ok=True)
    try:
        results, totals = Demo(arguments.folder.absolute(), console, arguments.flights).run()
    except ServiceFailed as fault:
        console.print(f"[bold red]{fault}[/]\nThe whole log: {arguments.folder / 'service.log'}", markup=True)
        return 1
    write_json(report, results, totals)
    console.print(table_of(results, totals))
    for result in results:
        for example in result.examples:
            console.print(f"{result.view}: {example}", markup=False)
    return 0 if totals.equal else 1


if __name__ == "__main__":
    sys.exit(main())
