"""A project changes while it runs, as its user has chosen: what is judged is Spark's batch answer over the messages that count then."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from coordinator.revisions.choices import Chosen
from coordinator.revisions.document import PlanDocument, document_of
from coordinator.revisions.requests import ApplyRequest, TransitionRefused
from examples.batch import TopicMessage, batch_answer, compare, published
from faults.points import Crash, CrashOrder, Point, arm
from io_kafka.clients.plan_topic import read_plan
from io_kafka.offsets import TopicPartition
from stepwell.inspection.query import query
from tests.end_to_end.harness import Playground, Resolved, Running, wait_until
from tests.end_to_end.test_reading_again import (
    BEFORE,
    BY_COUNTRY,
    CONF,
    STREAM,
    ask,
    clicks,
    people,
    project,
    wait_until_it_stands_still,
)
from tests.end_to_end.test_transitions import ORDER_SECONDS, wait_until_settled
from tests.sampling import sampled

CLICKS = Chosen(from_now=("clicks",))


def apply(run: Running, now: Resolved, chosen: Chosen, *, hold: bool = False) -> None:
    run.wait_until(lambda shown: shown["phase"] == "run")
    run.requests.revision.ask(ApplyRequest(now.spec, hold, chosen), ORDER_SECONDS)


def in_force(play: Playground, resolved: Resolved) -> PlanDocument:
    record = play.log(resolved).revision
    assert record is not None
    return document_of(read_plan(play.settings, resolved.spec.plan_topic, record.plan))


def marks_of(play: Playground, resolved: Resolved) -> dict[str, dict[str, dict[TopicPartition, int]]]:
    """By view and source: the offsets from which the view counts it."""
    document = in_force(play, resolved)
    offsets = {source.table.handle: dict(source.table.counts_from or ()) for source in document.inputs}
    return {
        view: {source: offsets[marked] for source, marked in marks.items()} for view, marks in document.marks.items()
    }


Kept = dict[str, list[TopicMessage]]


def messages(play: Playground, resolved: Resolved) -> Kept:
    """All that the sources have now."""
    topics = {topic for source in resolved.project.sources for topic in source.topics}
    return {topic: [m.as_input for m in those] for topic, those in play.read_all(topics).items()}


def joined(*every: Kept) -> Kept:
    """What was there at any of these moments: messages expire in between."""
    found: dict[str, dict[tuple[int, int], TopicMessage]] = {}
    for kept in every:
        for topic, those in kept.items():
            found.setdefault(topic, {}).update({(m.partition, m.offset): m for m in those})
    return {topic: [those[place] for place in sorted(those)] for topic, those in found.items()}


def check(
    play: Playground,
    resolved: Resolved,
    kept: Kept,
    views: Collection[str],
    offsets: Mapping[TopicPartition, int] | None = None,
) -> None:
    """The topics of these views have Spark's answer over the messages from these offsets on."""
    counted = {
        topic: [m for m in those if m.offset >= (offsets or {}).get(TopicPartition(topic, m.partition), 0)]
        for topic, those in kept.items()
    }
    expected = batch_answer(resolved.project, counted)
    for view in resolved.project.views:
        if view.name in views:
            assert view.output is not None
            given = published(play.spark, view, [m.as_input for m in play.read(view.output.topic, prefixed=False)])
            found = compare(view.name, given, expected[view.name])
            assert found.equal, str(found)


def expire(play: Playground, topic: str, offset: int, partition: int = 0) -> None:
    play.topics.delete_below({TopicPartition(play.prefix + topic, partition): offset})


