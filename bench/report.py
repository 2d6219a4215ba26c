"""Writes the results to bench/results/latest.json and BENCHMARKS.md. Absolute figures belong to one machine and one hour. The ratios were
measured in one run over one input, so they are what to compare.

latest.json has the form that tools read. bench/results/details.json has everything that was measured, and the tables are made from it.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from bench.medians import by_case, medians, ratios, rounds_of
from bench.pyflink import FLINK_VERSION
from bench.result import Result
from bench.structured_streaming import REAL_TIME, SPARK_VERSION
from bench.workloads import WORKLOADS

RESULTS = Path(__file__).with_name("results")
BENCHMARKS = Path(__file__).resolve().parent.parent / "BENCHMARKS.md"
SQL = RESULTS / "sql.json"
"""What `make benchmarks-sql` measured: `rows` as in details.json, and a `note` for the reader."""

PLOTS = ("rows_per_s.svg", "cpu.svg", "step_ms.svg")
NAMES = {
    "stepwell": "Stepwell",
    "structured_streaming": f"Structured Streaming {SPARK_VERSION}",
    REAL_TIME: f"Structured Streaming {SPARK_VERSION}, Real-Time Mode",
    "pyflink": f"PyFlink {FLINK_VERSION}",
    "floor": "floor (one core)",
}
QUIET_CORES = 0.1
"""The number of cores that other processes may use during a run. Above it the figures are marked as those of a busy machine."""


@dataclass(frozen=True)
class Setting:
    """Where and how it was measured."""

    command: str
    date: str
    cores: int
    cpu: str
    memory_gb: float
    system: str
    note: str = ""
    """What a reader must know of the results as a whole. It is a sentence, or empty."""
    later: Mapping[str, str] = field(default_factory=dict)
    """For each of SECTIONS that was measured alone afterwards: by which command and when."""

    @staticmethod
    def here(command: str) -> Setting:
        return Setting(
            command,
            datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            psutil.cpu_count() or 1,
            _cpu_model(),
            round(psutil.virtual_memory().total / (1 << 30), 1),
            f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


Rows = list[dict[str, Any]]

SECTIONS = {
    "growth": "Growth (W2, 100,000 rows a step)",
    "layouts": "Changes of the number of workers (W2 with five more columns, 100,000 rows a step)",
    "transitions": "Changes of the project while it runs (two workers)",
    "commands": "Commands that a user waits for (the example `orders`, two workers)",
}
"""The tables that only Stepwell has, by the names under which details.json keeps their rows. `what` of a row says in which table it is."""


def last() -> tuple[Setting, list[Result], dict[str, Rows]]:
    """The results of the last benchmark of all engines, and the rows of SECTIONS. Raises SystemExit if there are none."""
    try:
        details = json.loads((RESULTS / "details.json").read_text())
    except FileNotFoundError:
        raise SystemExit("There are no results yet: `make bench` first.") from None
    sections = {name: details.get(name, []) for name in SECTIONS}
    return Setting(**details["setting"]), [Result(**row) for row in details["results"]], sections


def write(results: Sequence[Result], sections: Mapping[str, Rows], setting: Setting) -> None:
    """Writes everything: both JSON files, the plots and BENCHMARKS.md."""
    RESULTS.mkdir(exist_ok=True)
    rows = [result.row() for result in medians(results) if result.failed is None]
    (RESULTS / "latest.json").write_text(json.dumps(rows, indent=1) + "\n")
    details = {"setting": asdict(setting), "results": [asdict(r) for r in results], **sections}
    (RESULTS / "details.json").write_text(json.dumps(details, indent=1) + "\n")
    plotted = plot(medians(results))
    BENCHMARKS.write_text(text(results, sections, setting, plotted))


def rewrite() -> None:
    """Writes BENCHMARKS.md again from the files in RESULTS."""
    setting, results, sections = last()
    plotted = [name for name in PLOTS if (RESULTS / name).exists()]
    BENCHMARKS.write_text(text(results, sections, setting, plotted))


def text(results: Sequence[Result], sections: Mapping[str, Rows], setting: Setting, plotted: Sequence[str]) -> str:
    parts = [
        "# Benchmarks\n",
        f"Written by `{setting.command}` on {setting.date}: {setting.cores} cores ({setting.cpu}), {setting.memory_gb} GB, {setting.system}.",
        *(f"{SECTIONS[name].partition(' (')[0]}: {said}." for name, said in sorted(setting.later.items())),
        setting.note,
        "The broker (Kafka 4.1.1) and the engine under test share these cores, and nothing else of ours runs there. All engines read one set of"
        " input topics, with 2 partitions and JSON bids of about 200 bytes.\n",
        _rounds(results),
        _quiet(results),
        *[f"![{name}](bench/results/{name})\n" for name in plotted],
    ]
    for name, workload in WORKLOADS.items():
        mine = [r for r in results if r.workload == name]
        if mine:
            parts += [f"## {name}: {workload.what}\n", _table(mine), _ratios(mine), _notes(medians(mine))]
    parts += [
        _parts(medians(results)),
        *(_section(title, sections.get(name, [])) for name, title in SECTIONS.items()),
        _sql(),
        _HOW,
    ]
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def _rounds(results: Sequence[Result]) -> str:
    rounds = rounds_of(results)
    if rounds == 1:
        return ""
    return (
        f"Everything ran {rounds} times, in rounds one after another. The tables show medians; a ratio is measured within each round. "
        "The column beside the rate has the lowest and the highest rate of any round. `bench/results/details.json` has every run.\n"
    )


def _quiet(results: Sequence[Result]) -> str:
    worst = max((r.others_cores or 0.0 for r in results), default=0.0)
    if worst <= QUIET_CORES:
        return "The machine was quiet.\n"
    return (
        f"**The machine was not quiet**: other processes used up to {worst:.1f} of its cores meanwhile (column *others*). Read the CPU seconds "
        "per million rows, and compare only runs with similar values of *others*.\n"
    )


_COLUMNS: tuple[tuple[str, str], ...] = (
    ("engine", "engine"), ("rows per step", "rows_per_step"), ("rows/s", "rows_per_s"), ("of rounds", ""), ("step p50 ms", "step_ms_p50"),
    ("p99", "step_ms_p99"), ("max", "step_ms_max"), ("latency p50 ms", "latency_ms_p50"), ("p99", "latency_ms_p99"),
    ("CPU s/M", "cpu_s_per_million"), ("broker", "broker_cpu_s_per_million"), ("memory MB", "rss_mb_max"), ("state MB", "state_mb"),
    ("live", "live_mb"), ("log MB", "log_mb"), ("equal", "equal"), ("others", "others_cores"),
)  # fmt: skip


def _table(results: Sequence[Result]) -> str:
    spread = {case: _spread(rounds) for case, rounds in by_case(results).items()}
    columns = [column for column in _COLUMNS if column[1] or any(spread.values())]
    lines = ["| " + " | ".join(title for title, _ in columns) + " |", "|---" * len(columns) + "|"]
    for result in medians(results):
        if result.failed is not None:
            lines.append(
                f"| {NAMES.get(result.engine, result.engine)} | {_cell(result.rows_per_step)} | **failed** |"
                + " |" * (len(columns) - 3)
            )
        else:
            of_rounds = spread[result.engine, result.workload, result.rows_per_step]
            cells = (_cell(getattr(result, field)) if field else of_rounds for _, field in columns)
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _spread(rounds: Sequence[Result]) -> str:
    """The lowest and the highest rate, in thousands; empty if there is only one."""
    rates = [result.rows_per_s for result in rounds if result.rows_per_s is not None]
    return f"{min(rates) / 1e3:,.0f}k to {max(rates) / 1e3:,.0f}k" if len(rates) > 1 else ""


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, int):
        return f"{value:,}"
    return NAMES.get(str(value), str(value))


def _ratios(results: Sequence[Result]) -> str:
    """Our rate compared with each peer at the same number of rows per step, and best rate with best rate."""
    lines = []
    for peer in ("structured_streaming", "pyflink"):
        best, at_equal = ratios(results, "stepwell", peer)
        if best is None:
            continue
        same = [f"{_cell(step)}: {ratio:.2f}x" for step, ratio in at_equal.items()]
        lines.append(
            f"- Stepwell / {NAMES[peer]}: best / best {best:.2f}x"
            + (f"; at equal rows per step {', '.join(same)}" if same else "")
        )
    return "\n".join(lines) + "\n" if lines else ""


def _notes(results: Sequence[Result]) -> str:
    notes = {f"- {NAMES.get(r.engine, r.engine)}: {r.note}." for r in results if r.note}
    failures = [
        f"- {NAMES.get(r.engine, r.engine)}, {_cell(r.rows_per_step)} rows per step, failed: {r.failed}"
        for r in results
        if r.failed
    ]
    return "\n".join([*sorted(notes), *failures]) + "\n" if notes or failures else ""


def _parts(results: Sequence[Result]) -> str:
    """The parts of a step's time and CPU."""
    lines: list[str] = []
    for engine in ("stepwell", "structured_streaming"):
        with_parts = [r for r in results if r.engine == engine and r.parts]
        if not with_parts:
            continue
        names, kinds = list(with_parts[0].parts), list(with_parts[0].cpu_parts)
        titles = ["workload", "rows per step", "step p50", *names, *(f"CPU s/M {kind}" for kind in kinds)]
        lines += [f"### {NAMES[engine]}\n", "| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
        for r in with_parts:
            cells = [
                r.workload,
                _cell(r.rows_per_step),
                r.step_ms_p50,
                *map(r.parts.get, names),
                *map(r.cpu_parts.get, kinds),
            ]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
        lines.append("")
    return "\n".join(["## Where a step's time goes (mean ms)\n", *lines]) if lines else ""


def _section(title: str, all_rows: Rows) -> str:
    lines: list[str] = []
    for what in dict.fromkeys(row["what"] for row in all_rows):
        rows = [row for row in all_rows if row["what"] == what]
        names = [name for name in rows[0] if name != "what"]
        lines += [f"### {what}\n", "| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
        lines += ["| " + " | ".join(_cell(row.get(name)) for name in names) + " |" for row in rows]
        lines.append("")
    return "\n".join([f"## {title}\n", *lines]) if lines else ""


def _sql() -> str:
    """The benchmark queries, which `make benchmarks-sql` measures apart from everything else. Empty if it has not run."""
    try:
        measured = json.loads(SQL.read_text())
    except FileNotFoundError:
        return ""
    return f"{_section('Benchmark queries', measured['rows'])}\n{measured['note']}\n"


_HOW = """## How to read this

- **rows/s**: the rate of the steps after the warm-up (the JVM compiles during some hundred small steps). For Stepwell it is measured by
  the timestamps of the step log's records, and for Structured Streaming by its progress reports. PyFlink has no steps; its rate is the
  slope of its committed output.
- **latency**: the time from a bid's append to the first moment at which a read_committed consumer has a result that includes it. It is
  measured with W2 at the default step size. 20,000 bids per second are sent, whatever the engine does.
  Stepwell's is one and a half steps, because a bid waits for half of the step under way, and about 10 ms of producer and consumer. A step
  of W2 at this rate has 400 rows and takes 19 ms, of which 4 are the transaction of its division and 7 that of its output. They follow
  each other, because a step does not begin before its division is durable. The slowest steps are those beside a checkpoint.
- **changed_a_step**: the number of keys that change in a step. With few keys, many of the 100,000 rows have the same key. Each key that
  changes is looked up, stored and published once per step, whatever the number of its rows.
- **Changes of the number of workers**: *of_floor* compares the bytes that were moved with the size of the state (the mean of that before
  the change and that after it) times the share of the slots that has to change its owner. While steps go on, rows are moved that a later
  merge would have joined. While they are paused it is exact. *seconds* is the time from the request to the last checkpoint, with the
  start of new workers. The steps of a change are those between its request and its end, and *base* means the 60 steps before it. *pause_ms*
  is the longest time in which no step could begin because of the change. Each pair of changes has a service of its own.
- **Changes of the project**: a view is added or changed with `stepwell apply`. *rate* is that at which its new nodes got rows of the state or
  messages, from the record of the transition to that of its switch. *fresh* is the rate of a run that has this view alone and reads the same
  rows from its topic. *begin_ms* and *pause_ms* are the times in which no step could begin because of the beginning and because of the
  switch. Under load, the steps while new nodes are filled are compared with those of the half minute before.
- **CPU s/M**: CPU seconds per million rows, of the whole process tree. **broker**: the same for the broker alone.
- **memory**: the peak of the process tree. A shared page is counted once (PSS).
- **state**: the size on disk at the end. **live**: the size of the keys and values of the last version. **log**: the bytes of the step log.
- **equal**: whether every output topic, read back by a read_committed consumer, equals DuckDB's batch answer over the generated rows.
  Doubles may differ by a relative error of 1e-12.
- **others**: the cores that all other processes on the machine used during the measured steps.
- Stepwell and PyFlink write exactly once, Structured Streaming at least once. Stepwell runs with 2 workers, a checkpoint every 10 s,
  transactional output, step headers and digests. Structured Streaming runs with the HDFS-backed store and 2 shuffle partitions. PyFlink
  runs with parallelism 2, a checkpoint every second, hash-map state and mini-batches. The floor reads no Kafka and keeps no state on disk.
"""


def plot(results: Sequence[Result]) -> list[str]:
    """Draws bars of rows/s, CPU seconds and step times as SVG, and returns the files' names; nothing if matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "stepwell"  # the same figures give the same file
    done = []
    for figure, title, name in (
        ("rows_per_s", "rows/s (more is better)", "rows_per_s.svg"),
        ("cpu_s_per_million", "CPU seconds per million rows (less is better)", "cpu.svg"),
        ("step_ms_p50", "step p50, ms (less is better)", "step_ms.svg"),
    ):
        if any(getattr(r, figure) for r in results):
            _bars(results, figure, title, RESULTS / name)
            done.append(name)
    return done


def _bars(results: Sequence[Result], field: str, title: str, file: Path) -> None:
    import matplotlib.pyplot as pyplot

    workloads = list(dict.fromkeys(r.workload for r in results))
    figure, axes = pyplot.subplots(1, len(workloads), figsize=(3.2 * len(workloads), 3.2), squeeze=False)
    colours = {"stepwell": "#0b6e99", "structured_streaming": "#d98032", "pyflink": "#8a4fa0", "floor": "#999999"}
    for axis, workload in zip(axes[0], workloads, strict=True):
        rows = [r for r in results if r.workload == workload and getattr(r, field)]
        labels = [f"{_cell(r.rows_per_step)}" for r in rows]
        axis.bar(range(len(rows)), [getattr(r, field) for r in rows], color=[colours.get(r.engine, "k") for r in rows])
        axis.set_xticks(range(len(rows)), labels, rotation=60, ha="right", fontsize=7)
        axis.set_title(workload, fontsize=10)
        axis.tick_params(axis="y", labelsize=7)
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colours[e]) for e in colours if any(r.engine == e for r in results)]
    figure.legend(
        handles,
        [NAMES[e] for e in colours if any(r.engine == e for r in results)],
        loc="lower center",
        ncols=4,
        fontsize=8,
    )
    figure.suptitle(title, fontsize=10)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(file, format="svg", metadata={"Date": None})
    pyplot.close(figure)
