"""What the circuits of a transition have in common: the numbers of helpers, and which differences there are.

A is the previous project, and B the next one (filling.py). A node of B that goes on has the content that a view had in A, and needs the
difference to what the view has in B:

    a kept node that reads a changed view    the difference between the two contents of the view
    an output whose topic A writes           that between the view of its topic in A and the one in B, if one of them is another one, has
                                             changed, or has other columns
    an output whose topic A does not write   all content, if it cannot be read from the state of B in the step of the switch
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.analysis.draining import groups_of, key_within
from engine.analysis.filling import Compared, TakenBack
from engine.analysis.history import Copied, Feed, Histories, Take, content_now, parts_of
from engine.analysis.project_match import ProjectMatch
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan_stages
from engine.model.circuit import Node, Output, View
from engine.model.numbers import assign_numbers
from engine.model.rows import Map
from engine.operators.arrangement import Key


@dataclass(frozen=True)
class ChosenOutputs:
    """`from_switch`: the Outputs of B that get only what their view puts out from the step of the switch on. `taken_back`: the Outputs of A
    whose content is taken back in that step. `gradual`: what differs leaves in several steps (draining.py)."""

    from_switch: frozenset[int] = frozenset()
    taken_back: frozenset[int] = frozenset()
    gradual: bool = False


NO_CHOICE = ChosenOutputs()


class Comparing:
    """`numbers_before`, `numbers_now`: of the nodes of A, and of those of B. `new_outputs`: the Outputs of B that get all content of their view,
    because A does not write their topic. `outputs`: see ChosenOutputs. `frozen`: why nodes of A are (release.py)."""

    def __init__(
        self,
        found: ProjectMatch,
        histories: Histories,
        numbers_before: tuple[int, ...],
        numbers_now: tuple[int, ...],
        new_outputs: frozenset[int],
        *,
        outputs: ChosenOutputs,
        frozen: Mapping[int, str],
    ) -> None:
        self.found, self.histories, self.new_outputs, self.outputs = found, histories, new_outputs, outputs
        self.frozen = frozen
        self.before, self.now = found.previous.circuit, found.now.circuit
        self.numbers_before, self.numbers_now = numbers_before, numbers_now
        self.plan_before, self.plan_now = plan_stages(self.before), plan_stages(self.now)
        self.growth_now = append_only_inputs(self.now)
        self._twins: dict[tuple[str, int], int] = {}
        self._taken = {*numbers_before, *numbers_now}
        self.compared = tuple(self._differences())
        self._drained_by = self._keys_of_drain() if outputs.gradual else {}
        self.taken_back = tuple(
            TakenBack(output=index, view=self.before.nodes[index].inputs[0], number=self.new_number(has_state=True))
            for index in sorted(outputs.taken_back)
        )

    @property
    def helpers(self) -> frozenset[int]:
        """The numbers of the nodes with state that neither A nor B has."""
        held = {each.number for each in self.compared} | {each.number for each in self.taken_back}
        return frozenset(held | set(self._twins.values()))

    def new_number(self, *, has_state: bool) -> int:
        (number,) = assign_numbers(1, {0} if has_state else (), {}, self._taken)
        self._taken.add(number)
        return number

    def twin_number(self, node: int) -> int:
        """Returns the number of the twin of a node of B that is kept. In the step of the switch, the twin is the one of the steps before."""
        return self._number_of_twin(("now", node))

    def old_twin_number(self, node: int) -> int:
        """Returns the number of the twin of a node of A, of which old content is made."""
        return self._number_of_twin(("before", node))

    def _number_of_twin(self, key: tuple[str, int]) -> int:
        if key not in self._twins:
            self._twins[key] = self.new_number(has_state=True)
        return self._twins[key]

    def is_readable(self, view: int) -> bool:
        """Whether the content of a view of B can be read from the state of B alone."""
        return is_read_from_state(content_now(self.now, view, {}))

    def key_of(self, view: int) -> Key:
        """The columns by which the difference of a view of B lies."""
        usual = _key(self.now.nodes[view], self.plan_now.colocation[view])
        return self._drained_by.get(view, usual)

    def old_key_of(self, view: int) -> Key:
        """Those by which the content of a view of A lies that is taken back."""
        return _key(self.before.nodes[view], self.plan_before.colocation[view])

    def _differences(self) -> Iterator[Compared]:
        for (view, previous), readers in sorted(
            self._readers().items(), key=lambda each: (each[0][0], str(each[0][1]))
        ):
            handles = [node.handle for i in sorted(readers) if isinstance(node := self.now.nodes[i], Output)]
            number = self.new_number(has_state=True)
            yield Compared(
                view=view, previous=previous, number=number, readers=frozenset(readers), handles=tuple(handles)
            )

    def _keys_of_drain(self) -> dict[int, Key]:
        """By view, the columns by whose hash its difference leaves."""
        groups: defaultdict[int, list[Key]] = defaultdict(list)
        for each in self.compared:
            if each.previous is not None:  # otherwise a reader has a part of one content
                groups[each.view] += groups_of(self.before, self.now, each)
        return {
            view: key_within(_key(self.now.nodes[view], self.plan_now.colocation[view]), found)
            for view, found in groups.items()
        }

    def _readers(self) -> dict[tuple[int, int | None], set[int]]:
        """By the view of B and the view of A whose content they have."""
        found: defaultdict[tuple[int, int | None], set[int]] = defaultdict(set)
        for index, node in enumerate(self.now.nodes):
            if index in self.outputs.from_switch:
                continue
            if isinstance(node, Output):
                (view,) = node.inputs
                if index not in self.new_outputs:
                    before, names = self._written_before(node)
                    if before != self._counterpart(view) or self._is_changed(view) or names != node.names:
                        found[view, before].add(index)
                elif not self.is_readable(view):
                    found[view, None].add(index)
            elif index in self.found.kept:
                for below in self._ends_below(index):
                    if self._is_changed(below):
                        found[below, self._counterpart(below)].add(index)
        return found

    def _written_before(self, output: Output) -> tuple[int, tuple[str, ...]]:
        """The view of A that the topic of the output has, and the names of its columns in the messages."""
        previous, topic = self.found.previous, self.found.now.topics[output.handle]
        for node in self.before.nodes:
            if isinstance(node, Output) and previous.topics[node.handle] == topic:
                return node.inputs[0], node.names
        raise AssertionError(f"output {output.handle}: the previous project does not write its topic")

    def _is_changed(self, index: int) -> bool:
        node = self.now.nodes[index]
        return isinstance(node, View) and node.name in self.found.changed

    def _counterpart(self, view: int) -> int | None:
        """The index in A of a view that both have."""
        node = self.now.nodes[view]
        assert isinstance(node, View)
        name = self.found.ids.leaves[node.name]
        return next(
            (i for i, each in enumerate(self.before.nodes) if isinstance(each, View) and each.name == name), None
        )

    def _ends_below(self, kept: int) -> set[int]:
        """What a kept node reads, through Maps that only select columns of it."""
        ends: set[int] = set()
        waiting = list(self.now.nodes[kept].inputs)
        while waiting:
            below = waiting.pop()
            if below in self.found.kept or not isinstance(self.now.nodes[below], Map):
                ends.add(below)
            else:
                waiting += self.now.nodes[below].inputs
        return ends


def _key(view: Node, place: Key | None) -> Key:
    assert isinstance(view, View)
    return place if place is not None else view.key or tuple(range(len(view.types)))


def is_read_from_state(take: Take) -> bool:
    """Whether feeds, and what can be computed over them without state, give these rows."""
    return all(isinstance(part, Feed | Copied) for part in parts_of([take]))