@pytest.mark.long
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.soak), 3])
def test_new_nodes_count_a_source_from_now_on(play: Playground, workers: int) -> None:
    """Its first messages have expired. A view that does not change counts them still, also after later revisions and restarts."""
    conf = {**CONF, "stepwell.workers": workers}
    play.topic("clicks", 3)
    play.topic("people", 1)
    for partition in range(3):
        play.send("clicks", clicks(100 * partition, 100), partition)
    play.send("people", people(0, 9))
    before = play.resolve(project(more=BY_COUNTRY), conf)
    play.run(before)
    kept = messages(play, before)
    expire(play, "clicks", 60, 1)
    files = project(where="WHERE n > 10", more=BY_COUNTRY + OTHER)
    now = play.resolve(files, conf)
    with play.running(before) as run:
        with pytest.raises(TransitionRefused, match=r"60 offsets are missing.*--from-now clicks"):
            apply(run, now, Chosen())
        apply(run, now, CLICKS)
        play.send("clicks", clicks(300, 80), 1)
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["outcome"] == "switched"
        play.send("clicks", clicks(400, 50), 2)
    play.run(now)
    kept = joined(kept, messages(play, now))
    marks = marks_of(play, now)
    assert marks.keys() == {"by_page", "other"}
    offsets = marks["by_page"]["clicks"]
    assert marks["other"] == {"clicks": offsets} and len(offsets) == 3 and sum(offsets.values()) >= 300
    check(play, now, kept, ["by_page", "many", "other"], offsets)
    check(play, now, kept, ["by_country", "large"])
    told = query(now.project, now.spec.circuit, "SELECT page, n FROM by_page").rows.collect()
    assert len(told) == 5, "a query knows the marks of the state"
    # A later revision changes one of them, and adds a view beside another source.
    play.topic("sales", 2)
    play.send("sales", [{"customer": f"c{i % 13}", "amount": i} for i in range(50)])
    later = play.resolve(project(where="WHERE n > 20", more=BY_COUNTRY + OTHER + SPENT), conf)
    with play.running(now) as run:
        apply(run, later, Chosen())
        play.send("clicks", clicks(450, 30))
        wait_until_settled(run)
    play.run(later)
    kept = joined(kept, messages(play, later))
    assert marks_of(play, later) == marks
    check(play, later, kept, ["by_page", "many", "other"], offsets)
    check(play, later, kept, ["by_country", "large", "paid"])
    play.check_steps(later)


OF_CHOICES: tuple[Point, ...] = (
    "plan.written",
    "revision.intended",
    "stages.inside",
    "switch.ready",
    "switch.recorded",
    "output.committed",
)


@pytest.mark.soak
@pytest.mark.parametrize("workers", [1, 3])
def test_a_crash_changes_nothing_of_what_was_chosen(play: Playground, workers: int) -> None:
    """At each point, and again in the recovery, with all three choices. Nothing is checkpointed, so all steps are replayed."""
    conf = {**CONF, "stepwell.workers": workers, "stepwell.checkpoint.interval": "1h"}
    play.topic("clicks", 2)
    play.topic("people")
    play.send("clicks", clicks(0, 150))
    former = play.resolve(project(more=OTHER), conf)
    play.run(former)
    kept, sent = messages(play, former), 150
    expire(play, "clicks", 50)
    for number, point in enumerate(OF_CHOICES, 1):
        play.send("clicks", clicks(sent, 60), number % 2)
        sent += 60
        text = project(where=f"WHERE n > {number}", large=40 + number, more="" if number > 1 else OTHER)["project.sql"]
        text = text.replace("count(DISTINCT page)", "max(page)") if number == 1 else text
        now = play.resolve({"project.sql": text}, conf)
        gone = ("other",) if number == 2 else ()
        chosen = Chosen(from_now=("clicks",), append_from_now=("large",), retract=gone)
        broken = 0
        for visit in (1, 2):
            if is_in_force(play, now):
                break
            with arm(CrashOrder(point, "raise", visit=visit)), play.running(former) as run:
                with suppress(TransitionRefused, Crash):
                    run.wait_until(lambda shown: shown["phase"] == "run")
                    if run.board.show()["transition"] is None and not is_in_force(play, now):
                        apply(run, now, chosen)
                wait_until(lambda: run.fault is not None or run.board.show()["transition_last"] is not None)
                broken += isinstance(run.fault, Crash)
                assert run.fault is None or isinstance(run.fault, Crash), run.fault
                run.fault = None
        former = now if is_in_force(play, now) else former
        if not is_in_force(play, now) and play.log(now).revisions.phase is None:
            with play.running(former) as run:
                apply(run, now, chosen)
                wait_until_settled(run)
        assert broken or point == "stages.inside", f"{point} is not reached"  # a run goes on without a worker
        play.run(now)
        assert is_in_force(play, now) and play.log(now).revisions.phase is None, point
        kept = joined(kept, messages(play, now))
        check(play, now, kept, ["by_page", "many"], marks_of(play, now)["by_page"]["clicks"])
        former = now
    there = [m.as_input for m in play.read("other")]
    assert not {m.key for m in there} - {m.key for m in there if m.value is None}, "all keys were taken back"


