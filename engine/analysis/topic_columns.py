"""How the rows that a topic has are compared with those of a view that has other columns now.

What a message says of a column, its consumers find by the name of the column, by its number, or by its place (`Writing.columns_known_by`). A
former row can be compared with a row of now where both say of each column the same thing:

    by name     a column that is new is NULL in former rows, and one that is gone is left out of them
    by number   the same, and each number that messages have used has the name that it had
    by place    the columns are as many as they were, with the same types

Otherwise two rows may look equal whose messages are not. A column of another type would be NULL in former rows, which have a value there. A
column that comes back would be NULL, and the topic has its former values. Then all rows have to be written once more (`obstacles`), which only
upsert can do.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from base.options import Mode
from base.text.type_names import sql_type
from engine.analysis.project_match import ProjectMatch
from engine.model.circuit import Circuit, Output, View
from engine.operators.arrangement import Key
from io_kafka.formats.descriptor import ColumnsKnownBy

CAST = "Cast the columns to their former types"
OTHER_NAMES = "Give the columns other names"
FORMER_ORDER = "Keep the former columns in their order, and add new ones behind them"
FORMER_COLUMNS = "Keep the number of the columns, their types and their order"


@dataclass(frozen=True)
class TopicColumns:
    """The columns of an output. `key`: the places of those of the message key."""

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    key: Key
    known_by: ColumnsKnownBy

    @classmethod
    def of(cls, circuit: Circuit, output: Output) -> TopicColumns:
        """Returns those of an output of the circuit."""
        types = tuple(circuit.nodes[output.inputs[0]].types)
        return cls(output.names, types, output.key, output.written.columns_known_by)


@dataclass(frozen=True)
class Obstacle:
    """Why former rows cannot be compared with those of now. `why`: as a clause. `way_out`: what avoids it, as the beginning of a sentence."""

    why: str
    way_out: str


@dataclass(frozen=True)
class ColumnsChange:
    """What has changed in the columns of an output's messages. `had`: the names of all columns that messages of the topic have, in the order
    of their numbers. `is_same_view`: the rows of the view have not changed, so that a column with another name is the same column."""

    was: TopicColumns
    now: TopicColumns
    had: tuple[str, ...]
    is_same_view: bool

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """Why all rows have to be written once more. There are none if the rows can be compared."""
        if self.now.known_by == "place":
            return self._of_places()
        return (*self._of_types(), *(self._of_numbers() if self.now.known_by == "number" else self._of_names()))

    @property
    def is_by_place(self) -> bool:
        """Whether rows are compared by the places of their columns."""
        return self.now.known_by == "place" and self.was.types == self.now.types

    def is_written(self, mode: Mode) -> bool:
        """Whether the topic has what it is to have, because the view has the rows that it had. An append topic has it too if a column has
        another name that no message has had: new messages have the new name."""
        if not self.is_same_view or self.obstacles:
            return False
        if self.now.known_by == "place":
            return True
        other = {name for name, former in zip(self.now.names, self.was.names, strict=True) if name != former}
        return not other or (mode == "append" and other.isdisjoint(self.had))

    def had_after(self, mode: Mode) -> tuple[str, ...]:
        """The `had` of the next change. If all rows are written once more, no former message counts."""
        names = self.now.names
        if mode == "upsert" and self.obstacles:
            return names
        match self.now.known_by:
            case "place":
                return names
            case "number":
                return (*names, *self.had[len(names) :])
            case "name":
                return (*names, *(name for name in self.had if name not in names))

    def _of_types(self) -> tuple[Obstacle, ...]:
        former = dict(zip(self.was.names, self.was.types, strict=True))
        pairs = ((n, former.get(n, kind), kind) for n, kind in zip(self.now.names, self.now.types, strict=True))
        return tuple(Obstacle(f"column {n} {_other(a, b)}", CAST) for n, a, b in pairs if a != b)

    def _of_names(self) -> tuple[Obstacle, ...]:
        back = [name for name in self.now.names if name in self.had and name not in self.was.names]
        return tuple(Obstacle(_is_back(name), OTHER_NAMES) for name in back)

    def _of_numbers(self) -> tuple[Obstacle, ...]:
        if self.is_same_view:
            return ()
        found = []
        for number, (name, had) in enumerate(zip(self.now.names, self.had, strict=False), start=1):
            if name != had:
                found.append(Obstacle(f"field {number} was {had}, and is {name} now", FORMER_ORDER))
            elif number > len(self.was.names):
                found.append(Obstacle(_is_back(name), OTHER_NAMES))
        return tuple(found)

    def _of_places(self) -> tuple[Obstacle, ...]:
        was, now = self.was, self.now
        if len(was.names) != len(now.names):
            why = f"a message had {len(was.names)} columns, and has {len(now.names)} now"
            return (Obstacle(why, FORMER_COLUMNS),)
        types = enumerate(zip(was.types, now.types, strict=True), start=1)
        found = [Obstacle(f"column {place} {_other(a, b)}", FORMER_COLUMNS) for place, (a, b) in types if a != b]
        found += [
            Obstacle(f"key column {now.names[b]} was column {a + 1}, and is column {b + 1} now", FORMER_COLUMNS)
            for a, b in zip(was.key, now.key, strict=True)
            if a != b
        ]
        return tuple(found)


def columns_change(found: ProjectMatch, output: Output, had: tuple[str, ...] | None) -> ColumnsChange:
    """`output`: of B, whose topic A writes. `had`: see ColumnsChange; None if messages have no other columns than those of A."""
    former = written_before(found, output)
    (view,), (before,) = output.inputs, former.inputs
    node = found.now.circuit.nodes[view]
    is_changed = isinstance(node, View) and node.name in found.changed
    return ColumnsChange(
        was=TopicColumns.of(found.previous.circuit, former),
        now=TopicColumns.of(found.now.circuit, output),
        had=former.names if had is None else had,
        is_same_view=before == counterpart(found, view) and not is_changed,
    )


def written_before(found: ProjectMatch, output: Output) -> Output:
    """The output of A that writes the topic of an output of B."""
    previous, topic = found.previous, found.now.topics[output.handle]
    for node in previous.circuit.nodes_of(Output).values():
        if previous.topics[node.handle] == topic:
            return node
    raise AssertionError(f"output {output.handle}: the previous project does not write its topic")


def counterpart(found: ProjectMatch, view: int) -> int | None:
    """The index in A of a view of B that both have."""
    node = found.now.circuit.nodes[view]
    assert isinstance(node, View)
    return found.previous.circuit.views.get(found.ids.leaves[node.name])


def _other(was: pa.DataType, now: pa.DataType) -> str:
    return f"was {sql_type(was)}, and is {sql_type(now)} now"


def _is_back(name: str) -> str:
    return f"column {name} is back, and the topic has former values of it"
