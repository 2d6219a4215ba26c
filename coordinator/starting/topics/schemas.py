"""The schemas of outputs whose format has some are registered when a run starts.

The subjects are those of the registry's TopicNameStrategy: `TOPIC-value` and `TOPIC-key`. A schema follows from the columns of the output, and
a registry gives the same id for the same schema of a subject. So a replay writes the same bytes. If a registry was emptied and gives another id,
the replay differs, and stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from base.logger import Logger
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.subjects import Subject, form_of, subjects_of
from coordinator.specification import OutputTopic, PipelineSpec
from engine.model.circuit import Circuit, Output
from io_kafka.formats.encodings import SchemaIds
from io_kafka.formats.table import ids_of
from io_kafka.registry.client import registry_at

_log = Logger("coordinator.starting.topics.schemas")


def register_schemas(spec: PipelineSpec) -> Mapping[str, SchemaIds]:
    """The ids of the schemas of the outputs that have some, by handle. Raises RegistryUnreachable and RegistryRefused."""
    found: dict[str, SchemaIds] = {}
    for output in spec.outputs:
        if output.registry is None:
            continue
        registry, node = registry_at(output.registry), _node_of(spec.circuit, output.handle)
        subjects = subjects_of(output.topic, form_of(spec.circuit, node), node.written.format)
        value, *keys = [registry.register(subject.name, subject.text, subject.kind) for subject in subjects]
        key = keys[0] if keys else None
        found[output.handle] = ids_of(node.written.format, value, key)
        _log.info("schemas are registered", output=output.handle, value=value, key=key)
    return found


def refused_schemas(before: PlanDocument, now: PlanDocument, auth: str | None) -> dict[str, str]:
    """Why registries would refuse the schemas of outputs, by handle. Only those are asked for that differ from those before, so a registry that
    is away matters to nobody else. Nothing is registered. Raises RegistryUnreachable and RegistryRefused."""
    known = {subject for output in before.outputs for subject in _subjects(before, output)}
    found: dict[str, str] = {}
    for output in now.outputs:
        for subject in _subjects(now, output):
            if subject in known or output.registry is None:
                continue
            registry = registry_at(replace(output.registry, auth=auth))
            reason = registry.why_incompatible(subject.name, subject.text, subject.kind)
            if reason is not None:
                found.setdefault(output.handle, f"the registry refuses the schema of subject {subject.name}: {reason}")
    return found


def _subjects(document: PlanDocument, output: OutputTopic) -> list[Subject]:
    node = _node_of(document.circuit, output.handle)
    return subjects_of(output.topic, form_of(document.circuit, node), node.written.format)


def _node_of(circuit: Circuit, handle: str) -> Output:
    return next(node for node in circuit.nodes if isinstance(node, Output) and node.handle == handle)
