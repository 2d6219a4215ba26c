"""What happens to each view."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.revisions.comparison import Comparison
from coordinator.revisions.plan_parts import Count, ViewKind, ViewPlan
from engine.model.circuit import View
from engine.model.rows import Deduplicate


def view_plans(comparison: Comparison) -> Iterator[ViewPlan]:
    """Yields the plans of all views of the project, in its order, and then of those that are dropped."""
    for name in comparison.views:
        yield _plan(comparison, name)
    for name in comparison.found.dropped:
        place = comparison.before.places.get(name, "")
        yield ViewPlan(name=name, kind="dropped", place=place, happens="dropped: its state is cleared")


def _plan(comparison: Comparison, name: str) -> ViewPlan:
    found = comparison.found
    index, previous = comparison.views[name], comparison.previous(name)
    place = comparison.now.places.get(name, "")
    nodes = _count(comparison, index)
    if found.is_young(index):
        return _fill(comparison, name, previous, place, nodes)
    former = found.ids.leaves[name]
    if former != name:
        happens = f"renamed from {former}: kept"
        return ViewPlan(name=name, kind="renamed", place=place, happens=happens, renamed_from=former, nodes=nodes)
    changed = tuple(dict.fromkeys(_changed_below(comparison, index)))
    if changed:
        happens = f"kept; gets what changes in {', '.join(changed)}"
        return ViewPlan(
            name=name, kind="kept_gets_changes", place=place, happens=happens, gets_from=changed, nodes=nodes
        )
    return ViewPlan(name=name, kind="kept", place=place, happens="kept", nodes=nodes)


def _fill(comparison: Comparison, name: str, previous: int | None, place: str, nodes: Count) -> ViewPlan:
    index = comparison.views[name]
    old = previous if previous is not None and comparison.needs_old_content(name) else None
    needed = comparison.needed_by(comparison.members(index), old)
    refusals = comparison.refusals_of(needed, f"view {name}", place)
    kind: ViewKind = "new"
    happens, first, why = "new", "", ""
    if previous is not None:
        found = comparison.reasons.of_view(index, previous)
        kind, first, why = "rebuilt", found.title, found.reason
        happens = "rebuilt" if found.is_lowest else f"rebuilt from {comparison.words.kind(found.node)} up"
    if refusals:
        kind, happens = "refused", f"REFUSED ({happens})"
    return ViewPlan(
        name=name,
        kind=kind,
        place=place,
        happens=happens,
        first=first,
        why=why,
        history=needed.texts,
        rows=None if refusals else comparison.rows_of(needed),
        nodes=nodes,
        remark=_remarks(comparison, name),
        refusals=refusals,
    )


def _count(comparison: Comparison, view: int) -> Count:
    members = comparison.members(view)
    kept = [index for index in members if index in comparison.found.kept]
    with_state = [index for index in members if index in comparison.with_state]
    return Count(len(kept), len(members), sum(index in comparison.with_state for index in kept), len(with_state))


def _changed_below(comparison: Comparison, view: int) -> Iterator[str]:
    """The changed views whose difference reaches the view, through whatever views."""
    nodes, disturbed = comparison.now.circuit.nodes, comparison.found.disturbed
    waiting, seen = [view], set[int]()
    while waiting:
        for below in nodes[waiting.pop()].inputs:
            if below in seen or below not in disturbed:
                continue
            seen.add(below)
            node = nodes[below]
            if isinstance(node, View) and comparison.is_changed(node.name):
                yield node.name
            else:
                waiting.append(below)


def _remarks(comparison: Comparison, name: str) -> str:
    """What the user should know of a view that is filled."""
    texts = []
    if comparison.found.ids.leaves[name] in comparison.before.views_standing_still:
        texts.append("until the switch it stands still")
    if text := _on_rows(comparison, comparison.views[name]):
        texts.append(text)
    return "; ".join(texts)


def _on_rows(comparison: Comparison, view: int) -> str:
    """What a rebuilt view may have other than its first run had."""
    if comparison.reads_event_time(view):
        return "which rows were late depends on how the messages were read, so its rows may differ from those of the first run"
    nodes = comparison.now.circuit.nodes
    young = (index for index in comparison.members(view) if comparison.found.is_young(index))
    if any(isinstance(nodes[index], Deduplicate) for index in young):
        return "which of several rows came first may differ from the first run"
    return ""
