"""What is wrong with the input or the topics stops the pipeline before anything of the step is written, and says where and why."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, cast

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition

from coordinator.starting.errors import TopicChanged
from engine.errors import DataError
from faults.points import Crash, CrashOrder, Point, arm
from io_kafka.clients.raw import RawBatch, raw_batch
from io_kafka.clients.reader import RangeReader
from io_kafka.errors import OffsetGone, UnknownTopic
from io_kafka.offsets import OffsetRange
from io_kafka.step_log.output_progress import InputChanged
from storage.database import Database
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Value, wait_until
from tests.end_to_end.threads import threads


def test_a_malformed_message_stops_the_step_before_anything_of_it_is_written(play: Playground) -> None:
    resolved = sums.left_without_checkpoint(play)
    written = play.read("out")
    assert {m.step for m in written} == {0, 1}
    with pytest.raises(
        DataError, match=f"topic {play.prefix}in, partition 0, offset 4, step 2: malformed message: "
    ) as e:
        play.run(resolved)  # again: the same place, after a replay
    assert "'on.error' = 'skip'" in str(e.value)
    assert play.read("out") == written


def test_after_a_stop_another_policy_lets_the_recorded_step_go_on(play: Playground) -> None:
    sums.left_without_checkpoint(play)
    resolved = sums.project(play, ", 'on.error' = 'skip'")
    status = play.run(resolved)
    assert (status["steps_replayed"], status["skipped"]) == (2, {"numbers": 1})
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 4


def test_a_dead_letter_travels_with_its_step(play: Playground) -> None:
    sums.left_without_checkpoint(play)
    resolved = sums.project(play, ", 'on.error' = 'dead-letter'")
    assert play.run(resolved)["steps_replayed"] == 2  # they had no dead letters, and have none now
    (letter,) = play.read("in.dead-letter")
    assert letter.value is not None
    place = {"topic": f"{play.prefix}in", "partition": 0, "offset": 4, "value": "rubbish"}
    assert place.items() <= json.loads(letter.value).items()
    assert letter.step == 2
    assert play.check(resolved) == {"sums": 3}


def test_dead_letters_are_replayed_where_the_policy_has_changed_since(play: Playground) -> None:
    play.topic("in")
    play.send("in", ["rubbish", *sums.rows(0, 1), *sums.rows(1, 2)])
    first = sums.project(play, ", 'on.error' = 'dead-letter'")
    with play.running(first) as run:
        run.wait_until(lambda status: status["steps_run"] == 2)
        run.requests.ask("pause")
        run.wait_until(lambda status: status["phase"] == "paused")
        # Left at a boundary, with no checkpoint, as after a kill.
        assert play.log(first).checkpoints == ()
        second = sums.project(play, ", 'on.error' = 'skip'")
        status = play.run(second, expect_epoch=0)
    assert status["steps_replayed"] == 2
    assert len(play.read("in.dead-letter")) == 1
    assert play.check(second) == {"sums": 3}


RUBBISH: list[Value] = [
    "null",
    "",
    "[]",
    '{"k":"a"}{"k":"b"}',
    '{"k":"a","n":1',
    "{}x",
    "1",
    '"a"',
    "true",
    b"\xff\xfe",
    b"{\x00}",
]
"""`null` first in a block kills the fast parser's process; two values, and then an empty message, shift its rows."""


