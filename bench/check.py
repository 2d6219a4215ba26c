"""Checks whether an output is right: it is compared with DuckDB's batch answer over the same generated rows.

The oracle shares nothing with the engines. It starts from the generator's columns and never sees a message. Integers and texts are
compared exactly, doubles within DOUBLE_ERROR_MAX. A peer that writes at least once may repeat a row. In an upsert topic only the last
message of a key counts. An append topic is compared with its repetitions.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from bench import generate
from bench.generate import Shape
from bench.result import Result
from bench.topics import Messages
from bench.workloads import Case, Workload

DOUBLE_ERROR_MAX = 1e-12
"""A relative error. In every engine but ours, the sum of doubles depends on their order."""

ANSWERS = {
    "W1": """select auction, bidder, price * 89 // 100 as price_eur, upper(channel) as channel,
                    date_time
             from bids where price > 5000 and auction % 3 = 0""",
    "W2": "select auction, count(*) as bids, sum(price)::bigint as total, max(price) as top from bids group by auction",
    "W3": """with latest as (select auction, last(category order by sent) as category, last(seller order by sent) as seller
                             from auctions group by auction)
             select category, seller, count(*) as bids, avg(price)::double as mean_price
             from bids join latest using (auction) group by category, seller""",
    "W4": "select auction, count(*) as bids, sum(price)::bigint as total, max(price) as top from bids group by auction",
}


class Answers:
    """The batch answers over the last rows of topics of `topic_rows` rows. Each is computed once."""

    def __init__(self, shape: Shape, topic_rows: int) -> None:
        self._shape, self._topic_rows = shape, topic_rows
        self._known: dict[tuple[str, int], pa.Table] = {}

    def judge(self, result: Result, case: Case, messages: Messages) -> None:
        """Sets `equal`, and says in `note` what is wrong."""
        asked = (case.workload.name, case.rows)
        if asked not in self._known:
            self._known[asked] = answer(case.workload, self._shape, self._topic_rows - case.rows, self._topic_rows)
        wrong = difference(case.workload, messages, self._known[asked])
        result.equal = wrong is None
        if wrong is not None:
            result.note = "; ".join(filter(None, [result.note, f"differs from the batch answer: {wrong}"]))


def answer(workload: Workload, shape: Shape, start: int, end: int) -> pa.Table:
    """The batch answer over rows start <= i < end of the workload's topic."""
    with duckdb.connect() as database:
        database.execute("set threads = 2")
        if workload.name == "W3":
            sent = generate.auctions(shape)
            database.register("auctions", sent.append_column("sent", pa.array(np.arange(sent.num_rows))))
        database.register("bids", pa.concat_tables(_rows(workload, shape, start, end)))
        return database.sql(ANSWERS[workload.name]).to_arrow_table()


def _rows(workload: Workload, shape: Shape, start: int, end: int) -> Iterator[pa.Table]:
    needed = ["auction", "bidder", "price", "channel", "date_time"]
    if workload.topic != "changes":
        yield from (table.select(needed) for table in generate.bids(shape, start, end))
        return
    for table, weights in generate.changes(shape, start, end):
        # A bid and its retraction are the same row, including bidder, price and time. So the result is a difference of multisets.
        with duckdb.connect() as database:
            database.register("came", table.select(needed).filter(pa.array(weights > 0)))
            database.register("went", table.select(needed).filter(pa.array(weights < 0)))
            yield database.sql("select * from came except all select * from went").to_arrow_table()


def difference(workload: Workload, messages: Messages, expected: pa.Table) -> str | None:
    """None if the output is the expected table, otherwise what is wrong with it."""
    found = rows_of(workload, messages)
    with duckdb.connect() as database:
        database.register("found", found)
        database.register("expected", expected)
        if workload.key:
            return _keyed_difference(database, workload)
        columns = ", ".join(workload.columns)
        for what, one, other in (("missing", "expected", "found"), ("too many", "found", "expected")):
            query = f"select count(*) from (select {columns} from {one} except all select {columns} from {other})"
            count = _number(database, query)
            if count:
                return f"{count} rows {what} of {expected.num_rows}"
    return None


def _keyed_difference(database: duckdb.DuckDBPyConnection, workload: Workload) -> str | None:
    on = " and ".join(f"f.{k} = e.{k}" for k in workload.key)
    others = [c for c in workload.columns if c not in workload.key]
    same = " and ".join(
        f"abs(f.{c} - e.{c}) <= {DOUBLE_ERROR_MAX} * abs(e.{c})" if c == "mean_price" else f"f.{c} = e.{c}"
        for c in others
    )
    query = f"""select count(*) filter (f.{workload.key[0]} is null), count(*) filter (e.{workload.key[0]} is null),
                       count(*) filter (f.{workload.key[0]} is not null and e.{workload.key[0]} is not null and not ({same}))
                from found f full outer join expected e on {on}"""
    missing, extra, wrong = (int(n) for n in database.execute(query).fetchall()[0])
    return f"{missing} keys missing, {extra} too many, {wrong} wrong" if missing or extra or wrong else None


def rows_of(workload: Workload, messages: Messages) -> pa.Table:
    """The table that a topic represents: all its rows or, with a key, the last row of each key that was not deleted by a null value."""
    values = messages.value
    if workload.key:
        values = _last_of_each_key(messages)
    values = values.filter(values.is_valid())
    schema = pa.schema([(name, _TYPES.get(name, pa.int64())) for name in workload.columns])
    if len(values) == 0:
        return schema.empty_table()
    text = b"\n".join(values.to_pylist())
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pyarrow.json.ReadOptions(block_size=1 << 24)
    table = pyarrow.json.read_json(pa.BufferReader(text), read_options=read, parse_options=options)
    assert table.num_rows == len(values), "a message holds one JSON object"
    if "date_time" in workload.columns:
        # Engines write a timestamp with T or a space, with or without Z, with three digits of a second or without trailing zeros.
        plain = pc.replace_substring(pc.replace_substring(table["date_time"], "T", " "), "Z", "")
        moments = plain.cast(pa.timestamp("us"))
        table = table.set_column(table.column_names.index("date_time"), "date_time", moments)
    return table


_TYPES = {"channel": pa.string(), "date_time": pa.string(), "mean_price": pa.float64()}


def _last_of_each_key(messages: Messages) -> pa.Array:
    """A key stays in its partition, so its last message by position is its last by offset."""
    table = pa.table({"key": messages.key, "at": pa.array(np.arange(len(messages.key)))})
    last = table.group_by("key").aggregate([("at", "max")])["at_max"].combine_chunks()
    return messages.value.take(last)


def _number(database: duckdb.DuckDBPyConnection, query: str) -> int:
    return int(database.execute(query).fetchall()[0][0])
