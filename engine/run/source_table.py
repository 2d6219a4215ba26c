"""The table that a source of the circuit is: the topics that it reads, and the format of their messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.model.filling import handle_of_project, is_read_again
from io_kafka.extras import Extras
from io_kafka.formats.batches import TableFormat
from io_kafka.formats.encodings import WithRegistry
from io_kafka.formats.reading import values_are_text
from io_kafka.formats.records import RecordFormat, extras_of
from io_kafka.formats.spec import SourceFormat
from io_kafka.offsets import TopicPartition


@dataclass(frozen=True)
class SourceTable:
    """An input handle: the topics that it reads, and the format in which messages become rows. `partitions`: those that it reads; None
    means all. `pattern`: a regular expression of the names of topics; then a start of the pipeline finds the topics
    (coordinator/starting/topics/patterns.py). `counts_from`: messages below these offsets do not count, because the user has asked for that with
    `--from-now`; a partition that is not there counts whole. None: all messages count."""

    handle: str
    topics: tuple[str, ...]
    format: SourceFormat | RecordFormat | TableFormat
    partitions: frozenset[TopicPartition] | None = None
    pattern: str | None = None
    counts_from: tuple[tuple[TopicPartition, int], ...] | None = None

    def with_auth(self, auth: str | None) -> SourceTable:
        """Returns the table with the password for its registry, which no document has."""
        form = self.format
        if auth is None or not isinstance(form, SourceFormat) or not isinstance(form.encoding, WithRegistry):
            return self
        encoding = replace(form.encoding, registry=replace(form.encoding.registry, auth=auth))
        return replace(self, format=replace(form, encoding=encoding))

    @property
    def has_registry(self) -> bool:
        """Whether its messages may have schemas in a registry."""
        return isinstance(self.format, SourceFormat) and isinstance(self.format.encoding, WithRegistry)

    @property
    def is_binary(self) -> bool:
        """Whether its values are bytes that are no text, whatever bytes they have."""
        return isinstance(self.format, SourceFormat) and not values_are_text(self.format)

    @property
    def extras(self) -> Extras:
        """What it needs of each message besides key, value and offset."""
        return extras_of(self.columns_of_records)

    @property
    def columns_of_records(self) -> tuple[str, ...]:
        """Which columns of io_kafka/formats/records.py it has."""
        if isinstance(self.format, RecordFormat):
            return tuple(self.format.schema.names)
        if isinstance(self.format, TableFormat):
            return ()
        return tuple(name for _, name in self.format.metadata)

    def reads(self, partition: TopicPartition) -> bool:
        return partition.topic in self.topics and (self.partitions is None or partition in self.partitions)

    def first_counted(self, partition: TopicPartition) -> int:
        """The first offset that counts."""
        return dict(self.counts_from or ()).get(partition, 0)


def extras_of_all(tables: Iterable[SourceTable]) -> Extras:
    """What has to be read of each message for all of them together."""
    return max((table.extras for table in tables), default=Extras.NONE)


def name_of_source(handle: str) -> str:
    """Returns the name of a source for users."""
    return f"source {handle_of_project(handle)}{', which is read again' if is_read_again(handle) else ''}"
