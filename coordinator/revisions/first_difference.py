"""Why a view is rebuilt: the first of its nodes that the previous project does not have, and what is different there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from coordinator.revisions.node_words import NodeWords, difference
from engine.analysis.definitions import definition_of
from engine.analysis.project_match import ProjectMatch, nodes_with_state, relies_on_growth
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan_stages
from engine.model.circuit import View
from engine.model.rows import LastByKey, Map, Source


@dataclass(frozen=True)
class FirstDifference:
    """`node`: its index now. `title`: what it does. `reason`: what is different; empty for a view that is new. `is_lowest`: nothing below it
    in the definition keeps its state, so all of the view is rebuilt."""

    node: int
    title: str
    reason: str
    is_lowest: bool


class Differences:
    """Compares the definitions of two projects. `of_sources`: what differs in each source, by handle. `frozen`: why this release cannot run
    nodes of the previous project, by their indices. `read_by`: the names of what reads nodes for the first time that are rebuilt for that."""

    def __init__(
        self,
        found: ProjectMatch,
        was: NodeWords,
        now: NodeWords,
        *,
        of_sources: Mapping[str, Sequence[str]],
        frozen: Mapping[int, str],
        read_by: Callable[[Iterable[int]], Sequence[str]],
    ) -> None:
        self._found, self._was, self._now, self._of_sources = found, was, now, of_sources
        self._frozen, self._read_by = frozen, read_by
        self._nodes, self._old = found.now.circuit.nodes, found.previous.circuit.nodes
        self._grows = append_only_inputs(found.now.circuit)
        self._grew = append_only_inputs(found.previous.circuit)
        self._places = plan_stages(found.now.circuit).input_colocation
        self._placed = plan_stages(found.previous.circuit).input_colocation
        self._states = frozenset(nodes_with_state(found.now.circuit))

    def of_view(self, view: int, previous: int) -> FirstDifference:
        """Returns the first difference of a changed view. `view`, `previous`: its indices in both circuits."""
        found = self._found
        members = (*definition_of(found.now.circuit, view).nodes, view)
        young = [index for index in members if found.is_young(index)]
        first = next((index for index in young if not self._only_selects(index)), view)
        lost = set(definition_of(found.previous.circuit, previous).nodes) | {previous}
        lost -= set(found.kept.values())
        reasons = chain(
            self._of_new_readers(first), self._reasons(first, sorted(lost)), self._of_others(young, sorted(lost))
        )
        reason = next(filter(None, reasons), "it computes something else now")
        has_kept = any(index in found.kept and index in self._states for index in members)
        return FirstDifference(first, self._now.title(first), reason, not has_kept)

    def _only_selects(self, index: int) -> bool:
        node = self._nodes[index]
        return isinstance(node, Map) and node.selected is not None

    def _reasons(self, index: int, lost: Sequence[int]) -> Iterator[str]:
        """What may be different, the most telling first."""
        node = self._nodes[index]
        if relies_on_growth(node, self._grows[index], self._found.disturbed) and self._is_known(index):
            yield self._on_growth(index)
        elif self._is_known(index):
            yield self._of_unrecoverable(index)
        old = self._counterpart(index, lost)
        if old is not None:
            yield self._frozen.get(old, "")
            yield difference(self._was, old, self._now, index)
        yield self._of_leaves(index)
        if old is None:
            yield f"{self._now.title(index)}: new here"
            return
        if isinstance(node, View):
            yield self._of_what_is_left_out(lost)
        yield self._of_state(index, old)
        yield self._of_columns(index, old)
        if isinstance(node, View):
            yield "its key or its columns are others now"

    def _of_others(self, young: Sequence[int], lost: Sequence[int]) -> Iterator[str]:
        """What is different in nodes above the first one, if the first one does what it did. Filters and columns come last, because they often
        follow from the others."""
        for index in sorted(young, key=lambda each: isinstance(self._nodes[each], Map)):
            if (old := self._counterpart(index, lost)) is not None:
                yield difference(self._was, old, self._now, index)

    def _of_new_readers(self, index: int) -> Iterator[str]:
        if readers := self._read_by((index,)):
            yield f"{', '.join(readers)} begins to read it, and nothing has stored what it has put out over event time"

    def _of_what_is_left_out(self, lost: Sequence[int]) -> str:
        """The uppermost node of the previous definition, but for filters and columns, that is not kept."""
        gone = [old for old in lost if not isinstance(self._old[old], Map | View)]
        return f"{self._was.title(gone[-1])}: left out now" if gone else ""

    def _is_known(self, index: int) -> bool:
        return self._found.ids.nodes[index] in self._found.was.nodes

    def _on_growth(self, index: int) -> str:
        changed = sorted(set(self._changed_below(index)))
        return f"{self._now.title(index)} relies on rows that are never taken back, and the switch of {', '.join(changed)} may take some back"

    def _of_unrecoverable(self, index: int) -> str:
        """The changed views that the node reads, if their former content cannot be recovered; empty if there are none."""
        leaves = self._found.ids.leaves
        unrecoverable = sorted(
            {name for name in self._changed_below(index) if leaves[name] in self._found.unrecoverable}
        )
        return (
            f"it reads {', '.join(unrecoverable)}, whose former content over event time depends on how messages were divided into steps"
            if unrecoverable
            else ""
        )

    def _changed_below(self, index: int) -> Iterator[str]:
        waiting, seen = list(self._nodes[index].inputs), set[int]()
        while waiting:
            below = waiting.pop()
            if below in seen or below not in self._found.disturbed:
                continue
            seen.add(below)
            node = self._nodes[below]
            if isinstance(node, View) and self._found.is_young(below):
                yield node.name
            waiting += node.inputs

    def _counterpart(self, index: int, lost: Sequence[int]) -> int | None:
        """The node of the previous definition that stood there."""
        node = self._nodes[index]
        alike = [old for old in lost if self._old[old].kind == node.kind]
        reads = [self._found.kept.get(below) for below in node.inputs]
        return next((old for old in alike if list(self._old[old].inputs) == reads), alike[0] if alike else None)

    def _of_leaves(self, index: int) -> str:
        """What differs in the sources, or in the columns of the views, that the node reads."""
        for leaf in self._leaves(index):
            node = self._nodes[leaf]
            if isinstance(node, Source | LastByKey) and (differs := self._of_sources.get(node.handle)):
                return f"source {node.handle}: {differs[0]}" + (f", and {len(differs) - 1} more" if differs[1:] else "")
        return ""

    def _leaves(self, index: int) -> Iterator[int]:
        for below in self._nodes[index].inputs:
            node = self._nodes[below]
            if isinstance(node, Source | LastByKey):
                yield below
            elif not isinstance(node, View) and self._found.is_young(below):
                yield from self._leaves(below)

    def _of_columns(self, index: int, old: int) -> str:
        """What differs in the columns of the output, and so in those of an input."""
        had, has = self._was.columns(old), self._now.columns(index)
        come, gone = ([name or "..." for name in one if name not in other] for one, other in ((has, had), (had, has)))
        if come:
            return f"it reads {', '.join(come)} too now"
        if gone:
            return f"it does not read {', '.join(gone)} any more"
        if self._nodes[index].types != self._old[old].types:
            return "its columns have other types now"
        return ""

    def _of_state(self, index: int, old: int) -> str:
        if self._grew[old] != self._grows[index]:
            return "what it reads only grows now" if all(self._grows[index]) else "what it reads can take rows back now"
        if self._placed[old] != self._places[index]:
            return "the rows that it reads lie on other workers now"
        return ""
