"""Tables with a watermark over real topics: what a replay after a restart puts out is what was written, late rows are counted, and the tables
without rows in error have Spark's batch answer over all that is closed.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Producer

from coordinator.revisions.choices import Chosen
from coordinator.revisions.requests import TransitionRefused, TurnTransition
from engine.operators.table import operator_of
from examples.batch import batch_answer, compare, published
from tests.end_to_end.harness import Playground, Resolved, Value, renamed
from tests.end_to_end.test_transitions import ORDER_SECONDS, apply, wait_until_settled
from tests.end_to_end.test_views_in_error import answered, run, written_alike
from tests.engine.every_kind import OF_EVENT_TIME, every_kind
from tests.io_kafka.backlogs import uneven
from tests.sampling import sampled

DAY_MS = 24 * 3600 * 1000
SEND_SECONDS_MAX = 30.0

FILES = {
    "visits.sql": """
CREATE STREAMING TABLE events (k STRING, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE STREAMING TABLE visits TBLPROPERTIES ('topic' = '@out', 'mode' = 'append') AS
  SELECT window.start AS start, k, count(*) AS n FROM STREAM events WATERMARK ts DELAY OF INTERVAL 1 MINUTE
  GROUP BY window(ts, '1 minute'), k;
"""
}


def _row(k: str, minute: int) -> Value:
    return {"k": k, "ts": f"2024-03-01T12:{minute:02}:30.000Z"}


def test_a_replay_closes_the_same_groups_in_the_same_steps(play: Playground) -> None:
    play.topic("in", 2)
    play.topic("out", 2)
    first = [("a", 0), ("b", 0), ("a", 0), ("a", 1), ("b", 3), ("a", 3), ("a", 3), ("a", 9)]
    second = [("b", 9), ("a", 9), ("b", 0), ("a", 20)]
    _send(play, first)
    resolved = play.resolve(FILES, {"stepwell.step.rows.max": 4, "stepwell.workers": 2})
    with play.running(resolved) as run:
        run.wait_until(lambda status: status["steps_run"] == 2)
        run.requests.ask("pause")
        run.wait_until(lambda status: status["phase"] == "paused")
        assert play.log(resolved).checkpoints == ()  # left at a boundary, with no checkpoint, as after a kill
        _send(play, second)
        status = play.run(resolved, expect_epoch=0)
    assert (status["steps_replayed"], status["steps_run"]) == (2, 1)
    found: dict[int, Counter[tuple[str, str, int]]] = {}
    for message in play.read("out"):
        assert message.value is not None
        row = json.loads(message.value)
        found.setdefault(message.step, Counter())[row["start"][11:16], row["k"], row["n"]] += 1
    closed = {("12:00", "a", 2), ("12:00", "b", 1), ("12:01", "a", 1), ("12:03", "a", 2), ("12:03", "b", 1)}
    assert found == {1: Counter(closed), 2: Counter([("12:09", "a", 2), ("12:09", "b", 1)])}
    assert status["late"] == {"view visits": 1}
    assert status["watermarks"] == {"view visits": datetime(2024, 3, 1, 12, 19, 30, tzinfo=UTC).timestamp()}
    assert play.check_steps(resolved) == 3


def _send(play: Playground, rows: list[tuple[str, int]]) -> None:
    for partition in (0, 1):
        play.send("in", [_row(*row) for row in rows[partition::2]], partition=partition)


WITH_READERS = """
CREATE STREAMING TABLE events (k STRING, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE STREAMING TABLE visits TBLPROPERTIES ('topic' = '@{topic}', 'mode' = 'append') AS
  SELECT window.start AS start, k, count(*) AS n FROM STREAM events WATERMARK ts DELAY OF INTERVAL 1 MINUTE {where}
  GROUP BY window(ts, '1 minute'), k;
CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('topic' = '@totals', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, sum(n) AS n, count(*) AS windows FROM visits GROUP BY k;
CREATE STREAMING TABLE many TBLPROPERTIES ('topic' = '@many{topic}', 'mode' = 'append') AS SELECT * FROM STREAM visits WHERE n > 0;
"""


@pytest.mark.parametrize("late", ["a", "late"])
def test_what_reads_a_changed_table_over_event_time_has_its_new_rows(play: Playground, late: str) -> None:
    """A row that was late is not when messages are read again in other portions, so nobody can tell what the table was."""
    play.topic("in", 2)
    _send(play, [("a", minute) for minute in range(12)])
    before = play.resolve({"visits.sql": WITH_READERS.format(topic="out", where="")})
    play.run(before)
    _send(play, [(late, 1)])
    assert play.run(before)["late"] == {"view visits": 1}
    now = play.resolve({"visits.sql": WITH_READERS.format(topic="other", where="WHERE k <> 'x'")})
    play.run(now, on_change="apply")
    _send(play, [("a", minute) for minute in range(12, 20)])
    play.run(now)
    expected: Counter[tuple[str, str]] = Counter()
    written, copied = (
        [json.loads(message.value or b"") for message in play.read(topic)] for topic in ("other", "manyother")
    )
    for row in written:
        expected[row["k"], "n"] += row["n"]
        expected[row["k"], "windows"] += 1
    last = {message.key: json.loads(message.value or b"") for message in play.read("totals")}
    found = {(row["k"], column): row[column] for row in last.values() for column in ("n", "windows")}
    assert found == expected and expected["a", "windows"] > 10
    assert Counter(map(json.dumps, copied)) == Counter(map(json.dumps, written))


STORED_BELOW = """
CREATE STREAMING TABLE events (k STRING, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE STREAMING TABLE clean AS SELECT {columns} FROM STREAM events WHERE k <> 'x';
{more}
"""
OVER_STORED = """
CREATE STREAMING TABLE {name} TBLPROPERTIES ('topic' = '@{name}', 'mode' = 'upsert', 'key' = 'start,k') AS
  SELECT window.start AS start, k, count(*) AS n FROM STREAM clean WATERMARK ts DELAY OF INTERVAL 1 MINUTE {where}
  GROUP BY window(ts, '1 minute'), k;
"""


@pytest.mark.parametrize(("columns", "workers"), [("*", 1), ("DISTINCT *", 3)])
def test_a_table_over_a_stored_one_has_its_whole_history(play: Playground, columns: str, workers: int) -> None:
    """The stored rows come by the hash. If the watermark followed them, nearly all would be late."""
    play.topic("in", 2)
    conf = {"stepwell.step.rows.max": 20, "stepwell.workers": workers}
    _send(play, [(f"k{minute}", minute) for minute in range(40)])
    kept = OVER_STORED.format(name="kept", where="")
    more = kept + OVER_STORED.format(name="changed", where="")
    play.run(before := play.resolve({"visits.sql": STORED_BELOW.format(columns=columns, more=more)}, conf))
    more = "".join(OVER_STORED.format(name=name, where="WHERE k <> 'k3'") for name in ("changed", "new"))
    now = play.resolve({"visits.sql": STORED_BELOW.format(columns=columns, more=kept + more)}, conf)
    with play.running(before) as run:
        apply(run, now, hold=True)
        run.wait_until(lambda shown: (shown["transition"] or {}).get("held_because"))
        _send(play, [("k40", 40), ("k41", 41), ("late", 5), ("k42", 42)])
        run.wait_until(lambda shown: shown["rows"] >= 4)
        run.requests.revision.ask(TurnTransition("switch"), ORDER_SECONDS)
        wait_until_settled(run)
        late = run.board.show()["late"]
    _send(play, [("k43", 43), ("late", 6), ("k44", 44), ("k45", 45)])
    play.run(now)
    assert sum(late.values()) == 2, "the row is late for both definitions, and no other one is"
    closed = {f"k{minute}": 1 for minute in range(44)}
    for name in ("kept", "changed", "new"):
        last = {message.key: message.value for message in play.read(name)}
        rows = [json.loads(value) for value in last.values() if value is not None]
        found = {row["k"]: row["n"] for row in rows}
        assert found == {key: n for key, n in closed.items() if name == "kept" or key != "k3"}, name


LOADED_MS = 1_790_000_000_000
COUNTED = """
CREATE STREAMING TABLE events (k STRING, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE MATERIALIZED VIEW total TBLPROPERTIES ('topic' = '@total', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, count(*) AS n FROM events GROUP BY k;
"""
BY_MINUTE = """
CREATE STREAMING TABLE by_minute TBLPROPERTIES ('topic' = '@by_minute', 'mode' = 'append') AS
  SELECT window.start AS start, count(*) AS n FROM STREAM events WATERMARK ts DELAY OF INTERVAL 1 MINUTE GROUP BY window(ts, '1 minute');
"""


@pytest.mark.parametrize(("apart_ms", "late_max"), [(10, 0), (3_600_000, 250)])
def test_a_topic_that_was_loaded_is_read_again_as_it_was_read(play: Playground, apart_ms: int, late_max: int) -> None:
    """One partition was loaded after the other. If they were read again by these times, nearly all rows of the second one would be late. Where
    the times lie within the delay of the watermark they say nothing, and otherwise two portions tell that event time does not follow them."""
    play.topic("in", 2)
    conf = {"stepwell.step.rows.max": 100}
    begin = datetime(2024, 3, 1, tzinfo=UTC)
    for lot in range(12):
        partition, first = divmod(lot * 100, 600)
        rows = [{"k": "a", "ts": (begin + timedelta(minutes=10 * (first + n))).isoformat()} for n in range(100)]
        play.send("in", rows, partition, timestamp=LOADED_MS + lot * apart_ms)
    play.run(before := play.resolve({"visits.sql": COUNTED}, conf))
    now = play.resolve({"visits.sql": COUNTED + BY_MINUTE}, conf)
    with play.running(before) as run:
        apply(run, now)
        wait_until_settled(run)
        late = run.board.show()["late"].get("view by_minute", 0)
    play.run(now)
    assert late <= late_max
    closed = 2 * 599  # the last window is open
    assert sum(json.loads(message.value or b"")["n"] for message in play.read("by_minute")) == closed - late


MOVED = """
CREATE STREAMING TABLE events (k STRING, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE STREAMING TABLE visits TBLPROPERTIES ('topic' = '@{topic}', 'mode' = 'append') AS
  SELECT window.start AS start, k, count(*) AS n FROM STREAM events WATERMARK ts DELAY OF INTERVAL 1 MINUTE GROUP BY window(ts, '1 minute'), k;
CREATE MATERIALIZED VIEW total TBLPROPERTIES ('topic' = '@total', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, sum(n) AS n FROM visits GROUP BY k;
"""


def test_a_kept_table_over_event_time_writes_another_topic_from_the_switch_on(play: Playground) -> None:
    """Its kept reader has what both topics have together. Read again, other rows would be late, and the new topic would say something else."""
    play.topic("in", 2)
    conf = {"stepwell.step.rows.max": 10}

    def send(minutes: Sequence[int]) -> None:
        for partition in (0, 1):  # the second one is behind
            rows = [
                {"k": f"k{minute % 2}", "ts": f"2024-03-01T12:{minute - 5 * partition:02d}:30Z"} for minute in minutes
            ]
            play.send("in", rows, partition)

    send(range(10, 20))
    play.run(play.resolve({"visits.sql": MOVED.format(topic="visits")}, conf))
    now = play.resolve({"visits.sql": MOVED.format(topic="moved")}, conf)
    with pytest.raises(TransitionRefused, match=r"other rows than total has read.*--append visits=from-now"):
        play.run(now, on_change="apply")
    send(range(20, 30))
    play.run(now, on_change="apply", chosen=Chosen(append_from_now=("visits",)))
    send(range(30, 40))
    play.run(now)
    counted = Counter[str]()
    for topic in ("visits", "moved"):
        rows = [json.loads(message.value or b"") for message in play.read(topic)]
        assert rows, topic
        for row in rows:
            counted[row["k"]] += row["n"]
    last = {message.key: json.loads(message.value or b"") for message in play.read("total")}
    assert {row["k"]: row["n"] for row in last.values()} == counted


FIRSTS = """
from pyspark import pipelines as dp


@@dp.table(table_properties={"topic": "@firsts", "mode": "append"})
def firsts():
    return spark.readStream.table("events").withWatermark("ts", "1 minute").dropDuplicatesWithinWatermark(["k"])
"""
OVER_FIRSTS = """
CREATE MATERIALIZED VIEW {name} TBLPROPERTIES ('topic' = '@{name}', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, count(*) AS n, {least}(ts) AS ts FROM firsts GROUP BY k;
"""


@pytest.mark.parametrize("chosen", [Chosen(append_from_now=("firsts",)), Chosen(from_now=("events",))])
def test_a_new_view_over_a_kept_table_over_event_time_has_no_key_twice(play: Playground, chosen: Chosen) -> None:
    """The table has left out a row that is not late when it is read again. A view that was filled with it would get its key once more."""
    play.topic("in", 2)
    events = "CREATE STREAMING TABLE events (k STRING, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = '@in');"
    kept, new = (OVER_FIRSTS.format(name=name, least=least) for name, least in (("kept", "min"), ("new", "max")))
    before = play.resolve({"a.sql": events + kept, "b.py": FIRSTS})

    def send(k: str, seconds: int, partition: int) -> None:
        row = {"k": k, "ts": (datetime(2024, 3, 1, tzinfo=UTC) + timedelta(seconds=seconds)).isoformat()}
        play.send("in", [row], partition)

    for seconds in range(0, 301, 20):
        send(f"k{seconds}", seconds, 0)
    play.run(before)
    send("late", 230, 1)
    assert play.run(before)["late"] == {"view firsts": 1}
    now = play.resolve({"a.sql": events + kept + new, "b.py": FIRSTS})
    with pytest.raises(
        TransitionRefused, match=r"new would begin to read what firsts.*--append firsts=from-now.*--from-now events"
    ):
        play.run(now, on_change="apply")
    play.run(now, on_change="apply", chosen=chosen)
    send("late", 270, 1)
    play.run(now)
    counted = {}
    for name in ("kept", "new"):
        last = {message.key: json.loads(message.value or b"") for message in play.read(name)}
        counted[name] = {row["k"]: row["n"] for row in last.values()}
    assert set(counted["new"].values()) == {1} and "late" in counted["new"]
    if chosen.append_from_now:
        assert counted["new"] == counted["kept"]


BOTH = {
    "both.sql": """
CREATE STREAMING TABLE a (k STRING, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = '@a');
CREATE STREAMING TABLE b (k STRING, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = '@b');
CREATE STREAMING TABLE waits TBLPROPERTIES ('topic' = '@out', 'mode' = 'append') AS
  SELECT window.start AS start, k, count(*) AS n FROM (
    SELECT * FROM STREAM a WATERMARK ts DELAY OF INTERVAL 1 MINUTE WHERE k <> 'tick' OR ts IS NULL
    UNION ALL SELECT * FROM STREAM b WATERMARK ts DELAY OF INTERVAL 1 MINUTE WHERE k <> 'tick' OR ts IS NULL)
  GROUP BY window(ts, '1 minute'), k;
"""
}


def test_an_input_that_is_silent_holds_nothing_back_and_is_late_when_it_comes_again(play: Playground) -> None:
    """When it becomes idle depends on the clock, and is recorded: a replay puts out what was written."""
    for name in ("a", "b", "out"):
        play.topic(name)
    play.send("a", [_row("x", 0), _row("y", 1)])
    play.send("b", [_row("x", 0)])
    conf = {"stepwell.watermark.idle.after": "2s", "stepwell.workers": 2, "stepwell.checkpoint.interval": "1h"}
    resolved = play.resolve(BOTH, conf)
    watermark = {minute: datetime(2024, 3, 1, 12, minute, 30, tzinfo=UTC).timestamp() for minute in (9, 29)}

    def ticks(minute: int, *names: str) -> Callable[[dict[str, Any]], bool]:
        """These topics go on until the watermark has followed them. A topic is silent between two ticks, but not for long."""

        def reached(status: dict[str, Any]) -> bool:
            if status["watermarks"].get("view waits") == watermark[minute - 1]:
                return True
            for name in names:
                play.send(name, [_row("tick", minute)])
            return False

        return reached

    with play.running(resolved) as run:
        run.wait_until(lambda status: status["rows"] == 3)
        run.wait_until(ticks(10, "a"))
        assert len(play.read("out")) == 2, "what b has held back is closed"
        play.send("b", [_row("late", 2), _row("x", 12)])
        run.wait_until(lambda status: status["late"] == {"view waits": 1})
        run.wait_until(ticks(30, "a", "b"))
        run.requests.ask("pause")
        run.wait_until(lambda status: status["phase"] == "paused")
        assert play.log(resolved).checkpoints == ()  # left at a boundary, with no checkpoint, as after a kill
        steps = play.check_steps(resolved)
        status = play.run(resolved, expect_epoch=0)
    assert status["steps_replayed"] == steps
    assert {record.idle for record in play.log(resolved).divisions.values()} >= {(), ("b",)}
    messages = {
        topic: [message.as_input for message in those if b"late" not in (message.value or b"")]
        for topic, those in play.read_all({play.prefix + name for name in ("a", "b", "out")}).items()
    }
    (view,) = resolved.project.views
    given = published(play.spark, view, messages[play.prefix + "out"])
    compared = compare("waits", given, batch_answer(resolved.project, messages)["waits"])
    assert compared.equal and compared.rows == 3, str(compared)
    play.check_steps(resolved)


HOURS = {
    "hours.sql": """
CREATE STREAMING TABLE events (k STRING, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE STREAMING TABLE hours TBLPROPERTIES ('topic' = '@out', 'mode' = 'append') AS
  SELECT window.start AS start, k, count(*) AS n FROM STREAM events WATERMARK ts DELAY OF INTERVAL 10 MINUTES
  WHERE k <> 'clock' OR ts IS NULL GROUP BY window(ts, '1 hour'), k;
"""
}


@pytest.mark.parametrize("workers", sampled([3, 1], 2))
def test_a_backlog_of_days_in_uneven_partitions_has_no_late_row(play: Playground, workers: int) -> None:
    """The steps are small, so equal shares would have read the short partitions days before the long one."""
    play.topic("in", 4)
    play.topic("out", 2)
    begin = datetime(2024, 3, 1, tzinfo=UTC)
    producer = Producer({"bootstrap.servers": play.servers})
    times = uneven(random.Random(3))
    for where, those in times.items():
        ends = [*those[:: 1 if where.partition else 4], 20 * DAY_MS]  # the last one closes everything
        for number, at in enumerate(ends):
            moment = begin + timedelta(milliseconds=at)
            row = {"k": "clock" if at == ends[-1] else f"k{number % 3}", "ts": moment.isoformat()}
            producer.produce(
                play.prefix + "in",
                json.dumps(row).encode(),
                partition=where.partition,
                timestamp=int(1000 * moment.timestamp()),
            )
    assert producer.flush(SEND_SECONDS_MAX) == 0
    resolved = play.resolve(HOURS, {"stepwell.step.rows.max": 100, "stepwell.workers": workers})
    status = play.run(resolved)
    assert status["steps_run"] > 10 and not status["late"]
    assert play.check(resolved)["hours"] > 200
    play.check_steps(resolved)


ERRING = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F


def read(name):
    # The condition reads ts, so that Spark leaves it above the watermark, which the rows of `clock` move.
    return spark.readStream.table(name).withWatermark("ts", "2 minutes").where("k <> 'clock' OR ts IS NULL")


def output(name):
    return {"topic": f"@{name}", "mode": "append"}


def total():
    return F.expr("sum(n * 4000000000000000000)").alias("total")


def pairs(kind):
    near = "a.k = b.k AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 1 MINUTE AND 12 DIV (a.n - b.n) > -100"
    joined = read("events").alias("a").join(read("others").alias("b"), F.expr(near), kind)
    return joined.selectExpr("a.k AS k", "a.n AS n", "b.n AS other", "a.ts AS ts", "b.ts AS near")


@@dp.table(table_properties=output("sums"))
def sums():
    return read("events").groupBy(F.window("ts", "1 minute"), "k").agg(total()).selectExpr("window.start AS start", "k", "total")


@@dp.table(table_properties=output("sliding"))
def sliding():
    return read("others").groupBy(F.window("ts", "2 minutes", "1 minute")).agg(total()).selectExpr("window.start AS start", "total")


@@dp.table(table_properties=output("sessions"))
def sessions():
    made = read("events").groupBy(F.session_window("ts", "30 seconds"), "k").agg(total())
    return made.selectExpr("session_window.start AS start", "session_window.end AS end", "k", "total")


@@dp.table(table_properties=output("met"))
def met():
    return pairs("inner")


@@dp.table(table_properties=output("kept"))
def kept():
    return pairs("left")


@@dp.table(table_properties=output("all_pairs"))
def all_pairs():
    return pairs("full")


@@dp.table(table_properties=output("counts"))
def counts():
    return read("events").groupBy(F.window("ts", "1 minute"), "k").agg(F.count("*").alias("n")).selectExpr("window.start AS start", "k", "n")


@@dp.table(table_properties=output("firsts"))
def firsts():
    return read("others").dropDuplicates(["k", "ts"]).select("k", "ts")
"""
SOURCES = """
CREATE STREAMING TABLE events (k STRING, n BIGINT, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = '@events');
CREATE STREAMING TABLE others (k STRING, n BIGINT, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = '@others');
"""
Event = tuple[str, int, int]
"""Key, number and seconds of the round."""
GOOD: list[list[Event]] = [
    [("a", 1, 0), ("b", 0, 5), ("a", 1, 20), ("c", 2, 70), ("a", -1, 95), ("b", 2, 100)],
    [("a", 0, 30), ("b", 1, 40), ("b", -1, 61), ("c", 0, 90), ("d", -1, 99)],
]
"""Those of `events`, and those of `others`. No pair that is near has equal numbers, and every sum fits."""
BAD: list[tuple[int, list[Event], set[str]]] = [
    (0, [], set()),
    (0, [("a", 2, 21)], {"sums", "sessions"}),
    (1, [("a", 1, 31)], {"met", "kept", "all_pairs"}),
    (1, [("e", 2, 41), ("e", 2, 62)], {"sliding"}),
]
"""Rows that come besides in each round, to `events` or to `others`, and the tables that they put in error."""


@pytest.mark.soak
def test_tables_in_event_time_have_sparks_answer_over_what_is_closed_or_are_in_error(play: Playground) -> None:
    """No row of a stream can be taken back, so an error stays, and the topic keeps what it had. All other tables go on."""
    for name in ("events", "others"):
        play.topic(name, 2)
    resolved = play.resolve({"a.sql": SOURCES, "b.py": ERRING}, {"stepwell.step.rows.max": 4, "stepwell.workers": 1})
    counting = {
        type(node) for node in every_kind().nodes if operator_of(node).output.counts_errors(node)
    } & OF_EVENT_TIME
    assert {type(node) for node in resolved.spec.circuit.nodes} >= counting, "a kind of node is in no table"
    other = renamed(resolved, "-other", 3)
    written: dict[str, int] = {}
    in_error: set[str] = set()
    for round_, (place, bad, new) in enumerate(BAD):
        sent = [list(events) for events in GOOD]
        sent[place] += bad
        before, in_error = in_error, in_error | new
        assert _round(play, [resolved, other], round_, sent) == in_error == answered(play, resolved)
        now = {output.handle: len(play.read(output.handle)) for output in resolved.spec.outputs}
        grown = {name for name in now if now[name] > written.get(name, 0)}
        assert grown.isdisjoint(before), "the topic of a table in error keeps what it had"
        assert grown >= now.keys() - in_error, (
            "all others go on"
        )  # one that gets its error now may grow in the steps before
        written = now
    written_alike(play, resolved, other)


def _round(play: Playground, pipelines: Sequence[Resolved], round_: int, sent: list[list[Event]]) -> set[str]:
    """An hour of the streams, at the end of which all of it is closed. Returns the tables in error."""
    hour = datetime(2024, 3, 1, round_, tzinfo=UTC)
    in_error: set[str] = set()
    for part in (sent, [[("clock", 0, 3599)]] * 2):  # the clock comes last in all partitions
        for name, events in zip(("events", "others"), part, strict=True):
            rows = [{"k": k, "n": n, "ts": (hour + timedelta(seconds=s)).isoformat()} for k, n, s in events]
            for partition in (0, 1):
                play.send(name, rows[partition::2], partition)
        now = [set(run(play, each)) for each in pipelines]
        assert now[0] == now[1]
        in_error = now[0]
    return in_error