def is_in_force(play: Playground, now: Resolved) -> bool:
    return in_force(play, now).fingerprint_of_files == now.spec.circuit.fingerprint


OTHER = """
CREATE MATERIALIZED VIEW other TBLPROPERTIES ('topic' = '@other', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT customer, count(DISTINCT page) AS pages FROM clicks GROUP BY customer;
"""
SPENT = """
CREATE STREAMING TABLE sales (customer STRING, amount INT) USING kafka TBLPROPERTIES ('subscribe' = '@sales');
CREATE MATERIALIZED VIEW paid TBLPROPERTIES ('topic' = '@paid', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT customer, sum(amount) AS amount FROM sales GROUP BY customer;
"""


# Append outputs


@pytest.mark.long
def test_an_append_output_gets_what_comes_from_the_switch_on(play: Playground) -> None:
    """A row of the former filter would have to be taken back, and then messages have expired, so that nobody knows what the view was."""
    play.topic("clicks", 2)
    play.topic("people")
    for partition in range(2):
        play.send("clicks", clicks(100 * partition, 100), partition)
    before = play.resolve(project(), CONF)
    play.run(before)
    old = messages(play, before)
    expected = Counter[Any](batch_answer(before.project, old)["large"].collect())
    now = play.resolve(project(large=45), CONF)
    chosen = Chosen(append_from_now=("large",))
    with play.running(before) as run:
        apply(run, now, Chosen())
        because = wait_until_it_stands_still(run)["held_because"]
        assert "taken back from append output large" in because and "--append large=from-now" in because
        ask(run, "abort")
        wait_until_settled(run)
        expire(play, "clicks", 40, 1)
        with pytest.raises(TransitionRefused, match=r"40 offsets are missing.*--append large=from-now"):
            apply(run, now, Chosen())
        apply(run, now, chosen)
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["outcome"] == "switched"
        assert run.board.show()["transition_last"]["messages"] == 0
        play.send("clicks", clicks(200, 60), 1)
    play.run(now)
    new = {topic: those for topic, those in messages(play, now).items() if topic.endswith("clicks")}
    new = {topic: [m for m in those if m.partition == 1 and m.offset >= 100] for topic, those in new.items()}
    written = play.read("large")
    view = next(view for view in now.project.views if view.name == "large")
    expected.update(batch_answer(now.project, {**old, **new})["large"].collect())
    assert Counter(published(play.spark, view, [m.as_input for m in written]).collect()) == expected
    check(play, now, joined(old, messages(play, now)), ["by_page", "many"])
    play.check_steps(now)


WINDOWS = """
CREATE STREAMING TABLE ticks (at TIMESTAMP, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@ticks');
CREATE STREAMING TABLE counted TBLPROPERTIES ('topic' = '@counted') AS
  SELECT window.start AS start, count(*) AS c, sum(n) AS n FROM STREAM ticks WATERMARK at DELAY OF INTERVAL {delay} MINUTES
  GROUP BY window(at, '{width} minutes');
"""


