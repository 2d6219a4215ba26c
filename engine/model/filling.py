"""The nodes that only a transition has: they fill young nodes, compare views, and pass on what differs (engine/analysis/filling.py).

No project has one of them, so no plan document has one either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.model.node import Column, NodeBase, Types, columns_exist
from engine.model.rows import LastByKey

HASHES = 1 << 64
"""A placed hash is below this number."""

FILL, COMPARE = 0, 1
"""The levels of the feeds: young nodes are filled, and then the contents of changed views are compared.

All feeds of a level move together. The sides of a join lie by one key, so rows that match arrive in one portion. With a position for each feed,
an outer join would first give all rows of one side without a match and then take them back. And one number has to be right."""

LEVELS = COMPARE + 1

OF_NEXT, OF_FORMER = "again, as the next revision reads it: ", "again, as the former revision reads it: "
"""The prefixes of the handles of sources that are read again. No source of a project is called so."""


IS_FORMER = pa.bool_()
"""The type of the column that says of a row whether it is a former one."""

TAKEN_BACK = "taken back: "
"""The prefix of the handle of an output of the former project that takes its content back in the step of the switch."""


def is_read_again(handle: str) -> bool:
    return handle.startswith((OF_NEXT, OF_FORMER))


def handle_of_project(handle: str) -> str:
    """Returns how its project calls a source that is read again."""
    return handle.removeprefix(OF_NEXT).removeprefix(OF_FORMER)


@dataclass(frozen=True)
class ContentFeed(NodeBase):
    """The content of a node, given by ascending ranges of its placed hash. What a step gives is

        the content after the step, with hashes in [c, c')   +   the change of the step, with hashes below c

    where c and c' are the positions of the feed before and after the step. So at the end of each step the feed has given the rows below c', each
    of them once, as content or as a change.

    The first input is the node. If that is a ScalarMap, its ScalarValues follow. `holder`: the node as it is in its own circuit, and `read`: the
    types of its inputs there. `colocation`: the columns by which its rows lie on their worker; None if they may lie on any. `level`: the
    feeds of one level move together, and those of a level begin when all of the level before have ended."""

    holder: NodeBase
    read: tuple[Types, ...]
    colocation: tuple[Column, ...] | None
    level: int

    def check(self, inputs: Sequence[Types]) -> None:
        rows, *values = inputs
        assert rows == self.types == self.holder.types and self.level >= 0
        assert list(self.read[1:]) == values or not values
        assert columns_exist(self.colocation or (), self.types)


@dataclass(frozen=True)
class Placed(NodeBase):
    """The rows of the input, at the place at which another node has them in the project: by the hash of the columns `key`; None: anywhere."""

    key: tuple[Column, ...] | None

    def check(self, inputs: Sequence[Types]) -> None:
        assert list(inputs) == [self.types] and columns_exist(self.key or (), self.types)


@dataclass(frozen=True)
class Difference(NodeBase):
    """Adds up the new content of a view, which is the first input, without its old content, which is the second one if there is one. It has no
    output. The node Switched with the same number reads what was added up. `types`: of the rows."""

    key: tuple[Column, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        assert 1 <= len(inputs) <= 2 and all(types == self.types for types in inputs)
        assert columns_exist(self.key, self.types)


@dataclass(frozen=True)
class Switched(NodeBase):
    """What a kept reader of a view gets in the step of the switch: the change of the view, which is the input, and the difference between its
    new and its old content. Of a view that is gone the input is an empty Constant. `key`: the columns by which the difference lies.
    `placed`: those by which the rows lie for the reader; None: anywhere.

    In a drain, several steps do that. With the positions c and c' before and after a step, of which only whole slots count, it passes on

        the change with slots below c'   +   the difference with slots in [c, c')

    and the change with other slots is added to the difference."""

    key: tuple[Column, ...]
    placed: tuple[Column, ...] | None

    def check(self, inputs: Sequence[Types]) -> None:
        assert list(inputs) == [self.types] and columns_exist((*self.key, *(self.placed or ())), self.types)


@dataclass(frozen=True)
class Renamed(NodeBase):
    """Old rows of a view with the columns that it has now. `places`: of each column, where it is in the input; None: it is null."""

    places: tuple[Column | None, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert len(self.places) == len(self.types)
        assert all(place is None or rows[place] == kind for place, kind in zip(self.places, self.types, strict=True))


@dataclass(frozen=True)
class WrittenAgain(NodeBase):
    """What an upsert output gets that writes all rows once more. The input has the rows of the view, and, as one more column, whether a row is a
    former one. The former rows of a key that has a row now are left out: the message of that row replaces them. Without the column, a former row
    would take back an equal row of now, and that would not be written. `key`: that of the output."""

    key: tuple[Column, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert tuple(rows) == (*self.types, IS_FORMER) and self.key and columns_exist(self.key, self.types)


@dataclass(frozen=True)
class CarriedTable(NodeBase):
    """The table of a keyed source that has other columns now, made of the one that it had. That is the input, of which it reads the state like a
    ContentFeed of `level`. It stores what the new table stores. `former`: the input as it is in its own project. `places`: of each column, where
    it is in the input; None: it is null. `key`: of the new table, in the order of that of the previous one."""

    former: LastByKey
    places: tuple[Column | None, ...]
    key: tuple[Column, ...]
    level: int

    def check(self, inputs: Sequence[Types]) -> None:
        (rows,) = inputs
        assert rows == self.former.types and len(self.places) == len(self.types) and self.level >= 0
        assert all(place is None or rows[place] == kind for place, kind in zip(self.places, self.types, strict=True))
        assert tuple(self.places[column] for column in self.key) == self.former.key


@dataclass(frozen=True)
class Frozen(NodeBase):
    """Stands for a node of the project in force that this release cannot run (engine/analysis/release.py). It has no output, and leaves what
    `holder`, the node itself, has stored as it is."""

    holder: NodeBase

    def check(self, inputs: Sequence[Types]) -> None:
        assert self.types == self.holder.types and self.inputs == self.holder.inputs
        self.holder.check(inputs)


FillingNode = ContentFeed | Placed | Renamed | Difference | Switched | WrittenAgain | Frozen | CarriedTable
"""Every kind of node that only a transition has."""
