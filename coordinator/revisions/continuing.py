"""Which changed project continues a state as it is: nothing has to be filled, and nothing is written or lost.

Such changes are another name of a view without a topic, another order of definitions, a nullable column that a source without a key gets, and
another plan of the same circuit by another release of Stepwell or Spark. Each node with state, each view and each output of one project is then
a node of the other one (engine/analysis/identity.py), so its tables keep their numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from coordinator.revisions.document import PlanDocument
from coordinator.revisions.leaves import HasLeaves, leaf_key, named_project
from coordinator.specification import InputTopic
from engine.analysis.numbering import numbers_after
from engine.analysis.project_match import match_projects, nodes_with_state
from engine.model.circuit import Circuit, Output, View
from io_kafka.formats.spec import SourceFormat


def continuing_numbers(
    before: PlanDocument, project: HasLeaves, counted: Collection[int] = ()
) -> tuple[int, ...] | None:
    """The numbers of the project's nodes, if it continues the state of `before`; otherwise None. `counted`: the numbers of nodes whose error
    rows are counted, which would be in error for ever if the project lacked them."""
    if _tables(before.inputs) != _tables(project.inputs):
        return None  # the step log has what was loaded by the name of the table
    if _are_alike(before.inputs) or _are_alike(project.inputs):
        return None
    if before.frozen:
        return None
    now = match_projects(named_project(before), named_project(project))
    if not _that_last(project.circuit) <= now.kept.keys() or not _that_last(before.circuit) <= {*now.kept.values()}:
        return None
    numbers = numbers_after(now, before.numbers)
    return numbers if set(counted) <= set(numbers) else None


def _tables(inputs: Iterable[InputTopic]) -> set[str]:
    return {source.table.handle for source in inputs if source.is_table}


def _are_alike(inputs: Iterable[InputTopic]) -> bool:
    """Whether two tables are made of the same messages. Nothing tells which of them is which, and the policy for truncations can differ."""
    keys = [leaf_key(source) for source in inputs if isinstance(source.table.format, SourceFormat)]
    return len(keys) != len(set(keys))


def _that_last(circuit: Circuit) -> set[int]:
    """The nodes that outlive a step: they have state, or others know them by name."""
    named_nodes = (index for index, node in enumerate(circuit.nodes) if isinstance(node, View | Output))
    return {*nodes_with_state(circuit), *named_nodes}
