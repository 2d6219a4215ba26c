"""A case from a seed.

Sources of every mode, with schemas of every type, batch tables, and readers of messages; views over views, published in every mode; streams with
insertions, updates, retractions, equal rows and nulls; steps without input; runs on changing numbers of workers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame

from base.options import Mode
from tests.fuzz.cases import Case, Event, Message, Read, Run, Source, Step, View
from tests.fuzz.constructs import CONSTRUCTS, INNER
from tests.fuzz.constructs.maker import Maker, Relation
from tests.fuzz.expressions import Column, Expressions, templates
from tests.fuzz.terms import Cdc, Flows, NoForm, Query, Unduplicated, frame
from tests.fuzz.values import DDL, DECLARED, FLOATS, INTERVALS, KEYS, Row, Value, has_floats, pool, seen

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


def case_of(seed: int, edge: DataFrame, featured: Sequence[str] = ()) -> tuple[Case, set[str]]:
    """The case, and the expressions of the lowering table that are in it. `featured`: constructs that have to be in it; more are drawn. `edge`:
    see `expressions.templates`."""
    chance = random.Random(f"{seed} {featured}")
    wild = chance.random() < 0.3
    pools = {type_: pool(chance, type_, wild) for type_ in (*DDL, *DECLARED)}
    sources = tuple(_sources(chance))
    relations = [_relation(source, wild) for source in sources]
    expressions = Expressions(chance, {type_: pools[type_] for type_ in DDL}, templates(chance, edge, TEMPLATES))
    maker = Maker(chance, expressions, relations, wild, [CONSTRUCTS[name] for name in INNER])
    drawn = [chance.choice(list(CONSTRUCTS)) for _ in range(chance.randint(1, VIEWS_MAX))]
    views = tuple(
        _view(maker, number, name) for number, name in enumerate([*featured, *drawn][: max(VIEWS_MAX, len(featured))])
    )
    steps = tuple(_steps(chance, sources, pools))
    runs = tuple(_runs(chance, len(steps)))
    compared = tuple(sorted({*chance.sample(range(len(steps)), min(2, len(steps))), len(steps) - 1}))
    return Case(seed, sources, views, steps, runs, compared, wild), maker.expr.used


def _sources(chance: random.Random) -> Iterator[Source]:
    # A few types in all tables, so that there is something to join.
    every = [*DDL, *DECLARED]
    common = [*chance.sample(every, 5), "bigint", "string"]
    for number in range(chance.randint(1, SOURCES_MAX)):
        kinds = [chance.choice(common) for _ in range(chance.randint(2, COLUMNS_MAX - 1))] + [chance.choice(every)]
        mode: Mode = chance.choice(("append", "append", "upsert", "changelog", "changelog"))
        read: Read = "table" if chance.random() < 0.8 else chance.choice(("files", "reader"))
        if read != "table":
            mode = "append"
            kinds = [seen(kind) for kind in kinds]
            kinds = ["int" if kind in INTERVALS and read == "files" else kind for kind in kinds]
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
            (f"{name}{i}", kind, read != "table" or (f"{name}{i}" not in key and chance.random() < 0.8))
            for i, kind in enumerate(kinds)
        )
        yield Source(name, columns, mode, key, chance.randint(1, PARTITIONS_MAX), read)


def _relation(source: Source, wild: bool) -> Relation:
    columns = tuple(
        Column(name, seen(kind), kind in FLOATS and not wild and source.read != "reader")
        for name, kind, _ in source.columns
    )
    if source.read == "reader":
        record = tuple(Column(name, kind) for name, _, kind in source.record_columns)
        return Relation(source.name, (*columns, *record), tuple(c.sql for c in record[:2]))
    return Relation(source.name, columns, source.key or None)


def _view(maker: Maker, number: int, construct: str) -> View:
    chance = maker.chance
    made = CONSTRUCTS[construct](maker)
    name = f"view{number}"
    columns = {c.sql: c for c in made.columns}
    fills = isinstance(made.query, Cdc | Flows)  # a table, which is not inlined
    temporary = chance.random() < 0.15 and made.any_of is None and not fills
    mode: Mode | None = None
    key: tuple[str, ...] = ()
    if not temporary and chance.random() < 0.9 and not any("map<" in c.type for c in made.columns):
        mode = chance.choice(("append", "changelog", "changelog", "upsert", "upsert"))
        exact = made.key is not None and not any(
            has_floats(columns[n].type) or "<" in columns[n].type for n in made.key
        )
        if made.key is not None and exact and (mode == "upsert" or (mode == "changelog" and chance.random() < 0.5)):
            key = made.key
        mode = "changelog" if mode == "upsert" and not key else mode
    if made.any_of is None:
        maker.relations.append(Relation(name, made.columns, made.key))
    as_frame = isinstance(made.query, Unduplicated) or (chance.random() < 0.4 and _has_frame(made.query))
    loose = tuple((c.sql, c.loose) for c in made.columns if c.loose)
    return View(name, made.query, mode, key, temporary, as_frame, chance.randint(1, 3), loose, made.any_of, construct)


def _has_frame(query: Query) -> bool:
    try:
        frame(query)
    except NoForm:
        return False
    return True


DAMAGES = ("{", "}", '"', ",", ":", "null", "1", "x", " ", "[", "]")


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
        if self.source.read == "reader" and self.chance.random() < 0.2:
            return self._damaged(new, place)
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

    def _damaged(self, row: Row, place: int) -> Message:
        """A message without a value, or with one that is cut off or has another text in it."""
        text = self.source.text_of(row)
        at = self.chance.randrange(len(text) + 1)
        match self.chance.randrange(4):
            case 0:
                return Message(self.source.name, place, "tombstone")
            case 1:
                text = text[:at]
            case 2:
                text = text[:at] + self.chance.choice(DAMAGES) + text[at + self.chance.randrange(3) :]
            case _:
                text = self.chance.choice(("", "null", "[]", f"[{text}]", f"{text} x", "5", "{}"))
        return Message(self.source.name, place, "row", damaged=text)

    def _keyed(self) -> Message:
        source, chance = self.source, self.chance
        row = self.row()
        if self.last and chance.random() < 0.4:  # another row of a known key
            old = chance.choice(list(self.last.values()))
            row = tuple(
                old[i] if c[0] in source.key else v for i, (c, v) in enumerate(zip(source.columns, row, strict=True))
            )
        key = source.key_of(source.stored(row))
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
    for number in range(chance.randint(1, STEPS_MAX)):
        if chance.random() < 0.12:
            yield ()
            continue
        step: list[Message] = []
        for writer in writers:
            if chance.random() < 0.75 and (number == 0 or writer.source.read != "files"):
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