def ticks(first: int, end: int) -> list[dict[str, object]]:
    """One for each minute."""
    return [{"at": f"2026-01-01T{i // 60:02}:{i % 60:02}:00Z", "n": i} for i in range(first, end)]


@pytest.mark.long
@pytest.mark.parametrize("workers", sampled([3, 1], 2))
def test_an_append_output_over_event_time_gets_the_windows_that_close_after_the_switch(
    play: Playground, workers: int
) -> None:
    """The windows that are open then have the rows from before it. Those that the filling has closed are not written again."""
    conf = {**CONF, "stepwell.workers": workers}
    play.topic("ticks")
    play.send("ticks", ticks(0, 64))
    before, now = (
        play.resolve({"project.sql": WINDOWS.format(delay=delay, width=width)}, conf)
        for delay, width in ((1, 5), (2, 10))
    )
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["lag"] and not any(shown["lag"].values()))
        with pytest.raises(TransitionRefused, match="--append counted=from-now"):
            apply(run, now, Chosen())
        apply(run, now, Chosen(append_from_now=("counted",)))
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["messages"] == 0
        former = play.read("counted")
        play.send("ticks", ticks(64, 103))
        run.wait_until(lambda shown: shown["lag"] and not any(shown["lag"].values()))
    play.run(now)
    written = [json.loads(m.value or b"") for m in play.read("counted")[len(former) :]]
    assert len(former) == 12, "windows of five minutes up to minute 60"
    found = {row["start"][11:16]: (row["c"], row["n"]) for row in written}
    assert found == {f"{m // 60:02}:{m % 60:02}": (10, sum(range(m, m + 10))) for m in (60, 70, 80, 90)}
    play.check_steps(now)


# Outputs that are taken back

DROPPED = """
CREATE MATERIALIZED VIEW spent TBLPROPERTIES ('topic' = '@spent', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT customer, sum(n) AS n FROM clicks GROUP BY customer;
CREATE STREAMING TABLE small TBLPROPERTIES ('topic' = '@small', 'mode' = 'changelog') AS
  SELECT customer, n FROM STREAM clicks WHERE n < 9;
"""
MOVED = project()["project.sql"].replace("'@many'", "'@many_more'")


@pytest.mark.parametrize("workers", sampled([3, 1], 2))
def test_what_outputs_have_written_is_taken_back(play: Playground, workers: int) -> None:
    """Of a view that is dropped, of one whose rows nothing keeps, and of one that has another topic, while messages come."""
    conf = {**CONF, "stepwell.workers": workers}
    play.topic("clicks", 2)
    play.topic("people")
    play.send("clicks", clicks(0, 120))
    before = play.resolve(project(more=DROPPED), conf)
    play.run(before)
    check(play, before, messages(play, before), ["spent", "small", "many", "by_page"])
    former = {name: views_of(before, name) for name in ("spent", "small", "many")}
    now = play.resolve({"project.sql": MOVED}, conf)
    with play.running(before) as run:
        with pytest.raises(TransitionRefused, match=r"--retract nothing.*no output that is dropped.*many, .*small"):
            apply(run, now, Chosen(retract=("nothing",)))
        with pytest.raises(TransitionRefused, match=r"--retract large: the project still writes this output"):
            apply(run, now, Chosen(retract=("large",)))
        play.send("clicks", clicks(120, 200), 1)
        apply(run, now, Chosen(retract=("many", "small", play.prefix + "spent")), hold=True)
        play.send("clicks", clicks(320, 60))
        gone = {each["view"]: each["gone"] for each in wait_until_it_stands_still(run)["differences"]}
        assert gone.keys() == {"many", "small", "spent"} and all(gone.values())
        ask(run, "switch")
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["outcome"] == "switched"
        play.send("clicks", clicks(380, 60))
    play.run(now)
    play.check(now)
    for name, view in former.items():
        written = [m.as_input for m in play.read(view.output.topic, prefixed=False)]
        assert not published(play.spark, view, written).collect(), name
    play.check_steps(replace(now, spec=replace(now.spec, outputs=(*before.spec.outputs, *now.spec.outputs))))


