"""Views that count a source from some offsets on: their part of the circuit reads a source of its own.

A view counts a source whole, or from its mark on. So all of its definition that depends on the source is there a second time, over the marked
source. It shares no state with views that count the source whole. What the view reads of another view is the content of that view. Only a view
whose content is not kept is read through, because its rows are those of its sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.model.circuit import Circuit, Node, Output, View
from engine.model.rows import LastByKey, Source

Marks = Mapping[str, Mapping[str, str]]
"""By the name of a view: the marked source that it reads in place of each of these, by their handles."""


def marked_circuit(circuit: Circuit, marks: Marks) -> Circuit:
    """Returns the same circuit, in which each of these views reads its marked sources. Equal circuits and marks give equal circuits."""
    return _Marking(circuit).apply(marks) if marks else circuit


def sources_below(circuit: Circuit, view: str) -> frozenset[str]:
    """The handles of the sources that `marked_circuit` can give the view in another form."""
    marking, found = _Marking(circuit), set[str]()
    waiting, seen = [*circuit.nodes[circuit.views[view]].inputs], set[int]()
    while waiting:
        below = waiting.pop()
        node = circuit.nodes[below]
        if below in seen or marking.is_content(node):
            continue
        seen.add(below)
        if isinstance(node, Source):
            found.add(node.handle)
        waiting += node.inputs
    return frozenset(found)


class _Marking:
    """A copy of a circuit, while it is made, in which some views read marked sources. `made`: where each node is now. `copies`: where the
    copy of a node is that reads the marked sources of a view."""

    def __init__(self, circuit: Circuit) -> None:
        self._old = circuit.nodes
        self._nodes: list[Node] = []
        self._known: dict[Node, int] = {}

    @staticmethod
    def is_content(node: Node) -> bool:
        """Whether a view that reads this node reads the content of another view."""
        return isinstance(node, View) and node.kept

    def apply(self, marks: Marks) -> Circuit:
        """Nodes that nothing reads any more are left out."""
        made: dict[int, int] = {}
        for index, node in enumerate(self._old):
            if isinstance(node, View) and node.name in marks:
                copies: dict[int, int] = {}
                (below,) = node.inputs
                inputs = (self._copy(below, marks[node.name], made, copies),)
                made[index] = self._add(replace(node, inputs=inputs))
            elif isinstance(node, View | Output):
                made[index] = self._add(replace(node, inputs=tuple(self._keep(i, made) for i in node.inputs)))
        return Circuit(tuple(self._nodes))

    def _keep(self, index: int, made: dict[int, int]) -> int:
        """Where a node is that counts its sources whole."""
        if index not in made:
            node = self._old[index]
            assert not isinstance(node, View), "views come before what reads them"
            made[index] = self._add(replace(node, inputs=tuple(self._keep(i, made) for i in node.inputs)))
        return made[index]

    def _copy(self, index: int, marked: Mapping[str, str], made: dict[int, int], copies: dict[int, int]) -> int:
        """Where the node is as the view reads it."""
        if index not in copies:
            copies[index] = self._make_copy(index, marked, made, copies)
        return copies[index]

    def _make_copy(self, index: int, marked: Mapping[str, str], made: dict[int, int], copies: dict[int, int]) -> int:
        node = self._old[index]
        if not self._depends(index, marked):
            return self._keep(index, made)
        if isinstance(node, View):
            return self._copy(node.inputs[0], marked, made, copies)
        inputs = tuple(self._copy(below, marked, made, copies) for below in node.inputs)
        copy = replace(node, inputs=inputs)
        if isinstance(copy, Source | LastByKey):
            copy = replace(copy, handle=marked[copy.handle])
        return self._add_copy(copy)

    def _depends(self, index: int, marked: Mapping[str, str]) -> bool:
        """Whether the node depends on a marked source through nodes that hold no content of another view."""
        waiting, seen = [index], set[int]()
        while waiting:
            below = waiting.pop()
            node = self._old[below]
            if below in seen or self.is_content(node):
                continue
            seen.add(below)
            if isinstance(node, Source) and node.handle in marked:
                return True
            waiting += node.inputs
        return False

    def _add(self, node: Node) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _add_copy(self, node: Node) -> int:
        """Equal copies are one, because two views can count a source from one mark on."""
        if node not in self._known:
            self._known[node] = self._add(node)
        return self._known[node]
