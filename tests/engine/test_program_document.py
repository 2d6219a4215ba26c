"""A program as a document, and what workers make of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from engine.analysis.filling import Program
from engine.model.circuit import Circuit, View
from engine.model.filling import OF_NEXT
from engine.model.rows import Source
from engine.run.program_document import Outputs, ProgramDocument, program_of, setup_of
from engine.run.source_table import SourceTable
from engine.run.task_setup import TaskSetup
from io_kafka.extras import Extras
from io_kafka.formats.encodings import Protobuf
from io_kafka.formats.spec import SourceFormat
from io_kafka.registry.address import RegistryAddress
from tests.engine.resident import local_cluster

PASSWORD = "user:secret"
COLUMNS = pa.schema([pa.field("at", pa.timestamp("us"))])
LONG = (pa.int64(),)


def document(*sources: SourceTable) -> ProgramDocument:
    nodes = [Source((), LONG, source.handle) for source in sources]
    circuit = Circuit((*nodes, View((0,), LONG, "v", ("n",), kept=True)))
    return ProgramDocument(program=Program.of(circuit, range(len(circuit.nodes))), sources=sources)


def adopted(tmp_path: Path, found: ProgramDocument, auth: str | None = None) -> TaskSetup:
    outputs = Outputs(topics={source.handle: ("t",) for source in found.sources}, partitions={}, schema_ids={})
    like = replace(local_cluster.setup_of(tmp_path, 1), registry_auth=auth)
    return setup_of(program_of(found.text), outputs, like, revision=2, first=3)


def test_workers_know_the_password_of_a_registry_that_no_document_has(tmp_path: Path) -> None:
    with_registry = SourceFormat("s", COLUMNS, encoding=Protobuf(RegistryAddress("http://registry", PASSWORD)))
    found = document(SourceTable("s", ("t",), with_registry))
    assert PASSWORD not in found.text and "secret" not in found.text
    setup = adopted(tmp_path, found, PASSWORD)
    form = setup.tables["s"].format
    assert isinstance(form, SourceFormat) and isinstance(form.encoding, Protobuf)
    assert form.encoding.registry == RegistryAddress("http://registry", PASSWORD)
    assert "secret" not in repr(setup)


def test_a_worker_reads_of_each_message_what_the_sources_of_its_program_want(tmp_path: Path) -> None:
    """What is read again has a reader of its own, which wants something else."""
    plain = SourceTable("s", ("t",), SourceFormat("s", pa.schema([pa.field("n", pa.int64())])))
    timed = SourceTable("s", ("t",), SourceFormat("s", COLUMNS, metadata=(("at", "timestamp"),)))
    for sources, present, again in (
        ((plain,), Extras.NONE, Extras.NONE),
        ((timed,), Extras.TIMESTAMPS, Extras.NONE),
        ((plain, replace(timed, handle=OF_NEXT + "s")), Extras.NONE, Extras.TIMESTAMPS),
    ):
        setup = adopted(tmp_path / str(len(sources)) / present.name, document(*sources))
        assert setup.kafka.extras is present and setup.kafka_reread.extras is again
        assert setup.kafka != setup.kafka_reread, "they share no consumer"
