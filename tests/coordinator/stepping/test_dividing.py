"""Steps over a backlog that a query with event time reads are cut by the time of the messages."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from coordinator.specification import InputTopic
from coordinator.stepping import dividing as dividing_module
from coordinator.stepping.dividing import Dividing, groups_of_topics
from coordinator.stepping.time_relation import TRIALS_MAX, TimeRelation
from engine.model.circuit import Circuit, Node
from engine.model.event_time import WATERMARK_TYPES, LatestTime, Watermark
from engine.model.rows import Source
from engine.run.source_table import SourceTable
from io_kafka.clients.time_bound import TimeBound, count
from io_kafka.formats.spec import SourceFormat
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.division import Division, StepLimits
from tests.io_kafka.backlogs import MINUTE_MS, Times, offsets_since, uneven

TIME = (pa.timestamp("us"),)
LIMITS = StepLimits(rows_max=200)
WATERMARK = 2
"""The node of the only query of `circuit`."""
EPOCH_MS = 1_700_000_000_000
"""Event times are long after 1970. A watermark of before says nothing."""


@pytest.fixture(autouse=True)
def trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of a backlog are small at first, also where they have few rows."""
    monkeypatch.setattr(dividing_module, "TRIAL_ROWS_MIN", 1)


def source(name: str, *topics: str) -> InputTopic:
    return InputTopic(SourceTable(name, topics, SourceFormat(name, pa.schema([]), "append")), "earliest", "fail", None)


def circuit(*queries: Sequence[str], delay_ms: int = 0) -> Circuit:
    """`queries`: the sources that each of them reads with a watermark."""
    nodes: list[Node] = []
    for handles in queries:
        latest = []
        for handle in handles:
            nodes.append(Source((), TIME, handle))
            nodes.append(LatestTime((len(nodes) - 1,), (pa.int64(),), 0))
            latest.append(len(nodes) - 1)
        nodes.append(Watermark(tuple(latest), WATERMARK_TYPES, (delay_ms,) * len(latest)))
    return Circuit(tuple(nodes))


def dividing(times: Times, queries: Circuit, *inputs: InputTopic) -> Dividing:
    return Dividing(queries, inputs, {}, LIMITS, offsets_since(times))


def ends_of(times: Times) -> dict[TopicPartition, int]:
    return {where: len(those) for where, those in times.items()}


def all_divided(made: Dividing, times: Times, events: Times | None = None, delay_ms: int = 0) -> list[Division]:
    """`events`: the event times of the messages, if they differ from their timestamps. The watermark of each step is told after it."""
    positions, divisions, latest = dict.fromkeys(times, 0), list[Division](), 0
    while (division := made.divide(len(divisions), positions, ends_of(times), LIMITS)) is not None:
        division.check()
        assert division.rows <= LIMITS.rows
        divisions.append(division)
        positions = division.ends
        latest = max([latest, *(at for r in division.ranges for at in (events or times)[r.where][r.start : r.end])])
        made.note_watermarks(division.step, {WATERMARK: 1000 * (EPOCH_MS + latest - delay_ms)})
        if len(divisions) > TRIALS_MAX:
            assert made.is_full(division, LIMITS) or division.ends == ends_of(times), "what was cut has a successor"
    assert positions == ends_of(times)
    return divisions


def late_rows(divisions: Sequence[Division], times: Times, delay_ms: int) -> int:
    """How many rows a watermark with this delay leaves out, if the messages have their event times as timestamps."""
    watermark, late = 0, 0
    for division in divisions:
        read = [at for r in division.ranges for at in times[r.where][r.start : r.end]]
        late += sum(at <= watermark for at in read)
        watermark = max([watermark, *(at - delay_ms for at in read)])
    return late


def test_no_row_of_an_uneven_backlog_is_late() -> None:
    times = uneven(random.Random(1))
    by_time = all_divided(dividing(times, circuit(["t"]), source("t", "in")), times)
    assert late_rows(by_time, times, 10 * MINUTE_MS) == 0
    most = TRIALS_MAX + 2 * sum(map(len, times.values())) / LIMITS.rows
    assert len(by_time) <= most, "but for the first few, steps have half of their rows at least"
    fairly = all_divided(dividing(times, Circuit(()), source("t", "in")), times)
    assert late_rows(fairly, times, 10 * MINUTE_MS) > 1000, "otherwise this test shows nothing"


