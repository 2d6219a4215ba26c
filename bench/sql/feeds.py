"""The feed of a suite: its rows in some steps, and then changes of 1 % of the rows (insertions, updates, deletions).

The feed is a function of suite, scale and seed. An update keeps the row's first column, which is its key or the first part of it, and takes
some of the other columns from other rows of the table. So columns stay plausible, and every kind of column changes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.rows import zset

LOADED_SHARE = 0.97
"""The share of the rows that the load has. The others are inserted by the changes."""

CHANGED_SHARE = 0.01
"""The share of a table's rows that one change inserts, updates or deletes, a third each."""

SMALL_ROWS_MAX = 100
"""Tables of fewer rows do not change: 1 % of them is no row."""

TAKEN_SHARE = 0.25
"""The share of the columns that an update takes from another row."""


@dataclass
class Table:
    """The rows that a table ever has, and which of them it has now."""

    rows: pa.Table
    present: np.ndarray
    waiting: list[int] = field(default_factory=list)
    """Rows that were never inserted."""

    def now(self) -> pa.Table:
        return self.rows.filter(pa.array(self.present))


@dataclass(frozen=True)
class Feed:
    """`changes[step][table]`: the Z-set of that step. `states[step]`: the folder with a Parquet file for each table, as it is after the step.
    The first `loads` steps are the load. `rows`: of all tables after the load."""

    changes: list[dict[str, pa.Table]]
    states: list[Path]
    loads: int
    rows: int


def make(tables: Mapping[str, pa.Table], folder: Path, loads: int, changes: int, seed: int = 1) -> Feed:
    """Loads `tables` in `loads` steps, and changes them in `changes` more."""
    chance = np.random.default_rng(seed)
    held = {name: _held(rows, chance) for name, rows in tables.items()}
    rows = sum(int(table.present.sum()) for table in held.values())
    steps: list[dict[str, pa.Table]] = [{} for _ in range(loads)]
    for name, table in held.items():
        order = np.flatnonzero(table.present)
        for number, part in enumerate(np.array_split(order, loads)):
            steps[number][name] = _weighted(table.rows.take(pa.array(part)), 1)
    states = [
        _write({name: _until(table, number, loads) for name, table in held.items()}, folder / f"state-{number}")
        for number in range(loads)
    ]
    for number in range(loads, loads + changes):
        steps.append(
            {name: _change(table, chance) for name, table in held.items() if len(table.present) >= SMALL_ROWS_MAX}
        )
        states.append(_write({name: table.now() for name, table in held.items()}, folder / f"state-{number}"))
    return Feed(steps, states, loads, rows)


def _held(rows: pa.Table, chance: np.random.Generator) -> Table:
    count = rows.num_rows
    order = chance.permutation(count)
    loaded = count if count < SMALL_ROWS_MAX else int(count * LOADED_SHARE)
    present = np.zeros(count, dtype=bool)
    present[order[:loaded]] = True
    return Table(rows, present, [int(i) for i in order[loaded:]])


def _until(table: Table, number: int, loads: int) -> pa.Table:
    """The rows after this step of the load."""
    parts = np.array_split(np.flatnonzero(table.present), loads)[: number + 1]
    return table.rows.take(pa.array(np.concatenate(parts)))


def _change(table: Table, chance: np.random.Generator) -> pa.Table:
    """Deletes, updates and inserts a third of CHANGED_SHARE of the rows each; at least one of each."""
    here = np.flatnonzero(table.present)
    third = max(1, int(len(here) * CHANGED_SHARE / 3))
    picked = chance.choice(here, size=2 * third, replace=False)
    deleted, updated = picked[:third], picked[third:]
    inserted = [table.waiting.pop() for _ in range(min(third, len(table.waiting)))]
    donors = chance.choice(here, size=third)
    kept, given = table.rows.take(pa.array(updated)), table.rows.take(pa.array(donors))
    taken = chance.random((third, table.rows.num_columns)) < TAKEN_SHARE
    taken[:, 0] = False
    columns = [
        pc.if_else(pa.array(taken[:, i]), given.column(i).combine_chunks(), kept.column(i).combine_chunks())
        for i in range(table.rows.num_columns)
    ]
    renewed = pa.Table.from_arrays(columns, schema=table.rows.schema)
    gone, come = np.concatenate([deleted, updated]), np.array(inserted, dtype=np.int64)
    change = pa.concat_tables(
        [
            _weighted(table.rows.take(pa.array(gone)), -1),
            _weighted(table.rows.take(pa.array(come)), 1),
            _weighted(renewed, 1),
        ]
    )
    table.present[gone] = False
    table.present[come] = True
    table.rows = pa.concat_tables([table.rows, renewed]).combine_chunks()
    table.present = np.concatenate([table.present, np.ones(third, dtype=bool)])
    return change


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    return zset.build([column.combine_chunks() for column in rows.columns], np.full(rows.num_rows, weight, np.int64))


