"""Tables of keyed sources that are made of what they were, without reading their messages again.

A table that loses columns, or has them in another order, has all that it needs. One that gets columns is made so if its user has asked for that
with `--from-now`. Its rows then have NULL in the new columns, until a message of their key comes. The plan document keeps the names of
these columns with the source: from then on its messages do not say what the table holds, so it cannot be made of them any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from coordinator.revisions.leaves import declared_columns, former_sources
from coordinator.specification import InputTopic
from engine.analysis.project_match import ProjectMatch
from engine.model.circuit import Circuit
from engine.model.rows import LastByKey


def tables_of(circuit: Circuit) -> dict[str, int]:
    """The table of each keyed source, by handle."""
    return {node.handle: index for index, node in enumerate(circuit.nodes) if isinstance(node, LastByKey)}


def carried_tables(
    found: ProjectMatch, now: Iterable[InputTopic], former: Mapping[str, InputTopic], chosen: Collection[str]
) -> dict[int, int]:
    """The new tables that are made of the previous ones, each with the previous index of that. A table without new columns needs no message. One
    that gets some is among these if the user has `chosen` its source. The former table is that of the same messages, whatever its source was
    called: another source may have had the name. `former`: see leaves.former_sources."""
    were, are = tables_of(found.previous.circuit), tables_of(found.now.circuit)
    carried = {}
    for source in now:
        handle, was = source.table.handle, former.get(source.table.handle)
        if was is None or was.table.handle not in were or handle not in are or not found.is_young(are[handle]):
            continue
        if is_carried(source, was, chosen):
            carried[are[handle]] = were[was.table.handle]
    return carried


def tables_read_otherwise(
    now: Iterable[InputTopic], former: Mapping[str, InputTopic], chosen: Collection[str]
) -> frozenset[str]:
    """The keyed sources whose table is made of its messages again and may have other rows than the previous one. Which messages are malformed
    depends on the columns, and these sources leave such messages out."""
    return frozenset(
        source.table.handle
        for source in now
        if source.is_keyed
        and (was := former.get(source.table.handle)) is not None
        and {source.on_error, was.on_error} != {"fail"}
        and list(declared_columns(source).items()) != list(declared_columns(was).items())
        and not is_carried(source, was, chosen)
    )


def is_carried(source: InputTopic, was: InputTopic, chosen: Collection[str]) -> bool:
    """Whether the table of the source is made of the previous one."""
    return why_not_carried(source, was) is None and (source.table.handle in chosen or not new_columns(source, was))


def why_not_carried(source: InputTopic, was: InputTopic | None) -> str | None:
    """Why the table of the source cannot be made of that of `was`, as a clause; None if it can. It is not enough that the values of a column
    have the same form: a CHAR(4) has other blanks than a CHAR(3), and the time of a record is not what a message says."""
    if was is None:
        return "something else has changed than columns that may be NULL"
    had = declared_columns(was)
    other = [(name, text) for name, text in declared_columns(source).items() if had.get(name, text) != text]
    return f"column {other[0][0]} was {had[other[0][0]]}, and is {other[0][1]} now" if other else None


def new_columns(source: InputTopic, was: InputTopic) -> tuple[str, ...]:
    """The columns that its former table lacks."""
    return tuple(name for name in source.table.format.schema.names if name not in was.table.format.schema.names)


def with_nulls(inputs: Collection[InputTopic], before: Collection[InputTopic]) -> tuple[InputTopic, ...]:
    """The sources of a project, each with the columns that are null in rows of its table although messages may say otherwise."""
    if not any(each.nulls for each in before):
        return tuple(inputs)
    former = former_sources(inputs, before)
    return tuple(_with_nulls(source, former.get(source.table.handle)) for source in inputs)


def with_more_nulls(inputs: Iterable[InputTopic], more: Mapping[str, tuple[str, ...]]) -> tuple[InputTopic, ...]:
    """`more`: columns by handle."""
    return tuple(
        replace(each, nulls=tuple(dict.fromkeys((*each.nulls, *more.get(each.table.handle, ()))))) for each in inputs
    )


def _with_nulls(source: InputTopic, was: InputTopic | None) -> InputTopic:
    if was is None or not was.nulls:
        return source
    return replace(source, nulls=tuple(name for name in was.nulls if name in source.table.format.schema.names))
