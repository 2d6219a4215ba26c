"""Checks of the schema registries that the project names: whether each answers and lets this user in, and whether it will take the schemas of
the outputs. Nothing is registered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from coordinator.revisions.subjects import Subject, subjects_of
from io_kafka.errors import RegistryRefused, RegistryUnreachable
from io_kafka.formats.encodings import WithRegistry
from io_kafka.formats.spec import OutputFormat
from io_kafka.formats.table import reading_of
from io_kafka.registry.address import RegistryAddress
from io_kafka.registry.client import Registry
from stepwell.catalyst.types import arrow_schema
from stepwell.doctor.check import Check
from stepwell.planning.plans import ResolvedProject, ResolvedView
from stepwell.project.tables import SourceSpec

ANSWER_SECONDS_MAX = 5.0
"""A registry that takes longer is reported as down. `run` itself waits longer."""


@dataclass(frozen=True)
class _Use:
    """What the project needs of one registry: kinds of schemas, and those that a run will register."""

    kinds: frozenset[str]
    subjects: tuple[Subject, ...]


def registry_checks(resolved: ResolvedProject) -> list[Check]:
    """One check for each registry, and one for each subject of an output."""
    auth = resolved.project.settings.stepwell.registry_auth
    uses = _uses(resolved.sources, resolved.views)
    return [check for address, use in uses.items() for check in _checks(replace(address, auth=auth), use)]


def _uses(sources: Sequence[SourceSpec], views: Sequence[ResolvedView]) -> dict[RegistryAddress, _Use]:
    found: dict[RegistryAddress, tuple[set[str], list[Subject]]] = {}
    for source in sources:
        if isinstance(source.encoding, WithRegistry):
            kind = reading_of(source.encoding).schemas
            found.setdefault(source.encoding.registry, (set(), []))[0].update(() if kind is None else (kind,))
    for view in views:
        if view.output is None or (address := view.output.written.registry) is None:
            continue
        kinds, subjects = found.setdefault(address, (set(), []))
        mine = _subjects(view)
        kinds.update(subject.kind for subject in mine)
        subjects += mine
    return {address: _Use(frozenset(kinds), tuple(subjects)) for address, (kinds, subjects) in found.items()}


def _subjects(view: ResolvedView) -> list[Subject]:
    output = view.output
    assert output is not None
    written = output.written
    form = OutputFormat(
        output.handle, arrow_schema(view.schema), output.mode, output.key, key_format=written.key_format
    )
    return subjects_of(output.topic, form, written.name)


def _checks(address: RegistryAddress, use: _Use) -> Iterator[Check]:
    name = f"registry {address.url}"
    registry = Registry(address, patience_s=ANSWER_SECONDS_MAX)
    try:
        missing = sorted(use.kinds - registry.kinds())
        if missing:
            what_to_do = "Name a registry that has them in 'schema.registry.url', or use another format."
            yield Check(name, "FAIL", f"it has no schemas of {' and '.join(missing)}", what_to_do)
            return
        has = f", and has schemas of {' and '.join(sorted(use.kinds))}" if use.kinds else ""
        yield Check(name, "OK", f"it answers{has}")
        for subject in use.subjects:
            yield _subject_check(registry, subject)
    except RegistryUnreachable as fault:
        what_to_do = "Start it, let its proxy reach it, or correct 'schema.registry.url' or `stepwell.registry.url`."
        yield Check(name, "FAIL", f"it gives no answer: {fault.reason}", what_to_do)
    except RegistryRefused as fault:
        yield Check(name, "FAIL", fault.message, fault.what_to_do)


def _subject_check(registry: Registry, subject: Subject) -> Check:
    name = f"schema {subject.name}"
    reasons = registry.why_incompatible(subject.name, subject.text, subject.kind)
    if reasons is None:
        return Check(name, "OK", "it fits the subject, or begins it")
    what_to_do = "Name another topic, or change the subject's compatibility: as it is, a run does not start."
    return Check(name, "FAIL", f"the registry will refuse it: {reasons}", what_to_do)
