"""The core against every order of events that Hypothesis finds, `check()` before each; and the important sequences, as scripts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from base.version import EMPTY, VersionId
from coordinator.core import (
    Action,
    Checkpoint,
    Complete,
    Core,
    Divide,
    Exit,
    Fold,
    Freeze,
    LogIntent,
    NoCommonVersion,
    RunStep,
    Wait,
    common_version,
)
from io_kafka.step_log.records import CheckpointComplete, CheckpointIntent, Claim, DivisionRecord, Record, StepRecord
from io_kafka.step_log.state import StepLogState
from tests.coordinator.five_states import FiveStates, State


class Log(StepLogState):
    """A step log in memory that holds a claim, with short methods that append records."""

    def __init__(self, *, divided: int = 0, written: int = 0) -> None:
        super().__init__("log")
        self.append(Claim(epoch=0, pipeline="p", run_id="r", host="h", pid=1))
        for _ in range(written):
            self.divide()
            self.write()
        for _ in range(divided - written):
            self.divide()

    def append(self, record: Record) -> None:
        self.apply(record, self.offset_next)

    def divide(self) -> None:
        self.append(DivisionRecord(epoch=0, step=self.division_next, ranges=()))

    def write(self) -> None:
        self.append(StepRecord(epoch=0, step=self.steps, outputs=(), encoder="e"))

    def intend(self, version: VersionId) -> None:
        self.append(CheckpointIntent(epoch=0, version=version))

    def complete(self, version: VersionId) -> None:
        self.append(CheckpointComplete(epoch=0, version=version))


def ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"c{next(numbers)}"


def opened(version: VersionId = EMPTY, *, available_now: bool = False) -> Core:
    return Core(version, ids(), available_now)


def do(action: Action, core: Core, log: Log) -> None:
    """Acts as the shell: it carries out the action, then reports it. A fold is begun and not ended."""
    match action:
        case Divide():
            log.divide()
        case RunStep(step, replay):
            if not replay:
                log.write()
            core.stepped(step, log)
        case LogIntent(version):
            log.intend(version)
        case Freeze():
            core.frozen(log)
        case Fold():
            core.folding()
        case Complete(version):
            log.complete(version)
            core.completed(log)
        case Wait() | Exit():
            pass


class Run(RuleBasedStateMachine):
    """A coordinator with a log and two databases, which may crash at any time. Only durable data survive a crash."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.held: dict[int, tuple[VersionId, ...]] = {0: (EMPTY,), 1: (EMPTY,)}
        self.ids = ids()
        self.core = Core(EMPTY, self.ids)
        self.exited = False

    @rule()
    def proceed(self) -> None:
        if self.exited:
            return
        core, log, action = self.core, self.log, self.core.next(self.log)
        match action:
            case Divide(step):
                assert step == core.step == log.division_next, "a division is skipped or made twice"
            case RunStep(step, replay):
                assert step == core.step
                assert step < log.division_next, "a step without a division in the log"
                assert step <= log.steps, "a step ahead of committed output"
                assert replay == (step < log.steps), "output would be written twice, or never"
            case Freeze(version):
                assert log.intent == version, "a freeze without an intent in the log"
            case Complete(version, former):
                assert all(version in held for held in self.held.values()) and former == core.version
            case Exit():
                self.exited = True
                assert core.version.step == core.step or core.replaying(log), "an exit without a checkpoint"
        do(action, core, log)

    @rule()
    def asked_twice(self) -> None:
        """`next` changes nothing: it returns the same action until that is carried out."""
        if not self.exited:
            assert self.core.next(self.log) == self.core.next(self.log)

    @rule(worker=st.integers(0, 1))
    def fold_of_a_worker_ends(self, worker: int) -> None:
        pending = self.core.pending
        if self.core.checkpoint is Checkpoint.FOLDING and pending is not None and pending not in self.held[worker]:
            self.held[worker] = (self.held[worker][-1], pending)
            if all(pending in versions for versions in self.held.values()):
                self.core.folded(self.held)

    @rule()
    def crash(self) -> None:
        """Data that are not durable are lost. The databases open their latest common version and discard the other."""
        version = common_version(self.held)
        assert version.step <= self.log.steps, "a checkpoint holds a step whose output is not committed"
        self.held = dict.fromkeys(self.held, (version,))
        if self.log.intent == version:
            self.log.complete(version)
        self.core = Core(version, self.ids)
        self.exited = False

    @precondition(lambda self: not self.exited)
    @rule(request=st.sampled_from(["pause", "resume", "checkpoint", "stop"]))
    def ask(self, request: str) -> None:
        getattr(self.core, f"request_{request}")()

    @invariant()
    def holds(self) -> None:
        self.core.check(self.log)
        self.log.check()
        assert common_version(self.held) is not None


