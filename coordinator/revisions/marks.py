"""Which views count which sources from some offsets on, because their user has asked for that with `--from-now`.

The plan document of a revision has a mark for each such view and source, and the marked source with its offsets. The files know nothing of
that. So before files are compared with a revision, their views get the marks that they have there. A view keeps its mark as long as it reads the
source, also if its definition changes: its content then is still made of the messages from these offsets on. Other views count the source whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from coordinator.revisions.carrying import with_nulls
from coordinator.revisions.columns_had import with_columns_had
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.facts import PlanFacts
from coordinator.revisions.leaves import HasLeaves, leaf_key, named_project
from coordinator.revisions.rereadable import facts_of_inputs, partitions_of, reads
from coordinator.specification import InputTopic, OutputTopic, PipelineSpec
from engine.analysis.marking import Marks, marked_circuit, sources_below
from engine.analysis.project_match import match_projects
from engine.analysis.release import ImplementationVersions
from engine.model.circuit import Circuit, View
from engine.model.from_now import handle_from_now, handle_of_files, revision_of
from io_kafka.offsets import TopicPartition


@dataclass(frozen=True)
class MarkedProject:
    """A project whose views have their marks. `fingerprint_of_files`: of its circuit without them. `made_with`: see Named."""

    circuit: Circuit
    inputs: tuple[InputTopic, ...]
    outputs: tuple[OutputTopic, ...]
    marks: Marks
    fingerprint_of_files: str
    made_with: ImplementationVersions

    def document(self, files: PlanDocument) -> PlanDocument:
        """`files`: that of the files. Its numbers do not count."""
        numbers = files.numbers if not self.marks else tuple(range(len(self.circuit.nodes)))
        return replace(
            files,
            circuit=self.circuit,
            inputs=self.inputs,
            outputs=self.outputs,
            numbers=numbers,
            marks=self.marks,
            fingerprint_of_files=self.fingerprint_of_files,
        )

    def spec(self, files: PipelineSpec) -> PipelineSpec:
        return replace(
            files,
            circuit=self.circuit,
            inputs=self.inputs,
            outputs=self.outputs,
            marks=self.marks,
            fingerprint_of_files=self.fingerprint_of_files,
        )


def with_marks_of(before: PlanDocument, files: HasLeaves) -> MarkedProject:
    """The project of the files with the marks that its views have in a revision."""
    marks, offsets = dict[str, dict[str, str]](), dict[str, Offsets]()
    for view, sources in before.marks.items():
        for name in (view,) if view in _views(files.circuit) else _views_renamed(before, files, view):
            for handle, counts_from in _marks_inherited(before, files, sources, sources_below(files.circuit, name)):
                marks.setdefault(name, {})[handle_of_files(handle)] = handle
                offsets[handle] = counts_from
    return _mark(before, files, marks, offsets)


def with_more_marks(
    before: PlanDocument, files: HasLeaves, facts: PlanFacts, *, chosen: Mapping[str, Collection[str]], revision: int
) -> MarkedProject:
    """Returns what `with_marks_of` returns, but each of these views counts these sources from now on. `revision`: the one that begins with
    that."""
    known = with_marks_of(before, files)
    marks = {view: dict(sources) for view, sources in known.marks.items()}
    named = {source.table.handle: source for source in known.inputs}
    facts = facts_of_inputs(before, files, facts)
    offsets = {
        handle: source.table.counts_from for handle, source in named.items() if source.table.counts_from is not None
    }
    for view, handles in chosen.items():
        for handle in handles:
            marked = handle_from_now(handle, revision)
            marks.setdefault(view, {})[handle] = marked
            offsets[marked] = positions_now(named[handle], before, facts)
    return _mark(before, files, marks, offsets)


Offsets = tuple[tuple[TopicPartition, int], ...]


def positions_now(source: InputTopic, before: PlanDocument, facts: PlanFacts) -> Offsets:
    """Where the pipeline is in each partition of a source, or where a partition ends that it does not read. One that it reads and has not begun
    is left out: all of its messages come from now on."""
    found = []
    for where in partitions_of(source, facts):
        is_live = any(reads(each, where) for each in before.inputs if not each.is_table)
        at = facts.positions.get(where) if is_live else facts.ends[where]
        if at is not None:
            found.append((where, at))
    return tuple(found)


def _mark(before: PlanDocument, files: HasLeaves, marks: Marks, offsets: Mapping[str, Offsets]) -> MarkedProject:
    inputs = with_nulls(files.inputs, before.inputs)
    outputs = with_columns_had(files.outputs, before.outputs)
    if not marks:
        return MarkedProject(
            circuit=files.circuit,
            inputs=inputs,
            outputs=outputs,
            marks={},
            fingerprint_of_files="",
            made_with=files.made_with,
        )
    used = sorted({handle for sources in marks.values() for handle in sources.values()})
    named = {source.table.handle: source for source in inputs}
    more = []
    for handle in used:
        source = named[handle_of_files(handle)]
        table = replace(source.table, handle=handle, counts_from=offsets[handle])
        more.append(replace(source, table=table))
    return MarkedProject(
        circuit=marked_circuit(files.circuit, marks),
        inputs=(*inputs, *more),
        outputs=outputs,
        marks={view: dict(sorted(sources.items())) for view, sources in sorted(marks.items())},
        fingerprint_of_files=files.circuit.fingerprint,
        made_with=files.made_with,
    )


def _marks_inherited(
    before: PlanDocument, files: HasLeaves, sources: Mapping[str, str], read: Collection[str]
) -> Iterator[tuple[str, Offsets]]:
    """The marked sources of a view, as the files call them, with their offsets. `read`: the sources that the view reads."""
    was = {source.table.handle: source for source in before.inputs}
    now = {source.table.handle: source for source in files.inputs}
    for handle, marked in sources.items():
        source = now.get(handle) or _under_another_name(was[handle], now, was)
        if source is None or source.table.handle not in read or not _has_same_topics(source, was[handle]):
            continue
        revision, counts_from = revision_of(marked), was[marked].table.counts_from
        assert revision is not None and counts_from is not None
        yield handle_from_now(source.table.handle, revision), counts_from


def _under_another_name(
    source: InputTopic, now: Mapping[str, InputTopic], was: Mapping[str, InputTopic]
) -> InputTopic | None:
    key = leaf_key(source)
    return next((each for name, each in now.items() if name not in was and leaf_key(each) == key), None)


def _has_same_topics(source: InputTopic, other: InputTopic) -> bool:
    one, two = (
        (() if table.pattern is not None else table.topics, table.pattern, table.partitions)
        for table in (source.table, other.table)
    )
    return one == two


def _views_renamed(before: PlanDocument, files: HasLeaves, view: str) -> tuple[str, ...]:
    """The view of the files that was called so, if there is one: it has the same definition with the same marks."""
    was = _views(before.circuit)
    for name in sorted(_views(files.circuit) - was):
        found = list(_marks_inherited(before, files, before.marks[view], sources_below(files.circuit, name)))
        if len(found) < len(before.marks[view]):
            continue
        marks = {name: {handle_of_files(handle): handle for handle, _ in found}}
        tried = _mark(before, files, marks, dict(found))
        if match_projects(named_project(before), named_project(tried)).ids.leaves[name] == view:
            return (name,)
    return ()


def _views(circuit: Circuit) -> frozenset[str]:
    return frozenset(node.name for node in circuit.nodes if isinstance(node, View))
