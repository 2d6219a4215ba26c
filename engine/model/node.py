"""What every kind of node is made of: columns by their positions, types, expressions, and the base class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

LATER = {"later": True}
"""The metadata of a field that a node got when there was state already. The JSON form leaves it out where it has its default, so that circuits
without it keep their fingerprint."""

BESIDE = {"beside": True}
"""The metadata of a field that the JSON form does not have by its name: what its value says by `recorded_parts` stands beside the other
fields."""


Column = int


Types = tuple[pa.DataType, ...]


@dataclass(frozen=True)
class Expression:
    """A scalar expression over a node's input columns.

    `sql` is DuckDB SQL over `c0`, `c1`, ...; `stepwell/lowering/expressions` writes it so that it has Spark's semantics.
    `column` is set if the expression is just an input column; then nothing is evaluated.
    """

    sql: str
    type: pa.DataType
    column: Column | None = None


@dataclass(frozen=True)
class NodeBase(ABC):
    """The base of all nodes of a circuit. `types`: the types of the output's columns, without the weight. `kind` is the node's name in the
    JSON form."""

    inputs: tuple[int, ...]
    types: Types
    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__

    @abstractmethod
    def check(self, inputs: Sequence[Types]) -> None:
        """Asserts that the node fits the types of its inputs. An AssertionError is a defect of Stepwell."""


def places_of(projections: Sequence[Expression], columns: Iterable[Column]) -> tuple[Column, ...] | None:
    where = {p.column: place for place, p in reversed(list(enumerate(projections))) if p.column is not None}
    wanted = tuple(columns)
    return tuple(where[c] for c in wanted) if all(c in where for c in wanted) else None


def columns_exist(columns: Iterable[Column | None], types: Types) -> bool:
    return all(column is None or 0 <= column < len(types) for column in columns)
