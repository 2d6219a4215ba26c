"""Tables of keyed sources that are made of what they were, without reading their messages again.

A table that loses columns, or has them in another order, has all that it needs. One that gets columns is made so if its user has asked for that
with `--from-now`. Its rows then have NULL in the new columns, until a message of their key comes. The plan document keeps the names of
these columns with the source: from then on its messages do not say what the table holds, so it cannot be made of them any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from coordinator.revisions.leaves import leaf_key
from coordinator.specification import InputTopic
from engine.analysis.project_match import ProjectMatch
from engine.model.circuit import Circuit
from engine.model.rows import LastByKey


def tables_of(circuit: Circuit) -> dict[str, int]:
    """The table of each keyed source, by handle."""
    return {node.handle: index for index, node in enumerate(circuit.nodes) if isinstance(node, LastByKey)}


def carried_tables(
    found: ProjectMatch, now: Iterable[InputTopic], before: Collection[InputTopic], chosen: Collection[str]
) -> dict[int, int]:
    """The new tables that are made of the former ones, each with the previous index of that. A table without new columns needs no message. One
    that gets some is among these if the user has `chosen` its source. The former table is that of the same messages, whatever its source was
    called: another source may have had the name."""
    were, are = tables_of(found.previous.circuit), tables_of(found.now.circuit)
    carried = {}
    for source in now:
        handle, was = source.table.handle, _former(source, before)
        if was is None or was.table.handle not in were or handle not in are or not found.is_young(are[handle]):
            continue
        if why_not_carried(source, before) is None and (handle in chosen or not new_columns(source, before)):
            carried[are[handle]] = were[was.table.handle]
    return carried


def why_not_carried(source: InputTopic, before: Iterable[InputTopic]) -> str | None:
    """Why the table of the source cannot be made of the former one, as a clause; None if it can."""
    was = _former(source, before)
    if was is None:
        return "something else has changed than columns that may be NULL"
    had = {field.name: field.type for field in was.table.format.schema}
    other = [field.name for field in source.table.format.schema if had.get(field.name, field.type) != field.type]
    return f"column {other[0]} has another type now" if other else None


def new_columns(source: InputTopic, before: Iterable[InputTopic]) -> tuple[str, ...]:
    """Those that its former table lacks."""
    was = _former(source, before)
    assert was is not None
    return tuple(name for name in source.table.format.schema.names if name not in was.table.format.schema.names)


def with_nulls(inputs: Iterable[InputTopic], before: Iterable[InputTopic]) -> tuple[InputTopic, ...]:
    """The sources of a project, each with the columns that are null in rows of its table although messages may say otherwise."""
    known = [each for each in before if each.nulls]
    return tuple(_with_nulls(source, known) for source in inputs)


def with_more_nulls(inputs: Iterable[InputTopic], more: Mapping[str, tuple[str, ...]]) -> tuple[InputTopic, ...]:
    """`more`: columns by handle."""
    return tuple(
        replace(each, nulls=tuple(dict.fromkeys((*each.nulls, *more.get(each.table.handle, ()))))) for each in inputs
    )


def _with_nulls(source: InputTopic, known: Collection[InputTopic]) -> InputTopic:
    was = _former(source, known) if known else None
    if was is None:
        return source
    return replace(source, nulls=tuple(name for name in was.nulls if name in source.table.format.schema.names))


def _former(source: InputTopic, before: Iterable[InputTopic]) -> InputTopic | None:
    """Returns the source of `before` that is known by the same as this one; None if there is none. Of several, it is the one of the same name,
    or else the first."""
    key = leaf_key(source)
    found = [each for each in before if leaf_key(each) == key]
    return next((each for each in found if each.table.handle == source.table.handle), found[0] if found else None)
