"""Two versions of Stepwell, measured in pairs: a run of the one, then the same run of the other, in rounds. Every second round begins with the
other version.

    python -m bench.pairs BEFORE W2:1000 W3:100000 W1:default [--rounds 3] [--rows 2] [--set stepwell.workers=4]
    python -m bench.pairs . W2:1000 --set-after stepwell.workers=4        one version with two settings

BEFORE is a checkout of the other version in which `make` has made the virtual environment; this checkout is the version after it. A machine that
is shared changes its speed by a third within minutes, so only the ratio of neighbours means something. The tables show the median ratio of the
pairs. Every output is compared with the batch answer, and both outputs of a pair with each other, byte by byte: the exit status is 1 if one is
wrong or if they differ where the divisions were equal.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash
from rich.console import Console
from rich.table import Table

from bench import check, ours
from bench.generate import CHUNK_ROWS, Shape
from bench.ours import HERE, Checkout
from bench.result import Result
from bench.topics import Bench, Messages, read_all
from bench.workloads import BUILD, DEFAULT, FULL, WORKLOADS, Case, M
from io_kafka.broker.local import LocalBroker

console = Console(highlight=False, soft_wrap=True)

FIGURES = ("rows_per_s", "step_ms_p50", "step_ms_p99", "cpu_s_per_million", "rss_mb_max")

SMALL_STEP_ROWS = 1_000
"""Steps of this size read as many rows as in the benchmark, where more would take minutes; all others read the whole topic."""


@dataclass(frozen=True)
class Side:
    """One run of a pair. `divisions`: the rows of each step. `digest`: of the output's bytes by partition."""

    result: Result
    divisions: tuple[int, ...]
    digest: str


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pairs", description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, metavar="BEFORE", help="the other version's checkout")
    parser.add_argument("cells", nargs="+", metavar="WORKLOAD:ROWS", help="such as W2:1000 or W1:default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=float, default=4.0, metavar="M", help="millions of rows in each topic")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of both versions")
    parser.add_argument(
        "--set-after", action="append", default=[], metavar="NAME=VALUE", help="a setting of the version after alone"
    )
    given = parser.parse_args(arguments)
    rows = max(1, round(given.rows * M / CHUNK_ROWS)) * CHUNK_ROWS  # a changelog begins with a whole chunk
    cases = [_case(cell, rows) for cell in given.cells]
    checkouts = {"before": ours.checkout_of(given.before), "after": HERE}
    extra = {"before": _flags(given.set), "after": _flags([*given.set, *given.set_after])}
    folder = BUILD / "pairs"
    shutil.rmtree(folder, ignore_errors=True)
    (BUILD / "runs").mkdir(parents=True, exist_ok=True)
    broker = LocalBroker(folder).start(die_with_parent=True)
    assert broker.pid is not None, "the broker runs as long as we do"
    try:
        bench = Bench(broker.bootstrap_servers, Shape(), broker.folder / "data")
        bench.make_inputs({case.workload.topic for case in cases}, rows, lambda sent: None)
        answers = check.Answers(bench.shape, rows)
        right = True
        pairs: dict[str, list[dict[str, Side]]] = {}
        for number in range(given.rounds):
            # The order changes from round to round, because the second run of a pair finds a disk that still writes what the first one left.
            order = list(checkouts) if number % 2 == 0 else list(reversed(checkouts))
            for case in cases:
                sides = {
                    name: _run(bench, case, broker.pid, extra[name], checkout=checkouts[name], answers=answers)
                    for name in order
                }
                right &= _is_right(sides)
                pairs.setdefault(case.name, []).append(sides)
                console.print_json(json.dumps({name: _shown(case, side) for name, side in sides.items()}), indent=None)
        console.print(_table(pairs))
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if right else 1


def _flags(settings: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for setting in settings for word in ("--conf", setting))


def _case(cell: str, rows: int) -> Case:
    workload, _, size = cell.partition(":")
    if workload not in WORKLOADS or not (size == DEFAULT or size.isdecimal()):
        raise SystemExit(f"{cell}: a cell is one of {', '.join(WORKLOADS)}, a colon, and rows per step or '{DEFAULT}'")
    step_rows = size if size == DEFAULT else int(size)
    small = next((reads, warm) for step, reads, warm in FULL.ours if step == SMALL_STEP_ROWS)
    read, warm = small if step_rows == SMALL_STEP_ROWS else (rows, rows // 4)
    return Case(WORKLOADS[workload], step_rows, min(read, rows), min(warm, rows // 2))


def _run(
    bench: Bench, case: Case, broker: int, extra: tuple[str, ...], *, checkout: Checkout, answers: check.Answers
) -> Side:
    result, prepared = ours.run(bench, case, broker, extra, checkout=checkout)
    messages = read_all(bench.servers, prepared.output)
    answers.judge(result, case, messages)
    divisions = tuple(step.rows for step in ours.steps_of(bench, prepared.name, prepared.topic))
    bench.forget(prepared.output)
    shutil.rmtree(prepared.folder, ignore_errors=True)
    return Side(result, divisions, _digest(messages))


def _digest(messages: Messages) -> str:
    """Of partition, key and value of every message; messages are in the order of partition and offset."""
    hasher = xxhash.xxh3_128()
    for column in (messages.partition, messages.key, messages.value):
        for value in column.to_pylist():
            hasher.update(repr(value).encode())
    return hasher.hexdigest()


def _is_right(sides: dict[str, Side]) -> bool:
    before, after = sides["before"], sides["after"]
    if wrong := [f"{name}: {side.result.note}" for name, side in sides.items() if not side.result.equal]:
        console.print(f"[red]wrong[/]: {'; '.join(wrong)}")
        return False
    if before.divisions == after.divisions and before.digest != after.digest:
        console.print("[red]the outputs differ[/], although the divisions are equal")
        return False
    return True


def _shown(case: Case, side: Side) -> dict[str, Any]:
    figures = {name: getattr(side.result, name) for name in (*FIGURES, "cpu_parts", "others_cores")}
    return {"cell": case.name, **figures, "steps": len(side.divisions), "digest": side.digest[:8]}


def _table(pairs: dict[str, list[dict[str, Side]]]) -> Table:
    table = Table("cell", "pairs", *FIGURES, "bytes compared", title="after / before, medians of the pairs")
    for name, sides in pairs.items():
        ratios = [
            statistics.median(getattr(p["after"].result, f) / getattr(p["before"].result, f) for p in sides)
            for f in FIGURES
        ]
        alike = sum(p["before"].divisions == p["after"].divisions for p in sides)
        table.add_row(name, str(len(sides)), *(f"{ratio:.2f}" for ratio in ratios), f"{alike} of {len(sides)}")
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
