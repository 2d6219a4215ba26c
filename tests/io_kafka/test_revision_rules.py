"""Records of transitions: which can follow which, what each step runs, and that a snapshot keeps all of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from io_kafka.offsets import TopicPartition
from io_kafka.step_log.input_policy import InputPolicy
from io_kafka.step_log.programs import FillingProgram, PresentProgram, ProgramOfStep, SwitchingProgram, key_of
from io_kafka.step_log.records import (
    BadLogRecord,
    CheckpointComplete,
    CheckpointIntent,
    DivisionRecord,
    InputRange,
    Record,
    Refresh,
    Reset,
    TableRecord,
    TopicIdentity,
    decode,
    encode,
)
from io_kafka.step_log.revision_records import TurnTo
from io_kafka.step_log.revision_state import Clearing, Detached, Filling
from io_kafka.step_log.rules import why_not
from io_kafka.step_log.state import BrokenStepLog, StepLogState
from tests.examples import examples
from tests.io_kafka.layouts import change, layout
from tests.io_kafka.test_step_log import (
    checkpoint,
    circuit_record,
    claim,
    erring,
    folded,
    node_errors,
    step,
    version,
)
from tests.io_kafka.transitions import (
    DRAIN,
    WHOLE,
    Programs,
    begins,
    fills,
    loaded,
    pauses,
    revision,
    settles,
    switches,
    turns,
)

NEW = TopicIdentity(topic="new", id="n", partitions=1)

RUNNING: tuple[Record, ...] = (claim(0), revision(), layout())
FILLING: tuple[Record, ...] = (*RUNNING, fills(0, None), step(0, 1), begins(step=1), fills(1, 4), step(1, 2))
"""One step alone, and one that fills a part."""

READY: tuple[Record, ...] = (*FILLING, fills(2, WHOLE), step(2, 3))
SWITCHING: tuple[Record, ...] = (*READY, switches(2, 3, NEW))
SWITCHED: tuple[Record, ...] = (*SWITCHING, fills(3, None), step(3, 4))
DETACHED: tuple[Record, ...] = (*FILLING, fills(2, 6), turns("detached", 2))
ABORTED: tuple[Record, ...] = (*FILLING, turns("abort"))
SETTLED: tuple[Record, ...] = (*SWITCHED, *checkpoint(version(0, 4), 0, 1), settles(2, 4))

A, B = revision(), revision(2, 3)

GRADUAL: tuple[Record, ...] = (
    *RUNNING,
    fills(0, None),
    step(0, 1),
    begins(step=1, gradual=True),
    fills(1, WHOLE),
    step(1, 2),
)
"""All is filled, and what differs is to leave in several steps."""

DRAIN_RECORDED: tuple[Record, ...] = (*GRADUAL, switches(2, 2, NEW, drain=DRAIN))
DRAINING: tuple[Record, ...] = (*DRAIN_RECORDED, fills(2, 3), step(2, 3))
DRAINED: tuple[Record, ...] = (*DRAINING, fills(3, 3), step(3, 4), fills(4, 8), step(4, 5))


def programs(*records: Record) -> list[ProgramOfStep]:
    """What all steps run."""
    state = folded(*records)
    return [state.program_of(number) for number in range(state.division_next)]


@pytest.mark.parametrize(
    ("records", "first"),
    [(READY, None), (DETACHED, None), (ABORTED, None), (SWITCHING, 3), (SWITCHED, 3), (SETTLED, 3), (DRAINED, 2)],
)
def test_the_log_says_when_the_revision_in_force_in_a_step_began(
    records: tuple[Record, ...], first: int | None
) -> None:
    """Also of steps that are replayed when another one is in force."""
    state = folded(*records)
    steps = range(state.division_next + 1)
    begun = [state.revisions.revision_since(number) for number in steps]
    assert begun == [0 if first is None or number < first else first for number in steps]


def test_each_step_runs_what_the_log_says() -> None:
    intent = begins(step=1)
    alone, filling = PresentProgram(A), [FillingProgram(A, intent, 0, 4), FillingProgram(A, intent, 4, WHOLE)]
    assert programs(*READY) == [alone, *filling]
    assert programs(*SWITCHED) == programs(*SETTLED) == [alone, *filling, SwitchingProgram(A, intent)]
    assert programs(*SETTLED, fills(4, None))[4] == PresentProgram(B)
    assert programs(*SWITCHING, fills(3, None), fills(4, None))[3:] == [SwitchingProgram(A, intent), PresentProgram(B)]


def test_each_step_of_a_drain_passes_a_part_on() -> None:
    """Up to the one with which everything has left. The next one runs the next revision alone."""
    intent, now = begins(step=1, gradual=True), revision(2, 2)
    parts = [SwitchingProgram(A, intent, drained) for drained in ((0, 3), (3, 3), (3, 8))]
    assert programs(*DRAINED)[2:] == parts
    assert programs(*DRAINED, fills(5, None))[5] == PresentProgram(now)
    assert folded(*DRAINING).revision == folded(*DRAINED).revision == now
    assert folded(*DRAINING).program_key(7) == key_of(parts[0]), "as long as it is not known which step is the last one"
    assert [folded(*log).revisions.drain for log in (GRADUAL, DRAIN_RECORDED, DRAINING, DRAINED)] == [
        None,
        DRAIN,
        DRAIN,
        None,
    ]
    phase = folded(*DRAINED).revisions.phase
    assert isinstance(phase, Clearing) and phase.is_switched and phase.since == 5
    at_once = folded(*DRAIN_RECORDED, fills(2, 8), step(2, 3)).revisions
    assert isinstance(at_once.phase, Clearing) and at_once.phase.since == 3, "few rows leave in one step"


def test_a_record_without_a_drain_is_what_it_was() -> None:
    """A former release reads the log of a pipeline that has never drained anything, and of a transition that reads no new topic."""
    for record in (begins(), switches(), folded(*SWITCHED).snapshot()):
        for name in (b"gradual", b"drain", b'"last"'):
            assert name not in encode(record)
    assert b"topics" not in encode(begins())
    for record in (
        begins(gradual=True),
        begins().model_copy(update={"topics": (TopicIdentity(topic="new", id="i", partitions=2),)}),
        switches(drain=DRAIN),
        folded(*DRAINING).snapshot(),
        folded(*DRAINED).snapshot(),
    ):
        assert decode(encode(record), "log", 0) == record


def test_a_load_counts_from_the_intent_on_and_until_nobody_needs_it() -> None:
    """The loads of both revisions are there until the transition is settled. Afterwards no step that reads the deleted load can be replayed."""
    former, new = loaded("former", 3), loaded("new", 4, 0)
    begun = (claim(0), former, revision(), layout(), fills(0, None), step(0, 1), begins(step=1, tables=(new,)))
    filled = (*begun, fills(1, WHOLE), step(1, 2))
    switched = (*filled, switches(2, 2), fills(2, None), step(2, 3), *checkpoint(version(0, 3), 0, 1))
    for records in (begun, filled, (*filled, turns("detached", 1)), switched):
        assert folded(*records).tables == {"former": former, "new": new}
    settled = folded(*switched, settles(2, 3, "former"))
    assert (settled.tables, settled.replayed_from) == ({"new": new}, 3)
    read = InputRange(topic="former", partition=0, start=0, end=3)
    topic = TopicIdentity(topic="former", id="f", partitions=1)
    first = DivisionRecord(epoch=0, step=0, ranges=(read, *fills(0, None).ranges), topics=(topic,))
    reading = folded(*(first if record == fills(0, None) else record for record in switched))
    assert TopicPartition("former", 0) in reading.next_offsets and "former" in reading.topics
    after = reading.apply(settles(2, 3, "former"), reading.offset_next)
    after.check()
    assert {where.topic for where in (*after.next_offsets, *after.firsts)} == {"in"} and "former" not in after.topics
    aborted = folded(*filled, turns("abort"), *checkpoint(version(0, 2), 0, 1), settles(2, 2, "new"))
    assert (aborted.tables, aborted.replayed_from) == ({"former": former}, 0), "all steps run the former project"
    assert folded(*switched, settles(2, 3)).replayed_from == 0
    for state in (folded(*filled), settled, aborted):
        copy = StepLogState("log").apply(decode(encode(state.snapshot()), "log", 0), 0)
        assert (copy.tables, copy.replayed_from) == (state.tables, state.replayed_from)


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ((loaded("in", 3, handle="u"),), "the table u is said to be loaded into the topic of another load, in"),
        ((loaded("a", 3), loaded("a", 3, handle="u")), "the table u is said to be loaded into the topic of another load, a"),
        ((loaded("a", 3, is_whole=False),), "the table t is not loaded as a whole"),
        ((loaded("a", 3).model_copy(update={"ranges": loaded("b", 3).ranges}),), "the table t is said to be in several topics"),
        ((loaded("a", 3).model_copy(update={"ranges": loaded("a", 3).ranges * 2}),), "the ranges of the table t are out of order"),
    ],
)  # fmt: skip
def test_a_transition_has_whole_loads_in_topics_of_their_own(tables: tuple[TableRecord, ...], reason: str) -> None:
    state = folded(claim(0), loaded("in", 5), revision(), layout())
    found = why_not(state, begins(step=0, tables=tables))
    assert found is not None and found.startswith(reason), found
    assert why_not(state, begins(step=0, tables=(loaded("a", 3), loaded("b", 3)))) is None, "of one table or of two"


def test_a_load_that_nobody_has_recorded_does_not_end() -> None:
    reason = why_not(folded(*SWITCHED, *checkpoint(version(0, 4), 0, 1)), settles(2, 4, "new"))
    assert reason == "it ends the loads of batch tables in new, which nobody has recorded"


def test_the_revision_in_force_is_the_next_one_from_the_switch_on() -> None:
    """So a run after a crash divides the step of the switch for it, and replays the steps before it as they were."""
    assert folded(*READY).revision == A
    assert folded(*SWITCHING).revision == folded(*SETTLED).revision == B
    assert folded(*SWITCHING, turns("taken_back", 3)).revision == folded(*SWITCHING, turns("abort")).revision == A
    assert folded(*SWITCHED).revisions.root == A, "its steps are replayed too"


def test_after_an_abort_the_steps_of_the_transition_run_the_former_revision_alone() -> None:
    """Also those that are divided and not written. What they say of filling counts no more."""
    pending = (*FILLING, fills(2, 6), turns("abort"))
    assert programs(*pending) == [PresentProgram(A)] * 3
    state = folded(*pending)
    assert [division.filled for division in state.pending] == [6] and state.filled == 0
    assert folded(*pending, claim(1), fills(2, 6).with_epoch(1)).pending[0].epoch == 1
    assert programs(*pending, step(2, 3), fills(3, None)) == [PresentProgram(A)] * 4


def test_a_transition_that_is_detached_fills_again_from_nothing() -> None:
    state = folded(*DETACHED)
    assert isinstance(state.revisions.phase, Detached) and state.revisions.phase.turn == turns("detached", 2)
    assert programs(*DETACHED) == [PresentProgram(A)] * 3
    again = (*DETACHED, step(2, 3), fills(3, None), step(3, 4), turns("resume", 4), fills(4, 2), step(4, 5))
    filled = FillingProgram(A, begins(step=1), 0, 2)
    assert programs(*again) == [*[PresentProgram(A)] * 4, filled]
    assert folded(*again).filled == 2
    assert programs(*DETACHED, turns("resume", 3), fills(3, 1))[2:] == [
        PresentProgram(A),
        FillingProgram(A, begins(step=1), 0, 1),
    ], "it may go on while a step of before is divided"


def test_a_switch_that_is_taken_back_leaves_all_as_it_was() -> None:
    """Its step is void, with what it has divided, announced and counted. Only the user may ask for another switch."""
    ranges = (InputRange(topic="in", partition=0, start=0, end=9), InputRange(topic="new", partition=0, start=2, end=3))
    more = TopicIdentity(topic="new", id="n", partitions=2)
    of_switch = DivisionRecord(epoch=0, step=3, ranges=ranges, topics=(more,), counted=(7,), grown=("new",))
    before = folded(*READY)
    for reason in ("taken_back", "abort"):
        turn = turns(reason, 3 if reason == "taken_back" else None)
        ahead = fills(4, None, start=9).model_copy(update={"counted": (7,), "grown": ("new",)})
        state = folded(*SWITCHING, of_switch, ahead, turn)
        for name in (
            "next_offsets",
            "firsts",
            "topics",
            "grown",
            "counted",
            "pending",
            "division_next",
            "filled",
            "ends",
        ):
            if (reason, name) != ("abort", "filled"):
                assert getattr(state, name) == getattr(before, name), name
    state = folded(*SWITCHING, of_switch, turns("taken_back", 3))
    assert isinstance(state.revisions.phase, Filling) and state.revisions.phase.is_held
    other = TopicIdentity(topic="new", id="another", partitions=1)
    again = (*SWITCHING, turns("taken_back", 3), fills(3, WHOLE), step(3, 4), switches(2, 4, other))
    assert folded(*again).topics["new"] == other, "it was made again meanwhile"
    assert programs(*again, fills(4, None))[3:] == [
        FillingProgram(A, begins(step=1), WHOLE, WHOLE),
        SwitchingProgram(A, begins(step=1)),
    ]


def test_a_topic_that_has_grown_before_the_switch_is_found_by_its_division() -> None:
    small, large = (TopicIdentity(topic="in", id="i", partitions=n) for n in (1, 2))
    first = fills(0, None).model_copy(update={"topics": (small,)})
    filled = (*RUNNING, first, step(0, 1), begins(step=1), fills(1, WHOLE), step(1, 2), switches(2, 2, large))
    assert folded(*filled).topics_grown([large]) == ("in",)


def test_two_transitions_may_be_replayed_one_after_the_other() -> None:
    """The first one was settled, and its steps are still in no checkpoint that all workers have. The next one is aborted, and one more
    follows."""
    one = (*SETTLED, begins(3, 4), fills(4, 3), step(4, 5))
    intents = begins(step=1), begins(3, 4)
    assert programs(*one)[2:] == [
        FillingProgram(A, intents[0], 4, WHOLE),
        SwitchingProgram(A, intents[0]),
        FillingProgram(B, intents[1], 0, 3),
    ]
    aborted = (*one, turns("abort", number=3), *checkpoint(version(1, 5), 0, 1), settles(3, 5))
    assert programs(*aborted)[2:] == [*programs(*one)[2:4], PresentProgram(B)]
    third = (*aborted, begins(3, 5, whole=4), fills(5, 4))
    assert programs(*third)[4:] == [PresentProgram(B), FillingProgram(B, begins(3, 5, whole=4), 0, 4)]


def test_steps_that_are_forgotten_take_along_what_only_they_need() -> None:
    """The position before the first step that is left is known, and a switch that can be replayed."""
    for log in (SWITCHING, SETTLED, DRAINING, DRAINED):
        known = programs(*log)
        for first in range(folded(*log).steps + 1):
            state = folded(*log).forget_below(first)
            assert [state.program_of(number) for number in range(first, state.division_next)] == known[first:]
    assert folded(*SETTLED).forget_below(4).revisions.passages == ()
    assert folded(*DRAINED).forget_below(5).revisions.passages == ()
    assert folded(*DRAINING).forget_below(3).filled == 3
    ready = folded(*READY).forget_below(3)
    assert (ready.filled, ready.apply(switches(2, 3), 99).apply(turns("taken_back", 3), 100).filled) == (WHOLE, WHOLE)


def test_the_log_says_which_versions_have_the_views_of_a_revision() -> None:
    """A version that was taken before the step of the switch has those of the former one."""
    for log in (SWITCHING, SETTLED):
        state = folded(*log).revisions
        assert (state.first_with_views_of(1), state.last_with_views_of(1)) == (0, 3)
        assert (state.first_with_views_of(2), state.last_with_views_of(2)) == (4, None)
    ready = folded(*SWITCHING, turns("taken_back", 3)).revisions
    assert (ready.first_with_views_of(1), ready.last_with_views_of(1)) == (0, None)
    third = folded(*SETTLED, begins(3, 4), fills(4, WHOLE), step(4, 5), switches(3, 5)).revisions
    assert (third.last_with_views_of(1), third.last_with_views_of(2), third.first_with_views_of(3)) == (3, 5, 6)


def test_a_revision_that_continues_the_state_ends_what_can_be_replayed() -> None:
    state = folded(*SETTLED, revision(3, 4))
    assert (state.revisions.root, state.revision, state.revisions.passages) == (revision(3, 4), revision(3, 4), ())


def test_a_full_refresh_ends_a_transition() -> None:
    refresh = Refresh(epoch=0, generation=1, topics=(), tombstones=(), ends=())
    for log in (FILLING, SWITCHING, DRAINING, DETACHED, ABORTED, SETTLED):
        state = folded(*log, refresh, Reset(epoch=0, generation=1))
        assert (state.revisions.phase, state.revisions.passages, state.filled) == (None, (), 0)
        number = folded(*log).revisions.in_force
        assert number is not None
        following = revision(number.number + 1)
        assert folded(*log, refresh, Reset(epoch=0, generation=1), following).revision == following
        with pytest.raises(BrokenStepLog, match="no revision is in force"):
            state.apply(begins(number.number + 1), 99)


def test_a_division_that_is_recorded_again_keeps_how_far_it_fills() -> None:
    log = (*FILLING, fills(2, 6, end=9), claim(1))
    before = fills(2, 6, end=9)
    for again in (
        before.with_policy(1, InputPolicy({"t": "skip"}, {}, {})),
        before.with_epoch(1),
        before.with_counted(1, (3,), frozenset()),
        before.with_ends(1, {TopicPartition("in", 0): 7}),
        before.with_ends(1, {TopicPartition("in", 0): 11}),
    ):
        assert folded(*log, again).pending == (again,) and again.filled == 6
        for other in (None, 5, 7):
            with pytest.raises(BrokenStepLog, match="step 2"):
                folded(*log, again.model_copy(update={"filled": other}))


BOUNDARY = "where step {} is the next one"

REFUSED: list[tuple[tuple[Record, ...], Record, str]] = [
    # The beginning of a transition
    ((claim(0), layout()), begins(1), "no revision is in force"),
    ((claim(0), circuit_record(), layout()), begins(1), "no revision is in force"),
    ((claim(0), revision()), begins(), "no revision is in force"),
    (RUNNING, begins(1), "revision 1, where 2 is the next one"),
    (RUNNING, begins(3), "revision 3, where 2 is the next one"),
    (RUNNING, begins(step=1), "begins with step 1, where step 0 is the next one"),
    (FILLING[:5], begins(step=0), "begins with step 0, where step 1 is the next one"),
    (FILLING[:4], begins(step=1), "begins with step 1, and steps before it are not written"),
    (FILLING, begins(step=2), "a transition to revision 2 is under way, or is not settled"),
    (SWITCHING, begins(3, 3), "a transition to revision 2 is under way"),
    (SWITCHED, begins(3, 4), "a transition to revision 2 is under way, or is not settled"),
    (DETACHED, begins(step=3), "a transition to revision 2 is under way"),
    (ABORTED, begins(step=2), "a transition to revision 2 is under way, or is not settled"),
    # A project that continues the state
    ((*FILLING, *checkpoint(version(0, 2), 0, 1)), revision(2, 2), "a transition to revision 2 is under way"),
    (
        (*SWITCHED, *checkpoint(version(0, 4), 0, 1)),
        revision(3, 4),
        "a transition to revision 2 is under way, or is not",
    ),
    (
        (*ABORTED, *checkpoint(version(0, 2), 0, 1)),
        revision(2, 2),
        "a transition to revision 2 is under way, or is not",
    ),
    # Divisions
    (RUNNING, fills(0, 3), "it fills up to 3, and the step fills nothing"),
    (RUNNING, fills(0, 0), "it fills up to 0, and the step fills nothing"),
    (FILLING, fills(2, None), "it does not say how far it fills the new nodes of revision 2"),
    (FILLING, fills(2, 3), "it fills up to 3, which is not between 4 and 10"),
    (FILLING, fills(2, 11), "it fills up to 11, which is not between 4 and 10"),
    (SWITCHING, fills(3, WHOLE), "it fills up to 10, and the step fills nothing"),
    (SWITCHED, fills(4, WHOLE), "it fills up to 10, and the step fills nothing"),
    (DETACHED, fills(3, 6), "it fills up to 6, and the step fills nothing"),
    (ABORTED, fills(2, 6), "it fills up to 6, and the step fills nothing"),
    ((*DETACHED, turns("resume", 3), fills(3, 2), step(2, 3)), fills(4, 1), "it fills up to 1, which is not between 2"),
    # The switch
    (RUNNING, switches(2, 0), "no transition to another revision is under way"),
    (READY, switches(3, 3), "it is of revision 3, and the transition leads to revision 2"),
    (FILLING, switches(2, 2), "new nodes are filled up to 4, and not up to 10"),
    (READY[:6], switches(2, 1), "new nodes are filled up to 0, and not up to 10"),
    (READY, switches(2, 2), "the switch begins with step 2, where step 3 is the next one"),
    (READY, switches(2, 4), "the switch begins with step 4, where step 3 is the next one"),
    (READY[:-1], switches(2, 3), "the switch begins with step 3, and steps before it are not written"),
    (READY, switches(2, 3, NEW, NEW), "it announces a topic twice"),
    (SWITCHING, switches(2, 3), "the transition to revision 2 is not filling"),
    (SWITCHED, switches(2, 4), "the transition to revision 2 is not filling"),
    ((*READY, turns("detached", 2)), switches(2, 3), "the transition to revision 2 is not filling"),
    ((*READY, turns("abort")), switches(2, 3), "the transition to revision 2 is not filling"),
    (
        (*SWITCHED, *checkpoint(version(0, 4), 0, 1), settles(2, 4), begins(3, 4), fills(4, WHOLE), step(4, 5)),
        switches(3, 5, TopicIdentity(topic="new", id="another", partitions=1)),
        "topic 'new' was n, now another",
    ),
    ((*READY, pauses()), switches(2, 3), "the transition to revision 2 is paused"),
    # Pauses
    (RUNNING, pauses(), "no transition to another revision is under way"),
    (FILLING, pauses(number=3), "it is of revision 3"),
    (FILLING, pauses(False), "the transition to revision 2 is not paused already"),
    ((*FILLING, pauses()), pauses(), "the transition to revision 2 is paused already"),
    *(
        (records, pauses(), "the transition to revision 2 is not filling, so it is neither paused nor goes on")
        for records in (DETACHED, SWITCHING, SWITCHED, ABORTED)
    ),
    # Turns
    (RUNNING, turns("abort"), "no transition to another revision is under way"),
    (FILLING, turns("abort", number=3), "it is of revision 3"),
    (SWITCHED, turns("abort"), "abort: the transition to revision 2 is clearing"),
    (ABORTED, turns("abort"), "abort: the transition to revision 2 is clearing"),
    (SETTLED, turns("abort"), "no transition to another revision is under way"),
    (FILLING, turns("detached", 0), r"step 0, and the steps from 1 on, below 2, fill"),
    (FILLING, turns("detached", 2), r"step 2, and the steps from 1 on, below 2, fill"),
    (DETACHED, turns("detached", 2), "detached: the transition to revision 2 is detached"),
    (SWITCHING, turns("detached", 2), "detached: the transition to revision 2 is switching"),
    (SWITCHED, turns("detached", 2), "detached: the transition to revision 2 is clearing"),
    ((*DETACHED, turns("resume", 3), fills(3, 2)), turns("detached", 2), "step 2, and the steps from 3 on"),
    (READY, turns("taken_back", 2), "taken_back: the transition to revision 2 is filling"),
    (SWITCHING, turns("taken_back", 2), "step 2, and step 3 is the first one of the next revision"),
    (SWITCHED, turns("taken_back", 3), "taken_back: the transition to revision 2 is clearing"),
    (FILLING, turns("resume", 2), "resume: the transition to revision 2 is filling"),
    ((*SWITCHING, turns("taken_back", 3)), turns("resume", 3), "resume: the transition to revision 2 is filling"),
    (DETACHED, turns("resume", 2), "resume: step 2, where step 3 is the next one"),
    # A drain
    (GRADUAL, switches(2, 2), "it drains nothing, and the transition was begun in the other way"),
    (READY, switches(2, 3, drain=DRAIN), "it drains what differs, and the transition was begun in the other way"),
    (DRAIN_RECORDED, fills(2, None), "it does not say how far what differs has left"),
    (DRAIN_RECORDED, fills(2, 9), "it drains up to 9, which is not between 0 and 8"),
    (DRAINING, fills(3, 2), "it drains up to 2, which is not between 3 and 8"),
    (DRAINING, fills(3, None), "it does not say how far what differs has left"),
    ((*DRAINING, fills(3, 8)), fills(4, None), "it does not say how far what differs has left"),
    (
        (*DRAINING, fills(3, 8)),
        fills(4, 8),
        "everything that differs leaves in the step before it, which is not written",
    ),
    ((*DRAINING, fills(3, 5)), fills(3, 6), "step 3"),
    (DRAINED, fills(5, 8), "it fills up to 8, and the step fills nothing"),
    *(
        (DRAINING, turns(reason, at), f"{reason}: the transition to revision 2 is draining")
        for reason, at in (("abort", None), ("taken_back", 2), ("detached", 2), ("resume", 3))
    ),
    (DRAINING, switches(2, 3, drain=DRAIN), "the transition to revision 2 is not filling"),
    (DRAINING, begins(3, 3), "a transition to revision 2 is under way, or is not settled"),
    ((*DRAINING, *checkpoint(version(0, 3), 0, 1)), settles(2, 3), "the transition to revision 2 has not ended"),
    (
        (*DRAINING, *checkpoint(version(0, 3), 0, 1), fills(3, 8), step(3, 4)),
        settles(2, 3),
        "the checkpoint of step 3 has tables that were to be removed from step 4 on",
    ),
    # The end
    (RUNNING, settles(2, 0), "no transition to another revision is under way"),
    (FILLING, settles(2, 2), "the transition to revision 2 has not ended"),
    (SWITCHING, settles(2, 3), "the transition to revision 2 has not ended"),
    (DETACHED, settles(2, 2), "the transition to revision 2 has not ended"),
    (SWITCHED, settles(2, 4), "of step 4, and the last complete checkpoint of step None"),
    (SETTLED[:-1], settles(2, 3), "of step 3, and the last complete checkpoint of step 4"),
    (SETTLED[:-1], settles(3, 4), "it is of revision 3"),
    (SETTLED, settles(2, 4), "no transition to another revision is under way"),
    (
        (*SWITCHED[:-1], *checkpoint(version(0, 3), 0, 1), step(3, 4)),
        settles(2, 3),
        "the checkpoint of step 3 has tables that were to be removed from step 4 on",
    ),
    (
        (*FILLING[:-1], *checkpoint(version(0, 1), 0, 1), step(1, 2), turns("abort")),
        settles(2, 1),
        "the checkpoint of step 1 has tables that were to be removed from step 2 on",
    ),
]


@pytest.mark.parametrize(("before", "record", "reason"), REFUSED)
def test_what_cannot_follow_is_refused_and_changes_nothing(
    before: tuple[Record, ...], record: Record, reason: str
) -> None:
    state = folded(*before)
    with pytest.raises(BrokenStepLog, match=f"'log' partition 0 offset 99: .*{reason}"):
        state.apply(record, 99)
    assert state == folded(*before)


@pytest.mark.parametrize(
    ("before", "record"),
    [
        (RUNNING, begins()),
        (FILLING[:5], begins(step=1)),
        ((*ABORTED, *checkpoint(version(0, 2), 0, 1), settles(2, 2)), begins(step=2)),
        ((*ABORTED, *checkpoint(version(0, 2), 0, 1), settles(2, 2)), revision(2, 2)),
        (SETTLED, begins(3, 4)),
        (SETTLED, revision(3, 4)),
        (FILLING, fills(2, 4)),
        (FILLING, fills(2, WHOLE)),
        (READY, fills(3, WHOLE)),
        (SWITCHING, fills(3, None)),
        (DETACHED, fills(3, None)),
        (ABORTED, fills(2, None)),
        (READY, switches(2, 3)),
        ((*READY, change(1)), switches(2, 3)),
        (FILLING, change(1)),
        ((*SWITCHING, turns("taken_back", 3)), switches(2, 3)),
        (GRADUAL, switches(2, 2, drain=DRAIN)),
        (DRAIN_RECORDED, fills(2, 0)),
        (DRAIN_RECORDED, fills(2, 8)),
        ((*DRAIN_RECORDED, fills(2, 3)), fills(3, 8)),
        ((*DRAIN_RECORDED, fills(2, 3)), turns("taken_back", 2)),
        ((*DRAIN_RECORDED, fills(2, 3), turns("taken_back", 2)), switches(2, 2, drain=DRAIN)),
        ((*DRAIN_RECORDED, fills(2, 3)), turns("abort")),
        (DRAINING, change(1)),
        (DRAINED, fills(5, None)),
        ((*DRAINED, *checkpoint(version(0, 5), 0, 1)), settles(2, 5)),
        (FILLING, pauses()),
        ((*FILLING, pauses()), pauses(False)),
        ((*FILLING, pauses()), fills(2, 6)),
        ((*FILLING, pauses()), turns("abort")),
        ((*FILLING, pauses()), turns("detached", 1)),
        ((*READY, pauses(), pauses(False)), switches(2, 3)),
        (FILLING, turns("abort")),
        (DETACHED, turns("abort")),
        (SWITCHING, turns("abort")),
        ((*SWITCHING, fills(3, None)), turns("abort")),
        ((*SWITCHING, fills(3, None)), turns("taken_back", 3)),
        (FILLING, turns("detached", 1)),
        ((*SWITCHING, turns("taken_back", 3)), turns("detached", 2)),
        (DETACHED, turns("resume", 3)),
        (SETTLED[:-1], settles(2, 4)),
        ((*ABORTED, *checkpoint(version(0, 2), 0, 1)), settles(2, 2)),
    ],
)
def test_what_can_follow_is_taken(before: tuple[Record, ...], record: Record) -> None:
    folded(*before, record)


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "abort", "step": 1},
        {"reason": "detached", "step": None},
        {"reason": "detached", "error": None},
        {"reason": "taken_back", "error": None},
        {"reason": "resume", "step": None},
        {"reason": "undo"},
        {"number": 0},
        {"more": 1},
    ],
)
def test_a_turn_that_lacks_what_it_needs_is_no_record(changes: dict[str, object]) -> None:
    plain = json.loads(encode(turns("detached", 1)))
    with pytest.raises(BadLogRecord, match="offset 41"):
        decode(json.dumps(plain | changes).encode(), "log", 41)


def test_an_intent_says_how_much_is_whole_and_what_was_chosen() -> None:
    large = begins(whole=7 * 2**64)
    assert decode(encode(large), "log", 0) == large
    assert folded(*RUNNING, large, fills(0, 5 * 2**64 + 1)).filled == 5 * 2**64 + 1
    plain = json.loads(encode(large))
    for changes in ({"whole": 0}, {"whole": 1.5}, {"choices": {}}, {"choices": {"hold": 1}}, {"plan": "f"}):
        with pytest.raises(BadLogRecord):
            decode(json.dumps(plain | changes).encode(), "log", 0)


# Error rows of nodes that come and go


def counted(record: DivisionRecord, *nodes: int) -> DivisionRecord:
    return record.model_copy(update={"counted": nodes})


ERRING: tuple[Record, ...] = (
    *RUNNING,
    counted(fills(0, None), 1).model_copy(update={"counted": ()}),
    fills(0, None).with_counted(0, (1,), frozenset()),
    erring(0, 1, 1),
    begins(step=1),
)
"""Node 1 of the revision in force has error rows, and a transition begins."""


def test_new_nodes_are_counted_from_their_first_step_on() -> None:
    first = (*ERRING, counted(fills(1, WHOLE), 1, 8))
    assert folded(*first).counted == (1, 8)
    with pytest.raises(BrokenStepLog, match=r"does not count the error rows of nodes \[1\]"):
        folded(*ERRING, counted(fills(1, 4), 8))
    with pytest.raises(BrokenStepLog, match=r"counts the error rows of nodes \[9\]"):
        folded(*first, erring(1, 2, 1, 8), counted(fills(2, WHOLE), 1, 8, 9))


def test_error_rows_end_with_their_nodes() -> None:
    """Those of new nodes with an abort or a detachment, and those of dropped nodes with the switch."""
    filled = (*ERRING, counted(fills(1, WHOLE), 1, 8), erring(1, 2, 1, 8))
    for turn in (turns("abort"), turns("detached", 1)):
        assert folded(*filled, turn, counted(fills(2, None), 1)).counted == (1,)
        later = (*filled, turn, counted(fills(2, None), 1), erring(2, 3, 1))
        with pytest.raises(BrokenStepLog, match=r"does not count the error rows of nodes \[1\]"):
            folded(*later, fills(3, None))
    with pytest.raises(BrokenStepLog, match=r"does not count the error rows of nodes \[1, 8\]"):
        folded(*filled, fills(2, WHOLE))
    switched = (*filled, switches(2, 2), counted(fills(2, None), 8, 9))
    assert folded(*switched).counted == (8, 9)
    assert folded(*switched, counted(fills(3, None), 8)).counted == (8,)
    assert folded(*switched, erring(2, 3, 8, 9), counted(fills(3, None), 8)).counted == (8,)
    assert folded(*switched, turns("taken_back", 2)).counted == (1, 8)


# Random logs


def of_steps(draw: st.DrawFn, state: StepLogState) -> list[Record]:
    """Divisions, new ones and those that are pending once more, and the next step. Some of them several times, because they are drawn more
    often then."""
    epoch, number, at = state.epoch, state.division_next, state.next_offsets.get(TopicPartition("in", 0), 0)
    passage = state.revisions.passage_that_fills(number)
    filled = None
    drain = state.revisions.drain_at(number)
    whole = passage.intent.whole if passage is not None else None if drain is None else drain.whole
    if whole is not None:
        filled = draw(st.integers(state.filled, whole) | st.just(whole))
    still = state.counted if state.pending else tuple(sorted(state.nodes_in_error))
    following = fills(number, filled, start=at, end=at + draw(st.integers(0, 3)), epoch=epoch)
    found: list[Record] = [following.model_copy(update={"counted": still})] * 4
    for before in state.pending:
        end = max(0, before.ranges[0].end + draw(st.sampled_from((-1, 2))))
        more = tuple(sorted({*before.counted, draw(st.integers(1, 3))}))
        found += [before.with_ends(epoch, {TopicPartition("in", 0): end}), before.with_epoch(epoch)]
        found += [before.with_counted(epoch, more, frozenset())]
    if state.pending:
        errors = tuple(node_errors(node) for node in state.pending[0].counted if draw(st.booleans()))
        end = state.ends.get(TopicPartition("out", 0), 0)
        found += [step(state.steps, end + 1, epoch).model_copy(update={"errors": errors})] * 6
    return found


def of_checkpoints(state: StepLogState, identity: int) -> list[Record]:
    assert state.layout is not None
    number = state.checkpoints[-1].version + 1 if state.checkpoints else 0
    made = version(number, state.steps, str(identity))
    found: list[Record] = [CheckpointIntent(epoch=state.epoch, version=made, placed=state.layout.placed)]
    if state.intent is not None:
        found += [CheckpointComplete(epoch=state.epoch, version=state.intent)] * 2
    return found


def of_revisions(draw: st.DrawFn, state: StepLogState) -> list[Record]:
    revisions, epoch, following = state.revisions, state.epoch, state.division_next
    assert revisions.in_force is not None
    number = revisions.in_force.number + 1 if revisions.phase is None else revisions.phase.intent.number
    new = [NEW] if draw(st.booleans()) else []
    gradual = draw(st.booleans())
    begun = begins(number, following, whole=draw(st.integers(1, 3)), epoch=epoch, gradual=gradual)
    found: list[Record] = [revision(number, following, epoch), begun, begun]
    found += [switches(number, following, *new, epoch=epoch)] * 4
    found += [switches(number, following, *new, epoch=epoch, drain=DRAIN)] * 4
    found += [settles(number, state.checkpoints[-1].step if state.checkpoints else 0, epoch=epoch)] * 2
    some = draw(st.integers(0, following))
    steps: dict[TurnTo, int] = {"detached": some, "taken_back": revisions.switch_step or 0, "resume": following}
    found += [turns(reason, at, number=number, epoch=epoch) for reason, at in steps.items()] * 4
    found += [pauses(not revisions.is_paused, number=number, epoch=epoch)] * 2
    return [*found, turns("abort", number=number, epoch=epoch)]


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """Any log with transitions that a correct run can write. It goes on from some moment of one, so that few records lead far."""
    begun = (
        RUNNING,
        FILLING,
        READY,
        SWITCHING,
        SWITCHED,
        SETTLED,
        DETACHED,
        ABORTED,
        GRADUAL,
        DRAIN_RECORDED,
        DRAINING,
        DRAINED,
    )
    records: list[Record] = list(draw(st.sampled_from(begun)))
    state = folded(*records)
    for identity in range(100, 100 + draw(st.integers(0, 25))):
        epoch, generation = state.epoch, state.generation + 1
        refresh = Refresh(epoch=epoch, generation=generation, topics=(), tombstones=(), ends=())
        some: list[Record] = [
            claim(epoch + 1),
            state.snapshot(),
            *([refresh] if draw(st.integers(0, 19)) == 19 else []),
        ]
        some += [*of_steps(draw, state), *of_checkpoints(state, identity), *of_revisions(draw, state)]
        chosen = [draw(st.sampled_from([record for record in some if why_not(state, record) is None]))]
        if chosen == [refresh] and state.revision is not None:
            last = state.revision.number
            chosen += [Reset(epoch=epoch, generation=generation), revision(last + 1, 0, epoch), layout(0, epoch)]
        for record in chosen:
            state = state.apply(record, state.offset_next)
            state.check()
            records.append(record)
    return records


def programs_from(state: StepLogState, step: int = 0) -> dict[int, ProgramOfStep]:
    """Of the steps from `step` on that may be replayed."""
    root = state.revisions.root
    first = max(step, state.first, root.step if root is not None and state.layout is not None else 0)
    return {number: state.program_of(number) for number in range(first, state.division_next)}


@settings(deadline=None, max_examples=examples(300))
@given(logs(), st.data())
def test_each_step_runs_what_was_written_down_for_it(records: list[Record], data: st.DataObject) -> None:
    """At each moment, also of a state that has forgotten steps."""
    state, model = StepLogState("log"), Programs()
    for offset, record in enumerate(records):
        state = state.apply(record, offset)
        model.add(record)
        assert programs_from(state) == {n: p for n, p in model.programs.items() if n >= state.first}
        assert state.revision == model.in_force
        if state.steps > state.first and data.draw(st.booleans()):
            state = state.forget_below(data.draw(st.integers(state.first, state.steps)))
            state.check()


@settings(deadline=None, max_examples=examples(200))
@given(logs())
def test_a_log_that_begins_with_a_snapshot_runs_the_same(records: list[Record]) -> None:
    """One after each record. All that comes after it is taken alike, and gives the same state."""
    states = [StepLogState("log")]
    for offset, record in enumerate(records):
        states.append(states[-1].apply(record, offset))
    for begin, state in enumerate(states[1:], start=1):
        cut = StepLogState("log", offset_next=begin + 100).apply(state.snapshot(), begin + 100)
        for offset, record in enumerate(records[begin:], start=begin):
            cut = cut.apply(record, offset + 101)
            assert programs_from(cut) == programs_from(states[offset + 1], cut.first)
        assert cut.snapshot() == states[-1].snapshot()
        cut.check()
