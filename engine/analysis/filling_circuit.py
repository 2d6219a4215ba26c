"""The circuit that fills young nodes and compares views: that of the previous project, A, and beside it all that is young in the next one, B.

The nodes of A come first, with their indices. Those that this release cannot run are frozen (release.py). Each young node that needs a history
is there, over what its inputs take (history.py). What is Copied is computed again over the feeds below it, and a Twin has state of its own. A
source that is read again is a node of its own: what the revision in force reads does not reach it, and its handle says of which project it is.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from engine.analysis.comparing import Comparing, is_read_from_state
from engine.analysis.filling import ColumnsBy, DifferencePlan, OutputTakenBack, Program
from engine.analysis.history import Carry, Feed, Reread, content_next, content_now
from engine.analysis.history_inputs import Growing, Taking, is_no_part, over_state
from engine.analysis.release import freeze
from engine.analysis.retraction import append_only_inputs
from engine.model.circuit import Circuit, Node, Output, View
from engine.model.filling import COMPARE, FILL, IS_FORMER, OF_FORMER, OF_NEXT, CarriedTable, Difference, Placed, Renamed
from engine.model.node import Expression, Types
from engine.model.rows import LastByKey, Map, Source
from engine.operators.table import operator_of


def filling_program(comparing: Comparing) -> Program:
    return _FillingCircuit(comparing).make()


class _FillingCircuit:
    """The circuit of the steps that fill young nodes, while it is made. `made`: where each young node is, by its index in B."""

    def __init__(self, comparing: Comparing) -> None:
        self.comparing = comparing
        present = freeze(comparing.before, comparing.frozen)
        self.into = Growing(list(present.nodes), list(comparing.numbers_before))
        self.made: dict[int, int] = {}

    def make(self) -> Program:
        comparing = self.comparing
        for index in comparing.histories.of:
            if comparing.found.is_young(index) and not isinstance(comparing.now.nodes[index], Output):
                self._young(index)
        for difference in comparing.differences:
            self._compare(difference)
        for taken in comparing.taken_back:
            self._take_back(taken)
        numbers = tuple(comparing.new_number(has_state=False) if n is None else n for n in self.into.numbers)
        circuit = Circuit(tuple(self.into.nodes))
        added = frozenset(range(len(comparing.before.nodes), len(circuit.nodes)))
        return Program(
            circuit=circuit,
            numbers=numbers,
            append_only=self._growth(circuit),
            begins=added,
            silent=added - frozenset(self.made.values()),
        )

    def _growth(self, circuit: Circuit) -> dict[int, tuple[bool, ...]]:
        """Returns for each node which of its inputs only insert. For young nodes it is what B says, because their state is to be as in B. A
        young node that reads a kept node behind a changed view is filled from what A has there, which may retract. Such a node does not rely on
        growth: a node that does reads nothing of A behind a change."""
        found = append_only_inputs(circuit)
        for index, at in self.made.items():
            node = circuit.nodes[at]
            if type(node) is not type(self.comparing.now.nodes[index]):
                continue  # a table that is made of the former one
            says = self.comparing.growth_now[index]
            retracts = any(only and not grows for only, grows in zip(says, found[at], strict=True))
            assert not retracts or not operator_of(node).growth.is_relied_on(node), (
                f"node {index} is filled with retractions"
            )
            found[at] = says
        return found

    def _young(self, index: int) -> int:
        if index not in self.made:
            self.made[index] = self.into.add(self._made_of(index), self.comparing.numbers_now[index])
        return self.made[index]

    def _made_of(self, index: int) -> Node:
        node, takes = self.comparing.now.nodes[index], self.comparing.histories.of[index]
        if isinstance(node, LastByKey) and isinstance(takes[0], Carry):
            return self._carried_table(node, takes[0].holder)
        inputs = tuple(map(self._taking(FILL).put, takes))
        if isinstance(node, LastByKey):  # what it says of a message is of the source that is read again
            return replace(node, inputs=inputs, handle=OF_NEXT + node.handle)
        return replace(node, inputs=inputs)

    def _carried_table(self, node: LastByKey, holder: int) -> CarriedTable:
        """Returns the node that carries the rows of the former table over. It finds the columns of that table by name and type."""
        found, former = self.comparing.found, self.comparing.before.nodes[holder]
        assert isinstance(former, LastByKey)
        had = {column: place for place, column in enumerate(found.previous.sources[former.handle].columns)}
        places = tuple(had.get(column) for column in found.now.sources[node.handle].columns)
        bare = replace(former, inputs=())
        return CarriedTable((holder,), node.types, former=bare, places=places, key=node.key, level=FILL)

    def _taking(self, level: int) -> Taking:
        """Returns how takes of B are put into the circuit, over the state of A."""
        comparing = self.comparing

        def feed(take: Feed) -> int:
            """The rows are where the state of A has them, and go where a node of B has its rows."""
            at, wanted = comparing.plan_before.colocation[take.holder], comparing.plan_now.colocation[take.node]
            fed = self.into.feed(take.holder, comparing.before.nodes[take.holder], at=at, level=level)
            if at == wanted:
                return fed
            return self.into.once(Placed((fed,), comparing.now.nodes[take.node].types, wanted))

        return Taking(
            into=self.into,
            circuit=comparing.now,
            young=self._young,
            feed=feed,
            source=self._read_again,
            twin=comparing.twin_number,
            carried=is_no_part,
            original=comparing.found.kept.__getitem__,
        )

    def _read_again(self, take: Reread) -> int:
        """A source of B, of which only what is read again comes."""
        return self._source(self.comparing.now, take, OF_NEXT)

    def _read_as_before(self, take: Reread) -> int:
        """A source of A. If B has it too, both are one."""
        kept = {before: now for now, before in self.comparing.found.kept.items()}
        if take.node in kept:
            return self._read_again(replace(take, node=kept[take.node]))
        return self._source(self.comparing.before, take, OF_FORMER)

    def _source(self, circuit: Circuit, take: Reread, of: str) -> int:
        source = circuit.nodes[take.node]
        assert isinstance(source, Source)
        return self.into.once(replace(source, handle=of + source.handle))

    def _compare(self, difference: DifferencePlan) -> None:
        comparing = self.comparing
        view = comparing.now.nodes[difference.view]
        assert isinstance(view, View)
        inputs, types = [self._new_content(difference.view)], tuple(view.types)
        if difference.previous is not None:
            inputs.append(self._old_content(difference.previous, view, difference.columns_by))
        if difference.rewrites_key is not None:
            assert len(inputs) == 2, "an output that writes all rows once more has written some"
            inputs = [self.into.once(with_former_flag(rows, types, is_former=i > 0)) for i, rows in enumerate(inputs)]
            types = (*types, IS_FORMER)
        self.into.add(Difference(tuple(inputs), types, comparing.key_of(difference)), difference.number)

    def _take_back(self, taken: OutputTakenBack) -> None:
        """Nothing, without the content that the view has."""
        view = self.comparing.before.nodes[taken.view]
        assert isinstance(view, View)
        rows = self._old_content(taken.view, view, "name")
        nothing = self.into.once(Map((rows,), view.types, _NEVER, _all_columns(view)))
        key = self.comparing.old_key_of(taken.view)
        self.into.add(Difference((nothing, rows), view.types, key), taken.number)

    def _new_content(self, view: int) -> int:
        """A kept view has its former content until the switch. That of a young one comes by feeds that begin when all is filled, if state has
        it. Otherwise it is all that the view, or its twin, has put out since it began."""
        comparing = self.comparing
        if view in comparing.found.kept:
            node = comparing.now.nodes[view]
            assert isinstance(node, View)
            return self._old_content(comparing.found.kept[view], node, "place")
        if not comparing.is_readable(view):
            return self._young(view)

        def feed(take: Feed) -> int:
            return self.into.feed(
                self._holder_now(take.holder),
                comparing.now.nodes[take.holder],
                at=comparing.plan_now.colocation[take.holder],
                level=COMPARE,
            )

        return over_state(self.into, comparing.now, feed).put(content_next(comparing.found, view))

    def _holder_now(self, index: int) -> int:
        """Where this circuit has a node of B."""
        kept = self.comparing.found.kept
        return kept[index] if index in kept else self._young(index)

    def _old_content(self, previous: int, view: View, by: ColumnsBy) -> int:
        """Returns the node with the old content of a view, which has the columns of the view now. `by`: see DifferencePlan."""
        comparing = self.comparing
        take = content_now(comparing.before, previous, {}, comparing.frozen)
        level = COMPARE if is_read_from_state(take) else FILL

        def feed(each: Feed) -> int:
            at = comparing.plan_before.colocation[each.holder]
            return self.into.feed(each.holder, comparing.before.nodes[each.holder], at=at, level=level)

        rows = Taking(
            into=self.into,
            circuit=comparing.before,
            young=is_no_part,
            feed=feed,
            source=self._read_as_before,
            twin=comparing.old_twin_number,
            carried=is_no_part,
            original=lambda node: node,
        ).put(take)
        before = comparing.before.nodes[previous]
        assert isinstance(before, View)
        if by == "place":
            assert before.types == view.types
            return rows
        return rows if _columns(before) == _columns(view) else self.into.once(_renaming(rows, before, view))


def with_former_flag(rows: int, types: Types, *, is_former: bool) -> Map:
    """Returns the node with these rows and, as one more column, whether they are former ones."""
    columns = (Expression(f"c{place}", kind, place) for place, kind in enumerate(types))
    return Map((rows,), (*types, IS_FORMER), None, (*columns, Expression(str(is_former).lower(), IS_FORMER)))


_NEVER = Expression("false", pa.bool_())


def _all_columns(view: View) -> tuple[Expression, ...]:
    return tuple(Expression(f"c{place}", kind) for place, kind in enumerate(view.types))


def _columns(view: View) -> list[tuple[str, str]]:
    return [(name, str(kind)) for name, kind in zip(view.names, view.types, strict=True)]


def _renaming(rows: int, before: View, now: View) -> Renamed:
    """Old rows with the columns that the view has now, by name and type."""
    places = {column: place for place, column in enumerate(_columns(before))}
    return Renamed((rows,), now.types, tuple(places.get(column) for column in _columns(now)))
