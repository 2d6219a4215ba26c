"""A case: a project, the messages of every step, and how it is run. It is plain data: a seed makes it, and a reducer makes it smaller.

Sources of every mode, with schemas of every type; views over views, published in every mode; streams with insertions, updates, retractions,
equal rows and nulls; steps without input; runs on changing numbers of workers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame

from base.options import Mode
from tests.fuzz.constructs import CONSTRUCTS, Maker, Relation
from tests.fuzz.expressions import Column, Expressions, templates
from tests.fuzz.terms import NoForm, Query, frame, tables_of
from tests.fuzz.values import DDL, FLOATS, KEYS, Row, Value, json_of, pool

SOURCES_MAX = 3
COLUMNS_MAX = 6
VIEWS_MAX = 4
STEPS_MAX = 6
MESSAGES_MAX = 14
"""Of one source in one step."""
WORKERS_MAX = 5
PARTITIONS_MAX = 4
TEMPLATES = 14
"""Of the lowering table's expressions, in one case."""


@dataclass(frozen=True)
class Source:
    """`columns`: name, Spark's type, and whether it may be null."""

    name: str
    columns: tuple[tuple[str, str, bool], ...]
    mode: Mode
    key: tuple[str, ...] = ()
    partitions: int = 1

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(DDL[kind] for _, kind, _ in self.columns)

    @property
    def ddl(self) -> str:
        return ", ".join(f"{name} {kind}{'' if nullable else ' NOT NULL'}" for name, kind, nullable in self.columns)

    def text_of(self, row: Row) -> str:
        """The row as JSON."""
        cells = (f'"{c[0]}": {json_of(v, t)}' for c, v, t in zip(self.columns, row, self.types, strict=True))
        return "{" + ", ".join(cells) + "}"

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
    """`form`: a plain row, a tombstone, or Debezium's op. `keyed`: the message has a key; else the value names it."""

    source: str
    partition: int
    form: Form
    before: Row | None = None
    after: Row | None = None
    keyed: bool = False

    def value(self, source: Source) -> bytes | None:
        if self.form == "tombstone":
            return None
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


def contents(case: Case) -> dict[str, list[Counter[tuple[str, Row]]]]:
    """The rows of every source after each step, by name. A row is found by its text, because -0.0 equals 0.0 in Python."""
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
    before, after = message.before, message.after
    if source.key:
        row = after if after is not None else before
        assert row is not None
        if message.form in ("tombstone", "d"):
            last.pop(source.key_of(row), None)
        else:
            last[source.key_of(row)] = row
        return
    if message.form in ("row", "c", "r", "u"):
        assert after is not None
        rows[source.text_of(after), after] += 1
    if message.form in ("u", "d"):
        assert before is not None
        rows[source.text_of(before), before] -= 1


# A case from a seed


def case_of(seed: int, edge: DataFrame, featured: Sequence[str] = ()) -> tuple[Case, set[str]]:
    """The case, and the expressions of the lowering table that are in it. `featured`: constructs that have to be in it; more are drawn. `edge`:
    see `expressions.templates`."""
    chance = random.Random(f"{seed} {featured}")
    wild = chance.random() < 0.3
    pools = {type_: pool(chance, type_, wild) for type_ in DDL}
    sources = tuple(_sources(chance))
    relations = [_relation(source, wild) for source in sources]
    maker = Maker(chance, Expressions(chance, pools, templates(chance, edge, TEMPLATES)), relations, wild)
    drawn = [chance.choice(list(CONSTRUCTS)) for _ in range(chance.randint(1, VIEWS_MAX))]
    views = tuple(_view(maker, number, name) for number, name in enumerate([*featured, *drawn][:VIEWS_MAX]))
    steps = tuple(_steps(chance, sources, pools))
    runs = tuple(_runs(chance, len(steps)))
    compared = tuple(sorted({*chance.sample(range(len(steps)), min(2, len(steps))), len(steps) - 1}))
    return Case(seed, sources, views, steps, runs, compared, wild), maker.expr.used


def _sources(chance: random.Random) -> Iterator[Source]:
    # A few types in all tables, so that there is something to join.
    common = [*chance.sample(list(DDL), 5), "bigint", "string"]
    for number in range(chance.randint(1, SOURCES_MAX)):
        kinds = [chance.choice(common) for _ in range(chance.randint(2, COLUMNS_MAX - 1))] + [chance.choice(list(DDL))]
        mode: Mode = chance.choice(("append", "append", "upsert", "changelog", "changelog"))
        keyed = mode == "upsert" or (mode == "changelog" and chance.random() < 0.5)
        name = "tuv"[number]
        key: tuple[str, ...] = ()
        if keyed:
            kinds[0] = chance.choice(KEYS)
            key = (f"{name}0",)
            if chance.random() < 0.25:
                kinds[1] = chance.choice(KEYS)
                key = (f"{name}0", f"{name}1")
        columns = tuple(
            (f"{name}{i}", kind, f"{name}{i}" not in key and chance.random() < 0.8) for i, kind in enumerate(kinds)
        )
        yield Source(name, columns, mode, key, chance.randint(1, PARTITIONS_MAX))


def _relation(source: Source, wild: bool) -> Relation:
    columns = tuple(Column(name, kind, kind in FLOATS and not wild) for name, kind, _ in source.columns)
    return Relation(source.name, columns, source.key or None)


