"""A full refresh on real Spark, Kafka and LMDB: the outputs equal Spark's batch answer, wherever the refresh is interrupted."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from coordinator.starting.errors import TopicChanged
from coordinator.starting.topics import refresh
from faults.points import Crash
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.topics import Topics
from io_kafka.clients.transactions import FencedLog
from io_kafka.clients.writer import PipelineWriter
from io_kafka.errors import NoSuchStart, NothingSince
from io_kafka.offsets import OffsetRange
from io_kafka.step_log.records import Refresh
from storage import host_folder
from storage.database import Database
from tests.coordinator.starting.test_positions import TwoPartitions
from tests.coordinator.stepping.test_inputs import Clock, append_only, spec
from tests.end_to_end.harness import Playground, Resolved
from tests.end_to_end.threads import threads

FILES = {
    "views.sql": """
CREATE STREAMING TABLE orders (id BIGINT, item STRING) USING kafka TBLPROPERTIES ('subscribe' = '@orders', 'format' = 'json');
CREATE STREAMING TABLE items (item STRING, price BIGINT)
  USING kafka TBLPROPERTIES ('subscribe' = '@items', 'format' = 'json', 'mode' = 'upsert', 'key' = 'item');
CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('topic' = '@totals', 'key' = 'item', 'mode' = 'upsert') AS
  SELECT item, count(*) AS n FROM orders GROUP BY item;
CREATE MATERIALIZED VIEW cheap TBLPROPERTIES ('topic' = '@cheap', 'mode' = 'append') AS SELECT id FROM orders WHERE id < 5;
CREATE MATERIALIZED VIEW prices TBLPROPERTIES ('topic' = '@prices', 'mode' = 'changelog') AS
  SELECT item, max(price) AS price FROM items GROUP BY item;
