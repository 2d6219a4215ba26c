"""What the state belongs to beside the circuit, as the step log has it: the leaves of the project, which are its sources, and the topics of its
outputs.

A circuit says neither which topics a source reads nor how the columns of a message are called. So it is the same for a project that reads
other messages, and state that was made of the former ones would be continued with the new ones.

The form is made to grow. What has its default is left out of `encoding`, and a field that is added later has a default. Then a record that was
written before says the same as one that is written now.
"""

from __future__ import annotations

from io_kafka.step_log.form import Part


class SourceLeaf(Part):
    """What decides which rows a source has. `topics` is empty if there is a `pattern`, and `partitions` is None if all are read.
    `format`: that of the values, `record` for messages as they are, `table` for a batch table. `encoding`: the properties that change how bytes
    are read and that do not have their default. `columns`: the type of each column in SQL, with NOT NULL, and for a column that the message's
    record has, which part of it; they are in order. `counts_from`: the first offset of each partition that counts, by its name; None if all
    messages count."""

    handle: str
    topics: tuple[str, ...]
    pattern: str | None
    partitions: tuple[str, ...] | None
    mode: str
    key: tuple[str, ...]
    format: str
    encoding: dict[str, str]
    columns: dict[str, str]
    counts_from: dict[str, int] | None = None


class OutputLeaf(Part):
    """Where an output is written. Its mode, columns, key and format are in the circuit."""

    handle: str
    topic: str


class Leaves(Part):
    """No secret is in it."""

    sources: tuple[SourceLeaf, ...]
    outputs: tuple[OutputLeaf, ...]
