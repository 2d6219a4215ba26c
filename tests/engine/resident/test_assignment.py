"""What Spark hands to a host: any release can read the version, and the classes within belong to it."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from base.term import Term
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan_stages
from engine.operators.facts import RunFacts
from engine.resident import entry
from engine.resident.entry import Assignment, OtherWireVersion, pack, resident_task
from engine.resident.frames import WIRE_VERSION
from engine.resident.tls import RunCertificate
from engine.run.source_table import SourceTable
from engine.run.task_setup import TaskSetup
from io_kafka.clients.settings import KafkaSettings
from io_kafka.formats.batches import TableFormat
from io_kafka.formats.encodings import (
    Avro,
    Csv,
    DescribedProtobuf,
    Encoding,
    JsonWithRegistry,
    PlainAvro,
    Protobuf,
    Text,
)
from io_kafka.formats.records import RecordFormat
from io_kafka.formats.spec import SourceFormat
from io_kafka.registry.address import RegistryAddress
from storage.host_folder import StateLocation
from storage.remote.place import StorePlace
from tests.engine.every_kind import every_kind

CLASSES = Path(__file__).parent / "samples" / f"assignment_{WIRE_VERSION}.txt"
"""The classes of such an assignment and their fields, as this wire version has them."""

REGISTRY = RegistryAddress("http://registry:8081")
ENCODINGS: tuple[Encoding, ...] = (
    None,
    Avro(REGISTRY),
    PlainAvro('"string"'),
    Csv(),
    Text(),
    Protobuf(REGISTRY),
    DescribedProtobuf(b"", "M"),
    JsonWithRegistry(REGISTRY),
)


def assignment() -> Assignment:
    circuit, schema = every_kind(), pa.schema([pa.field("a", pa.string())])
    tables = [SourceFormat(f"t{n}", schema, encoding=encoding) for n, encoding in enumerate(ENCODINGS)]
    others = [RecordFormat("r", pa.schema([pa.field("value", pa.binary())])), TableFormat("b", schema)]
    setup = TaskSetup(
        plan=plan_stages(circuit),
        kafka=KafkaSettings.parse({"bootstrap.servers": "nowhere:1"}),
        tables={each.handle: SourceTable(each.handle, ("t",), each) for each in (*tables, *others)},
        state_location=StateLocation("p", Path("/state"), None, False),
        facts=RunFacts(tuple(range(len(circuit.nodes))), append_only_inputs(circuit), {}, {}),
        revision=1,
        store=StorePlace("file:///store"),
    )
    certificate = RunCertificate("certificate", "key")
    return Assignment(setup, Term(3, 1), ("here", 1), "token", 5.0, looks=False, certificate=certificate)


class _Classes(pickle.Unpickler):
    """Notes the classes and functions that are named in a pickle."""

    def __init__(self, pickled: bytes) -> None:
        super().__init__(io.BytesIO(pickled))
        self.names: set[tuple[str, str]] = set()
        self.value = self.load()

    def find_class(self, module: str, name: str) -> Any:
        self.names.add((module, name))
        return super().find_class(module, name)


def own_classes(pickled: bytes) -> Iterator[str]:
    """In order, those of Stepwell, with the names of their fields."""
    for module, name in sorted(_Classes(pickled).names):
        found = getattr(import_module(module), name)
        if module.partition(".")[0] in ("base", "coordinator", "engine", "io_kafka", "stepwell", "storage"):
            yield f"{module}.{name}" + (f"({', '.join(f.name for f in fields(found))})" if is_dataclass(found) else "")


def test_the_classes_of_an_assignment_belong_to_the_wire_version() -> None:
    """A host whose release has a class elsewhere, or with other fields, cannot become a worker. What differs here needs WIRE_VERSION + 1.
    docs/extending.md says how to write the file."""
    assert list(own_classes(pack(assignment()).assignment)) == CLASSES.read_text().splitlines()


def test_the_version_can_be_read_without_any_class_of_ours() -> None:
    assert list(own_classes(pickle.dumps(pack(assignment())))) == []


def test_an_assignment_of_another_release_is_refused_before_it_is_read() -> None:
    missing = pickle.dumps(assignment()).replace(b"engine.run.task_setup", b"engine.run.task_later")
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(missing)
    for wire in (WIRE_VERSION - 1, WIRE_VERSION + 1):
        with pytest.raises(OtherWireVersion, match=f"the service has wire version {wire}"):
            resident_task(SimpleNamespace(wire=wire, assignment=missing), ())


def test_a_worker_lives_by_the_assignment_that_was_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    lived: list[Assignment] = []
    monkeypatch.setattr(entry, "live_here", lambda given, start_companion: lived.append(given))
    assert list(resident_task(pickle.loads(pickle.dumps(pack(assignment()))), ())) == []
    (found,) = lived
    assert (found.term, found.coordinator, found.token) == (Term(3, 1), ("here", 1), "token")
    assert found.setup.plan.circuit.to_json() == every_kind().to_json()