TestRun = Run.TestCase
TestRun.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


def test_versions_are_compared_by_identity_not_by_number() -> None:
    """A lazily discarded version of one crash must not meet another of the same number."""
    mine, other = VersionId(1, 5, "a"), VersionId(1, 7, "b")
    assert common_version({0: (EMPTY, mine), 1: (EMPTY, other)}) == EMPTY
    with pytest.raises(NoCommonVersion, match=r"worker 1: 1 \(step 7, b\)"):
        common_version({0: (mine,), 1: (other,)})


def test_a_stop_waits_for_its_checkpoint() -> None:
    core, log, version = opened(), Log(), VersionId(1, 1, "c1")
    assert core.next(log) == Divide(0)
    log.divide()
    assert core.next(log) == RunStep(0, replay=False)
    core.request_stop()
    log.write()
    core.stepped(0, log)
    story: list[Action] = []
    while (action := core.next(log)) != Exit():
        story.append(action)
        do(action, core, log)
        if isinstance(action, Fold):
            assert core.next(log) == Wait()
            core.folded({0: (EMPTY, version)})
    assert story == [LogIntent(version), Freeze(version), Fold(version), Complete(version, EMPTY)]


def test_the_freeze_waits_until_the_log_has_the_intent() -> None:
    """A crash between the two would leave a version in the databases that the log does not know."""
    core, log, version = opened(), Log(divided=1), VersionId(1, 1, "c1")
    do(core.next(log), core, log)
    assert core.request_checkpoint()
    assert [core.next(log), core.next(log)] == [LogIntent(version), LogIntent(version)]
    with pytest.raises(AssertionError, match="a freeze without an intent in the log"):
        core.frozen(log)
    log.intend(VersionId(1, 1, "another run's"))
    assert core.next(log) == LogIntent(version)
    log.intend(version)
    assert core.next(log) == Freeze(version)


def test_a_checkpoint_is_complete_when_the_log_says_so() -> None:
    core, log = opened(), Log(divided=1)
    do(core.next(log), core, log)
    core.request_checkpoint()
    for _ in range(3):
        do(core.next(log), core, log)
    core.folded({0: (VersionId(1, 1, "c1"),)})
    with pytest.raises(AssertionError, match="is not complete in the log"):
        core.completed(log)
    assert core.version == EMPTY


def test_a_step_is_done_when_the_log_has_its_output() -> None:
    core, log = opened(), Log(divided=1)
    assert core.next(log) == RunStep(0, replay=False)
    with pytest.raises(AssertionError, match=r"step 0 is reported.*RunStep\(step=0, replay=False\)"):
        core.stepped(0, log)
    log.write()
    with pytest.raises(AssertionError, match="step 1 is reported, and step 0 is next"):
        core.stepped(1, log)
    core.stepped(0, log)
    assert core.next(log) == Divide(1)


