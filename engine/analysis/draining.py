"""By which columns a difference leaves, if it leaves in several steps.

A drain passes on ranges of hashes. Between two steps of it, a reader has the rows of the new content below the position, and those of the old
content above it. Each of these contents may have one row at most for some columns, and a reader may rely on that:

    an output with a key     Its message for a key is the last word about it. If the new row left before the old one is taken back, the
                             retraction would be that word, and the key would be gone although it has a row.
    any other node           The circuit may have been made simpler because both contents have a unique key (uniqueness.py).

So all rows with equal values in such columns leave in one step, which they do if the hash is that of some of these columns. If two such sets
have no column in common, the hash is that of no column, so that the whole difference leaves in the first step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.analysis.filling import DifferencePlan
from engine.analysis.uniqueness import unique_keys
from engine.model.circuit import Circuit, Output, View
from engine.operators.arrangement import Key


def groups_of(before: Circuit, now: Circuit, difference: DifferencePlan) -> Iterable[Key]:
    """The sets of columns of a view whose equal values have to leave together. `before`, `now`: the circuits of A and of B."""
    assert difference.previous is not None, "readers that have nothing get a part of one content"
    outputs = [node for index in sorted(difference.readers) if isinstance(node := now.nodes[index], Output)]
    yield from (output.key for output in outputs if output.key)
    if len(outputs) < len(difference.readers):
        known = unique_keys(now)[difference.view], _with_columns_now(before, now, difference)
        yield from (key for key in known if key is not None)


def _with_columns_now(before: Circuit, now: Circuit, difference: DifferencePlan) -> Key | None:
    """The unique key of the old content, in the columns of the view now. None if there is none, or if a column of it is gone: then no reader
    sees it."""
    assert difference.previous is not None
    old, new = before.nodes[difference.previous], now.nodes[difference.view]
    assert isinstance(old, View) and isinstance(new, View)
    key = unique_keys(before)[difference.previous]
    if difference.columns_by == "place":
        return key
    positions = {column: position for position, column in enumerate(zip(new.names, new.types, strict=True))}
    found = None if key is None else [positions.get((old.names[column], old.types[column])) for column in key]
    return None if found is None or None in found else tuple(position for position in found if position is not None)


def key_within(usual: Key, groups: Sequence[Key]) -> Key:
    """`usual`, if it is within each of these sets of columns; otherwise the columns that all of them have."""
    if all(set(usual) <= set(group) for group in groups):
        return usual
    return tuple(sorted(set.intersection(*map(set, groups))))
