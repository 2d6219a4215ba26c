"""All input is taken back: views and traces are as they were before there was any. What is left then was counted twice, or lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pytest

from coordinator.starting.workers.circuit_file import read_owner
from engine.analysis.stages import plan_stages
from engine.model.numbers import number_of
from engine.run.stage import name_of
from engine.state.runs import HASH
from storage.database import Database
from storage.keys import table_prefix
from tests.end_to_end import everything
from tests.end_to_end.harness import Playground, Resolved


def trace_rows(resolved: Resolved) -> dict[str, int]:
    """The number of rows of every trace in the last checkpoint, over all workers; a row whose sums are all 0 is none."""
    planned = plan_stages(resolved.spec.circuit)
    found: Counter[str] = Counter()
    owner = read_owner(resolved.spec.storage)
    assert owner is not None
    for worker in range(resolved.spec.workers):
        with Database.read_committed(resolved.spec.state_location.here.of_worker(worker)) as (_, transaction):
            sums: dict[tuple[int, str], list[int]] = {}
            for key, value in transaction.scan(b""):
                table = int.from_bytes(key[: len(table_prefix(0))])
                if number_of(table) is not None:
                    for row in pa.ipc.open_stream(pa.py_buffer(bytes(value))).read_all().to_pylist():
                        add(sums, table, row)
        for (table, _), totals in sums.items():
            number = number_of(table)
            assert number is not None
            index = owner.numbers.index(number)
            found[f"{name_of(planned.circuit, index)}, table {table}"] += any(totals)
    return {name: rows for name, rows in found.items() if rows}


def add(sums: dict[tuple[int, str], list[int]], table: int, row: Mapping[str, object]) -> None:
    content = repr([value for name, value in row.items() if name.startswith("c")])
    parts = [value for name, value in row.items() if not name.startswith("c") and name != HASH]
    total = sums.setdefault((table, content), [0] * len(parts))
    for index, part in enumerate(parts):
        assert isinstance(part, int)
        total[index] += part


@pytest.mark.long
@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_nothing_is_left_of_input_that_was_taken_back(play: Playground, rounds: int) -> None:
    everything.make_topics(play)
    conf = {"stepwell.step.rows.max": 60, "stepwell.workers": 2}
    resolved = play.resolve(everything.RETRACTABLE, conf)
    with play.oracle(resolved) as oracle:
        blank = play.run(resolved)["step"]
        traces_blank = trace_rows(resolved)
        for seed in range(1, rounds + 1):
            everything.send(play, seed, retractable=True)
            play.run(resolved)
        assert len(trace_rows(resolved)) > 20
        everything.take_back(play)
        play.run(resolved)
        story = oracle.verify(play.batch(resolved) if rounds > 1 else None, sample=0)  # test_placement.py asks Spark
        oracle.check_drained(story, blank, trace_rows(resolved), traces_blank)