def test_a_step_that_has_room_for_all_asks_for_no_time() -> None:
    times = {TopicPartition("in", 0): [5], TopicPartition("in", 1): [1]}

    def never(partitions: Sequence[TopicPartition], milliseconds: int) -> Mapping[TopicPartition, int | None]:
        raise AssertionError("a live step needs no time")

    made = Dividing(circuit(["t"]), [source("t", "in")], {}, LIMITS, never)
    division = made.divide(0, dict.fromkeys(times, 0), ends_of(times), LIMITS)
    assert division is not None and division.ends == ends_of(times) and not made.is_full(division, LIMITS)


def test_a_topic_that_no_query_reads_together_with_a_backlog_does_not_wait_for_it() -> None:
    backlog, live, plain = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("c", 0)
    times = {backlog: list(range(1000)), live: [10**6] * 5, plain: [10**6] * 5}
    inputs = [source("a", "a"), source("b", "b"), source("c", "c")]
    apart = dividing(times, circuit(["a"], ["b"]), *inputs).divide(0, dict.fromkeys(times, 0), ends_of(times), LIMITS)
    assert apart is not None and apart.ends[live] == apart.ends[plain] == 5
    assert 0 < apart.ends[backlog] <= 190 // 8
    joined = dividing(times, circuit(["a", "b"]), *inputs).divide(0, dict.fromkeys(times, 0), ends_of(times), LIMITS)
    assert joined is not None and (joined.ends[live], joined.ends[plain]) == (0, 5)


@pytest.mark.parametrize(
    ("queries", "groups"),
    [
        ([["a"], ["b"]], [{"a1", "a2"}, {"b"}]),
        ([["a", "b"]], [{"a1", "a2", "b"}]),
        ([["a", "b"], ["c"], ["b", "c"]], [{"a1", "a2", "b", "c"}]),
        ([["a"], ["same"]], [{"a1", "a2"}]),
        ([["of a table"]], []),
        ([], []),
    ],
)
def test_topics_are_together_if_a_query_reads_both(queries: list[list[str]], groups: list[set[str]]) -> None:
    inputs = [source("a", "a1", "a2"), source("b", "b"), source("c", "c"), source("same", "a2")]
    assert [set(group.topics) for group in groups_of_topics(circuit(*queries), inputs)] == groups


def test_the_watermark_below_a_join_has_its_source_alone() -> None:
    """What is joined beside it, without a time of its own, is not read by time."""
    nodes = (
        Source((), TIME, "a"),
        Source((), TIME, "b"),
        LatestTime((0,), (pa.int64(),), 0),
        Watermark((2,), WATERMARK_TYPES, (0,)),
    )
    (group,) = groups_of_topics(Circuit(nodes), [source("a", "a"), source("b", "b")])
    assert group.topics == {"a"}


def test_messages_that_are_earlier_than_the_last_cut_are_read_by_their_time_too() -> None:
    """A partition that was added has old messages, or the step of the last cut was divided again."""
    first, second = TopicPartition("in", 0), TopicPartition("in", 1)
    times = {first: list(range(10_000, 11_000)), second: list[int]()}
    bound = TimeBound(offsets_since(times))
    starts = bound.find_ends(dict.fromkeys(times, 0), ends_of(times), 100)
    assert starts[first] >= 50
    times[second] = list(range(0, 2000, 2))
    now = bound.find_ends(starts, ends_of(times), 100)
    assert now[first] == starts[first] and 50 <= now[second] <= 100
    late = {first: 0, second: 900}
    assert count(late, bound.find_ends(late, ends_of(times), 2000)) == 1100


def test_a_burst_of_one_time_costs_few_questions() -> None:
    asked = 0
    where, other = TopicPartition("in", 0), TopicPartition("in", 1)
    times = {where: [7] * 3000, other: [7] * 300}

    def counting(partitions: Sequence[TopicPartition], milliseconds: int) -> Mapping[TopicPartition, int | None]:
        nonlocal asked
        asked += 1
        return offsets_since(times)(partitions, milliseconds)

    bound, at = TimeBound(counting), dict.fromkeys(times, 0)
    at = bound.find_ends(at, ends_of(times), 100)
    assert at == {where: 90, other: 9}, "in proportion"
    asked = 0
    at = bound.find_ends(at, ends_of(times), 100)
    assert asked <= 2 and at == {where: 180, other: 18}


def test_ranges_keep_their_order() -> None:
    times = {TopicPartition("in", 1): [2] * 300, TopicPartition("in", 0): [1] * 300}
    division = dividing(times, circuit(["t"]), source("t", "in")).divide(
        4, dict.fromkeys(times, 0), ends_of(times), LIMITS
    )
    assert division is not None and division.step == 4
    assert division.ranges == (OffsetRange("in", 0, 0, 25), OffsetRange("in", 1, 0, 0))