"""
}
"""One view of each output mode."""


@pytest.fixture
def written(play: Playground) -> Resolved:
    """A pipeline that has written output of two checkpoints."""
    play.topic("orders", 2)
    play.topic("items")
    resolved = play.resolve(FILES)
    for start in (0, 10):
        play.send("orders", [{"id": n, "item": f"i{n}"} for n in range(start, start + 10)])
        play.send(
            "items", [({"item": f"i{n % 3}"}, {"item": f"i{n % 3}", "price": n}) for n in range(start, start + 10)]
        )
        play.run(resolved)
    return resolved


def recreate_orders(play: Playground) -> None:
    """Other input than before: some keys of the upsert topic must vanish."""
    play.delete_topic("orders")
    play.topic("orders", 1)
    play.send("orders", [{"id": n, "item": f"i{n % 4}"} for n in range(3)])


def check_rebuilt(play: Playground, resolved: Resolved, generation: int = 1) -> None:
    assert play.check(resolved) == {"totals": 3, "cheap": 3, "prices": 3}
    state = play.log(resolved)
    assert (state.generation, state.refresh) == (generation, None)
    assert state.layout is not None
    for worker in state.layout.placed.births:
        assert f"/{generation}/" in Database.identity_of(resolved.spec.state_location.here.of_worker(worker)).database
    folders = resolved.spec.state_location.here.of_worker(0).parent
    assert sorted(f.name for f in folders.iterdir()) == [f"{w:04d}" for w in state.layout.placed.births]


def test_outputs_are_rebuilt_from_the_input_that_is_there_now(play: Playground, written: Resolved) -> None:
    assert play.check(written)["totals"] == 20
    recreate_orders(play)
    with pytest.raises(TopicChanged, match="--full-refresh"):
        play.run(written)
    play.run(written, full_refresh=True)
    check_rebuilt(play, written)
    play.send("orders", [{"id": 4, "item": "i0"}])
    play.run(written)
    assert play.check(written)["cheap"] == 4
    play.run(written, full_refresh=True)
    assert play.check(written)["cheap"] == 4 and play.log(written).generation == 2


@pytest.mark.parametrize(
    ("view", "says"),
    [
        (
            "totals",
            r"now; keys would change their partition\. Delete the topic, or name another one .* Then rebuild with `stepwell run --full-refresh`",
        ),
        ("cheap", r"now; keys would change their partition\. Rebuild with `stepwell run --full-refresh`"),
        ("prices", r"now; keys would change their partition\. Rebuild with `stepwell run --full-refresh`"),
    ],
    ids=["upsert", "append", "changelog"],
)
def test_an_output_with_more_partitions_is_rebuilt_as_the_error_says(
    play: Playground, written: Resolved, view: str, says: str
) -> None:
    """One view of each mode."""
    play.grow(view, 3)
    with pytest.raises(TopicChanged, match=f"output topic {play.prefix}{view} had 2 partitions and has 3 {says}"):
        play.run(written)
    if "Delete the topic" in says:
        play.delete_topic(view)
    recreate_orders(play)
    play.run(written, full_refresh=True)
    check_rebuilt(play, written)


@pytest.mark.long
def test_another_number_of_workers_may_be_asked_for(play: Playground, written: Resolved) -> None:
    recreate_orders(play)
    three = replace(written, spec=replace(written.spec, workers=3))
    play.run(three, full_refresh=True)
    check_rebuilt(play, three)
    one = replace(written, spec=replace(written.spec, workers=1))
    play.run(one, full_refresh=True)
    check_rebuilt(play, one, generation=2)


@pytest.mark.parametrize(
    ("topic", "pattern", "starting", "says"),
    [
        ("in", None, '{"in": {"0": 2}}', r"begin topic 'in' partition 0 at offset 2, and the partition holds \[3, 9\)"),
        ("in", "in|other", '{"in": {"1": 10}}', r"begin topic 'in' partition 1 at offset 10"),
        ("in", None, "since 101", "partition 1 has no message since 101"),
        ("in", None, '{"in": {"0": 3}}', "nothing is wrong"),
        ("gone", None, '{"gone": {"0": 2}}', "nothing is wrong"),
    ],
)
def test_a_start_that_is_not_there_is_refused_before_anything_is_taken_back(
    monkeypatch: pytest.MonkeyPatch, *, topic: str, pattern: str | None, starting: str, says: str
) -> None:
    source = append_only("t", topic, starting)
    source = replace(source, table=replace(source.table, pattern=pattern))

    def go_on(*_: object) -> Refresh:
        raise Crash("nothing is wrong")

    monkeypatch.setattr(refresh, "_plan", go_on)
    writer = cast(PipelineWriter, SimpleNamespace(state=SimpleNamespace(refresh=None)))
    with pytest.raises((NoSuchStart, NothingSince, Crash), match=says):
        refresh.rebuild(replace(spec(Clock(), 4), inputs=(source,)), writer, cast(Topics, NamedTopics()))


class NamedTopics(TwoPartitions):
    def names(self) -> set[str]:
        return {"in", "out"}


PLACES = [
    (FencedLog, "append", 1),  # before the intent
    (PipelineWriter, "take_back", 1),
    (PipelineWriter, "take_back", 2),  # one partition has its tombstones
    (Topics, "delete_below", 1),
    (FencedLog, "append", 2),  # before the reset
    (host_folder.shutil, "rmtree", 2),  # a database is renamed, and is not deleted
    (FencedLog, "append", 3),  # before circuit and layout
]
IN_EACH_RUN = {("take_back", 2), ("rmtree", 2)}
"""In the middle of what a refresh does in Kafka, and of what it does on the disk. The soak has the places before and behind them too."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [pytest.param(*place, marks=() if place[1:] in IN_EACH_RUN else pytest.mark.soak) for place in PLACES],
)
# After one call is before the next one, but for the work between them. `make soak` covers those moments.
@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_refresh_that_was_broken_off_is_finished(
    play: Playground,
    written: Resolved,
    monkeypatch: pytest.MonkeyPatch,
    *,
    owner: object,
    name: str,
    call: int,
    after: bool,
) -> None:
    recreate_orders(play)
    real, calls = getattr(owner, name), 0

    def crash(*args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        result = None
        if calls != call or after:
            result = real(*args, **options)
        if calls == call:
            raise Crash(name)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, crash)
        with pytest.raises(Crash):
            play.run(written, threads(one_for_all=True), full_refresh=True)
    Database.close_all()
    begun = play.log(written)
    asked_again = begun.generation == 0 and begun.refresh is None
    play.run(written, full_refresh=asked_again)
    check_rebuilt(play, written)


def test_a_topic_with_messages_that_the_log_does_not_know_is_left_alone(play: Playground, written: Resolved) -> None:
    play.delete_topic("cheap")
    play.topic("cheap")
    play.send("cheap", ["somebody's"])
    with pytest.raises(TopicChanged, match="cheap holds messages"):
        play.run(written, full_refresh=True)
    assert [m.value for m in play.read("cheap")] == [b"somebody's"]
    assert play.log(written).refresh is None


def test_live_keys_are_those_whose_last_message_is_a_row(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "READ_OFFSETS_MAX", 3)  # keys come back in later pieces
    play.topic("keys")
    story = [
        ("a", "1"),
        ("b", "1"),
        ("a", None),
        (None, "x"),
        ("c", "1"),
        ("b", None),
        ("a", "2"),
        ("b", None),
        ("d", None),
    ]
    play.send("keys", story)
    found = refresh.live_keys(RangeReader(play.settings), OffsetRange(play.prefix + "keys", 0, 0, len(story)))
    assert sorted(found.to_pylist()) == [b"a", b"c"]
