"""A case: a project, the messages of every step, and how it is run. It is plain data: a seed
makes it (seeds.py), and a reducer makes it smaller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from base.options import Mode
from tests.fuzz.terms import Query, tables_of
from tests.fuzz.values import DDL, Row, json_of, seen, stored

Read = Literal["table", "files", "reader"]


@dataclass(frozen=True)
class Source:
    """`columns`: name, the type as declared, and whether it may be null. `read`: as a declared table; as a batch table, whose rows are all in
    the first step; or by a reader of messages with from_json, whose texts may be damaged. The last two only grow."""

    name: str
    columns: tuple[tuple[str, str, bool], ...]
    mode: Mode
    key: tuple[str, ...] = ()
    partitions: int = 1
    read: Read = "table"

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(DDL[seen(kind)] for _, kind, _ in self.columns)

    @property
    def ddl(self) -> str:
        return ", ".join(f"{name} {kind}{'' if nullable else ' NOT NULL'}" for name, kind, nullable in self.columns)

    def text_of(self, row: Row) -> str:
        """The row as JSON."""
        cells = (f'"{c[0]}": {json_of(v, t)}' for c, v, t in zip(self.columns, row, self.types, strict=True))
        return "{" + ", ".join(cells) + "}"

    @property
    def records(self) -> str:
        """The name of the messages that a reader gives."""
        return f"{self.name}_records"

    @property
    def sql(self) -> str:
        """What a definition makes of the messages of its reader."""
        columns = ", ".join(f"{name} {kind}" for name, kind, _ in self.columns)
        parsed = f"from_json(CAST(value AS STRING), '{columns}') AS row"
        own = ", ".join(f"{column} AS {name}" for name, column, _ in self.record_columns)
        return f"SELECT row.*, {own} FROM (SELECT {parsed}, * FROM {self.records})"

    @property
    def record_columns(self) -> tuple[tuple[str, str, str], ...]:
        """The columns of the record that the definition shows: name, Spark's name, type."""
        shown = (("p", "partition", "int"), ("o", "offset", "bigint"), ("m", "timestamp", "timestamp"))
        return tuple((f"{self.name}_{short}", name, kind) for short, name, kind in shown)

    def stored(self, row: Row) -> Row:
        """The row that the table has if a message has this one."""
        return tuple(stored(value, column[1]) for value, column in zip(row, self.columns, strict=True))

    def key_of(self, row: Row) -> tuple[str, ...]:
        """The texts of the key's values."""
        places = [next(i for i, c in enumerate(self.columns) if c[0] == name) for name in self.key]
        return tuple(json_of(row[i], self.types[i]) for i in places)


@dataclass(frozen=True)
class View:
    """`mode`: None if it is not published. `temporary`: other views read it and nobody else. `loose`: columns that are compared less than
    exactly. `any_of`: see Made."""

    name: str
    query: Query
    mode: Mode | None = None
    key: tuple[str, ...] = ()
    temporary: bool = False
    as_frame: bool = False
    partitions: int = 1
    loose: tuple[tuple[str, str], ...] = ()
    any_of: tuple[str, ...] | None = None
    construct: str = ""


Form = Literal["row", "tombstone", "c", "r", "u", "d"]


@dataclass(frozen=True)
class Message:
    """`form`: a plain row, a tombstone, or Debezium's op. `keyed`: the message has a key; else the value names it. `damaged`: the text, if it is
    none of a row."""

    source: str
    partition: int
    form: Form
    before: Row | None = None
    after: Row | None = None
    keyed: bool = False
    damaged: str | None = None

    def value(self, source: Source) -> bytes | None:
        if self.form == "tombstone":
            return None
        if self.damaged is not None:
            return self.damaged.encode()
        before, after = (None if row is None else source.text_of(row) for row in (self.before, self.after))
        if self.form == "row":
            assert after is not None
            return after.encode()
        return f'{{"before": {before or "null"}, "after": {after or "null"}, "op": "{self.form}"}}'.encode()

    def key(self, source: Source) -> bytes | None:
        row = self.after if self.after is not None else self.before
        if not self.keyed or row is None:
            return None
        pairs = zip(source.key, source.key_of(row), strict=True)
        return ("{" + ", ".join(f'"{name}": {text}' for name, text in pairs) + "}").encode()