@pytest.mark.parametrize(
    "when",
    [
        "between",
        "under a run",
        *(pytest.param(point, marks=pytest.mark.long) for point in ("output.sent", "checkpoint.paused")),
    ],
)
def test_without_its_dead_letters_a_pipeline_goes_on_with_another_topic_for_them(play: Playground, when: str) -> None:
    """Nothing has to be rebuilt, and the error says so. A step with a letter may be written then, or compared, or be neither."""
    play.topic("in")
    play.send("in", [*sums.rows(0, 4), "rubbish"])
    source = ", 'on.error' = 'dead-letter', 'dead.letter.topic' = '@{}'"
    resolved = sums.project(play, source.format("letters")).at_pace(growth_seconds=0.0)
    if when == "between":
        play.run(resolved)
    elif when != "under a run":
        with arm(CrashOrder(cast(Point, when), "raise")), pytest.raises(Crash):
            play.run(resolved)
        Database.close_all()
    with play.running(resolved) if when == "under a run" else nullcontext() as run:
        if run is not None:
            run.wait_until(lambda status: status["lag"] == {f"{play.prefix}in/0": 0})
        play.delete_topic("letters")
        if run is not None:
            wait_until(lambda: run.fault is not None)
            assert isinstance(run.fault, UnknownTopic) and "letters" in str(run.fault), run.fault
            assert "name another topic in `dead.letter.topic`" in run.fault.what_to_do
    with pytest.raises(TopicChanged, match="letters, which this pipeline has written to, was deleted") as deleted:
        play.run(resolved)
    play.topic("letters")
    with pytest.raises(TopicChanged, match="letters was deleted and created again") as made_anew:
        play.run(resolved)
    for e in (deleted, made_anew):
        assert "name another topic in `dead.letter.topic`" in str(e.value) and "--full-refresh" not in str(e.value)
    other = sums.project(play, source.format("others"))
    play.send("in", ["more rubbish", *sums.rows(4, 4)])
    play.run(other)
    letters = [json.loads(letter.value or b"")["value"] for letter in play.read("others")]
    assert letters == ["rubbish", "more rubbish"][when != "output.sent" :]
    assert play.check(other) == {"sums": 3}


@pytest.mark.parametrize("millions", [0.1, pytest.param(1, marks=pytest.mark.soak)])
def test_rubbish_among_a_million_good_messages_is_counted_and_skipped(play: Playground, millions: float) -> None:
    play.topic("in")
    count = int(millions * 1e6)
    good = [b'{"k":"%s","n":1}' % k for k in (b"a", b"b", b"c")] * (count // 3)
    step = len(good) // 7
    # First in the topic, first in a step, in the middle, and many at once.
    sent = [*RUBBISH, *(x for i in range(7) for x in (*good[i * step : (i + 1) * step], *RUBBISH))]
    play.send("in", sent)
    resolved = sums.project(play, ", 'on.error' = 'skip'", rows=len(RUBBISH) + step, workers=2)
    status = play.run(resolved)
    assert status["steps_run"] >= 7 and status["recoveries"] == 0
    latest = {m.key: json.loads(m.value) for m in play.read("out") if m.value is not None}
    counts = Counter(json.loads(m)["k"] for m in good[: 7 * step])
    assert {row["k"]: row["total"] for row in latest.values()} == counts
    assert {row["k"]: row["n"] for row in latest.values()} == counts
    assert status["skipped"] == {"numbers": 8 * len(RUBBISH)}


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1e99999999999999999999", "'1e99999999999999999999'"),
        ("5881581-01-01", "'5881581-01-01'"),
        ("9" * 5000, "'" + "9" * 59 + "... (5002 characters)"),
    ],
    ids=["exponent", "year", "digits"],
)
def test_a_text_that_no_cast_takes_stops_the_step_with_view_step_expression_and_value(
    play: Playground, text: str, shown: str
) -> None:
    play.topic("in")
    resolved = play.resolve({
        "casts.sql": """
CREATE STREAMING TABLE texts (k STRING, t STRING) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE MATERIALIZED VIEW casts TBLPROPERTIES ('topic' = '@out') AS
  SELECT k, CASE WHEN k = 'date' THEN CAST(t AS DATE) END AS d, CASE WHEN k = 'decimal' THEN CAST(t AS DECIMAL(10,2)) END AS n FROM texts;
"""}, {"stepwell.step.rows.max": 2})  # fmt: skip
    good: list[Value] = [{"k": "date", "t": "2020-01-01"}, {"k": "decimal", "t": "1.5"}]
    play.send("in", [*good, {"k": "decimal" if "e" in text else "date", "t": text}])
    with pytest.raises(DataError) as caught:
        play.run(resolved)
    for part in ("view casts", "step 1", "expression ", shown):
        assert part in str(caught.value)
    assert {m.step for m in play.read("out")} == {0}


def test_one_key_in_two_partitions_is_an_error(play: Playground) -> None:
    play.topic("in", 2)
    resolved = sums.project(play, ", 'mode' = 'upsert', 'key' = 'k'", rows=100)
    for partition in (0, 1):
        play.send("in", [({"k": "a"}, sums.row("a", partition))], partition)
    with pytest.raises(DataError, match=r"numbers.*partition"):
        play.run(resolved)
    assert play.read("out") == []


