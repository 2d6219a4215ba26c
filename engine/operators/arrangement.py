"""Arrangements: on which workers an operator needs its input rows, and on which its output rows are.

Every node's output has a *co-location key*: the columns whose hash decides the worker of a row. It is `()` if all rows are on the owner of the
empty key, and None if a row may be on any worker. An operator with state needs rows with equal keys on one worker. If its input lies by other
columns, the rows are exchanged first. A co-location key of a part of the key's columns is sufficient, because rows with equal keys are still
together.

`engine/analysis/stages.py` asks each operator for its arrangement. Several operators share the functions of this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from engine.model.node import Column

Key = tuple[Column, ...]


class Everyone(Enum):
    """The one value of this class stands in the place of an exchange's key: every row is sent to every worker."""

    EVERYONE = "everyone"


EVERYONE = Everyone.EVERYONE
Exchange = Key | Everyone | None
"""How the rows of an input reach the operator: by the hash of a key, or all of them to every worker. None: they stay on their worker."""


@dataclass(frozen=True)
class Arrangement:
    """Where the rows of a node lie: the exchanges before it, and the columns by whose hash its output lies on the workers. `exchanges[i]`:
    how input i is exchanged. `colocation`: the co-location key of the output."""

    exchanges: tuple[Exchange, ...]
    colocation: Key | None


def by_key(needed: Key, colocation: Key | None) -> Arrangement:
    """Returns the arrangement of an operator with one input that needs rows with equal `needed` columns on one worker, and whose output has the
    columns of the input."""
    exchange, after = _together(needed, colocation)
    return Arrangement((exchange,), after)


def by_group(group: Key, colocation: Key | None) -> Arrangement:
    """Returns the arrangement of an operator with one input that needs the rows of a group on one worker. Its output begins with the columns of
    the group and has no other column of its input."""
    exchange, after = _together(group, colocation)
    return Arrangement((exchange,), tuple(group.index(column) for column in after))


def by_join_key(left_key: Key, right_key: Key, inputs: Sequence[Key | None]) -> Arrangement:
    """Places both sides by the same columns of the join's key: by those by which a side is placed already, otherwise by all."""
    pairs = list(zip(left_key, right_key, strict=True))
    chosen = pairs
    for side, colocation in enumerate(inputs):
        if colocation and set(colocation) <= {pair[side] for pair in pairs}:
            chosen = [next(pair for pair in pairs if pair[side] == column) for column in colocation]
            break
    left, right = tuple(pair[0] for pair in chosen), tuple(pair[1] for pair in chosen)
    return Arrangement((None if inputs[0] == left else left, None if inputs[1] == right else right), left)


def add_broadcast(arrangement: Arrangement) -> Arrangement:
    """Returns the arrangement with one more input behind the others, which every worker gets: a watermark."""
    return Arrangement((*arrangement.exchanges, EVERYONE), arrangement.colocation)


def exchange_to(needed: Key, colocation: Key | None) -> Exchange:
    """The exchange after which rows lie by exactly these columns."""
    return None if colocation == needed else needed


def on_one_worker(inputs: Sequence[Key | None]) -> Arrangement:
    """Places all rows of all inputs on the owner of the empty key."""
    return Arrangement(tuple(None if colocation == () else () for colocation in inputs), ())


def _together(needed: Key, colocation: Key | None) -> tuple[Key | None, Key]:
    """(the exchange that is needed, the co-location key after it)."""
    if colocation is not None and set(colocation) <= set(needed) and (colocation or not needed):
        return None, colocation
    return needed, needed
