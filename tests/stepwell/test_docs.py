"""What the documents say is true of the code: the list of expressions, to which errors send users, and the worked example."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from base.options import OnError
from engine.model.rows import Source
from engine.operators.facts import DivisionFacts
from engine.run.sources import read_sources
from engine.run.step_input import StepInput
from io_kafka.clients.raw import RawBatch, raw_batch
from io_kafka.messages import Messages
from io_kafka.offsets import OffsetRange
from stepwell.inspection.dry_run import describe
from stepwell.lowering.driver import lower
from stepwell.lowering.expressions import HIGHER_ORDER, TABLE
from stepwell.planning.pipeline import pipeline_spec, plan_project
from stepwell.planning.resolver import resolve
from tests.engine.in_process import InProcess
from tests.stepwell.folder import project

ROOT = Path(__file__).parents[2]

Message = tuple[bytes | None, bytes | None]

# The input of docs/concepts.md, step by step: topic -> messages.
INPUT: tuple[dict[str, list[Message]], ...] = (
    {
        "orders": [
            (None, b'{"id": 1, "customer": 10}'),
            (None, b'{"id": 2, "customer": 10}'),
            (None, b'{"id": 3, "customer": 20}'),
        ],
        "customers": [
            (b'{"id": 10}', b'{"id": 10, "country": "France"}'),
            (b'{"id": 20}', b'{"id": 20, "country": "Kenya"}'),
        ],
    },
    {
        "orders": [(None, b'{"id": 4, "customer": 20}')],
        "customers": [(b'{"id": 10}', b'{"id": 10, "country": "Kenya"}')],
    },
    {"customers": [(b'{"id": 20}', None)]},
)


def test_every_expression_is_listed() -> None:
    text = (ROOT / "docs" / "sql.md").read_text().split("## Expressions", 1)[1]
    listed = {
        name for block in re.split(r"^### .*$", text, flags=re.MULTILINE)[1:] for name in re.findall(r"\w+", block)
    }
    assert listed == {*TABLE, *HIGHER_ORDER}


def _definitions(document: str) -> str:
    found = re.search(r"```sql\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    assert found is not None, f"{document} has no definition in SQL"
    return found[1]


@pytest.mark.parametrize("document", ["README.md", "docs/concepts.md"])
def test_the_definitions_in_a_document_are_supported(document: str, spark: SparkSession, tmp_path: Path) -> None:
    description = describe(resolve(project(tmp_path, {"views.sql": _definitions(document)}), spark))
    assert description.views and not description.errors


def _batch(topic: str, start: int, messages: list[Message]) -> RawBatch:
    keys, values = (pa.array([message[part] for message in messages], pa.binary()) for part in (0, 1))
    end = start + len(messages)
    messages = Messages.plain(keys, values, pa.array(range(start, end), pa.int64()))
    return raw_batch(OffsetRange(topic, 0, start, end), messages)


def _written_in(text: str) -> list[list[Message]]:
    """The messages that the worked example shows, by step: indented lines `key {...}   value {...}`."""
    steps = re.split(r"^\*\*Step \d+\*\*", text, flags=re.MULTILINE)[1:]
    lines = [re.findall(r"^    key (\{.*?\}) +value (.+)$", step, flags=re.MULTILINE) for step in steps]
    return [[(key.encode(), None if value == "null" else value.encode()) for key, value in step] for step in lines]


def test_the_worked_example_has_the_messages_that_the_engine_gives(spark: SparkSession, tmp_path: Path) -> None:
    resolved = resolve(project(tmp_path, {"views.sql": _definitions("docs/concepts.md")}), spark)
    spec = pipeline_spec(resolved.project, plan_project(resolved, lower(resolved)))
    engine = InProcess(spec.circuit, 2, {output.handle: 1 for output in spec.outputs})
    tables = {source.table.handle: source.table for source in spec.inputs}
    on_error: dict[str, OnError] = dict.fromkeys(tables, "fail")
    positions = dict.fromkeys(tables, 0)
    given: list[list[Message]] = []
    for number, step in enumerate(INPUT):
        batches = [_batch(topic, positions[topic], messages) for topic, messages in step.items()]
        for topic, messages in step.items():
            positions[topic] += len(messages)
        step_input = StepInput(facts=DivisionFacts(number=number), ranges=(), on_error=on_error)
        rows, _ = read_sources(spec.circuit, tables, step_input, batches)
        handles = {node.handle: rows[i] for i, node in enumerate(spec.circuit.nodes) if isinstance(node, Source)}
        found = engine.step(handles)["orders_by_country"].sort_by("key")
        given.append(list(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True)))
    assert given == _written_in((ROOT / "docs" / "concepts.md").read_text())
    assert sum(len(step) for step in given) == 5