def _view(maker: Maker, number: int, construct: str) -> View:
    chance = maker.chance
    made = CONSTRUCTS[construct](maker)
    name = f"view{number}"
    columns = {c.sql: c for c in made.columns}
    temporary = chance.random() < 0.15 and made.any_of is None
    mode: Mode | None = None
    key: tuple[str, ...] = ()
    if not temporary and chance.random() < 0.9:
        mode = chance.choice(("append", "changelog", "changelog", "upsert", "upsert"))
        exact = made.key is not None and not any(columns[n].type in FLOATS or "<" in columns[n].type for n in made.key)
        if made.key is not None and exact and (mode == "upsert" or (mode == "changelog" and chance.random() < 0.5)):
            key = made.key
        mode = "changelog" if mode == "upsert" and not key else mode
    if made.any_of is None:
        maker.relations.append(Relation(name, made.columns, made.key))
    as_frame = made.any_of is not None or "drop" in construct or (chance.random() < 0.4 and _has_frame(made.query))
    loose = tuple((c.sql, c.loose) for c in made.columns if c.loose)
    return View(name, made.query, mode, key, temporary, as_frame, chance.randint(1, 3), loose, made.any_of, construct)


def _has_frame(query: Query) -> bool:
    try:
        frame(query)
    except NoForm:
        return False
    return True


class _Writer:
    """The producer of one source. It knows what is in the table."""

    def __init__(self, chance: random.Random, source: Source, pools: dict[str, list[Value]]) -> None:
        self.chance, self.source, self.pools = chance, source, pools
        self.rows: list[Row] = []
        self.last: dict[tuple[str, ...], Row] = {}
        self.homes: dict[tuple[str, ...], int] = {}
        self.nulls = chance.choice((0.0, 0.15, 0.4))
        self.deletes = chance.choice((0.2, 0.4, 0.7))
        self.written: list[Message] = []

    def row(self) -> Row:
        cells = []
        for _, kind, nullable in self.source.columns:
            null = nullable and self.chance.random() < self.nulls
            cells.append(None if null else self.chance.choice(self.pools[kind]))
        return tuple(cells)

    def messages(self, count: int) -> Iterator[Message]:
        for _ in range(count):
            message = self._keyed() if self.source.key else self._keyless()
            self.written.append(message)
            yield message

    def _place(self, key: tuple[str, ...] = ()) -> int:
        """All messages of a key are in one partition: Stepwell refuses others, because their order is not known."""
        somewhere = self.chance.randrange(self.source.partitions)
        return self.homes.setdefault(key, somewhere) if key else somewhere

    def _keyless(self) -> Message:
        new = self.chance.choice(self.rows) if self.rows and self.chance.random() < 0.15 else self.row()
        name, place = self.source.name, self._place()
        if self.source.mode == "append":
            self.rows.append(new)
            return Message(name, place, "row", after=new)
        if self.rows and self.chance.random() < self.deletes:
            old = self.rows.pop(self.chance.randrange(len(self.rows)))
            if self.chance.random() < 0.5:
                return Message(name, place, "d", before=old)
            self.rows.append(new)
            return Message(name, place, "u", before=old, after=new)
        self.rows.append(new)
        return Message(name, place, self.chance.choice(("c", "r")), after=new)

    def _keyed(self) -> Message:
        source, chance = self.source, self.chance
        row = self.row()
        if self.last and chance.random() < 0.4:  # another row of a known key
            old = chance.choice(list(self.last.values()))
            row = tuple(
                old[i] if c[0] in source.key else v for i, (c, v) in enumerate(zip(source.columns, row, strict=True))
            )
        key = source.key_of(row)
        place, keyed = self._place(key), chance.random() < 0.7
        before = self.last.get(key)
        if chance.random() < self.deletes and (before is not None or chance.random() < 0.3):
            self.last.pop(key, None)
            if source.mode == "upsert" or chance.random() < 0.4:
                return Message(source.name, place, "tombstone", before=row, keyed=True)
            return Message(source.name, place, "d", before=before if before is not None else row, keyed=keyed)
        if before is not None and chance.random() < 0.15:
            row = before  # says what was said already
        self.last[key] = row
        if source.mode == "upsert":
            return Message(source.name, place, "row", after=row, keyed=keyed)
        if before is None:
            return Message(source.name, place, chance.choice(("c", "r", "u")), after=row, keyed=keyed)
        return Message(source.name, place, "u", before if chance.random() < 0.7 else None, row, keyed)


def _steps(chance: random.Random, sources: Sequence[Source], pools: dict[str, list[Value]]) -> Iterator[Step]:
    writers = [_Writer(chance, source, pools) for source in sources]
    for _ in range(chance.randint(1, STEPS_MAX)):
        if chance.random() < 0.12:
            yield ()
            continue
        step: list[Message] = []
        for writer in writers:
            if chance.random() < 0.75:
                step += writer.messages(chance.randint(1, MESSAGES_MAX))
        yield tuple(step)
    if chance.random() < 0.3:  # everything is taken back
        yield tuple(m for writer in writers for m in _taken_back(writer))


def _taken_back(writer: _Writer) -> Iterator[Message]:
    source = writer.source
    if source.key:
        for key, row in writer.last.items():
            yield Message(source.name, writer._place(key), "tombstone", before=row, keyed=True)
    elif source.mode == "changelog":
        for row in writer.rows:
            yield Message(source.name, writer._place(), "d", before=row)


def _runs(chance: random.Random, steps: int) -> Iterator[Run]:
    """One that is quiet, and one in which things happen."""
    quiet: tuple[Event, ...] = ("",) * steps
    yield Run((chance.randint(1, WORKERS_MAX),) * steps, quiet, None, chance.randrange(1000))
    workers = [chance.randint(1, WORKERS_MAX)]
    events: list[Event] = [""]
    for _ in range(steps - 1):
        workers.append(chance.randint(1, WORKERS_MAX) if chance.random() < 0.3 else workers[-1])
        events.append(chance.choice(("", "restart", "move", "move", "crash")))
    yield Run(tuple(workers), tuple(events), chance.choice((None, 2, 7)), chance.randrange(1000))


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
