"""What the circuits of a transition have in common: the numbers of helpers, and which differences there are.

A is the previous project, and B the next one (filling.py). A node of B that goes on has the content that a view had in A, and needs the
difference to what the view has in B:

    a kept node that reads a changed view    the difference between the two contents of the view
    an output whose topic A writes           that between the view of its topic in A and the one in B, if one of them is another one, has
                                             changed, or has other columns
    an output whose topic A does not write   all content, if it cannot be read from the state of B in the step of the switch

Outputs of one view may need differences of their own, because a format says how old rows are compared with new ones (topic_columns.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.analysis.draining import groups_of, key_within
from engine.analysis.filling import ColumnsBy, DifferencePlan, OutputTakenBack
from engine.analysis.history import Feed, Histories, Recomputed, Take, content_next, takes_within
from engine.analysis.project_match import ProjectMatch
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan_stages
from engine.analysis.topic_columns import columns_change, counterpart, written_before
from engine.model.circuit import Node, Output, View
from engine.model.numbers import assign_numbers
from engine.model.rows import Map
from engine.operators.arrangement import Key


@dataclass(frozen=True)
class ChosenOutputs:
    """How the outputs are led over for which a user has chosen something else than the comparison of whole contents. `from_switch`: the
    Outputs of B that get only what their view puts out from the step of the switch on. `taken_back`: the Outputs of A whose content is taken
    back in that step. `gradual`: what differs leaves in several steps (draining.py)."""

    from_switch: frozenset[int] = frozenset()
    taken_back: frozenset[int] = frozenset()
    gradual: bool = False


NO_CHOICE = ChosenOutputs()

NamesHad = Mapping[int, tuple[str, ...]]
"""By the index of an Output of B, the names of all columns that messages of its topic have. None is there if they are those of A."""

NOTHING_MORE_HAD: NamesHad = {}

Group = tuple[int, int | None, ColumnsBy, int | None]
"""Readers that get one difference: the view of B, the view of A whose content they have, how rows are compared, and the output if it writes all
rows once more."""


class Comparing:
    """The comparison of the previous project A with the next project B, from which the circuits of a transition are made. `numbers_before`,
    `numbers_now`: of the nodes of A, and of those of B. `new_outputs`: the Outputs of B that get all content of their view, because A does
    not write their topic. `outputs`: see ChosenOutputs. `frozen`: why nodes of A are (release.py). `had`: see NamesHad."""

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
        had: NamesHad = NOTHING_MORE_HAD,
    ) -> None:
        self.found, self.histories, self.new_outputs, self.outputs = found, histories, new_outputs, outputs
        self.frozen, self.had = frozen, had
        self.before, self.now = found.previous.circuit, found.now.circuit
        self.numbers_before, self.numbers_now = numbers_before, numbers_now
        self.plan_before, self.plan_now = plan_stages(self.before), plan_stages(self.now)
        self.growth_now = append_only_inputs(self.now)
        self._twins: dict[tuple[str, int], int] = {}
        self._taken = {*numbers_before, *numbers_now}
        self.differences = tuple(self._differences())
        self._drained_by = self._keys_of_drain() if outputs.gradual else {}
        self.taken_back = tuple(
            OutputTakenBack(
                output=index, view=self.before.nodes[index].inputs[0], number=self.new_number(has_state=True)
            )
            for index in sorted(outputs.taken_back)
        )

    @property
    def helpers(self) -> frozenset[int]:
        """The numbers of the nodes with state that neither A nor B has."""
        held = {each.number for each in self.differences} | {each.number for each in self.taken_back}
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
        return is_read_from_state(content_next(self.found, view))

    def key_of(self, difference: DifferencePlan) -> Key:
        """The columns by which a difference lies."""
        if difference.rewrites_key is not None:
            return difference.rewrites_key
        usual = _key(self.now.nodes[difference.view], self.plan_now.colocation[difference.view])
        return self._drained_by.get(difference.view, usual)

    def old_key_of(self, view: int) -> Key:
        """The key by which the content of a view of A lies that is taken back."""
        return _key(self.before.nodes[view], self.plan_before.colocation[view])

    def _differences(self) -> Iterator[DifferencePlan]:
        for group, readers in sorted(self._readers().items(), key=lambda each: (each[0][0], str(each[0][1:]))):
            view, previous, by, again = group
            handles = [node.handle for i in sorted(readers) if isinstance(node := self.now.nodes[i], Output)]
            output = None if again is None else self.now.nodes[again]
            yield DifferencePlan(
                view=view,
                previous=previous,
                number=self.new_number(has_state=True),
                readers=frozenset(readers),
                handles=tuple(handles),
                columns_by=by,
                rewrites_key=output.key if isinstance(output, Output) else None,
            )

    def _keys_of_drain(self) -> dict[int, Key]:
        """By view, the columns by whose hash its difference leaves."""
        groups: defaultdict[int, list[Key]] = defaultdict(list)
        for each in self.differences:
            # Otherwise a reader has a part of one content, or the difference lies by the key of its output.
            if each.previous is not None and each.rewrites_key is None:
                groups[each.view] += groups_of(self.before, self.now, each)
        return {
            view: key_within(_key(self.now.nodes[view], self.plan_now.colocation[view]), found)
            for view, found in groups.items()
        }

    def _readers(self) -> dict[Group, set[int]]:
        found: defaultdict[Group, set[int]] = defaultdict(set)
        for index, node in enumerate(self.now.nodes):
            if index in self.outputs.from_switch:
                continue
            if isinstance(node, Output):
                (view,) = node.inputs
                if index not in self.new_outputs:
                    group = self._group_of_output(index, node)
                    if group is not None:
                        found[group].add(index)
                elif not self.is_readable(view):
                    found[view, None, "name", None].add(index)
            elif index in self.found.kept:
                for below in self._ends_below(index):
                    if self._is_changed(below):
                        found[below, self._counterpart(below), self._as_readers_know(below), None].add(index)
        return found

    def _group_of_output(self, index: int, output: Output) -> Group | None:
        """The group of an output whose topic A writes. None if its topic has what it is to have."""
        (view,), (before,) = output.inputs, written_before(self.found, output).inputs
        columns = columns_change(self.found, output, self.had.get(index))
        if columns.is_written(output.mode):
            return None
        if columns.obstacles and output.mode == "upsert":
            return view, before, "name", index
        return view, before, "place" if columns.is_by_place else "name", None

    def _is_changed(self, index: int) -> bool:
        node = self.now.nodes[index]
        return isinstance(node, View) and node.name in self.found.changed

    def _as_readers_know(self, view: int) -> ColumnsBy:
        """How kept readers of a changed view know its columns. If its own definition is equal, because what changed is below it, they know them
        by their places, whatever they are called now (identity.py)."""
        node, found = self.now.nodes[view], self.found
        assert isinstance(node, View)
        leaf = found.ids.leaves[node.name]
        return "place" if found.was.views.get(leaf) == found.ids.views[leaf] else "name"

    def _counterpart(self, view: int) -> int | None:
        return counterpart(self.found, view)

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


def _key(view: Node, colocation: Key | None) -> Key:
    assert isinstance(view, View)
    return colocation if colocation is not None else view.key or tuple(range(len(view.types)))


def is_read_from_state(take: Take) -> bool:
    """Whether feeds, and what can be computed over them without state, give these rows."""
    return all(isinstance(part, Feed | Recomputed) for part in takes_within([take]))
