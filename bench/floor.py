"""The floor: the same operators on the same bytes in one process, without Spark, Kafka and LMDB. The difference to a service is what those cost.

    python -m bench.floor JOB      JOB is one JSON object, as `run` makes it; the last line of output is the answer

Spark is used once, to lower the project to its circuit, and is stopped before anything is measured. There is one worker on one core.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from base.options import OnError
from bench import generate, peers
from bench.generate import Shape
from bench.ours import ROOT
from bench.result import Result, Step, fill
from bench.workloads import BUILD, DEFAULT, PROJECTS, WORKLOADS, Case
from coordinator.specification import PipelineSpec
from engine.operators.facts import DivisionFacts
from engine.run.sources import read_sources
from engine.run.step_input import StepInput
from io_kafka.clients.raw import RawBatch, raw_batch
from io_kafka.messages import Messages
from io_kafka.offsets import OffsetRange
from tests.engine.in_process import InProcess

ENGINE = "floor"


def run(shape: Shape, case: Case, topic_rows: int, broker: int) -> Result:
    """Measures the floor of a case in a separate process, so that its CPU and memory can be measured alone. Raises RunFailed."""
    result = Result(ENGINE, case.workload.name, case.step_rows, note="one process, one core, no Spark, Kafka or LMDB")
    job = {
        "workload": case.workload.name,
        "step_rows": case.step_rows,
        "start": topic_rows - case.rows,
        "end": topic_rows,
        "seed": shape.seed,
        "auctions": shape.auctions,
    }
    script = BUILD / "floor.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r}); from bench.floor import main; main()\n")
    said, watch = peers.run_job(Path(sys.executable), script, job, BUILD / "runs" / f"floor-{case.name}", broker)
    fill(result, [Step(*step[:3]) for step in said["steps"]], case.warm_rows, watch.usage)
    # Between its steps the process makes the bytes of the next step. That time and that CPU do not belong to the operators.
    measured = said["steps"][-(result.steps or 0) :]
    result.rows_per_s = round(1e3 * result.rows / sum(step[2] for step in measured))
    result.cpu_s_per_million = round(1e6 * sum(step[3] for step in measured) / result.rows, 2)
    result.broker_cpu_s_per_million = None
    return result


def main() -> None:
    job = json.loads(sys.argv[1])
    spec = _lowered(job["workload"])
    step_rows = spec.limits.rows_max if job["step_rows"] == DEFAULT else job["step_rows"]
    shape = Shape(job["seed"], job["auctions"])
    engine = InProcess(spec.circuit, 1, {output.handle: 4 for output in spec.outputs})
    tables = {source.table.handle: source.table for source in spec.inputs}
    on_error: dict[str, OnError] = dict.fromkeys(tables, "fail")
    chunks = _chunks(job["workload"], shape, job["start"], job["end"], step_rows)
    first = [_auctions(shape)] if job["workload"] == "W3" else []
    steps: list[tuple[float, int, float, float]] = []  # end, rows, ms, CPU seconds
    for number, batch in enumerate(chunks):
        began, cpu_began = time.time(), time.process_time()
        given = StepInput(facts=DivisionFacts(number=number), ranges=(), on_error=on_error)
        read, _ = read_sources(spec.circuit, tables, given, [*first, batch])
        handles = {getattr(spec.circuit.nodes[i], "handle"): rows for i, rows in read.items()}  # noqa: B009
        engine.step(handles)
        first = []
        ended = time.time()
        steps.append((ended, batch.messages.length, 1e3 * (ended - began), time.process_time() - cpu_began))
    print(json.dumps({"steps": steps}), flush=True)


def _lowered(workload: str) -> PipelineSpec:
    from stepwell.lowering.driver import lower
    from stepwell.planning.pipeline import pipeline_spec, plan_project
    from stepwell.planning.resolver import resolve
    from stepwell.project.loading import load_project
    from stepwell.spark.session import make_session

    os.environ.setdefault("PYTHONPATH", str(ROOT))
    project = load_project(PROJECTS / workload.lower() / "spark-pipeline.yml")
    session = make_session("floor", project.settings.spark)
    try:
        resolved = resolve(project, session)
        return pipeline_spec(resolved.project, plan_project(resolved, lower(resolved)))
    finally:
        session.stop()


def _chunks(workload: str, shape: Shape, start: int, end: int, step_rows: int) -> Iterator[RawBatch]:
    """The messages of each step. They are made before the step begins, so a step's time does not include it."""
    topic = WORKLOADS[workload].topic
    held: list[pa.Array] = []
    lacking = step_rows
    for values in _values(topic, shape, start, end):
        at = 0
        while at < len(values):
            part = values.slice(at, lacking)
            held.append(part)
            at, lacking = at + len(part), lacking - len(part)
            if lacking == 0:
                yield _batch(topic, held)
                held, lacking = [], step_rows
    if held:
        yield _batch(topic, held)


def _values(topic: str, shape: Shape, start: int, end: int) -> Iterator[pa.Array]:
    if topic == "changes":
        yield from (generate.as_changelog(table, weights) for table, weights in generate.changes(shape, start, end))
    else:
        yield from (generate.as_json(table) for table in generate.bids(shape, start, end))


def _batch(topic: str, values: list[pa.Array], keys: pa.Array | None = None) -> RawBatch:
    value = pa.concat_arrays(values).cast(pa.binary())
    key = pa.nulls(len(value), pa.binary()) if keys is None else keys.cast(pa.binary())
    offsets = pa.array(range(len(value)), pa.int64())
    return raw_batch(OffsetRange(topic, 0, 0, len(value)), Messages.plain(key, value, offsets))


def _auctions(shape: Shape) -> RawBatch:
    keys, values = generate.auctions_as_json(generate.auctions(shape))
    return _batch("auctions", [values], keys)


if __name__ == "__main__":
    main()