def _write(tables: Mapping[str, pa.Table], folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    return folder


def generated(suite: str, scale: float, folder: Path) -> dict[str, pa.Table]:
    """The rows of a suite's tables at this scale factor. Nexmark has a million events at scale 1."""
    if suite == "nexmark":
        return nexmark(int(1_000_000 * scale))
    if not any(folder.glob("*.parquet")):
        command = [
            str(Path(sys.executable).with_name("tpcgen-cli")),
            suite,
            "parquet",
            "-s",
            str(scale),
            "-o",
            str(folder),
        ]
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(command, check=True, capture_output=True)
    files = [file for file in sorted(folder.glob("*.parquet")) if file.stem != "dbgen_version"]
    tables = {file.stem: _plain(pq.read_table(file)) for file in files}
    return _pruned(tables) if suite == "tpcds" else tables


def _plain(table: pa.Table) -> pa.Table:
    """Strings as the engine has them."""
    columns = [column.cast(pa.string()) if str(column.type) == "string_view" else column for column in table.columns]
    return pa.Table.from_arrays(columns, names=table.column_names).combine_chunks()


def _pruned(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """TPC-DS has all 1,920,800 combinations of customer demographics at every scale. Only those that other rows name are kept."""
    named = [
        column.combine_chunks()
        for table in tables.values()
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name.endswith("cdemo_sk")
    ]
    kept = pc.unique(pa.chunked_array(named))
    whole = tables["customer_demographics"]
    renamed = tables["customer"].rename_columns(
        ["c_last_review_date" if name == "c_last_review_date_sk" else name for name in tables["customer"].column_names]
    )
    return {
        **tables,
        "customer": renamed,
        "customer_demographics": whole.filter(pc.is_in(whole.column("cd_demo_sk"), kept)).combine_chunks(),
    }


PERSONS_EACH, AUCTIONS_EACH, BIDS_EACH = 1, 3, 46
"""Of 50 events of Nexmark."""

_STATES = ["OR", "ID", "CA", "AZ", "WA", "WY"]
_CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_EPOCH_US = 1_793_491_200_000_000  # 2026-11-01 00:00:00 UTC
_EVENT_US = 1_000
_FIRST_ID = 1_000


def nexmark(events: int, seed: int = 1) -> dict[str, pa.Table]:
    """Rows in the proportions and with the columns of Nexmark: half of the bids are for hot auctions, and prices are log-uniform."""
    chance = np.random.default_rng(seed)
    rounds = max(1, events // 50)
    persons, auctions, bids = rounds * PERSONS_EACH, rounds * AUCTIONS_EACH, rounds * BIDS_EACH

    def times(count: int) -> np.ndarray:
        return _EPOCH_US + np.sort(chance.integers(0, rounds * 50 * _EVENT_US, count))

    def stamps(values: np.ndarray) -> pa.Array:
        return pa.array(values, pa.timestamp("us", "UTC"))

    def texts(prefix: str, values: np.ndarray) -> pa.Array:
        return pc.binary_join_element_wise(prefix, pc.cast(pa.array(values), pa.string()), "")

    def prices(count: int) -> np.ndarray:
        return np.round(10 ** (chance.random(count) * 6) * 100).astype(np.int64)

    person_ids, auction_ids = _FIRST_ID + np.arange(persons), _FIRST_ID + np.arange(auctions)
    opened = times(auctions)
    first = prices(auctions)
    hot = chance.random(bids) < 0.5
    auction = np.where(
        hot, chance.integers(0, max(1, auctions // 100), bids) * 100 % auctions, chance.integers(0, auctions, bids)
    )
    channel = chance.integers(0, 10_000, bids)
    known = chance.random(bids) < 0.5
    names = pa.array(np.array(_CHANNELS)[channel % 4])
    url = pc.binary_join_element_wise(
        texts("https://www.nexmark.com/", channel % 97),
        texts("item", channel % 89),
        texts("x.htm?query=1&channel_id=", channel),
        "/",
    )
    return {
        "person": pa.table(
            {
                "id": person_ids,
                "name": texts("name ", chance.integers(0, 1000, persons)),
                "email_address": texts("mail", person_ids),
                "credit_card": texts("1234 5678 ", chance.integers(1000, 9999, persons)),
                "city": pa.array(np.array(_CITIES)[chance.integers(0, len(_CITIES), persons)]),
                "state": pa.array(np.array(_STATES)[chance.integers(0, len(_STATES), persons)]),
                "date_time": stamps(times(persons)),
                "extra": texts("extra", chance.integers(0, 1000, persons)),
            }
        ),
        "auction": pa.table(
            {
                "id": auction_ids,
                "item_name": texts("item ", chance.integers(0, 1000, auctions)),
                "description": texts("description ", chance.integers(0, 1000, auctions)),
                "initial_bid": first,
                "reserve": first + prices(auctions),
                "date_time": stamps(opened),
                "expires": stamps(opened + chance.integers(1, 20, auctions) * 1_000_000),
                "seller": _FIRST_ID + chance.integers(0, persons, auctions),
                "category": 10 + chance.integers(0, 5, auctions),
                "extra": texts("extra", chance.integers(0, 1000, auctions)),
            }
        ),
        "bid": pa.table(
            {
                "auction": _FIRST_ID + auction,
                "bidder": _FIRST_ID + chance.integers(0, persons, bids),
                "price": prices(bids),
                "channel": pc.if_else(pa.array(known), names, texts("channel-", channel)),
                "url": url,
                "date_time": stamps(times(bids)),
                "extra": texts("abcdc", chance.integers(0, 100_000, bids)),
            }
        ),
        "side_input": pa.table({"key": np.arange(10_000), "value": texts("value ", np.arange(10_000))}),
    }
