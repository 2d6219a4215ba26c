"""Where the next division starts: at the log's position, or else where this run found the partition to begin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from coordinator.goal import Goal
from coordinator.specification import InputTopic, Pace, PipelineSpec
from coordinator.starting.errors import TopicChanged
from coordinator.status import StatusBoard
from coordinator.stepping import new_nodes
from coordinator.stepping.clock import ClockReading
from coordinator.stepping.dividing import Dividing
from coordinator.stepping.idle import IdleInputs
from coordinator.stepping.input_topics import InputTopics
from coordinator.stepping.inputs import Inputs
from coordinator.stepping.new_nodes import NewNodes
from coordinator.stepping.offsets import (
    as_large_as_known,
    empty_division,
    ends_of_run,
    of_announced_partitions,
    offsets_after,
    with_partitions,
)
from coordinator.stepping.views_in_error import Counting
from coordinator.transition.draining import DrainPortions
from coordinator.transition.portions import Portions
from engine.model.circuit import Circuit, Node
from engine.model.event_time import WATERMARK_TYPES, LatestTime, Watermark
from engine.model.filling import HASHES
from engine.model.numbers import NumberedCircuit
from engine.model.rows import Source
from engine.run.source_table import SourceTable
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import TopicFacts, Topics
from io_kafka.errors import OffsetGone
from io_kafka.formats.spec import SourceFormat
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.division import Division, StepLimits
from io_kafka.step_log.records import Claim, NodeErrors, StepRecord, TopicIdentity
from io_kafka.step_log.revision_records import Drain
from tests.io_kafka.growing import GrowingLog
from tests.io_kafka.test_revision_rules import GRADUAL, SWITCHED, SWITCHING
from tests.io_kafka.test_step_log import folded, step
from tests.io_kafka.transitions import fills, switches

IN0, IN1, IN2 = (TopicPartition("in", number) for number in range(3))
OTHER0 = TopicPartition("other", 0)


def identity(topic: str, partitions: int, topic_id: str = "i") -> TopicIdentity:
    return TopicIdentity(topic=topic, id=topic_id, partitions=partitions)


# The pure parts


def test_positions_in_the_log_override_the_starts() -> None:
    assert offsets_after({IN0: 3, IN1: 4}, {IN0: 7, IN2: 9}) == {IN0: 7, IN1: 4}


def test_partitions_that_are_not_announced_are_left_out() -> None:
    found = {IN0: 3, IN1: 4, IN2: 0}
    assert of_announced_partitions(found, [identity("in", 2), identity("out", 9)]) == {IN0: 3, IN1: 4}


def test_only_input_topics_may_grow() -> None:
    known = (identity("in", 1), identity("out", 2))
    assert with_partitions(known, {"in": 3, "out": 5}, {"in"}) == (identity("in", 3), identity("out", 2))


def test_available_now_reads_no_further_than_the_start() -> None:
    assert ends_of_run({IN0: 5, IN1: 8}, {IN0: 3, IN1: 8}, {}) == {IN0: 5, IN1: 8}
    assert ends_of_run({IN0: 9, IN1: 9, IN2: 4}, {IN0: 3, IN1: 7, IN2: 0}, {IN0: 5, IN1: 6}) == {IN0: 5, IN1: 7, IN2: 4}


@pytest.mark.parametrize("former", [{}, {IN0: 8}, {IN0: 4}])
def test_the_end_of_a_partition_that_is_shorter_than_its_start_is_not_hidden(former: dict[TopicPartition, int]) -> None:
    assert ends_of_run({IN0: 4}, {IN0: 8}, former) == {IN0: 4}


def test_the_first_division_may_be_empty() -> None:
    empty = empty_division(0, {IN1: 4, IN0: 3})
    empty.check()
    assert empty == Division(0, (OffsetRange("in", 0, 3, 3), OffsetRange("in", 1, 4, 4)))


# One run's view


@dataclass
class Clock:
    now: float = 0.0


@dataclass
class Cluster:
    """Topics that hold messages from offset 0 to their ends, one in each millisecond since 1970."""

    ends: dict[TopicPartition, int]
    topic_id: str = "i"
    asked: int = field(default=0)
    begins_asked: int = field(default=0)

    def begin_offsets(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        self.begins_asked += 1
        return dict.fromkeys(self.end_offsets(topics), 0)

    def end_offsets(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        names = set(topics)
        return {place: end for place, end in self.ends.items() if place.topic in names}

    def high_watermarks(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        return self.end_offsets(topics)

    def end_offsets_of(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked += 1
        return {place: self.ends[place] for place in places}

    def offsets_since(self, places: Iterable[TopicPartition], milliseconds: int) -> dict[TopicPartition, int | None]:
        return {place: milliseconds if milliseconds < self.ends[place] else None for place in places}

    def describe(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        return {name: TopicFacts(name, self.topic_id, len(self.end_offsets([name])), {}) for name in names}


def append_only(handle: str, topic: str, starting: str) -> InputTopic:
    return InputTopic(
        SourceTable(handle, (topic,), SourceFormat(handle, pa.schema([]), "append")), starting, "fail", None
    )


def joined(handles: Sequence[str]) -> Circuit:
    """A query with a watermark over each of these sources."""
    nodes: list[Node] = [Source((), (pa.timestamp("us"),), handle) for handle in handles]
    nodes += [LatestTime((number,), (pa.int64(),), 0) for number in range(len(handles))]
    latest = tuple(range(len(handles), len(nodes)))
    return Circuit((*nodes, Watermark(latest, WATERMARK_TYPES, (0,) * len(handles))))


def spec(clock: Clock, rows: int, starting: str = "earliest", idle_after_s: float | None = None) -> PipelineSpec:
    """With `idle_after_s` there is a second input, and a query with a watermark over both."""
    handles = {"t": "in"} if idle_after_s is None else {"t": "in", "other": "other"}
    outside = SimpleNamespace(monotonic=lambda: clock.now, wall_clock=lambda: clock.now)
    return PipelineSpec(
        name="p",
        storage=Path(),
        circuit=Circuit(()) if idle_after_s is None else joined(list(handles)),
        inputs=tuple(append_only(handle, topic, starting) for handle, topic in handles.items()),
        outputs=(),
        kafka=KafkaSettings((("bootstrap.servers", "nowhere"),), cast(Any, outside)),
        limits=StepLimits(rows_max=rows),
        idle_after_s=idle_after_s,
        pace=Pace(growth_seconds=10.0),
    )


class Log(GrowingLog):
    def __init__(self) -> None:
        super().__init__("log")
        self.append(Claim(epoch=0, pipeline="p", run_id="r", host="h", pid=1))

    def write(self, step: int) -> None:
        self.append(StepRecord(epoch=0, step=step, outputs=(), encoder="e"))


@dataclass
class Run:
    ends: Mapping[TopicPartition, int]
    rows: int = 4
    goal: Goal = Goal.SERVE
    starting: str = "earliest"
    idle_after_s: float | None = None

    def __post_init__(self) -> None:
        self.clock, self.cluster, self.log = Clock(), Cluster(dict(self.ends)), Log()
        self.board = StatusBoard("p")
        self.inputs = self.begun()

    def begun(self, former: Inputs | None = None, before: NumberedCircuit | None = None) -> Inputs:
        counts = Counter(place.topic for place in self.ends)
        found = tuple(identity(topic, partitions) for topic, partitions in counts.items())
        given = spec(self.clock, self.rows, self.starting, self.idle_after_s)
        plan = NumberedCircuit(given.circuit, tuple(range(len(given.circuit.nodes))))
        topics = InputTopics(
            given,
            cast(Topics, self.cluster),
            self.board,
            found,
            self.log,
            goal=self.goal,
            former=None if former is None else former.topics,
        )
        given_to_new = NewNodes(plan, Portions(HASHES, drained=DrainPortions(1)), before=before)
        return Inputs(given, plan, topics, given_to_new, self.log, board=self.board, former=former)

    def divide(self, division: Division | None) -> Division:
        assert division is not None
        self.log.append(self.inputs.record(self.log, 0, division, is_drained=True))
        self.inputs.topics.note_announced()
        return division


def test_divisions_follow_each_other_by_what_the_log_says() -> None:
    run = Run({IN0: 6})
    assert run.divide(run.inputs.choose(run.log, 0)).ranges == (OffsetRange("in", 0, 0, 4),)
    assert run.board.show()["lag"] == {"in/0": 6}
    assert run.divide(run.inputs.choose(run.log, 1)).ranges == (OffsetRange("in", 0, 4, 6),)
    assert run.inputs.choose(run.log, 2) is None
    run.cluster.ends[IN0] = 7
    assert run.begun().choose(run.log, 2) == Division(2, (OffsetRange("in", 0, 6, 7),)), "another run goes on there"


def test_the_topics_are_named_once_in_a_run() -> None:
    run = Run({IN0: 9})
    for _ in range(2):  # a record that was not committed did not announce them
        division = run.inputs.choose(run.log, 0)
        assert division is not None and run.inputs.record(run.log, 0, division, is_drained=True).topics == (
            identity("in", 1),
        )
    run.divide(division)
    division = run.inputs.choose(run.log, 1)
    assert division is not None and run.inputs.record(run.log, 0, division, is_drained=True).topics == ()


def test_nothing_is_divided_ahead_where_outputs_are_to_be_released_and_a_release_needs_no_input() -> None:
    run = Run({IN0: 19})
    given = run.divide(run.inputs.choose(run.log, 0))
    before = run.log.divisions[given.step]
    run.log.append(before.with_counted(0, (3,), frozenset()))
    assert run.inputs.choose_ahead(run.log, 0, ()) == []
    in_error = NodeErrors(node=3, since=0, rows=1, checksum="1", example="")
    assert len(run.inputs.choose_ahead(run.log, 0, (in_error,))) == 2
    run.cluster.ends[IN0] = 4
    assert run.inputs.choose_or_empty(run.log, 1) == empty_division(1, {IN0: 4})
    vars(run.log)["errors"] = (in_error,)
    assert run.inputs.choose_or_empty(run.log, 1) is None


def test_a_step_without_input_comes_when_a_border_is_reached() -> None:
    run = Run({IN0: 3})
    run.inputs.clock.reading = ClockReading(is_read=True)
    run.clock.now = 10.4
    run.divide(run.inputs.choose_or_empty(run.log, 0))
    assert run.log.divisions[0].clock_us == 10_000_000
    run.inputs.clock.note(10_000_000, 12_000_000, is_whole=True)
    run.clock.now = 11.9
    assert run.inputs.choose_or_empty(run.log, 1) is None
    run.clock.now = 12.0
    assert run.divide(run.inputs.choose_or_empty(run.log, 1)) == empty_division(1, {IN0: 3})
    assert run.log.divisions[1].clock_us == 12_000_000
    assert run.inputs.choose_or_empty(run.log, 2) is None


def test_a_step_without_input_comes_once_when_an_input_has_become_idle() -> None:
    run = Run({IN0: 3, OTHER0: 2}, rows=9, idle_after_s=10.0)
    run.divide(run.inputs.choose_or_empty(run.log, 0))
    run.log.write(0)
    for now in (2.0, 4.0, 6.0):
        run.clock.now = now
        assert run.inputs.choose_or_empty(run.log, 1) is None
    run.cluster.ends[IN0] = 4
    run.divide(run.inputs.choose_or_empty(run.log, 1))
    run.clock.now = 9.9
    assert run.inputs.choose_or_empty(run.log, 2) is None
    run.clock.now = 10.0
    assert run.divide(run.inputs.choose_or_empty(run.log, 2)) == empty_division(2, {IN0: 4, OTHER0: 2})
    assert [run.log.divisions[step].idle for step in range(3)] == [(), (), ("other",)]
    run.clock.now = 14.0
    assert run.inputs.choose_or_empty(run.log, 3) is None
    run.clock.now = 18.0
    assert run.inputs.choose_or_empty(run.log, 3) is None, "both are silent, and the watermark stays"


def test_idle_inputs_are_shown_and_the_step_that_first_leaves_one_out_makes_a_watermark_jump(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run({IN0: 1, OTHER0: 1}, idle_after_s=10.0)
    jumps: list[bool] = []
    monkeypatch.setattr(Dividing, "note_watermarks", lambda *_, jumped: jumps.append(jumped))
    record = run.inputs.record(run.log, 0, empty_division(0, {}), is_drained=True)
    for idle in ((), ("other",), ("other",), ("other", "t"), ("t",), ()):
        run.inputs.note_watermarks(record.model_copy(update={"idle": idle}), {})
        assert run.board.show()["idle"] == list(idle)
    assert jumps == [False, True, False, True, False, False]


def test_an_input_of_which_rows_wait_is_not_idle() -> None:
    for waiting, last in ((0, ("other",)), (99, ())):
        run = Run({IN0: 9, OTHER0: waiting}, idle_after_s=10.0)
        for number in range(3):
            run.clock.now = 5.0 * number
            run.divide(run.inputs.choose(run.log, number))
            run.log.write(number)
        assert [run.log.divisions[number].idle for number in range(3)] == [(), (), last]


def test_an_input_stays_idle_over_a_restart_and_the_silence_of_others_over_a_recovery() -> None:
    run = Run({IN0: 1, OTHER0: 1}, idle_after_s=10.0)
    first = run.inputs.choose(run.log, 0)
    assert first is not None
    record = run.inputs.record(run.log, 0, first, is_drained=True).model_copy(update={"idle": ("other",)})
    run.log.append(record)
    run.inputs = run.begun()
    run.cluster.ends[IN0] = 2
    run.divide(run.inputs.choose(run.log, 1))
    assert run.log.divisions[1].idle == ("other",), "of the last division"
    run.clock.now = 5.0
    assert run.inputs.choose(run.log, 2) is None
    recovered = run.begun(former=run.inputs)
    run.clock.now, run.cluster.ends[OTHER0] = 10.0, 2
    division = recovered.choose(run.log, 2)
    assert division is not None and recovered.record(run.log, 0, division, is_drained=True).idle == ("t",)


def test_the_step_of_a_switch_reads_nothing_but_what_it_begins_to_read() -> None:
    """It is a pause for all that arrives. A topic that is read for the first time may fail, and then the former project is to go on."""
    state = folded(*SWITCHING)
    step = state.division_next
    for ends, empty in (({IN0: 9}, True), ({IN0: 9, IN1: 9}, False)):
        run = Run(ends)
        run.log = cast(Log, state)
        run.inputs = run.begun()
        division = run.inputs.choose_or_empty(state, step)
        assert division is not None and (division.rows == 0) == empty
        division = run.inputs.choose_or_empty(folded(*SWITCHED), step + 1)
        assert division is not None and division.rows, "the step after it reads what waits"


def test_another_program_goes_on_without_a_question_to_the_broker() -> None:
    """It would be part of the pause in which the project changes. A partition that no division names yet has to be asked for."""
    run = Run({IN0: 9, IN1: 9})
    run.divide(run.inputs.choose(run.log, 0))
    run.log.write(0)
    asked = run.cluster.begins_asked
    program = run.begun(former=run.inputs)
    assert run.cluster.begins_asked == asked
    assert program.choose(run.log, 1) == run.inputs.choose(run.log, 1)
    run.ends = {**run.ends, IN2: 5}
    run.cluster.ends = dict(run.ends)
    division = run.begun(former=run.inputs).choose(run.log, 1)
    assert run.cluster.begins_asked == asked + 1
    assert division is not None and {each.where.partition for each in division.ranges} == {0, 1, 2}


def test_no_input_is_idle_while_new_nodes_are_filled() -> None:
    run = Run({IN0: 0, OTHER0: 0}, idle_after_s=10.0)
    state = folded(*GRADUAL)
    assert state.revisions.passage_that_fills(state.division_next) is not None
    run.inputs._idle = IdleInputs({0: (frozenset({"t"}), frozenset({"other"}))}, 10.0, ["other"])
    assert run.inputs._idle.is_due(())
    empty = empty_division(state.division_next, {})
    assert run.inputs.record(state, 0, empty, is_drained=True).idle == ()
    assert not run.inputs._is_idleness_due(state, state.division_next)


def test_whole_steps_are_divided_ahead_and_less_is_not() -> None:
    run = Run({IN0: 19})
    run.divide(run.inputs.choose(run.log, 0))
    ahead = run.inputs.choose_ahead(run.log, 0, ())
    assert ahead == [Division(1, (OffsetRange("in", 0, 4, 8),)), Division(2, (OffsetRange("in", 0, 8, 12),))]
    run.log.write(0)
    for division in ahead:
        run.divide(division)
    ahead = run.inputs.choose_ahead(run.log, 1, ())
    assert ahead == [Division(3, (OffsetRange("in", 0, 12, 16),))], "one of two is there already"
    run.log.write(1)
    run.divide(ahead[0])
    assert run.inputs.choose_ahead(run.log, 1, ()) == [], "both are there"
    assert run.inputs.choose_ahead(run.log, 2, ()) == [], "three messages are less than a step"
    run.log.write(2)
    run.log.write(3)
    run.divide(run.inputs.choose(run.log, 4))
    before = run.cluster.asked
    assert run.inputs.choose_ahead(run.log, 4, ()) == []
    assert run.cluster.asked == before, "after less than a whole step there was no backlog, and nobody is asked"


def test_after_less_than_two_steps_one_is_divided_ahead() -> None:
    run = Run({IN0: 11})
    run.divide(run.inputs.choose(run.log, 0))
    assert run.inputs.choose_ahead(run.log, 0, ()) == [Division(1, (OffsetRange("in", 0, 4, 8),))]


def test_available_now_ignores_later_messages() -> None:
    run = Run({IN0: 3}, goal=Goal.READ_AVAILABLE)
    run.cluster.ends[IN0] = 9
    assert run.inputs.topics.ends_now
    assert run.divide(run.inputs.choose(run.log, 0)).ends == {IN0: 3}
    assert run.inputs.choose(run.log, 1) is None


@pytest.mark.parametrize("goal", [Goal.SERVE, Goal.READ_AVAILABLE])
def test_a_partition_that_has_lost_its_tail_is_refused_whatever_the_goal(goal: Goal) -> None:
    """Otherwise a run would record nothing, and the messages that arrive below the position would never be read."""
    run = Run({IN0: 8, IN1: 8}, rows=16, goal=goal)
    run.divide(run.inputs.choose(run.log, 0))
    run.log.write(0)
    run.cluster.ends = {IN0: 4, IN1: 9}
    with pytest.raises(OffsetGone, match=r"'in' partition 0: offset 8 does not exist.*\[0, 4\).*shorter than recorded"):
        run.begun().choose_or_empty(run.log, 1)


def test_what_a_run_with_an_end_knows_of_its_ends_outlives_another_program() -> None:
    run = Run({IN0: 3}, goal=Goal.READ_AVAILABLE)
    run.cluster.ends[IN0] = 9
    run.inputs = run.begun(former=run.inputs)
    assert run.divide(run.inputs.choose(run.log, 0)).ends == {IN0: 3}
    run.log.write(0)
    assert run.begun(former=run.inputs).choose(run.log, 1) is None


def test_an_added_partition_is_read_from_its_first_offset_and_announced() -> None:
    run = Run({IN0: 3})
    run.divide(run.inputs.choose(run.log, 0))
    run.log.write(0)
    run.cluster.ends[IN1] = 2
    assert run.inputs.choose(run.log, 1) is None, "nobody looks yet"
    run.clock.now = 10.1
    division = run.divide(run.inputs.choose(run.log, 1))
    assert division.ranges == (OffsetRange("in", 0, 3, 3), OffsetRange("in", 1, 0, 2))
    assert run.log.topics == {"in": identity("in", 2)} and run.log.grown == {"in"}


def test_a_topic_that_is_recreated_during_a_run_is_an_error() -> None:
    run = Run({IN0: 3})
    run.cluster.topic_id, run.clock.now = "another", 10.1
    with pytest.raises(TopicChanged, match="topic in was deleted and created again"):
        run.inputs.choose(run.log, 0)


@pytest.mark.parametrize("starting", ["latest", '{"in": {"0": 3, "1": -1}}'])
def test_a_source_that_begins_at_the_end_has_a_first_division_without_input(starting: str) -> None:
    """The log remembers where the end was, so that a restart before any message loses none."""
    run = Run({IN0: 3, IN1: 9}, starting=starting)
    first = run.divide(run.inputs.choose_or_empty(run.log, 0))
    assert first == Division(0, (OffsetRange("in", 0, 3, 3), OffsetRange("in", 1, 9, 9)))
    run.log.write(0)
    run.cluster.ends[IN1] = 11
    run.inputs = run.begun()
    assert run.divide(run.inputs.choose_or_empty(run.log, 1)).ranges[1] == OffsetRange("in", 1, 9, 11)


def test_an_input_topic_has_as_many_partitions_as_a_division_has_named() -> None:
    """It has grown since the run has looked at it, and workers were lost then. Output topics keep theirs."""
    found = tuple(TopicIdentity(topic=name, id=f"id {name}", partitions=2) for name in ("in", "new", "out"))
    known = {name: TopicIdentity(topic=name, id=f"id {name}", partitions=4) for name in ("in", "out")}
    made = as_large_as_known(found, known, {"in", "new"})
    assert {each.topic: each.partitions for each in made} == {"in": 4, "new": 2, "out": 2}


def test_only_the_first_step_of_a_switch_releases_what_the_former_revision_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Later steps of a drain follow one of the same circuit."""
    asked: list[object] = []

    def counting(*given: object, is_drained: bool, before: object) -> Counting:
        asked.append(before)
        return Counting((), ())

    monkeypatch.setattr(new_nodes, "next_counting", counting)
    run = Run({TopicPartition("in", 0): 0})
    run.inputs = run.begun(before=(former := NumberedCircuit(Circuit(()), ())))
    recorded = (*GRADUAL, switches(2, 2, drain=Drain(whole=HASHES, rows=9)))
    draining = (*recorded, fills(2, HASHES // 2), step(2, 3))
    for log in (recorded, draining):
        state = folded(*log)
        record = run.inputs.record(state, 0, empty_division(state.division_next, {}), is_drained=True)
        assert record.filled is not None and record.filled > state.filled
    assert asked == [former, None]
    assert run.inputs.choose_ahead(folded(*draining, fills(3, HASHES // 2 + 5)), 3, ()) == [], (
        "the last step of a drain is not known"
    )
