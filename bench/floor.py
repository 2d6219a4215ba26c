"""The floor: the same operators on the same bytes in one process, without Spark, Kafka and LMDB. What it leaves is what those cost.

    python -m bench.floor JOB      JOB: one JSON object, as `run` makes it; the last line of output is the answer

Spark is used once, to lower the project to its circuit, and stopped before anything is measured. One worker, one core.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pyarrow as pa

from bench import generate, peers
from bench.generate import Shape
from bench.ours import ROOT
from bench.result import Result, Step, fill
from bench.workloads import BUILD, DEFAULT, PROJECTS, WORKLOADS, Case
from coordinator.specification import PipelineSpec
from engine.in_process import InProcess
from engine.sources import read_sources
from io_kafka.offsets import OffsetRange
from io_kafka.raw import RawBatch, raw_batch

ENGINE = "floor"


def run(shape: Shape, case: Case, topic_rows: int, broker: int) -> Result:
    """The floor of a case, in a process of its own so that its CPU and memory are its own. Raises RunFailed."""
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
    fill(result, [Step(*step) for step in said["steps"]], case.warm_rows, watch.usage)
    return result


def main() -> None:
    job = json.loads(sys.argv[1])
    spec = _lowered(job["workload"])
    step_rows = spec.limits.rows_max if job["step_rows"] == DEFAULT else job["step_rows"]
    shape = Shape(job["seed"], job["auctions"])
    engine = InProcess(spec.circuit, 1, {output.handle: 4 for output in spec.outputs})
    tables = {source.table.handle: source.table for source in spec.inputs}
    on_error = {handle: "fail" for handle in tables}
    chunks = _chunks(job["workload"], shape, job["start"], job["end"], step_rows)
    first = [_auctions(shape)] if job["workload"] == "W3" else []
    steps: list[tuple[float, int, float]] = []
    for number, batch in enumerate(chunks):
        began = time.time()
        read, _ = read_sources(spec.circuit, tables, [*first, batch], on_error, number)
        handles = {getattr(spec.circuit.nodes[i], "handle"): rows for i, rows in read.items()}  # noqa: B009
        engine.step(handles)
        first = []
        ended = time.time()
        steps.append((ended, batch.num_rows, 1e3 * (ended - began)))
    print(json.dumps({"steps": steps}), flush=True)


def _lowered(workload: str) -> PipelineSpec:
    from stepwell.lowering.driver import lower
    from stepwell.pipeline import pipeline_spec
    from stepwell.plans import resolve
    from stepwell.project import load_project
    from stepwell.session import make_session

    os.environ.setdefault("PYTHONPATH", str(ROOT))
    project = load_project(PROJECTS / workload.lower() / "spark-pipeline.yml")
    session = make_session("floor", project.settings.spark)
    try:
        resolved = resolve(project, session)
        return pipeline_spec(resolved, lower(resolved))
    finally:
        session.stop()


def _chunks(workload: str, shape: Shape, start: int, end: int, step_rows: int):  # type: ignore[no-untyped-def]
    """The messages of each step; made before they are needed, so not within a step's time."""
    topic = WORKLOADS[workload].topic
    held: list[pa.Array] = []
    rows = 0
    for values in _values(topic, shape, start, end):
        for at in range(0, len(values), step_rows):
            held.append(values.slice(at, step_rows))
            rows += len(held[-1])
            if rows >= step_rows:
                yield _batch(topic, held)
                held, rows = [], 0
    if held:
        yield _batch(topic, held)


def _values(topic: str, shape: Shape, start: int, end: int):  # type: ignore[no-untyped-def]
    if topic == "changes":
        yield from (generate.as_changelog(table, weights) for table, weights in generate.changes(shape, start, end))
    else:
        yield from (generate.as_json(table) for table in generate.bids(shape, start, end))


def _batch(topic: str, values: list[pa.Array], keys: pa.Array | None = None) -> RawBatch:
    value = pa.concat_arrays(values).cast(pa.binary())
    key = pa.nulls(len(value), pa.binary()) if keys is None else keys.cast(pa.binary())
    return raw_batch(OffsetRange(topic, 0, 0, len(value)), key, value, pa.array(range(len(value)), pa.int64()))


def _auctions(shape: Shape) -> RawBatch:
    keys, values = generate.auctions_as_json(generate.auctions(shape))
    return _batch("auctions", [values], keys)