@pytest.mark.parametrize(("delay_ms", "is_even"), [(0, False), (600, False), (3000, True), (10**9, True)])
def test_what_was_written_within_the_delay_is_read_in_proportion(delay_ms: int, is_even: bool) -> None:
    """As a topic that was loaded just now, one partition after the other."""
    first, second = TopicPartition("in", 0), TopicPartition("in", 1)
    times = {first: list(range(5000, 5300)), second: list(range(5300, 5601))}
    made = dividing(times, circuit(["t"], delay_ms=delay_ms), source("t", "in"))
    division = made.divide(0, dict.fromkeys(times, 0), ends_of(times), LIMITS)
    assert division is not None and (division.ends[second] > 0) == is_even
    made = dividing(times, circuit(["t"], delay_ms=delay_ms), source("t", "in"))
    assert len(all_divided(made, times, delay_ms=delay_ms)) < 12


@pytest.mark.parametrize("minutes_of_loading", [0, 2, 20, 500])
def test_a_history_that_was_loaded_later_is_read_evenly(minutes_of_loading: int) -> None:
    """One partition after the other, longer than the delay: the timestamps are those of the loading, and event time runs away from them."""
    places, count_ = [TopicPartition("in", n) for n in range(4)], 1000
    days_ms, delay_ms = 10 * 24 * 60 * MINUTE_MS, 10 * MINUTE_MS
    span_ms = minutes_of_loading * MINUTE_MS
    events = {p: [days_ms * n // count_ for n in range(count_)] for p in places}
    times = {
        p: [10**12 + span_ms * (place * count_ + n) // count_ for n in range(count_)] for place, p in enumerate(places)
    }
    made = dividing(times, circuit(["t"], delay_ms=delay_ms), source("t", "in"))
    divisions = all_divided(made, times, events, delay_ms)
    late = late_rows(divisions, events, delay_ms)
    assert late <= 4 * LIMITS.rows // 8 * 3, "of the first few small steps alone"


def test_a_watermark_that_goes_on_without_an_idle_input_says_nothing_of_timestamps() -> None:
    """It was held back by days, and moves by them in the step of one cut."""
    for jumped in (False, True):
        relation = TimeRelation(0)
        relation.note(EPOCH_MS, EPOCH_MS - 10**9)
        if jumped:
            relation.begin_again()
        relation.note(EPOCH_MS + 1000, EPOCH_MS)
        relation.note(EPOCH_MS + 2000, EPOCH_MS + 1000)
        assert relation.differs == (not jumped) and relation.is_known


def test_the_step_in_which_a_watermark_jumps_is_compared_with_none_before() -> None:
    times = uneven(random.Random(1))
    for jumped in (False, True):
        made, positions = dividing(times, circuit(["t"]), source("t", "in")), dict.fromkeys(times, 0)
        for step, watermark_ms in enumerate([1, EPOCH_MS, EPOCH_MS + 1]):
            division = made.divide(step, positions, ends_of(times), LIMITS)
            assert division is not None
            positions = division.ends
            made.note_watermarks(step, {WATERMARK: 1000 * watermark_ms}, jumped=jumped and step == 1)
        (group,) = made._groups
        assert group._differs == (not jumped)


def test_one_partition_that_is_left_is_read_without_a_question() -> None:
    times = {TopicPartition("in", 0): list(range(1000)), TopicPartition("in", 1): list[int]()}

    def never(partitions: Sequence[TopicPartition], milliseconds: int) -> Mapping[TopicPartition, int | None]:
        raise AssertionError("no order can be wrong")

    assert TimeBound(never).find_ends(dict.fromkeys(times, 0), ends_of(times), 100) == {
        TopicPartition("in", 0): 100, TopicPartition("in", 1): 0,
    }  # fmt: skip


def test_a_partition_with_impossible_times_has_its_part() -> None:
    """They are microseconds in place of milliseconds."""
    wrong, right = TopicPartition("in", 0), TopicPartition("in", 1)
    times = {wrong: [10**15 + n for n in range(1000)], right: [10**12 + n for n in range(1000)]}
    bound, at = TimeBound(offsets_since(times)), dict.fromkeys(times, 0)
    for _ in range(4):
        at = bound.find_ends(at, ends_of(times), 100)
    assert 100 <= at[wrong] <= at[right] + 100 and count(dict.fromkeys(times, 0), at) <= 400
