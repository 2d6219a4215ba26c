"""What is different in each source, and what happens to the tables of keyed sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from coordinator.revisions.carrying import tables_of
from coordinator.revisions.comparison import Comparison
from coordinator.revisions.loads import tables_to_load
from coordinator.revisions.plan_parts import LoadKind, SourceKind, SourcePlan
from engine.model.from_now import handle_of_files, revision_of
from engine.model.rows import Source


def source_plans(comparison: Comparison) -> Iterator[SourcePlan]:
    """Yields the plans of all sources that a view reads, by name, and then of those that none reads any more."""
    of_now = tables_of(comparison.now.circuit)
    tables = {handle: index for handle, index in of_now.items() if index in comparison.histories.of}
    former = dict(_new_names(comparison))
    of_batch = dict(_batch_tables(comparison))
    for handle in comparison.sources_now:
        differences = comparison.differences.get(handle, ())
        kind: SourceKind = "changed" if differences else "kept"
        if revision_of(handle) is not None:
            yield _plan_with_marks(comparison, handle, tables.get(handle))
            continue
        if handle not in comparison.sources_before:
            kind = "renamed" if handle in former else "new"
        if handle not in tables:
            plan = SourcePlan(handle=handle, kind=kind, renamed_from=former.get(handle), differences=differences)
            yield replace(plan, **of_batch.get(handle, {}))
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
    read = {handle_of_files(handle) for handle in comparison.sources_now}
    for handle in comparison.sources_before:
        is_read = handle in comparison.sources_now or handle in read
        if not is_read and handle not in former.values() and revision_of(handle) is None:
            yield replace(SourcePlan(handle=handle, kind="dropped"), **of_batch.get(handle, {}))


def _batch_tables(comparison: Comparison) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is told of each batch table that one of the projects has, by its handle."""
    known = {each.table.handle: each.table.topics for each in comparison.before.inputs if each.is_table}
    to_load = {each.table.handle for each in tables_to_load(comparison.now.inputs, comparison.before.inputs)}
    new = {each.table.handle for each in comparison.now.inputs if each.is_table} - known.keys()
    for handle in (*known, *new):
        load: LoadKind = "" if handle not in to_load else "again" if handle in known else "first"
        rows = [comparison.facts.loads[name] for name in known.get(handle, ()) if name in comparison.facts.loads]
        has_other_files = not load and handle in comparison.facts.other_files
        yield (
            handle,
            {
                "is_batch": True,
                "load": load,
                "loaded_rows": rows[0] if rows else None,
                "has_other_files": has_other_files,
            },
        )


def _plan_with_marks(comparison: Comparison, handle: str, table: int | None) -> SourcePlan:
    """Returns the plan of a source that views count from some offsets on. `table`: the node of its table, if that is filled."""
    name, revision = handle_of_files(handle), revision_of(handle)
    counts_from = next(each for each in comparison.now.counts_from if (each.source, each.revision) == (name, revision))
    is_new = handle not in comparison.sources_before
    needed = None if table is None else comparison.needed_by((table,))
    return SourcePlan(
        handle=name,
        kind="counts_from_now" if is_new else "kept",
        counts_from=counts_from,
        table="" if needed is None else "; ".join(needed.texts),
        rows=0 if needed is None else comparison.rows_of(needed),
        refusals=() if needed is None else comparison.refusals_of(needed, f"source {name}", ""),
    )


def _new_names(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """The names of sources now and before, where they differ: all else that decides their rows is equal."""
    before = comparison.before.circuit.nodes
    for index, previous in comparison.found.kept.items():
        node, old = comparison.now.circuit.nodes[index], before[previous]
        if isinstance(node, Source) and isinstance(old, Source) and node.handle not in comparison.sources_before:
            yield node.handle, old.handle
