"""The kept nodes over event time that new nodes may not read, because what they have put out cannot be told any more.

Such a node stores nothing of what it has put out. New nodes that read it would be filled by a twin, over messages that are read again.
Other rows are late for the twin, because that depends on how the messages are divided into steps. So the new nodes would have other rows
than everybody else has read of the view. And from the switch on they read the kept node, whose state is not that of the twin: a key that
only the twin has seen comes a second time, and a row that has been in a pair of the twin comes once more without one.

So the node is rebuilt instead. Its view has then changed, and what that means for outputs and other readers is as for any changed view
(unrecoverable_views.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from engine.analysis.history import Histories, Recomputed, Take, Twin, takes_within
from engine.analysis.project_match import ProjectMatch
from engine.analysis.unrecoverable_views import unrecoverable_nodes
from engine.model.circuit import Node, Output, View
from engine.model.event_time import ClosingAggregate, TimedDeduplicate
from engine.operators.table import operator_of

ReadBy = Mapping[int, frozenset[int]]
"""By kept node, the nodes that would be filled by a twin of it and may not."""


def contradictions(found: ProjectMatch, histories: Histories) -> ReadBy:
    """The kept nodes that have to be rebuilt. None is there if new nodes read no event time of which nothing tells the rows."""
    unrecoverable = unrecoverable_nodes(found.previous.circuit)
    read_by: defaultdict[int, set[int]] = defaultdict(set)
    for reader, takes in histories.of.items():
        for node in _contradicting(found, reader, takes, unrecoverable):
            read_by[node].add(reader)
    return {node: frozenset(readers) for node, readers in read_by.items()}


def _contradicting(
    found: ProjectMatch, reader: int, takes: tuple[Take, ...], unrecoverable: Collection[int]
) -> Iterator[int]:
    nodes = found.now.circuit.nodes
    is_output = isinstance(nodes[reader], Output)
    if is_output and _has_kept_reader(found, nodes[reader].inputs[0]):
        return  # refused, because the topic would say something else (coordinator/revisions/output_plans.py)
    for take in takes_within(takes):
        if not isinstance(take, Recomputed | Twin) or found.kept[take.node] not in unrecoverable:
            continue
        if isinstance(nodes[take.node], View) and not is_output:
            yield from (each.node for each in takes_within([take]) if _closes(nodes[each.node]))
        elif _closes(nodes[take.node]) and not _goes_on_alike(nodes[take.node]):
            yield take.node


def _closes(node: Node) -> bool:
    """Whether the node leaves out late rows, and forgets."""
    operator = operator_of(node)
    return operator.growth.is_needed and bool(operator.state.keeps(node, True))


def _goes_on_alike(node: Node) -> bool:
    """Whether two such nodes that have read the same messages in other portions have equal states. What they have of a group or a key that the
    watermark has not reached is all of its rows, for none of them was late. Sessions are not alike, because a late row may have joined two; nor
    is what is kept longer than the rows themselves are in time."""
    return isinstance(node, ClosingAggregate) or (isinstance(node, TimedDeduplicate) and node.lifetime_us == 0)


def _has_kept_reader(found: ProjectMatch, view: int) -> bool:
    reading = {view}
    for index, node in enumerate(found.now.circuit.nodes):
        if not reading.isdisjoint(node.inputs):
            reading.add(index)
            if isinstance(node, View) and index in found.kept:
                return True
    return False