Step = tuple[Message, ...]
Event = Literal["", "restart", "move", "crash"]


@dataclass(frozen=True)
class Run:
    """How the steps are run: the number of workers and what happens before each step, how the traces are cut (rows in a bucket), and `seed` for
    who reads which partition and which slots move. `crash` goes back to the state before the step before, and replays."""

    workers: tuple[int, ...]
    events: tuple[Event, ...]
    bucket_rows: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class Case:
    seed: int
    sources: tuple[Source, ...]
    views: tuple[View, ...]
    steps: tuple[Step, ...]
    runs: tuple[Run, ...]
    compared: tuple[int, ...] = ()
    """The steps after which Spark is asked; the last one always."""
    wild: bool = field(default=False, compare=False)

    def source(self, name: str) -> Source:
        return next(source for source in self.sources if source.name == name)


# What the messages mean

RECORDS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
"""The columns of Spark's Kafka source."""


def time_ms(offset: int) -> int:
    """The timestamp of a record."""
    return 1_600_000_000_000 + 1001 * offset


def numbered(case: Case, source: Source) -> Iterator[tuple[int, int, Message]]:
    """The messages of a source, each with its step and its offset."""
    ends: Counter[int] = Counter()
    for number, step in enumerate(case.steps):
        for message in step:
            if message.source == source.name:
                yield number, ends[message.partition], message
                ends[message.partition] += 1


def contents(case: Case) -> dict[str, list[Counter[tuple[str, Row]]]]:
    """The rows of every source after each step, by name; of a reader those that its messages were made of. A row is found by its text, because
    -0.0 equals 0.0 in Python."""
    found: dict[str, list[Counter[tuple[str, Row]]]] = {}
    for source in case.sources:
        rows: Counter[tuple[str, Row]] = Counter()
        last: dict[tuple[str, ...], Row] = {}
        found[source.name] = []
        for step in case.steps:
            for message in sorted((m for m in step if m.source == source.name), key=lambda m: m.partition):
                _take(source, message, rows, last)
            now = Counter((source.text_of(row), row) for row in last.values()) if source.key else +rows
            found[source.name].append(now)
    return found


def _take(source: Source, message: Message, rows: Counter[tuple[str, Row]], last: dict[tuple[str, ...], Row]) -> None:
    before, after = (None if row is None else source.stored(row) for row in (message.before, message.after))
    if source.key:
        row = after if after is not None else before
        assert row is not None
        if message.form in ("tombstone", "d"):
            last.pop(source.key_of(row), None)
        else:
            last[source.key_of(row)] = row
        return
    if message.form in ("row", "c", "r", "u") and message.damaged is None:
        assert after is not None
        rows[source.text_of(after), after] += 1
    if message.form in ("u", "d"):
        assert before is not None
        rows[source.text_of(before), before] -= 1


def without_views(case: Case, names: set[str]) -> Case:
    """Also without the views that read them."""
    gone = set(names)
    kept: list[View] = []
    for view in case.views:
        if view.name in gone or tables_of(view.query) & gone:
            gone.add(view.name)
        else:
            kept.append(view)
    return replace(case, views=tuple(kept))


def without_transients(case: Case) -> Case:
    """Without the rows of changelogs that one step both adds and takes away."""
    for source in case.sources:
        if source.mode == "changelog" and not source.key:
            case = replace(case, steps=tuple(tuple(_lasting(source, step)) for step in case.steps))
    return case


def _lasting(source: Source, step: Step) -> Iterator[Message]:
    mine = [m for m in step if m.source == source.name]
    yield from (m for m in step if m.source != source.name)
    images = [(m, row, weight) for m in mine for row, weight in ((m.before, -1), (m.after, 1)) if row is not None]
    net = Counter[str]()
    for _, row, weight in images:
        net[source.text_of(row)] += weight
    for message, row, weight in images:
        text = source.text_of(row)
        if net[text] * weight > 0:
            net[text] -= weight
            yield Message(
                source.name,
                message.partition,
                "c" if weight > 0 else "d",
                *((None, row) if weight > 0 else (row, None)),
            )
