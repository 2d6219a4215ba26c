"""Which batch tables of a project are loaded, and which have to be.

A load has a topic, and the topic is a part of what a source is known by. So nodes over a table that is loaded again are new, and are filled from
the new load. The files of a project name a table without its load: a table is that of the recorded revision as long as it is read in the same
way and nobody asks for another load.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from base.fault import ExitCode, Fault
from coordinator.specification import InputTopic
from coordinator.topic_names import TABLE_PARTITIONS, load_topic_of
from io_kafka.offsets import TopicPartition

_OPTIONS = re.compile(r" #[0-9a-f]{8}$")
_OTHERS = re.compile(r" and \d+ more$")


class UnknownTable(Fault):
    """`--reload` names no batch table of the project, or several."""

    exit_code = ExitCode.PROJECT


def with_recorded_loads(inputs: Iterable[InputTopic], recorded: Iterable[InputTopic]) -> tuple[InputTopic, ...]:
    """The sources of the files, whose batch tables have the loads of the recorded project. `recorded`: its sources."""
    loads = {source.table.handle: source for source in recorded if source.is_table}
    return tuple(_as_recorded(source, loads.get(source.table.handle)) for source in inputs)


def with_loads(
    inputs: Sequence[InputTopic], recorded: Iterable[InputTopic], reload: Iterable[str], load: str
) -> tuple[InputTopic, ...]:
    """Returns the sources of the files for a transition. A batch table that is new, that has other columns now, or that is to be loaded again
    has the topic of a new load. Another one has its recorded load; see `with_recorded_loads`. `reload`: the handles of the last kind. `load`:
    the id of the loads of this transition."""
    loads = {source.table.handle: source for source in recorded if source.is_table}
    again = set(reload)
    made = []
    for source in inputs:
        known = loads.get(source.table.handle)
        if source.is_table and (known is None or source.table.handle in again or _has_other_columns(source, known)):
            made.append(_loaded_into(source, load))
        else:
            made.append(_as_recorded(source, known))
    return tuple(made)


def tables_to_load(inputs: Iterable[InputTopic], recorded: Iterable[InputTopic]) -> tuple[InputTopic, ...]:
    """The batch tables whose load no source of the recorded project has."""
    loads = {source.table.topics for source in recorded if source.is_table}
    return tuple(source for source in inputs if source.is_table and source.table.topics not in loads)


def with_other_files(inputs: Iterable[InputTopic], recorded: Iterable[InputTopic]) -> frozenset[str]:
    """The handles of the batch tables whose files are not those that were loaded, as far as that is known. `inputs`: of the files, without
    recorded loads."""
    loads = {source.table.handle: source.files for source in recorded if source.is_table}
    return frozenset(
        source.table.handle
        for source in inputs
        if source.is_table and source.files and loads.get(source.table.handle, "") not in ("", source.files)
    )


def _as_recorded(source: InputTopic, known: InputTopic | None) -> InputTopic:
    if known is None or not source.is_table:
        return source
    table = replace(source.table, topics=known.table.topics, partitions=known.table.partitions)
    return replace(source, table=table, starting_offsets=known.starting_offsets, files=known.files)


def _loaded_into(source: InputTopic, load: str) -> InputTopic:
    """A new topic begins at 0 in each partition."""
    (name,) = source.table.topics
    topic = load_topic_of(name, load)
    places = frozenset(TopicPartition(topic, number) for number in range(TABLE_PARTITIONS))
    return replace(source, table=replace(source.table, topics=(topic,), partitions=places), starting_offsets="earliest")


def _has_other_columns(source: InputTopic, known: InputTopic) -> bool:
    """A table of a catalog keeps its name if it gets other columns, which its load lacks."""
    return not source.table.format.schema.equals(known.table.format.schema)


# Names that users give


def chosen_tables(names: Iterable[str], inputs: Iterable[InputTopic]) -> tuple[str, ...]:
    """The handles of the batch tables with these names, in order. A name is a handle, or a path or the name of a table of a catalog, whose first
    parts may be left out. Raises UnknownTable."""
    handles = sorted(source.table.handle for source in inputs if source.is_table)
    return tuple(sorted({handle for name in names for handle in _handles_named(name, handles)}))


def _handles_named(name: str, handles: Sequence[str]) -> list[str]:
    """Several handles can have one name: the same files, which are read with other options."""
    if name in handles:
        return [name]
    found = [handle for handle in handles if name.rstrip("/") in _names(_OPTIONS.sub("", handle))]
    if not found:
        known = f"they are: {'; '.join(handles)}" if handles else "it reads none"
        raise UnknownTable(
            f"--reload {name}: no batch table of the project has this name; {known}.",
            "Name a table by its path, or by its name in the catalog. The first parts of it can be left out.",
        )
    if len({_OPTIONS.sub("", handle) for handle in found}) > 1:
        raise UnknownTable(
            f"--reload {name}: several batch tables of the project have this name: {'; '.join(found)}.",
            "Write more of the path or of the name; or give the option once for each of them.",
        )
    return found


def _names(what: str) -> Iterator[str]:
    """`what`: a handle without the digest of what it does not show."""
    yield what
    kind, _, rest = what.partition(" ")
    if kind == "table":
        yield from _ends(rest, ".")
        return
    for path in _OTHERS.sub("", rest).split(", "):
        yield from _ends(path.rstrip("/"), "/")


def _ends(text: str, separator: str) -> Iterator[str]:
    yield text
    parts = text.split(separator)
    for first in range(1, len(parts)):
        rest = separator.join(parts[first:])
        yield from (rest, separator + rest) if separator == "/" else (rest,)
