"""Random edits of tables and of the views over them. What each view has afterwards is what a run of the new project has from the beginning.

All tables read one topic. They differ in their columns, in whether they have a key, and so in which messages are malformed for them. These are
left out. The columns of a table without a key stay, because what it has counted of malformed messages stays counted (docs/evolution.md).
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest
from pyspark.sql import SparkSession

from tests.engine.test_filling import contents_of
from tests.sampling import sampled
from tests.small_jobs import small
from tests.stepwell.test_tables_that_change import TOPIC, Pipeline, Sent, planned

T = TypeVar("T")

TYPES: Mapping[str, Sequence[str]] = {
    "name": ("STRING", "CHAR(3)", "CHAR(4)"),
    "x": ("STRING", "INT", "BIGINT"),
    "at": ("STRING", "DATE", "TIMESTAMP"),
}
KEY_TYPES = ("STRING", "DATE", "TIMESTAMP", "CHAR(12)")
SENT = "sent"
"""The column that may have the time of the record."""

KEYS = ("2024-01-01", "2024-01-01 00:00:00", "2024-01-02", "2024-01-02 10:00:00", "a", "b")
VALUES: Mapping[str, Sequence[object]] = {
    "name": ("ab", "abc", "abcd", "abcdef", None),
    "x": (1, 2, "7", "bad", 3_000_000_000, None),
    "at": ("2024-01-01", "2024-01-01 00:00:00", "never", None),
    SENT: ("2020-01-01 00:00:00", None),
}


@dataclass(frozen=True)
class Table:
    """`columns`: the type of each, beside the key."""

    key: str | None
    columns: Mapping[str, str]
    key_type: str = "STRING"
    of_record: bool = False

    def sql(self, name: str) -> str:
        columns = {"k": self.key_type, **self.columns, **({SENT: "TIMESTAMP"} if self.of_record else {})}
        keyed = "" if self.key is None else f", 'mode' = 'upsert', 'key' = '{self.key}'"
        record = f", 'metadata.timestamp' = '{SENT}'" if self.of_record else ""
        declared = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        return (
            f"CREATE STREAMING TABLE {name} ({declared}) USING kafka TBLPROPERTIES "
            f"('subscribe' = '{TOPIC}', 'on.error' = 'skip'{keyed}{record});\n"
        )

    @property
    def names(self) -> tuple[str, ...]:
        return ("k", *self.columns, *((SENT,) if self.of_record else ()))


@dataclass(frozen=True)
class Drawn:
    """A project. `views`: the table and the columns that each view groups by."""

    tables: Mapping[str, Table]
    views: Mapping[str, tuple[str, tuple[str, ...]]]

    def sql(self) -> str:
        text = "".join(table.sql(name) for name, table in self.tables.items())
        for name, (table, columns) in self.views.items():
            chosen = [column for column in columns if column in self.tables[table].names]
            shown = "".join(f"{column}, length(CAST({column} AS STRING)) AS l_{column}, " for column in chosen)
            groups = f" GROUP BY {', '.join(chosen)}" if chosen else ""
            text += f"CREATE MATERIALIZED VIEW {name} AS SELECT {shown}count(*) AS n FROM {table}{groups};\n"
        return text


def drawn_table(chance: random.Random, *, keyed: bool) -> Table:
    columns = {name: chance.choice(TYPES[name]) for name in TYPES if chance.random() < 0.6}
    return Table("k" if keyed else None, columns, of_record=chance.random() < 0.3)


def drawn_view(chance: random.Random, tables: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    columns = [name for name in ("k", *TYPES, SENT) if chance.random() < 0.4]
    return chance.choice(tables), tuple(columns)


def drawn(chance: random.Random) -> Drawn:
    tables = {name: drawn_table(chance, keyed=chance.random() < 0.7) for name in ("t1", "t2", "t3")}
    return Drawn(tables, {f"v{at}": drawn_view(chance, list(tables)) for at in range(5)})


def edited(project: Drawn, chance: random.Random) -> Drawn:
    for _ in range(chance.randint(1, 3)):
        name = chance.choice(list(project.tables))
        match chance.choice(
            ("column", "column", "key", "record", "table renamed", "view", "view renamed", "view gone")
        ):
            case "column" if project.tables[name].key is not None:
                project = with_table(project, name, other_column(project.tables[name], chance))
            case "key" if project.tables[name].key is not None:
                project = with_table(project, name, replace(project.tables[name], key_type=chance.choice(KEY_TYPES)))
            case "record" if project.tables[name].key is not None:
                table = project.tables[name]
                project = with_table(project, name, replace(table, of_record=not table.of_record))
            case "table renamed":
                tables = {f"{each}x" if each == name else each: table for each, table in project.tables.items()}
                views = {v: (f"{t}x" if t == name else t, columns) for v, (t, columns) in project.views.items()}
                project = Drawn(shuffled(tables, chance), views)
            case "view":
                changed = chance.choice(list(project.views))
                project = replace(project, views={**project.views, changed: drawn_view(chance, list(project.tables))})
            case "view renamed":
                renamed = chance.choice(list(project.views))
                views = {f"{v}x" if v == renamed else v: what for v, what in project.views.items()}
                project = replace(project, views=shuffled(views, chance))
            case "view gone" if len(project.views) > 2:
                gone = chance.choice(list(project.views))
                project = replace(project, views={v: what for v, what in project.views.items() if v != gone})
    return project


def with_table(project: Drawn, name: str, table: Table) -> Drawn:
    return replace(project, tables={**project.tables, name: table})


def other_column(table: Table, chance: random.Random) -> Table:
    name = chance.choice(list(TYPES))
    columns = {each: kind for each, kind in table.columns.items() if each != name}
    if name not in table.columns or chance.random() < 0.7:
        columns[name] = chance.choice(TYPES[name])
    return replace(table, columns=columns)


def shuffled(parts: Mapping[str, T], chance: random.Random) -> dict[str, T]:
    names = list(parts)
    chance.shuffle(names)
    return {name: parts[name] for name in names}


def messages(chance: random.Random, count: int) -> list[Sent]:
    found: list[Sent] = []
    for _ in range(count):
        key = chance.choice(KEYS)
        values = {name: chance.choice(each) for name, each in VALUES.items() if chance.random() < 0.8}
        value = None if chance.random() < 0.15 else json.dumps({"k": key, **values})
        found.append((json.dumps({"k": key}), value))
    return found


# 25 notices sources of one topic that are taken for one, and 0 readers that keep the rows of messages that are malformed now.
@pytest.mark.parametrize("seed", sampled(range(60), 20, (25,)))
def test_after_random_edits_all_views_have_what_a_run_from_the_beginning_has(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance, session = random.Random(seed), small(spark)
    project = drawn(chance)
    heard = [messages(chance, 12)]
    document, _ = planned(session, tmp_path / "0", project.sql())
    pipeline = Pipeline(document, "skip")
    pipeline.step(heard[-1])
    for number in (1, 2):
        project = edited(project, chance)
        document, _ = planned(session, tmp_path / str(number), project.sql())
        heard += [messages(chance, 4), messages(chance, 6)]
        pipeline.become(document, heard[-2])
        pipeline.step(heard[-1])
        fresh = Pipeline(document, "skip")
        for each in heard:
            fresh.step(each)
        assert contents_of(pipeline.inner) == contents_of(fresh.inner), project.sql()
