"""`python -m bench` makes the input, runs every engine over it, checks the outputs and writes the report.

    QUICK=1    only W1 to W3 at 1k and 100k rows per step, with Structured Streaming: under 8 minutes on two quiet cores
    GROWTH=1   also measures how a step's time grows with keys, workers, views and history (20 minutes, 12 GB of disk)
    LAYOUTS=1  also measures changes of the number of workers with 2 GB of state (26 minutes, 35 GB of disk)
    TRANSITIONS=1   also measures changes of the project while it runs (10 minutes)
    GROWTH=only, LAYOUTS=only, TRANSITIONS=only   measure that alone, and keep the other results of the last benchmark
    RUNS=3     runs everything that many times, in rounds; the tables show medians
    ENGINES=stepwell,pyflink   WORKLOADS=W1,W2   only these

An engine that fails, or that cannot be installed, is shown as failed, and the benchmark continues. Results are written after every run, so an
interrupted benchmark keeps what it has measured. The exit status is 1 if one of our outputs was wrong or one of our runs failed.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import (
    check,
    commands,
    floor,
    growth,
    layouts,
    live,
    ours,
    pyflink,
    report,
    structured_streaming,
    transitions,
)
from bench.generate import Shape
from bench.result import Result
from bench.topics import Bench, read_all
from bench.workloads import BUILD, DEFAULT, FULL, QUICK, Case, Plan
from io_kafka.broker.local import LocalBroker

console = Console(highlight=False, soft_wrap=True)

Job = tuple[str, Callable[[], Result]]
Measurement = tuple[str, Callable[[], report.Rows]]


@dataclass
class Run:
    """One run of the benchmark."""

    plan: Plan
    bench: Bench
    broker: LocalBroker
    setting: report.Setting
    results: list[Result]
    sections: dict[str, report.Rows]

    def __post_init__(self) -> None:
        self.answers = check.Answers(self.bench.shape, self.plan.rows)

    @property
    def broker_pid(self) -> int:
        pid = self.broker.pid
        assert pid is not None, "the broker runs as long as we do"
        return pid

    def jobs(self, engines: tuple[str, ...], workloads: tuple[str, ...]) -> list[Job]:
        """The jobs in their order. The engines of a workload run one after another, so that they find the machine in the same state."""
        jobs: list[Job] = []
        for workload in workloads:
            if ours.ENGINE in engines:
                jobs += [self._ours(case) for case in self.plan.cases(self.plan.ours, workload)]
            if structured_streaming.ENGINE in engines and workload in structured_streaming.WORKLOADS:
                jobs += [self._structured_streaming(case) for case in self.plan.cases(self.plan.theirs, workload)]
                if workload in structured_streaming.REAL_TIME_WORKLOADS and self.plan.latency_seconds:
                    jobs.append(self._real_time_mode(workload))
            if pyflink.ENGINE in engines:
                jobs.append(
                    self._pyflink(
                        Case(self.plan.cases(self.plan.ours, workload)[0].workload, DEFAULT, self.plan.rows, 0)
                    )
                )
            if floor.ENGINE in engines:
                jobs += [
                    self._floor(case) for case in self.plan.cases(self.plan.ours, workload) if case.step_rows == 100_000
                ]
        return jobs

    def _ours(self, case: Case) -> Job:
        def job() -> Result:
            result, prepared = ours.run(self.bench, case, self.broker_pid)
            self.compare(result, case, prepared.output)
            shutil.rmtree(prepared.storage, ignore_errors=True)
            if self._is_latency_of(case):
                live.fill(result, live.ours_latency(self.bench, case.workload.name, self.plan.latency_seconds))
            return result

        return _named(ours.ENGINE, case), job

    def _structured_streaming(self, case: Case) -> Job:
        def job() -> Result:
            result, output = structured_streaming.run(self.bench, case, self.broker_pid)
            self.compare(result, case, output)
            if self._is_latency_of(case):
                seconds = self.plan.latency_seconds
                live.fill(result, live.structured_streaming_latency(self.bench, case.workload.name, seconds))
            return result

        return _named(structured_streaming.ENGINE, case), job

    def _real_time_mode(self, workload: str) -> Job:
        case = Case(live.CASES[workload].workload, DEFAULT, 0, 0)
        seconds = self.plan.latency_seconds
        return _named(structured_streaming.REAL_TIME, case), lambda: live.real_time_mode(self.bench, workload, seconds)

    def _is_latency_of(self, case: Case) -> bool:
        """Whether the latency is measured after this run."""
        return case.step_rows == DEFAULT and case.workload.name in live.CASES and self.plan.latency_seconds > 0

    def _pyflink(self, case: Case) -> Job:
        def job() -> Result:
            result, output = pyflink.run(self.bench, case, self.broker_pid)
            self.compare(result, case, output)
            if case.workload.name == "W2" and self.plan.latency_seconds:
                live.fill(result, live.pyflink_latency(self.bench, "W2", self.plan.latency_seconds))
            return result

        return _named(pyflink.ENGINE, case), job

    def _floor(self, case: Case) -> Job:
        return _named(floor.ENGINE, case), lambda: floor.run(self.bench.shape, case, self.plan.rows, self.broker_pid)

    def compare(self, result: Result, case: Case, output: str) -> None:
        """Sets `equal` and deletes the output."""
        self.answers.judge(result, case, read_all(self.bench.servers, output))
        self.bench.forget(output)

    def write(self) -> None:
        report.write(self.results, self.sections, self.setting)


def _named(engine: str, case: Case) -> str:
    return f"{engine} {case.workload.name} {case.step_rows}"


def _failed(name: str, error: BaseException) -> Result:
    engine, workload, step_rows = name.split(" ")
    text = f"{type(error).__name__}: {error}".replace("\n", " ").replace("|", "/")
    return Result(engine, workload, int(step_rows) if step_rows.isdigit() else step_rows, failed=text[:600])


def _line(result: Result) -> str:
    name = f"{report.NAMES[result.engine]:28} {result.workload} {result.rows_per_step!s:>8}"
    if result.failed is not None:
        return f"{name}  [red]failed[/]: {result.failed[:300]}"
    if result.rows_per_s is None:
        return f"{name}  latency p50 {result.latency_ms_p50} p99 {result.latency_ms_p99} ms"
    equal = {True: "equal", False: "[red]NOT EQUAL[/]", None: ""}[result.equal]
    steps = f"step p50 {result.step_ms_p50} p99 {result.step_ms_p99} ms" if result.step_ms_p50 else ""
    return (
        f"{name} {result.rows_per_s:>10,.0f} rows/s  {result.cpu_s_per_million:>6.2f} CPU s/M  {result.rss_mb_max:>6,.0f} MB  {steps}  {equal}"
        f"  (others {result.others_cores} cores)"
    )


def make_topics(run: Run, progress: Progress, workloads: tuple[str, ...]) -> None:
    kinds = ["bids", *(["changes"] if "W4" in workloads else [])]
    task = progress.add_task("making the input", total=len(kinds) * run.plan.rows)
    run.bench.make_inputs(kinds, run.plan.rows, lambda n: progress.advance(task, n))
    progress.remove_task(task)


def measure(run: Run, progress: Progress, jobs: list[Job], rounds: int) -> None:
    task = progress.add_task("", total=len(jobs) * rounds)
    for name, job in jobs * rounds:
        progress.update(task, description=name)
        began = time.monotonic()
        try:
            result = job()
        except Exception as error:
            result = _failed(name, error)
            (BUILD / "failures.log").open("a").write(f"{name}\n{traceback.format_exc()}\n")
        run.results.append(result)
        progress.console.print(f"{_line(result)}  {time.monotonic() - began:.0f} s")
        run.write()
        progress.advance(task)


def measure_section(run: Run, name: str, runs: Iterable[Measurement], progress: Progress) -> None:
    """Measures the rows of one of report.SECTIONS."""
    rows = run.sections[name] = []
    for what, measured in runs:
        task = progress.add_task(f"{name}: {what}", total=None)
        try:
            rows += (found := measured())
            for row in found:
                progress.console.print(row)
        except Exception as error:
            rows.append({"what": "Failed", "run": what, "error": str(error)[:400].replace("\n", " ")})
            (BUILD / "failures.log").open("a").write(f"{name}: {what}\n{traceback.format_exc()}\n")
            progress.console.print(f"{name}: {what}: [red]failed[/]: {error}")
        run.write()
        progress.remove_task(task)


def _chosen(variable: str, all_: tuple[str, ...]) -> tuple[str, ...]:
    asked = os.environ.get(variable, "")
    chosen = tuple(filter(None, asked.split(","))) or all_
    unknown = [name for name in chosen if name not in all_]
    if unknown:
        raise SystemExit(f"{variable}={asked}: {', '.join(unknown)} is none of {', '.join(all_)}")
    return chosen


def _rounds() -> int:
    asked = os.environ.get("RUNS") or "1"
    if not asked.isdecimal() or int(asked) == 0:
        raise SystemExit(f"RUNS={asked}: a number of rounds, at least 1, is asked for")
    return int(asked)


def main() -> int:
    if sys.argv[1:]:
        raise SystemExit(
            f"{sys.argv[1]}: the benchmark is chosen by variables, as README.md says: make bench QUICK=1 WORKLOADS=W2"
        )
    plan = QUICK if os.environ.get("QUICK", "0") not in ("", "0") else FULL
    asked = {name: os.environ.get(name.upper(), "0") or "0" for name in report.SECTIONS}
    alone = "only" in asked.values()
    rounds = _rounds()
    all_engines = (ours.ENGINE, structured_streaming.ENGINE, *(() if plan.quick else (pyflink.ENGINE, floor.ENGINE)))
    engines, workloads = _chosen("ENGINES", all_engines), _chosen("WORKLOADS", plan.workloads)
    command = " ".join(
        [
            "make bench",
            *(
                f"{v}={os.environ[v]}"
                for v in ("QUICK", "GROWTH", "LAYOUTS", "TRANSITIONS", "COMMANDS", "RUNS", "ENGINES", "WORKLOADS")
                if os.environ.get(v)
            ),
        ]
    )
    setting, results = report.Setting.here(command), list[Result]()
    sections: dict[str, report.Rows] = {name: [] for name in report.SECTIONS}
    if alone:
        before, results, sections = report.last()
        now = {name: f"`{command}` on {setting.date}" for name, wanted in asked.items() if wanted != "0"}
        setting = replace(before, later={**before.later, **now})
    for old in (BUILD / "runs", BUILD / "broker"):
        shutil.rmtree(old, ignore_errors=True)
    (BUILD / "runs").mkdir(parents=True)
    (BUILD / "failures.log").unlink(missing_ok=True)
    began = time.monotonic()
    broker = LocalBroker(BUILD / "broker").start(die_with_parent=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    try:
        run = Run(
            plan, Bench(broker.bootstrap_servers, Shape(), broker.folder / "data"), broker, setting, results, sections
        )
        with Progress(*columns, console=console) as progress:
            if not alone or asked["growth"] != "0":
                make_topics(run, progress, ("W2",) if alone else workloads)
            if not alone:
                measure(run, progress, run.jobs(engines, workloads), rounds)
            if asked["growth"] != "0":
                measure_section(run, "growth", growth.runs(run.bench, run.plan.rows, run.broker_pid), progress)
            if asked["layouts"] != "0":
                measure_section(run, "layouts", layouts.runs(run.bench, quick=run.plan.quick), progress)
            if asked["transitions"] != "0":
                measure_section(
                    run, "transitions", transitions.runs(run.bench, run.broker_pid, quick=run.plan.quick), progress
                )
            if asked["commands"] != "0":
                measure_section(run, "commands", commands.runs(run.bench, quick=run.plan.quick), progress)
    finally:
        broker.stop()
        shutil.rmtree(BUILD / "broker", ignore_errors=True)
    console.print(f"{time.monotonic() - began:.0f} s. Results: {report.RESULTS / 'latest.json'}, {report.BENCHMARKS}")
    mine = [result for result in run.results if result.engine == ours.ENGINE]
    return int(any(result.failed is not None or result.equal is False for result in mine))


if __name__ == "__main__":
    sys.exit(main())
