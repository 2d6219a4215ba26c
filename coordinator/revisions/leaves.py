"""The sources and the outputs' topics of a project: what of them is recorded, and which of two projects' sources are the same.

Left out is what changes no row of a message that can be read. These are the policies for malformed messages and for truncations, which each
division records, the dead-letter topic, `startingOffsets` (a topic that was read goes on where it was left), the n of a VARCHAR, the number of
partitions of new topics, and the addresses of brokers and registries. Policies and lengths only tell two sources of one topic from each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from base.options import UNAVAILABLE_VALUE
from base.text.type_names import sql_type
from coordinator.specification import InputTopic, OutputTopic
from engine.analysis.identity import Named, SourceIdentity, known_sources
from engine.analysis.release import ImplementationVersions
from engine.model.circuit import Circuit
from engine.model.rows import Source
from io_kafka.formats.batches import TableFormat
from io_kafka.formats.records import RecordFormat
from io_kafka.formats.spec import SourceFormat
from io_kafka.formats.table import FORMATS, format_of, reading_of
from io_kafka.step_log.leaves import Leaves, OutputLeaf, SourceLeaf

NOT_NULL = " NOT NULL"


class HasLeaves(Protocol):
    """What has sources and outputs: a pipeline as it runs, or a plan document."""

    @property
    def circuit(self) -> Circuit: ...

    @property
    def inputs(self) -> tuple[InputTopic, ...]: ...

    @property
    def outputs(self) -> tuple[OutputTopic, ...]: ...

    @property
    def made_with(self) -> ImplementationVersions: ...


def leaves_of(project: HasLeaves) -> Leaves:
    """The sources that the circuit reads, and the outputs."""
    read = {node.handle for node in project.circuit.nodes if isinstance(node, Source)}
    sources = sorted((s for s in project.inputs if s.table.handle in read), key=lambda source: source.table.handle)
    outputs = sorted((output.handle, output.topic) for output in project.outputs)
    return Leaves(
        sources=tuple(map(_source, sources)),
        outputs=tuple(OutputLeaf(handle=handle, topic=topic) for handle, topic in outputs),
    )


def leaf_key(source: InputTopic) -> str:
    """What a source is known by, whatever its handle is and which columns it has that may be NULL."""
    return _leaf_text(_source(source))


def former_sources(now: Iterable[InputTopic], before: Iterable[InputTopic]) -> dict[str, InputTopic]:
    """By handle, the source of `before` that each source was, whatever its name was; see identity.known_sources. New ones are left out."""
    were = {source.table.handle: source for source in before}
    known = known_sources(
        {source.table.handle: _identity(source) for source in now},
        {handle: _identity(source) for handle, source in were.items()},
    )
    return {handle: were[former] for handle, former in known.items()}


def declared_columns(source: InputTopic) -> dict[str, str]:
    """The type of each column as it is declared, in order. What is not declared is not there: the n of a VARCHAR."""
    return dict(_columns(source.table.format))


def _source(source: InputTopic) -> SourceLeaf:
    table, form = source.table, source.table.format
    places = None if table.partitions is None or source.is_table else sorted(map(str, table.partitions))
    return SourceLeaf(
        handle=table.handle,
        topics=() if table.pattern is not None else table.topics,
        pattern=table.pattern,
        partitions=None if places is None else tuple(places),
        mode=form.mode if isinstance(form, SourceFormat) else "append",
        key=form.key if isinstance(form, SourceFormat) else (),
        format=_format(form),
        encoding=_encoding(form) if isinstance(form, SourceFormat) else {},
        columns=dict(_columns(form)),
        counts_from=None if table.counts_from is None else {str(where): at for where, at in table.counts_from},
    )


def _format(form: SourceFormat | RecordFormat | TableFormat) -> str:
    if isinstance(form, SourceFormat):
        return format_of(form.encoding).name
    return "record" if isinstance(form, RecordFormat) else "table"


def _encoding(form: SourceFormat) -> dict[str, str]:
    # The same for each way to read the format, as existing records have it.
    usual = format_of(form.encoding).writes.keys_as
    of_key = {} if form.key_format == usual else {"key.format": form.key_format}
    of_times = {
        "dateFormat": form.patterns.date,
        "timestampFormat": form.patterns.timestamp,
        "timestampNTZFormat": form.patterns.timestamp_ntz,
    }
    given = {name: pattern for name, pattern in of_times.items() if pattern is not None}
    of_debezium = {} if form.unavailable == UNAVAILABLE_VALUE else {"unavailable.value.placeholder": form.unavailable}
    return {**reading_of(form.encoding).identity(form.encoding), **of_key, **given, **of_debezium}


def _columns(form: SourceFormat | RecordFormat | TableFormat) -> Iterator[tuple[str, str]]:
    of_record = dict(form.metadata) if isinstance(form, SourceFormat) else {}
    limits = form.limits if isinstance(form, SourceFormat) else ()
    for field in form.schema:
        declared = {limit.path: limit.declared for limit in limits if limit.padded and limit.path[0] == field.name}
        text = sql_type(field.type, declared, (field.name,))
        text += "" if field.nullable else NOT_NULL
        yield field.name, text + (f" from metadata.{of_record[field.name]}" if field.name in of_record else "")


# Who is who in a project that changes (engine/analysis/identity.py)


def named_project(project: HasLeaves) -> Named:
    """The circuit of a project with its sources and the topics of its outputs, and with the implementation versions of the release that has made
    its state."""
    leaves = leaves_of(project)
    read = {leaf.handle for leaf in leaves.sources}
    sources = {each.table.handle: _identity(each) for each in project.inputs if each.table.handle in read}
    return Named(project.circuit, sources, {leaf.handle: leaf.topic for leaf in leaves.outputs}, project.made_with)


def _identity(source: InputTopic) -> SourceIdentity:
    leaf, form = _source(source), source.table.format
    lengths = form.limits if isinstance(form, SourceFormat) else ()
    return SourceIdentity(_leaf_text(leaf), _declaration(leaf), f"{source.on_error} {source.truncate} {lengths}")


def _leaf_text(leaf: SourceLeaf) -> str:
    """Everything but the handle and the columns that can be added or left out without a change of the other ones. A key is none of these: two
    keys of one type can be one key of another type."""
    by_name = any(each.columns_by_name for name, each in FORMATS.items() if name == leaf.format)
    fixed = {name: text for name, text in leaf.columns.items() if not by_name or NOT_NULL in text or name in leaf.key}
    return leaf.model_copy(update={"handle": "", "columns": fixed}).model_dump_json()


def _declaration(leaf: SourceLeaf) -> tuple[str, ...]:
    return tuple(f"{name} {text}" for name, text in leaf.columns.items())
