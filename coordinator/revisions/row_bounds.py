"""How many rows the topic of an output can get at most.

A number is told only if no data can make it too small. So each node between the state or the messages and the view must give at most one
row for each row of its input, which a join or an explode does not. The state of now does not count what a view below is filled with, and
neither does it count the difference that a changed view passes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coordinator.revisions.comparison import Comparison
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.rereadable import Rereading, messages_of
from engine.analysis.history import Feed, Recomputed, Reread, Take, Twin
from engine.analysis.uniqueness import unique_keys
from engine.model.circuit import View
from engine.model.joins import SemiJoin
from engine.model.ordered import TopK
from engine.model.rows import Deduplicate, Distinct, LastByKey, Map, PythonMap, ScalarMap, Union

_AT_MOST_ONE = (Map, PythonMap, ScalarMap, View, LastByKey, Distinct, Deduplicate, TopK, SemiJoin)
"""The nodes that have at most one row for each row of their first input."""


def rows_that_differ(comparison: Comparison, view: str) -> int | None:
    """The rows of a changed view that can differ, if its definition has another filter over the same rows and nothing else; otherwise None."""
    found, previous = comparison.found, comparison.previous(view)
    assert previous is not None
    now, before = comparison.now.circuit.nodes, comparison.before.circuit.nodes
    young = [index for index in comparison.members(comparison.views[view]) if found.is_young(index)]
    lost = comparison.nodes_lost(previous)
    others = [*(now[index] for index in young), *(before[index] for index in lost)]
    of_now = [(index, node) for index in young if isinstance(node := now[index], Map)]
    of_before = [node for index in lost if isinstance(node := before[index], Map)]
    if not all(isinstance(node, Map | View) for node in others) or len(of_now) != 1 or len(of_before) != 1:
        return None
    ((index, node),), (old,) = of_now, of_before
    (below,) = node.inputs
    reads_the_same = found.kept.get(below) == old.inputs[0] and below not in found.disturbed
    if not reads_the_same or node.projections != old.projections:
        return None
    return _Bounds(comparison, comparison.now, comparison.readings).sum_of(comparison.histories.of.get(index))


def rows_of_new_topic(comparison: Comparison, output: int) -> int | None:
    """The rows that a topic gets from a view that is kept. `output`: its index now."""
    if not comparison.found.disturbed.isdisjoint(comparison.now.circuit.nodes[output].inputs):
        return None
    return _Bounds(comparison, comparison.now, comparison.readings).sum_of(comparison.histories.of.get(output))


def rows_it_had(comparison: Comparison, view: int) -> int | None:
    """The rows of a view of the previous project. `view`: its previous index."""
    take = comparison.take_before(view)
    return _Bounds(comparison, comparison.before, comparison.readings_before[0]).of(take)


@dataclass(frozen=True)
class _Bounds:
    """`document`: that of the nodes of the takes. `readings`: how its sources are read again, by handle."""

    comparison: Comparison
    document: PlanDocument
    readings: Mapping[str, Rereading]

    def sum_of(self, takes: Iterable[Take] | None) -> int | None:
        """The rows of all of them. `takes`: None if nothing is told of them."""
        if takes is None:
            return None
        counts = [self.of(take) for take in takes]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def of(self, take: Take) -> int | None:
        node = self.document.circuit.nodes[take.node]
        match take:
            case Feed(holder=holder):
                is_unique = unique_keys(self.comparison.before.circuit)[holder] is not None
                return self.comparison.rows_held_by(holder) if is_unique else None
            case Reread(handle=handle):
                return self._messages(handle)
            case Recomputed(below=below) | Twin(below=below) if isinstance(node, Union):
                return self.sum_of(below)
            case Recomputed(below=below) | Twin(below=below) if isinstance(node, _AT_MOST_ONE):
                return self.of(below[0])
            case _:
                return None

    def _messages(self, handle: str) -> int | None:
        """A message of a batch table has many rows, and one of any other source at most one."""
        source = next(each for each in self.document.inputs if each.table.handle == handle)
        return None if source.is_table else messages_of([self.readings[handle]], self.comparison.facts)
