"""What is different in each source, and what happens to the tables of keyed sources."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.revisions.comparison import Comparison
from coordinator.revisions.plan_parts import SourceKind, SourcePlan
from engine.model.rows import LastByKey


def source_plans(comparison: Comparison) -> Iterator[SourcePlan]:
    """Of all sources that a view reads, by name, and then of those that none reads any more."""
    tables = {
        node.handle: index
        for index, node in enumerate(comparison.now.circuit.nodes)
        if isinstance(node, LastByKey) and index in comparison.histories.of
    }
    for handle in comparison.sources_now:
        differences = comparison.differences.get(handle, ())
        is_new = handle not in comparison.sources_before
        kind: SourceKind = "new" if is_new else "changed" if differences else "kept"
        if handle not in tables:
            yield SourcePlan(handle=handle, kind=kind, differences=differences)
            continue
        needed = comparison.needed_by((tables[handle],))
        yield SourcePlan(
            handle=handle,
            kind=kind,
            differences=differences,
            table="; ".join(needed.texts),
            rows=comparison.rows_of(needed),
            held_if="; ".join(reading.condition for reading in needed.readings if reading.condition),
            refusals=comparison.refusals_of(needed, f"source {handle}", ""),
        )
    for handle in comparison.sources_before:
        if handle not in comparison.sources_now:
            yield SourcePlan(handle=handle, kind="dropped")