def test_a_checkpoint_that_a_worker_lacks_is_not_complete() -> None:
    core, log, made = opened(), Log(divided=1), VersionId(1, 1, "c1")
    do(core.next(log), core, log)
    assert core.request_checkpoint()
    for _ in range(3):
        do(core.next(log), core, log)
    with pytest.raises(AssertionError, match="the workers share"):
        core.folded({0: (EMPTY, made), 1: (EMPTY,)})
    assert core.checkpoint is Checkpoint.FOLDING
    core.folded({0: (EMPTY, made), 1: (EMPTY, made)})
    do(core.next(log), core, log)
    assert core.version == made


def test_a_replay_comes_before_new_divisions_and_takes_no_checkpoint() -> None:
    core, log = opened(), Log(divided=3, written=2)
    for step in range(2):
        action = core.next(log)
        assert action == RunStep(step, replay=True)
        do(action, core, log)
        core.request_checkpoint()
    assert core.next(log) == LogIntent(VersionId(1, 2, "c1"))


def test_a_division_that_was_written_with_the_output_is_not_asked_for() -> None:
    """It is not reported, because the core reads it in the log."""
    core, log = opened(), Log(divided=1)
    log.divide()
    do(core.next(log), core, log)
    assert core.next(log) == RunStep(1, replay=False)


def test_what_was_there_at_the_start_is_read_and_then_the_run_stops() -> None:
    core, log = opened(available_now=True), Log(divided=1)
    do(core.next(log), core, log)
    assert core.next(log) == Divide(1)
    core.nothing_to_read()
    assert core.next(log) == LogIntent(VersionId(1, 1, "c1"))
    assert core.stopping


def test_a_pause_takes_effect_at_the_boundary_and_resume_goes_on() -> None:
    core, log = opened(), Log(divided=1)
    core.request_pause()
    assert core.next(log) == Wait()
    core.request_resume()
    assert core.next(log) == RunStep(0, replay=False)


# All sequences of requests

REQUESTS = ("pause", "resume", "stop", "checkpoint")
LENGTH_MAX = 7


def sequences(core: Core, log: Log, twin: FiveStates, left: int) -> Iterator[tuple[Core, Log, FiveStates, Action]]:
    """What the core asks for after every sequence of requests and boundaries. A boundary does what is asked for."""
    for what in (*REQUESTS, "boundary") if left else ():
        next_core, next_log, next_twin = copy.copy(core), log.fork(), copy.copy(twin)
        if what != "boundary":
            getattr(next_core, f"request_{what}")()
            next_twin.request(what)
        else:
            action = next_core.next(next_log)
            next_twin.boundary()
            yield next_core, next_log, next_twin, action
            if action == Exit():
                continue
            do(action, next_core, next_log)
            if isinstance(action, Fold):
                next_core.folded({0: (action.version,)})
            next_twin.step = next_core.step
        yield from sequences(next_core, next_log, next_twin, left - 1)


@pytest.mark.parametrize("written", [0, 2], ids=["new steps", "a replay"])
def test_requests_take_effect_as_in_the_machine_of_five_states(written: int) -> None:
    seen = dict.fromkeys(State, 0)
    for core, log, twin, action in sequences(opened(), Log(divided=2, written=written), FiveStates(0), LENGTH_MAX):
        seen[twin.state] += 1
        if isinstance(action, RunStep | Divide):
            assert twin.may_step
        elif action == Wait():
            assert twin.state is State.PAUSED
        elif action == Exit():
            assert twin.state is State.STOPPED
        else:
            assert core.checkpoint is not Checkpoint.NONE
        if core.checkpoint is Checkpoint.NONE or core.replaying(
            log
        ):  # otherwise a checkpoint comes before what was requested
            assert isinstance(action, RunStep | Divide) == twin.may_step
            assert (action == Exit()) == (twin.state is State.STOPPED)
        assert core.stopping == twin.stopping
        if not core.stopping:
            assert core.paused == (twin.state is State.PAUSED)
    assert seen[State.PAUSE] == seen[State.STOP] == 0, "a boundary leaves neither"
    assert min(seen[state] for state in (State.RUN, State.PAUSED, State.STOPPED)) > 100
