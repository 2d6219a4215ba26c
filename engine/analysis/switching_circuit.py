"""The circuit of the step of the switch: B, in which readers of a changed view get its difference.

A young node was filled from the new content of what it reads, or from the content that A had, to which the difference then comes as any change.
So it gets the change of a changed view alone, and reads a kept node as B says. A kept node has the old content of the view, so it gets the
difference and the change. What is between them is there twice if it has no state.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pyarrow as pa

from engine.analysis.comparing import Comparing
from engine.analysis.filling import DifferencePlan, OutputTakenBack, Program
from engine.analysis.filling_circuit import with_former_flag
from engine.analysis.history import Feed, content_next
from engine.analysis.history_inputs import Growing, Taking, over_state
from engine.model.circuit import Circuit, Node, Output
from engine.model.filling import FILL, IS_FORMER, TAKEN_BACK, Placed, Switched, WrittenAgain
from engine.model.node import Types
from engine.model.rows import Constant, Map


def switching_program(comparing: Comparing) -> Program:
    return _SwitchingCircuit(comparing).make()


class _SwitchingCircuit:
    """The circuit of the step of the switch, while it is made. `raw`: where each node of B is, which puts out its change. `switched`: by view
    and reader, what the reader gets in its place. `whole`: the nodes that give all content of a view to a new topic, and so begin in this
    step."""

    def __init__(self, comparing: Comparing) -> None:
        self.comparing, self.into = comparing, Growing()
        self.raw: dict[int, int] = {}
        self.switched: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self.whole: set[int] = set()
        self.taking = Taking(
            into=self.into,
            circuit=comparing.now,
            young=self.raw.__getitem__,
            feed=lambda take: self.raw[take.node],
            source=lambda take: self.raw[take.node],
            twin=comparing.twin_number,
            carried=self.raw.__getitem__,
            instead=self._instead,
        )

    def make(self) -> Program:
        comparing = self.comparing
        # A new topic may get its rows from a view that stands behind it in B.
        late = comparing.new_outputs
        for index in (*(i for i in range(len(comparing.now.nodes)) if i not in late), *sorted(late)):
            node = comparing.now.nodes[index]
            self.raw[index] = self.into.add(
                replace(node, inputs=self._inputs(index, node)), comparing.numbers_now[index]
            )
            for difference in comparing.differences:
                if difference.view == index:
                    self._pass_on(difference)
        for taken in comparing.taken_back:
            self._take_back(taken)
        numbers = tuple(comparing.new_number(has_state=False) if n is None else n for n in self.into.numbers)
        return Program(
            circuit=Circuit(tuple(self.into.nodes)),
            numbers=numbers,
            append_only=self._growth(),
            begins=frozenset(self.whole),
            silent=frozenset(range(len(numbers))) - frozenset(self.raw.values()),
        )

    def _growth(self) -> dict[int, tuple[bool, ...]]:
        """Returns for each node which of its inputs only insert, as B says. A difference may take rows back in this step, but a node that relies
        on growth gets none."""
        of = {at: index for index, at in self.raw.items()} | self.into.copies
        return {
            at: self.comparing.growth_now[of[at]] if at in of else (False,) * len(node.inputs)
            for at, node in enumerate(self.into.nodes)
        }

    def _pass_on(self, difference: DifferencePlan) -> None:
        comparing, view = self.comparing, difference.view
        key, wanted, types = (
            comparing.key_of(difference),
            comparing.plan_now.colocation[view],
            comparing.now.nodes[view].types,
        )
        if difference.rewrites_key is not None:
            self._write_again(difference)
            return
        # The difference may leave by other columns than those by which the view lies.
        at = wanted if wanted in (None, key) else key
        made = self.into.add(Switched((self.raw[view],), types, key=key, placed=at), difference.number)
        made = made if at == wanted else self.into.add(Placed((made,), types, wanted))
        self.switched[view] |= dict.fromkeys(difference.readers, made)

    def _write_again(self, difference: DifferencePlan) -> None:
        """All rows of the view, and the former rows of keys that have none now."""
        comparing, view, key = self.comparing, difference.view, difference.rewrites_key
        types, wanted = tuple(comparing.now.nodes[view].types), comparing.plan_now.colocation[view]
        assert key is not None
        change = self.into.once(with_former_flag(self.raw[view], types, is_former=False))
        rows = self.into.add(Switched((change,), (*types, IS_FORMER), key=key, placed=key), difference.number)
        made = self.into.once(WrittenAgain((rows,), types, key))
        made = made if key == wanted else self.into.add(Placed((made,), types, wanted))
        self.switched[view] |= dict.fromkeys(difference.readers, made)

    def _take_back(self, taken: OutputTakenBack) -> None:
        """An output of A writes that the rows of its view are gone. The view itself is not there: it reads nothing of this step."""
        comparing = self.comparing
        output, types = comparing.before.nodes[taken.output], comparing.before.nodes[taken.view].types
        assert isinstance(output, Output)
        placed = comparing.plan_before.colocation[taken.view]
        nothing = self.into.once(Constant((), types, _no_rows(types)))
        rows = self.into.add(
            Switched((nothing,), types, key=comparing.old_key_of(taken.view), placed=placed), taken.number
        )
        named = replace(output, inputs=(rows,), handle=TAKEN_BACK + output.handle)
        self.into.add(named, comparing.numbers_before[taken.output])

    def _inputs(self, index: int, node: Node) -> tuple[int, ...]:
        comparing = self.comparing
        if isinstance(node, Output):
            return (self._together(node, self._of_output(index, node.inputs[0])),)
        if index in comparing.found.kept:
            return tuple(self._of_kept(index, below) for below in node.inputs)
        takes = comparing.histories.of.get(index)
        if takes is None:  # the node passes on what comes
            return tuple(self.raw[below] for below in node.inputs)
        return tuple(map(self.taking.put, takes))

    def _together(self, output: Output, rows: int) -> int:
        """A difference may take back a row that the view has again, on another worker. Both have to meet before an append topic, which has no
        exchange of its own, because in all other steps its input only inserts."""
        (view,) = output.inputs
        if output.mode != "append" or view not in self.comparing.found.disturbed:
            return rows
        types = self.comparing.now.nodes[view].types
        return self.into.once(Placed((rows,), types, tuple(range(len(types)))))

    def _of_kept(self, reader: int, below: int) -> int:
        comparing = self.comparing
        node = comparing.now.nodes[below]
        if reader in self.switched[below]:
            return self.switched[below][reader]
        if below not in comparing.found.kept and isinstance(node, Map):
            (further,) = node.inputs
            inputs = (self._of_kept(reader, further),)
            if inputs != self.into.nodes[self.raw[below]].inputs:
                return self.into.once(replace(node, inputs=inputs), of=below)
        return self.raw[below]

    def _of_output(self, output: int, view: int) -> int:
        if output in self.switched[view]:
            return self.switched[view][output]
        if output not in self.comparing.new_outputs:  # also one that gets only what comes from this step on
            return self.raw[view]
        return self._content(view)

    def _content(self, view: int) -> int:
        """All that a view of B has after the step, from the state."""
        comparing = self.comparing

        def feed(take: Feed) -> int:
            holder = comparing.now.nodes[take.holder]
            return self.into.feed(
                self.raw[take.holder], holder, at=comparing.plan_now.colocation[take.holder], level=FILL
            )

        known = set(self.into.helpers.values())
        made = over_state(self.into, comparing.now, feed).put(content_next(comparing.found, view))
        self.whole |= set(self.into.helpers.values()) - known
        return made

    def _instead(self, node: int, inputs: tuple[int, ...]) -> int | None:
        """A node that reads in this step what B says needs no copy."""
        return self.raw[node] if inputs == self.into.nodes[self.raw[node]].inputs else None


def _no_rows(types: Types) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([pa.field(f"c{place}", kind) for place, kind in enumerate(types)])):
        pass
    return bytes(sink.getvalue())
