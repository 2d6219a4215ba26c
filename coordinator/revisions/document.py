"""The plan document of a revision: all that a project was when it was planned, as JSON.

It has what decides rows and messages: the circuit with the functions in Python, the numbers of the nodes, the sources with
their topics and formats, and the outputs. It also has what users want to know of it: where each view is defined, and which
versions have planned it. No password and no other setting is in it.

The SHA-256 of the text names the document. The step log has that name, and the topic of plan documents has the text
(io_kafka/step_log/plans.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from coordinator.specification import InputTopic, OutputTopic
from engine.analysis.definitions import definition_of
from engine.analysis.marking import Marks
from engine.analysis.release import (
    PYTHON,
    ImplementationVersions,
    computed_otherwise,
    freeze,
    implementation_versions_of,
    python_of,
)
from engine.model.circuit import Circuit, View
from engine.model.from_now import revision_of
from engine.model.numbers import NumberedCircuit
from engine.model.rows import PythonMap
from engine.run import plan_document

DOCUMENT_FORMAT: Literal[1] = 1
"""The format's number grows when a field changes its meaning. A reader refuses documents of a newer format."""


class PlannedParts(Protocol):
    """What planning gives: a pipeline as it runs, or a project that was only planned."""

    @property
    def circuit(self) -> Circuit: ...

    @property
    def inputs(self) -> tuple[InputTopic, ...]: ...

    @property
    def outputs(self) -> tuple[OutputTopic, ...]: ...

    @property
    def places(self) -> Mapping[str, str]: ...

    @property
    def versions(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class CountsFrom:
    """`views`: those that count the source from these `offsets` on, by partition. `revision`: the one that has begun with that."""

    source: str
    views: tuple[str, ...]
    offsets: Mapping[str, int]
    revision: int

    def __str__(self) -> str:
        where = ", ".join(f"{partition} from offset {offset:,}" for partition, offset in self.offsets.items())
        return f"{', '.join(self.views)}: {where or 'all partitions whole, because none was there yet'}"

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "views": list(self.views),
            "offsets": dict(self.offsets),
            "revision": self.revision,
        }


@dataclass(frozen=True, kw_only=True)
class PlanDocument:
    """`numbers`: of each node of the circuit (engine/model/numbers.py). `places`: the file and the line of each view's
    definition, by its name. `versions`: of Stepwell, Spark and Python, by name. `revisions`: the implementation versions of operators and
    functions that have changed (engine/analysis/release.py). `marks`: which views count which sources from some offsets on (marks.py).
    `fingerprint_of_files`: that of the circuit as the files define it, if there are marks; otherwise empty."""

    circuit: Circuit
    numbers: tuple[int, ...]
    inputs: tuple[InputTopic, ...]
    outputs: tuple[OutputTopic, ...]
    places: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    revisions: ImplementationVersions = field(default_factory=dict)
    marks: Marks = field(default_factory=dict)
    fingerprint_of_files: str = ""
    format: Literal[1] = DOCUMENT_FORMAT

    @classmethod
    def of(cls, project: PlannedParts, numbers: tuple[int, ...]) -> PlanDocument:
        """Returns the document of a project as it was planned."""
        return cls(
            circuit=project.circuit,
            numbers=numbers,
            inputs=project.inputs,
            outputs=project.outputs,
            places=project.places,
            versions=project.versions,
            revisions=implementation_versions_of(project.circuit),
        )

    @property
    def text(self) -> str:
        """Equal documents have equal texts, apart from pickles of functions, of which equal ones can differ."""
        return plan_document.text_of(self, PlanDocument)

    @property
    def numbered(self) -> NumberedCircuit:
        return NumberedCircuit(self.circuit, self.numbers)

    @cached_property
    def made_with(self) -> ImplementationVersions:
        """The implementation versions of what the circuit uses, in the release that has recorded it."""
        python = self.versions.get("python", "").split(".")
        has_functions = any(isinstance(node, PythonMap) for node in self.circuit.nodes)
        if PYTHON in self.revisions or len(python) < 2 or not has_functions:
            return self.revisions
        return {**self.revisions, PYTHON: python_of(int(python[0]), int(python[1]))}  # a former release has recorded it

    @cached_property
    def frozen(self) -> Mapping[int, str]:
        """Why this release cannot run nodes of the circuit as the one did that has recorded it, by their indices."""
        return computed_otherwise(self.circuit, self.made_with)

    @cached_property
    def runnable(self) -> Circuit:
        """The circuit as this release can run it."""
        return freeze(self.circuit, self.frozen)

    @property
    def why_frozen(self) -> str:
        """One of the reasons, of which there is one at least."""
        return next(iter(self.frozen.values()))

    @cached_property
    def views_standing_still(self) -> tuple[str, ...]:
        """The views in whose definitions nodes are frozen."""
        circuit, frozen = self.circuit, self.frozen.keys()
        views = ((i, node.name) for i, node in enumerate(circuit.nodes) if isinstance(node, View))
        return tuple(name for i, name in views if not frozen.isdisjoint(definition_of(circuit, i).nodes))

    @property
    def counts_from(self) -> tuple[CountsFrom, ...]:
        """The sources that views count from some offsets on."""
        offsets = {source.table.handle: dict(source.table.counts_from or ()) for source in self.inputs}
        marked = sorted({(source, handle) for marks in self.marks.values() for source, handle in marks.items()})
        return tuple(
            CountsFrom(
                source,
                tuple(view for view, marks in sorted(self.marks.items()) if handle in marks.values()),
                {str(where): at for where, at in sorted(offsets[handle].items())},
                revision_of(handle) or 0,
            )
            for source, handle in marked
        )

    def check(self) -> None:
        """Asserts that the parts fit each other."""
        assert len(self.numbers) == len(self.circuit.nodes) == len(set(self.numbers))


@dataclass(frozen=True)
class Revision:
    """A project as it was planned. `number` counts from 1."""

    number: int
    document: PlanDocument


def document_of(text: str) -> PlanDocument:
    """The document with this text. Raises BadDocument."""
    found = plan_document.value_of(text, PlanDocument)
    try:
        found.circuit.check()
        found.check()
    except AssertionError as error:
        raise plan_document.BadDocument(f"the parts do not fit each other: {error}") from error
    return found
