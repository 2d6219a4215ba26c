"""What is different in each source, and what happens to the tables of keyed sources."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.revisions.comparison import Comparison
from coordinator.revisions.plan_parts import SourceKind, SourcePlan
from engine.model.rows import LastByKey, Source


def source_plans(comparison: Comparison) -> Iterator[SourcePlan]:
    """Of all sources that a view reads, by name, and then of those that none reads any more."""
    tables = {
        node.handle: index
        for index, node in enumerate(comparison.now.circuit.nodes)
        if isinstance(node, LastByKey) and index in comparison.histories.of
    }
    former = dict(_renamed(comparison))
    for handle in comparison.sources_now:
        differences = comparison.differences.get(handle, ())
        kind: SourceKind = "changed" if differences else "kept"
        if handle not in comparison.sources_before:
            kind = "renamed" if handle in former else "new"
        if handle not in tables:
            yield SourcePlan(handle=handle, kind=kind, renamed_from=former.get(handle), differences=differences)
            continue
        needed = comparison.needed_by((tables[handle],))
        yield SourcePlan(
            handle=handle,
            kind=kind,
            renamed_from=former.get(handle),
            differences=differences,
            table="; ".join(needed.texts),
            rows=comparison.rows_of(needed),
            refusals=comparison.refusals_of(needed, f"source {handle}", ""),
        )
    for handle in comparison.sources_before:
        if handle not in comparison.sources_now and handle not in former.values():
            yield SourcePlan(handle=handle, kind="dropped")


def _renamed(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """The names of sources now and before, where they differ: all else that decides their rows is equal."""
    before = comparison.before.circuit.nodes
    for index, previous in comparison.found.kept.items():
        node, old = comparison.now.circuit.nodes[index], before[previous]
        if isinstance(node, Source) and isinstance(old, Source) and node.handle not in comparison.sources_before:
            yield node.handle, old.handle