def views_of(resolved: Resolved, name: str) -> Any:
    return next(view for view in resolved.project.views if view.name == name)


WIDE = STREAM.replace("people (customer STRING, country STRING)", "people (customer STRING, country STRING, {columns})")
CITIES = """
CREATE MATERIALIZED VIEW by_city TBLPROPERTIES ('topic' = '@by_city', 'mode' = 'upsert', 'key' = 'city') AS
  SELECT city, count(*) AS c, max(country) AS country FROM people GROUP BY city;
"""
BY_COUNTRY_OF_PEOPLE = """
CREATE MATERIALIZED VIEW countries TBLPROPERTIES ('topic' = '@countries', 'mode' = 'upsert', 'key' = 'country') AS
  SELECT country, count(*) AS c FROM people GROUP BY country;
"""


def wide(columns: str, more: str) -> dict[str, str]:
    return {"project.sql": WIDE.format(columns=columns, **{**BEFORE, "more": more})}


def citizens(first: int, count: int, city: str) -> list[tuple[str, str]]:
    return [
        (
            f'{{"customer": "c{i}"}}',
            f'{{"customer": "c{i}", "country": "{"AB"[i % 2]}", "city": "{city}{i % 3}", "zip": {i}}}',
        )
        for i in range(first, first + count)
    ]


def without(kept: Kept, topic: str, column: str, before: int) -> Kept:
    """What counts if a table got this column when its topic had so many messages."""

    def blank(message: TopicMessage) -> TopicMessage:
        if message.value is None or message.offset >= before:
            return message
        plain = {name: value for name, value in json.loads(message.value).items() if name != column}
        return message._replace(value=json.dumps(plain).encode())

    return {**kept, topic: [blank(message) for message in kept[topic]]}


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_a_table_gets_a_column_whose_messages_have_expired(play: Playground, workers: int) -> None:
    """Its rows have NULL there until their key has a message. Nothing else is rebuilt, and a later column needs the choice again."""
    conf = {**CONF, "stepwell.workers": workers}
    play.topic("clicks", 1)
    play.topic("people", 1)
    people_of, chosen = f"{play.prefix}people", Chosen(from_now=("people",))
    play.send("people", citizens(0, 30, "x"))
    before = play.resolve(project(more=BY_COUNTRY_OF_PEOPLE), conf)
    play.run(before)
    kept = messages(play, before)
    expire(play, "people", 10)
    now = play.resolve(wide("city STRING", BY_COUNTRY_OF_PEOPLE + CITIES), conf)
    with play.running(before) as run:
        with pytest.raises(
            TransitionRefused, match=r"10 offsets are missing.*--from-now people.*have NULL in the columns"
        ):
            apply(run, now, Chosen())
        apply(run, now, chosen)
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["messages"] == 1, "one city, which is null"
        play.send("people", [*citizens(3, 9, "y"), ('{"customer": "c1"}', None), *citizens(40, 5, "z")])
    play.run(now)
    kept = joined(kept, messages(play, now))
    kept = without(kept, people_of, "city", 30)
    check(play, now, kept, ["countries", "by_city"])
    zips = CITIES.replace("city", "zip")
    later = play.resolve(wide("city STRING, zip INT", BY_COUNTRY_OF_PEOPLE + CITIES + zips), conf)
    with pytest.raises(TransitionRefused, match="the rows of its table have NULL in city since --from-now"):
        play.run(later, on_change="apply")
    play.run(later, on_change="apply", chosen=chosen)
    play.send("people", citizens(10, 15, "w"))
    play.run(later)
    kept = without(joined(kept, messages(play, later)), people_of, "city", 30)
    check(play, later, without(kept, people_of, "zip", 45), ["countries", "by_city", "by_zip"])
    play.check_steps(later)