@pytest.mark.long
def test_an_upsert_output_with_two_rows_of_one_key_waits_until_there_is_one(play: Playground) -> None:
    play.topic("in")
    resolved = play.resolve({
        "twins.sql": """
CREATE STREAMING TABLE numbers (k STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE MATERIALIZED VIEW fine TBLPROPERTIES ('topic' = '@fine') AS SELECT k FROM numbers;
CREATE MATERIALIZED VIEW twins TBLPROPERTIES ('topic' = '@twins', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, n FROM numbers GROUP BY k, n HAVING count(*) % 2 = 1;
"""}, {"stepwell.step.rows.max": 2, "stepwell.workers": 2})  # fmt: skip
    play.send("in", [sums.row("b", 1), sums.row("a", 1), sums.row("b", 1), sums.row("a", 2)])
    with pytest.raises(DataError, match=r"view twins, step 1: 2 rows have the key {'k': 'a'}"):
        play.run(resolved)
    assert {m.step for m in play.read("twins")} == {0} and len(play.read("fine")) == 4
    play.send("in", [sums.row("a", 1)])
    play.run(resolved)
    assert play.check(resolved) == {"fine": 5, "twins": 1}


@pytest.mark.parametrize("name", ["in", "out"])
def test_a_topic_that_was_made_anew_is_told_apart(play: Playground, name: str) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 2))
    resolved = sums.project(play)
    play.run(resolved)
    play.delete_topic(name)
    play.topic(name, 1 if name == "in" else 2)
    with pytest.raises(TopicChanged, match=f"{play.prefix}{name} was deleted and created again.*--full-refresh"):
        play.run(resolved)


def test_input_that_expired_under_a_replay_is_an_error(play: Playground) -> None:
    resolved = sums.left_without_checkpoint(play)
    written = play.read("out")
    place = TopicPartition(f"{play.prefix}in", 0, 1)
    play.admin.delete_records([place])[place].result()
    with pytest.raises(OffsetGone, match=f"'{play.prefix}in' partition 0: offset 0 does not exist.*expired"):
        play.run(resolved)
    assert play.read("out") == written


def test_input_that_reads_otherwise_is_an_error_even_where_the_output_is_the_same(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums.left_without_checkpoint(play)
    resolved = sums.project(play, ", 'on.error' = 'skip'")
    written, read = play.read("out"), RangeReader.read

    def with_other_keys(self: RangeReader, ranges: Sequence[OffsetRange], **options: Any) -> list[RawBatch]:
        """An append table does not look at them."""
        batches = read(self, ranges, **options)
        if any(span.topic == resolved.spec.plan_topic for span in ranges):
            return batches
        other = [pa.array([b"k"] * batch.messages.length, pa.binary()) for batch in batches]
        return [raw_batch(b.range, b.messages._replace(keys=keys)) for b, keys in zip(batches, other, strict=True)]

    with monkeypatch.context() as changed:
        changed.setattr(RangeReader, "read", with_other_keys)
        with pytest.raises(InputChanged, match=f"step 0, topic '{play.prefix}in' partition 0"):
            play.run(resolved, threads())
    assert play.read("out") == written
    assert play.run(resolved)["steps_replayed"] == 2
    assert play.check(resolved) == {"sums": 3}


def test_letters_larger_than_their_messages_do_not_end_the_run(play: Playground) -> None:
    """The messages fit a topic with Kafka's default limit, and their letters do not."""
    play.topic("in")
    values = [b'"' * 700_000, b"\xff" * 900_000]
    play.send("in", [*sums.rows(0, 1), *values, *sums.rows(1, 2)])
    resolved = sums.project(play, ", 'on.error' = 'dead-letter'")
    assert play.run(resolved)["skipped"] == {"numbers": 2}
    assert play.check(resolved) == {"sums": 3}
    text, octets = (json.loads(m.value or b"") for m in play.read("in.dead-letter"))
    assert text["value"].encode() == values[0] and base64.b64decode(octets["valueBase64"]) == values[1]
