"""An edit of a source while a pipeline runs, from the files to the rows: what each view has then is what a run of the new project has from the
beginning, and, where no message is malformed, Spark's batch answer of the new project."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from base.options import OnError
from coordinator.revisions.chosen_comparison import compare
from coordinator.revisions.columns_had import names_had, outputs_after
from coordinator.revisions.document import PlanDocument, document_of
from engine.analysis.comparing import ChosenOutputs
from engine.analysis.fill_circuits import fill_circuits
from engine.analysis.numbering import numbers_after
from engine.model.circuit import Output, View
from engine.model.filling import HASHES, OF_FORMER, OF_NEXT
from engine.operators.facts import DivisionFacts
from engine.run.source_table import SourceTable
from engine.run.sources import read_sources
from engine.run.step_input import StepInput
from examples.batch import TopicMessage, batch_answer
from io_kafka.clients.raw import RawBatch, raw_batch
from io_kafka.extras import TYPES, Extras
from io_kafka.formats.encodings import AvroIds, ProtobufIds
from io_kafka.messages import Messages
from io_kafka.offsets import OffsetRange
from stepwell.lowering.driver import lower
from stepwell.planning.plans import ResolvedProject
from stepwell.planning.resolver import resolve
from stepwell.planning.revisions import document_of_project
from tests.engine.in_process import InProcess
from tests.engine.test_filling import contents_of
from tests.engine.transitions import Way
from tests.small_jobs import small
from tests.stepwell.folder import project
from tests.stepwell.test_planned import facts_of

TOPIC, WORKERS = "people", 2
BEGAN_MS = 1_600_000_000_000

Text = str | None
Sent = tuple[Text, Text]
"""The key and the value of a message."""


@dataclass
class Pipeline:
    """A pipeline in this process that reads one topic, and all that it has read and written. `written`: of each step, the messages of each
    output."""

    document: PlanDocument
    on_error: OnError
    heard: list[RawBatch] = field(default_factory=list)
    written: list[dict[str, pa.Table]] = field(default_factory=list)
    offset: int = 0

    def __post_init__(self) -> None:
        self.inner = InProcess(self.document.circuit, WORKERS)
        self._settle_outputs()
        self.numbers = tuple(self.inner.program.numbers)
        self.tables: dict[str, SourceTable] = tables_of(self.document)

    def step(self, sent: Sequence[Sent], again: Sequence[RawBatch] = (), filled: tuple[int, int] = (0, 0)) -> None:
        live = [self._batch(sent)] if sent else []
        given = StepInput(
            facts=DivisionFacts(number=self.inner.steps), ranges=(), on_error=dict.fromkeys(self.tables, self.on_error)
        )
        circuit = self.inner.program.circuit
        read = [
            read_sources(circuit, self.tables, given, live if worker == 0 else [], again if worker == 0 else [])[0]
            for worker in range(WORKERS)
        ]
        self.heard += live
        self.written.append(self.inner.step_of(read, filled=filled))

    def _settle_outputs(self) -> None:
        """Each topic has one partition, and its schemas have the same ids in all projects."""
        outputs = [node for node in self.inner.program.circuit.nodes if isinstance(node, Output)]
        ids = {"avro": AvroIds(1, 2), "protobuf": ProtobufIds(1, 2)}
        schema_ids = {node.handle: ids[form] for node in outputs if (form := node.written.format) in ids}
        partitions = dict.fromkeys((node.handle for node in outputs), 1)
        self.inner.facts = replace(self.inner.facts, partitions=partitions, schema_ids=schema_ids)

    def _batch(self, sent: Sequence[Sent]) -> RawBatch:
        start, self.offset = self.offset, self.offset + len(sent)
        offsets = range(start, self.offset)
        keys, values = (
            pa.array([None if text is None else text.encode() for text in texts], pa.binary())
            for texts in zip(*sent, strict=True)
        )
        times = [{"timestamp": BEGAN_MS + 1000 * offset, "timestamp_type": 0} for offset in offsets]
        extras = pa.array(times, TYPES[Extras.TIMESTAMPS])
        messages = Messages(keys, values, pa.array(offsets, pa.int64()), extras)
        return raw_batch(OffsetRange(TOPIC, 0, start, self.offset), messages)

    def become(self, now: PlanDocument, at_switch: Sequence[Sent] = (), *, parts: int = 0) -> None:
        """Goes to the next project as a service does: fills what is young, and makes the switch in a step with input. `parts`: in how many steps
        what differs leaves, if it does not leave in one."""
        comparison = compare(self.document, now, facts_of(self.document), number=1)
        found, numbers = comparison.found, numbers_after(comparison.found, self.numbers)
        filling = fill_circuits(
            found,
            comparison.histories,
            (self.numbers, numbers),
            comparison.new_outputs(),
            ChosenOutputs(gradual=parts > 0),
            had=names_had(comparison),
        )
        way = Way(self.inner, filling)
        for prefix, tables in ((OF_FORMER, tables_of(self.document)), (OF_NEXT, tables_of(now))):
            self.tables |= {prefix + name: replace(table, handle=prefix + name) for name, table in tables.items()}
        way.begin()
        way.advance(way.whole)
        self.step([], list(self.heard), way.filled)
        self.tables |= tables_of(now)
        if parts:
            way.begin_to_drain()
        else:
            way.turn()
        self._settle_outputs()
        for part in range(1, parts + 1):
            way.drain(HASHES * part // parts)
            self.step(at_switch if part == max(1, parts // 2) else [], filled=way.filled)
        if not parts:
            self.step(at_switch, filled=way.filled)
        way.settle()
        self.document = replace(now, numbers=numbers, outputs=outputs_after(comparison))
        self.numbers = numbers


def tables_of(document: PlanDocument) -> dict[str, SourceTable]:
    return {source.table.handle: source.table for source in document.inputs}


def planned(spark: SparkSession, folder: Path, sql: str) -> tuple[PlanDocument, ResolvedProject]:
    resolved = resolve(project(folder, {"project.sql": sql}), spark)
    return document_of(document_of_project(resolved, lower(resolved)).text), resolved


def keyed(columns: str, properties: str = "") -> str:
    return (
        f"CREATE STREAMING TABLE people ({columns}) USING kafka TBLPROPERTIES "
        f"('subscribe' = '{TOPIC}', 'mode' = 'upsert', 'key' = 'k'{properties});\n"
    )


def plain(name: str, columns: str) -> str:
    return f"CREATE STREAMING TABLE {name} ({columns}) USING kafka TBLPROPERTIES ('subscribe' = '{TOPIC}', 'on.error' = 'skip');\n"


def message(k: str, **values: object) -> Sent:
    return json.dumps({"k": k}), json.dumps({"k": k, **values})


def view(name: str, query: str) -> str:
    return f"CREATE MATERIALIZED VIEW {name} AS {query};\n"


TOTAL = view("total", "SELECT sum(x) AS total, count(*) AS n FROM people")
CODES = view("codes", "SELECT k, code, length(code) AS length FROM people") + view(
    "n", "SELECT count(*) AS n FROM people"
)
NAMES = view("names", "SELECT name, count(*) AS n FROM people GROUP BY name")
STRICT, LENIENT = plain("strict", "k STRING, n INT"), plain("lenient", "k STRING, n STRING")
OF_STRICT = view("v1", "SELECT k, count(*) AS c FROM strict GROUP BY k")
OF_LENIENT = view("v2", "SELECT k, count(*) AS c FROM lenient GROUP BY k")
SKIPS = ", 'on.error' = 'skip'"

ONE_DAY = [message("2024-01-01T00:00:00Z", x=1), message("2024-01-01 00:00:00", x=2), message("2024-01-02", x=5)]
ONE_TEXT = [message("a", x=1), message("a ", x=2), message("b", x=5)]
CODED = [message("1", code="ab"), message("2", code="abc")]
MALFORMED = [message("1", x="1", name="A"), message("1", x="abc", name="B"), message("2", x="zz", name="Q")]
TWO_FORMS: list[Sent] = [(None, '{"k": "a", "n": 1}'), (None, '{"k": "a", "n": "bad"}')]

EDITS = {
    "keys of another type": (
        keyed("k STRING, x BIGINT") + TOTAL, keyed("k TIMESTAMP, x BIGINT") + TOTAL,
        ONE_DAY, [message("2024-01-03", x=7)], [message("2024-01-01 00:00:00", x=10)],
    ),
    "a longer CHAR": (
        keyed("k STRING, code CHAR(3)") + CODES, keyed("k STRING, code CHAR(4)") + CODES,
        CODED, [message("3", code="ab")], [message("1", code="x")],
    ),
    "a CHAR that was a text": (
        keyed("k STRING, code STRING") + CODES, keyed("k STRING, code CHAR(4)") + CODES,
        CODED, [message("3", code="ab")], [message("1", code="x")],
    ),
    "a column of the record": (
        keyed("k STRING, code TIMESTAMP") + view("codes", "SELECT k, unix_micros(code) AS at FROM people"),
        keyed("k STRING, code TIMESTAMP", ", 'metadata.timestamp' = 'code'") + view("codes", "SELECT k, unix_micros(code) AS at FROM people"),
        [message("1", code="2024-01-01 00:00:00"), message("2", code="2024-01-02 00:00:00")],
        [message("3", code="2024-01-03 00:00:00")], [],
    ),
}  # fmt: skip
AGAINST_A_RUN = {
    "keys of another length": (
        keyed("k STRING, x BIGINT") + TOTAL, keyed("k CHAR(3), x BIGINT") + TOTAL,
        ONE_TEXT, [message("c", x=7)], [message("a", x=10)],
    ),  # Spark has the keys of messages, and pads the rows
    "a column of another type": (
        keyed("k STRING, name STRING, x STRING", SKIPS) + NAMES, keyed("k STRING, name STRING, x INT", SKIPS) + NAMES,
        MALFORMED, [message("3", x=7, name="C")], [message("1", x=10, name="D")],
    ),
    "a new column": (
        keyed("k STRING, name STRING", SKIPS) + NAMES, keyed("k STRING, name STRING, x INT", SKIPS) + NAMES,
        MALFORMED, [message("3", x=7, name="C")], [message("2", x=10, name="D")],
    ),
    "one of two views of two sources goes": (
        STRICT + LENIENT + OF_STRICT + OF_LENIENT, STRICT + LENIENT + OF_LENIENT,
        TWO_FORMS, [(None, '{"k": "b", "n": 1}')], [],
    ),
    "one of two sources goes": (
        STRICT + LENIENT + OF_STRICT + OF_LENIENT, LENIENT + OF_LENIENT, TWO_FORMS, [(None, '{"k": "b", "n": 1}')], [],
    ),
    "a view of the second source comes": (
        STRICT + LENIENT + OF_LENIENT, STRICT + LENIENT + OF_LENIENT + OF_STRICT, TWO_FORMS, [(None, '{"k": "b", "n": 1}')], [],
    ),
    "a renamed view of the first source": (
        STRICT + LENIENT + OF_STRICT + OF_LENIENT, STRICT + LENIENT + OF_STRICT.replace("v1", "v3") + OF_LENIENT,
        TWO_FORMS, [(None, '{"k": "b", "n": 1}')], [],
    ),
    "a view that reads the other source": (
        STRICT + LENIENT + OF_STRICT + OF_LENIENT, STRICT + LENIENT + OF_STRICT.replace("strict", "lenient") + OF_LENIENT,
        TWO_FORMS, [(None, '{"k": "b", "n": 1}')], [],
    ),
    "two renamed sources": (
        STRICT + LENIENT + OF_STRICT + OF_LENIENT, (STRICT + LENIENT + OF_STRICT + OF_LENIENT).replace("strict", "z").replace("lenient", "a"),
        TWO_FORMS, [(None, '{"k": "b", "n": 1}')], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*EDITS, *AGAINST_A_RUN])
def test_after_an_edit_of_a_source_its_views_have_the_answer_of_the_new_project(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    has_answer = name in EDITS
    before, after, sent, at_switch, later = (EDITS | AGAINST_A_RUN)[name]
    session, on_error = small(spark), "fail" if has_answer else "skip"
    was, _ = planned(session, tmp_path / "was", before)
    now, resolved = planned(session, tmp_path / "now", after)
    pipeline, fresh = Pipeline(was, on_error), Pipeline(now, on_error)
    pipeline.step(sent)
    pipeline.become(now, at_switch)
    pipeline.step(later)
    for each in (sent, at_switch, later):
        fresh.step(each)
    found = contents_of(pipeline.inner)
    assert found == contents_of(fresh.inner)
    if has_answer:
        answer = batch_answer(resolved, {TOPIC: as_messages([*sent, *at_switch, *later])})
        names = [node.name for node in now.circuit.nodes if isinstance(node, View)]
        assert found == {each: Counter(tuple(row) for row in answer[each].collect()) for each in names}


def as_messages(sent: Sequence[Sent]) -> list[TopicMessage]:
    octets = [tuple(None if text is None else text.encode() for text in pair) for pair in sent]
    return [TopicMessage(0, at, key, value, BEGAN_MS + 1000 * at, 0) for at, (key, value) in enumerate(octets)]
