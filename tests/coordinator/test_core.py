"""The core against every order of events that Hypothesis finds, `check()` before each; all short sequences of requests; and the important
sequences, as scripts."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from base.common_version import NoCommonVersion, common_version
from base.machine import Machine
from base.slots import ALL_SLOTS, NO_SLOTS
from base.version import EMPTY, VersionId
from coordinator.actions import Action, Collect, Complete, Divide, Exit, Fold, Freeze, Give, LogIntent, Settle, Wait
from coordinator.checkpoints.machine import CheckpointMachine
from coordinator.checkpoints.phases import (
    CheckpointPhase,
    DueCheckpoint,
    FoldingCheckpoint,
    FrozenCheckpoint,
    NamedCheckpoint,
    NoCheckpoint,
    NotNamed,
)
from coordinator.core import Core
from coordinator.goal import Goal
from coordinator.rescale.actions import Cut, LogRescale, RemoveWorkers
from coordinator.rescale.machine import Rescale
from coordinator.rescale.phases import Idle, MovingPortions, Weighing, phase_after_recovery
from coordinator.rescale.slot_moves import Portion
from coordinator.transition.machine import Transition
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.layout_records import RescaleMode
from io_kafka.step_log.programs import ProgramKey
from io_kafka.step_log.records import (
    CheckpointComplete,
    CheckpointIntent,
    Claim,
    DivisionRecord,
    InputRange,
    StepRecord,
)
from io_kafka.step_log.value import PENDING_STEPS_MAX
from tests.coordinator.rescale.driving import wish
from tests.io_kafka.growing import GrowingLog
from tests.io_kafka.layouts import change, layout, owned_by, placed, target

INPUT = TopicPartition("in", 0)
DIVISION_OFFSETS = 4


class Log(GrowingLog):
    """A step log in memory that holds a claim, with short methods that append records."""

    def __init__(self, *, divided: int = 0, written: int = 0) -> None:
        super().__init__("log")
        self.append(Claim(epoch=0, pipeline="p", run_id="r", host="h", pid=1))
        self.append(layout())
        for _ in range(written):
            self.divide()
            self.write()
        for _ in range(divided - written):
            self.divide()

    def divide(self) -> None:
        start = self.next_offsets.get(INPUT, 0)
        span = InputRange(topic="in", partition=0, start=start, end=start + DIVISION_OFFSETS)
        self.append(DivisionRecord(epoch=0, step=self.division_next, ranges=(span,)))

    def cut(self, step: int) -> None:
        """The step is divided again over one offset less, and the divisions after it are void."""
        before = self.divisions[step]
        self.append(before.with_ends(0, {INPUT: before.ranges[0].end - 1}))

    def write(self) -> None:
        self.append(StepRecord(epoch=0, step=self.steps, outputs=(), encoder="e"))

    def intend(self, version: VersionId) -> None:
        self.append(CheckpointIntent(epoch=0, version=version, placed=placed(0, 1)))

    def complete(self, version: VersionId) -> None:
        self.append(CheckpointComplete(epoch=0, version=version))


PRESENT = ProgramKey("present", 0)
"""What the steps of a log without revisions run."""


def ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"c{next(numbers)}"


def opened(version: VersionId = EMPTY, *, goal: Goal = Goal.SERVE) -> Core:
    return Core(CheckpointMachine(version, ids()), Rescale(Idle(owned_by(0, 1))), Transition(), PRESENT, goal=goal)


def do(action: Action, core: Core, log: Log, ahead: int = 0) -> None:
    """Acts as the shell: it carries out the action, then reports it. A fold is begun and not ended. `ahead`: how many divisions are written
    with the output of a step, as far as the log takes them."""
    match action:
        case Divide():
            log.divide()
        case Give(step):
            core.given(step, log)
        case Collect(step):
            core.collected(step)
        case Settle(step, replay):
            if not replay:
                log.write()
                for _ in range(min(ahead, log.steps + PENDING_STEPS_MAX - log.division_next)):
                    log.divide()
            core.settled(step, log)
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


def step_through(core: Core, log: Log, actions: int) -> list[Action]:
    """The next actions, which are carried out."""
    done: list[Action] = []
    for _ in range(actions):
        done.append(core.next(log))
        do(done[-1], core, log)
    return done


def judge(core: Core, log: Log, action: Action, state: int) -> None:
    """What holds for the next action, whatever happened before. `state`: the next step of the workers' databases."""
    wanted = isinstance(core.checkpoint, DueCheckpoint | NamedCheckpoint)
    assert isinstance(action, Collect | Settle | Give | Fold | Complete) or core.drained, "half of a step would be seen"
    match action:
        case Divide(step):
            assert step == core.step == log.division_next, "a division is skipped or made twice"
            assert not (core.stopping or core.paused or wanted)
        case Give(step, replay):
            assert core.running is None and step == core.step + (core.ran is not None) == state
            assert step < log.division_next, "a step without a division in the log"
            assert step <= log.steps + 1, "a step ahead of a step whose output is not committed"
            assert replay == (step < log.steps), "its input would be divided again, or not measured"
            assert not (core.stopping or core.paused or wanted), "a boundary is due"
        case Collect(step):
            assert step == core.running and core.ran is None
        case Settle(step, replay):
            assert step == core.ran == core.step and replay == (step < log.steps), "output is written twice, or never"
            due = core.stopping or core.paused or wanted or core.running is not None
            assert due or step + 1 == log.division_next, "the workers have nothing to do meanwhile"
        case LogIntent(version):
            assert version.step == core.step == state <= log.steps, (
                "a checkpoint of a step that is not written or not run"
            )
        case Freeze(version):
            assert log.intent == version, "a freeze without an intent in the log"
            assert version.step == core.step == state <= log.steps
        case Wait():
            assert (core.paused and not core.stopping) or isinstance(core.checkpoint, FoldingCheckpoint)
        case Exit():
            assert core.stopping and (isinstance(core.checkpoint, NoCheckpoint) or core.is_replaying(log))
            assert core.version.step == core.step or core.is_replaying(log), "an exit without a checkpoint"


class Run(RuleBasedStateMachine):
    """A coordinator with a log and two databases, which may crash at any time. Only durable data survive a crash. `state`: the next step of the
    workers."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.held: dict[int, tuple[VersionId, ...]] = {0: (EMPTY,), 1: (EMPTY,)}
        self.ids = ids()
        self.core = Core(
            CheckpointMachine(EMPTY, self.ids), Rescale(Idle(owned_by(0, 1))), Transition(), PRESENT, goal=Goal.SERVE
        )
        self.state = 0
        self.exited = False

    @rule(ahead=st.integers(0, PENDING_STEPS_MAX), is_large=st.booleans())
    def proceed(self, ahead: int, is_large: bool) -> None:
        """`is_large`: a step that is collected turns out to have too much input, and is divided again."""
        if self.exited:
            return
        core, log, action = self.core, self.log, self.core.next(self.log)
        judge(core, log, action, self.state)
        match action:
            case Collect(step):
                if is_large and step >= log.steps and log.divisions[step].division.rows > 1:
                    assert step == log.steps, "a step is cut while the one before it is not written"
                    log.cut(step)
                self.state = step + 1
            case Complete(version, former):
                assert all(version in held for held in self.held.values()) and former == core.version
            case Exit():
                self.exited = True
        do(action, core, log, ahead)

    @rule()
    def asked_twice(self) -> None:
        """`next` is idempotent: it returns the same action until that is carried out."""
        if not self.exited:
            assert self.core.next(self.log) == self.core.next(self.log)

    @rule(worker=st.integers(0, 1))
    def fold_of_a_worker_ends(self, worker: int) -> None:
        made = self.core.checkpoint
        if isinstance(made, FoldingCheckpoint) and made.version not in self.held[worker]:
            self.held[worker] = (self.held[worker][-1], made.version)
            if all(made.version in versions for versions in self.held.values()):
                self.core.folded(self.held)

    @rule()
    def crash(self) -> None:
        """Data that are not durable are lost. The databases open their latest common version and discard the other."""
        version = common_version(self.held)
        assert version.step <= self.log.steps, "a checkpoint holds a step whose output is not committed"
        self.held = dict.fromkeys(self.held, (version,))
        if self.log.intent == version:
            self.log.complete(version)
        self.core = Core(
            CheckpointMachine(version, self.ids), Rescale(Idle(owned_by(0, 1))), Transition(), PRESENT, goal=Goal.SERVE
        )
        self.state = version.step
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
        assert self.state == self.core.step + (self.core.ran is not None)


TestRun = Run.TestCase
TestRun.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


def test_versions_are_compared_by_identity_not_by_number() -> None:
    """A lazily discarded version of one crash must not meet another of the same number."""
    mine, other = VersionId(1, 5, "a"), VersionId(1, 7, "b")
    assert common_version({0: (EMPTY, mine), 1: (EMPTY, other)}) == EMPTY
    with pytest.raises(NoCommonVersion, match=r"worker 1: 1 \(step 7, b\)"):
        common_version({0: (mine,), 1: (other,)})


def test_the_workers_run_the_next_step_while_the_last_one_is_written() -> None:
    core, log = opened(), Log(divided=2)
    assert step_through(core, log, 6) == [
        Give(0, False), Collect(0), Give(1, False), Settle(0, False), Collect(1), Settle(1, False),
    ]  # fmt: skip
    assert core.next(log) == Divide(2)


def test_two_divisions_that_were_written_with_the_output_keep_the_workers_busy() -> None:
    """They are not reported, because the core reads them in the log."""
    core, log = opened(), Log(divided=1)
    done: list[Action] = []
    for _ in range(9):
        done.append(core.next(log))
        do(done[-1], core, log, ahead=2)
    assert done == [
        Give(0, False), Collect(0), Settle(0, False),
        Give(1, False), Collect(1), Give(2, False), Settle(1, False), Collect(2), Give(3, False),
    ]  # fmt: skip


def test_a_division_that_is_void_is_made_again() -> None:
    core, log = opened(), Log(divided=2)
    step_through(core, log, 1)
    log.cut(0)
    assert step_through(core, log, 3) == [Collect(0), Settle(0, False), Divide(1)]
    assert log.divisions[1].ranges[0].start == DIVISION_OFFSETS - 1


@pytest.mark.parametrize("request_name", ["stop", "pause", "checkpoint"])
def test_what_needs_a_boundary_waits_until_no_step_is_under_way(request_name: str) -> None:
    """Whenever it is asked for: the steps that are under way are collected and settled, and none is given."""
    for before in range(1, 6):
        core, log = opened(), Log(divided=1)
        step_through(core, log, 3)
        log.divide()
        log.divide()
        step_through(core, log, before)
        getattr(core, f"request_{request_name}")()
        under_way = {step for step in (core.running, core.ran) if step is not None}
        done: list[Action] = []
        while not core.drained and len(done) < LENGTH_MAX:
            done += step_through(core, log, 1)
        assert {action.step for action in done if isinstance(action, Settle)} == under_way
        assert not any(isinstance(action, Give) for action in done)
        assert core.next(log) == (Wait() if request_name == "pause" else LogIntent(VersionId(1, core.step, "c1")))


def test_a_stop_waits_for_its_checkpoint() -> None:
    core, log, version = opened(), Log(), VersionId(1, 1, "c1")
    assert step_through(core, log, 2) == [Divide(0), Give(0, replay=False)]
    core.request_stop()
    assert step_through(core, log, 5) == [
        Collect(0), Settle(0, False), LogIntent(version), Freeze(version), Fold(version),
    ]  # fmt: skip
    assert core.next(log) == Wait()
    core.folded({0: (EMPTY, version)})
    assert step_through(core, log, 2) == [Complete(version, EMPTY), Exit()]


def test_the_freeze_waits_until_the_log_has_the_intent() -> None:
    """A crash between the two would leave a version in the databases that the log does not know."""
    core, log, version = opened(), Log(divided=1), VersionId(1, 1, "c1")
    step_through(core, log, 3)
    assert core.request_checkpoint()
    assert [core.next(log), core.next(log)] == [LogIntent(version), LogIntent(version)]
    with pytest.raises(AssertionError, match="a freeze without an intent in the log"):
        core.frozen(log)
    log.intend(VersionId(1, 1, "another run's"))
    assert core.next(log) == LogIntent(version)
    log.intend(version)
    assert core.next(log) == Freeze(version)


def test_steps_go_on_while_a_checkpoint_is_folded() -> None:
    core, log, version = opened(), Log(divided=2), VersionId(1, 2, "c1")
    step_through(core, log, 1)
    core.request_checkpoint()  # there is nothing to keep yet
    assert isinstance(core.checkpoint, NoCheckpoint)
    step_through(core, log, 3)
    assert core.running == 1 and core.request_checkpoint() and not core.request_checkpoint()
    assert step_through(core, log, 5) == [
        Collect(1), Settle(1, False), LogIntent(version), Freeze(version), Fold(version),
    ]  # fmt: skip
    assert step_through(core, log, 2) == [Divide(2), Give(2, False)]
    core.folded({0: (EMPTY, version)})
    assert step_through(core, log, 2) == [Complete(version, EMPTY), Collect(2)]
    assert core.version == version


def test_a_checkpoint_is_complete_when_the_log_says_so() -> None:
    core, log = opened(), Log(divided=1)
    step_through(core, log, 3)
    core.request_checkpoint()
    step_through(core, log, 3)
    core.folded({0: (VersionId(1, 1, "c1"),)})
    with pytest.raises(AssertionError, match="is not complete in the log"):
        core.completed(log)
    assert core.version == EMPTY


def test_a_step_is_settled_when_the_log_has_its_output() -> None:
    core, log = opened(), Log(divided=1)
    step_through(core, log, 2)
    assert core.next(log) == Settle(0, replay=False)
    with pytest.raises(AssertionError, match=r"step 0 is settled out of order.*Settle\(step=0, replay=False\)"):
        core.settled(0, log)
    log.write()
    with pytest.raises(AssertionError, match="step 1 is settled out of order"):
        core.settled(1, log)
    core.settled(0, log)
    assert core.next(log) == Divide(1)


def test_a_step_that_nobody_collected_is_not_settled() -> None:
    core, log = opened(), Log(divided=1)
    step_through(core, log, 1)
    log.write()
    with pytest.raises(AssertionError, match="step 0 is settled out of order"):
        core.settled(0, log)


def test_steps_are_given_and_collected_one_after_the_other() -> None:
    core, log = opened(), Log(divided=2)
    with pytest.raises(AssertionError, match="step 2 is given without a division in the log"):
        core.given(2, log)
    with pytest.raises(AssertionError, match="step 1 is given out of order"):
        core.given(1, log)
    with pytest.raises(AssertionError, match="step 0 is collected, and step None is running"):
        core.collected(0)
    core.given(0, log)
    with pytest.raises(AssertionError, match="step 1 is given, and step 0 is running"):
        core.given(1, log)
    core.collected(0)
    with pytest.raises(AssertionError, match="step 0 is given out of order"):
        core.given(0, log)
    core.given(1, log)
    with pytest.raises(AssertionError, match="step 1 is collected, and step 0 is not settled"):
        core.collected(1)


def test_nothing_is_frozen_while_a_step_is_under_way() -> None:
    core, log = opened(), Log(divided=2)
    step_through(core, log, 3)
    log.write()
    core.settled(0, log)
    made = VersionId(1, 1, "c1")
    core.checkpoints.making.tell(NotNamed.named, made)
    log.intend(made)
    with pytest.raises(AssertionError, match="a freeze while a step is under way"):
        core.frozen(log)
    core.running, core.step = None, 2
    with pytest.raises(AssertionError, match="a step ran between intent and freeze"):
        core.frozen(log)


def test_a_checkpoint_that_a_worker_lacks_is_not_complete() -> None:
    core, log, made = opened(), Log(divided=1), VersionId(1, 1, "c1")
    step_through(core, log, 3)
    assert core.request_checkpoint()
    step_through(core, log, 3)
    with pytest.raises(AssertionError, match="the workers share"):
        core.folded({0: (EMPTY, made), 1: (EMPTY,)})
    assert isinstance(core.checkpoint, FoldingCheckpoint)
    core.folded({0: (EMPTY, made), 1: (EMPTY, made)})
    step_through(core, log, 1)
    assert core.version == made


def test_a_replay_comes_before_new_divisions_and_may_take_a_checkpoint() -> None:
    """So a long replay need not begin again after a crash (Flink's FLIP-76 calls it a checkpoint during recovery)."""
    core, log = opened(), Log(divided=3, written=2)
    assert step_through(core, log, 4) == [Give(0, True), Collect(0), Give(1, True), Settle(0, True)]
    core.request_checkpoint()
    version = VersionId(1, 2, "c1")
    assert step_through(core, log, 5) == [
        Collect(1), Settle(1, True), LogIntent(version), Freeze(version), Fold(version),
    ]  # fmt: skip
    assert step_through(core, log, 3) == [Give(2, False), Collect(2), Settle(2, False)]


def test_a_checkpoint_within_a_replay_holds_the_steps_until_there() -> None:
    core, log = opened(), Log(divided=5, written=5)
    step_through(core, log, 2)
    core.request_checkpoint(forced=True)
    version = VersionId(1, 1, "c1")
    assert step_through(core, log, 3) == [Settle(0, True), LogIntent(version), Freeze(version)]


def test_a_stop_within_a_replay_needs_no_checkpoint() -> None:
    core, log = opened(), Log(divided=3, written=3)
    step_through(core, log, 1)
    core.request_stop()
    assert step_through(core, log, 2) == [Collect(0), Settle(0, True)]
    assert core.next(log) == Exit()


def test_what_was_there_at_the_start_is_read_and_then_the_run_stops() -> None:
    core, log = opened(goal=Goal.READ_AVAILABLE), Log(divided=1)
    step_through(core, log, 3)
    assert core.next(log) == Divide(1)
    core.nothing_to_read()
    assert core.next(log) == LogIntent(VersionId(1, 1, "c1"))
    assert core.stopping


def test_a_run_without_an_end_goes_on_asking_for_input() -> None:
    core, log = opened(), Log()
    core.nothing_to_read()
    assert core.next(log) == Divide(0)


def test_a_pause_takes_effect_at_the_boundary_and_resume_goes_on() -> None:
    core, log = opened(), Log(divided=1)
    core.request_pause()
    assert core.next(log) == Wait()
    core.request_resume()
    assert core.next(log) == Give(0, replay=False)


def test_a_stop_overrides_a_pause() -> None:
    core, log = opened(), Log(divided=1)
    core.request_pause()
    core.request_stop()
    assert core.next(log) == Exit()


MISTAKES: list[tuple[str, dict[str, object]]] = [
    ("step 0 is below", {"version": VersionId(1, 1, "c")}),
    ("step 2 is next, and the log has 1 steps", {"step": 2}),
    ("step 0 ran, and step 1 is next", {"ran": 0}),
    ("step 2 is running, and step 1 is next", {"running": 2}),
    ("does not follow", {"making": Machine[CheckpointPhase](NamedCheckpoint(VersionId(2, 1, "c")))}),
    ("holds a step that has not run", {"making": Machine[CheckpointPhase](FrozenCheckpoint(VersionId(1, 2, "c")))}),
    ("between intent and freeze", {"making": Machine[CheckpointPhase](NamedCheckpoint(VersionId(1, 0, "c")))}),
    ("without an intent", {"making": Machine[CheckpointPhase](FrozenCheckpoint(VersionId(1, 1, "c")))}),
]


@pytest.mark.parametrize(("said", "fields"), MISTAKES, ids=[said for said, _ in MISTAKES])
def test_a_state_that_cannot_be_is_noticed(said: str, fields: dict[str, object]) -> None:
    core, log = opened(), Log(divided=3, written=1)
    if "version" not in fields:
        step_through(core, log, 4)
        core.running = None
    core.check(log)
    for name, value in fields.items():
        setattr(core if hasattr(core, name) and name != "version" else core.checkpoints, name, value)
    with pytest.raises(AssertionError, match=said):
        core.check(log)


# A run for a rescale alone

GIVEN_AWAY = {0: ALL_SLOTS, 1: NO_SLOTS}
"""After the rescale from two workers to one."""


def shrink(action: Action, core: Core, log: Log) -> None:
    """Acts as the shell in the rescale from workers 0 and 1 to worker 0."""
    match action:
        case LogRescale(wished):
            log.append(change().model_copy(update={"mode": wished.aim.strategy.mode}))
            core.rescale_intended(log)
        case Cut():
            core.cut(GIVEN_AWAY, 1)
        case LogIntent(version) if core.rescale.is_moved:
            log.append(CheckpointIntent(epoch=0, version=version, placed=placed(0)))
        case Complete(version) if log.rescale is not None:
            log.complete(version)
            log.append(layout(1, workers=(0,)))
            core.completed(log)
        case RemoveWorkers():
            core.workers_removed({0: ALL_SLOTS})
        case _:
            do(action, core, log)
    if isinstance(action, Fold):
        core.folded({0: (action.version,)})


def weigh(core: Core) -> None:
    """All that a live rescale moves is copied at once."""
    core.rescale.tell(Weighing.weighed)
    if core.rescale.mode == "live":
        core.rescale.tell(MovingPortions.copied, Portion(owned_by(0, 1)[1], 1, 0))


def shrinking(log: Log) -> Core:
    """A core of a run for the layout alone."""
    return Core(
        CheckpointMachine(EMPTY, ids()),
        Rescale(phase_after_recovery(owned_by(0, 1), log.rescale, log.target)),
        Transition(),
        PRESENT,
        goal=Goal.RESCALE,
    )


def kinds_until_exit(core: Core, log: Log) -> list[str]:
    done: list[str] = []
    while done[-1:] != ["Exit"]:
        assert len(done) < 40, done
        if isinstance(core.rescale.phase, Weighing):
            weigh(core)
        action = core.next(log)
        done.append(type(action).__name__)
        shrink(action, core, log)
    return done


SETTLING = ["LogIntent", "Freeze", "Fold", "Complete", "RemoveWorkers", "Exit"]


def test_a_run_for_a_cold_rescale_leaves_the_replay_to_the_next_run() -> None:
    log = Log(divided=3, written=2)
    core = shrinking(log)
    core.rescale.tell(Idle.requested, wish("cold", target(0)))
    assert kinds_until_exit(core, log) == ["LogRescale", "Cut", *SETTLING]
    assert (core.step, log.division_next) == (0, 3)


def test_a_run_that_finds_a_live_rescale_replays_and_takes_no_new_step() -> None:
    log = Log(divided=3, written=2)
    log.append(change())
    core = shrinking(log)
    assert kinds_until_exit(core, log) == [
        *("Give", "Collect", "Give", "Settle", "Collect", "Settle"),
        "Cut",
        *SETTLING,
    ]
    assert (core.step, log.steps, log.division_next) == (2, 2, 3)


def test_a_run_for_a_rescale_ends_at_once_where_there_is_none() -> None:
    log = Log(divided=3, written=2)
    core = shrinking(log)
    assert kinds_until_exit(core, log) == ["Exit"]


def test_a_rescale_begins_although_each_checkpoint_takes_as_long_as_the_interval_between_two() -> None:
    """The next checkpoint is due whenever one is complete."""
    core, log = opened(), Log(divided=1)
    assert step_through(core, log, 3)[-1] == Settle(0, False)
    assert core.request_periodic_checkpoint(log)
    first = VersionId(1, 1, "c1")
    assert step_through(core, log, 3)[-1] == Fold(first)
    core.rescale.tell(Idle.requested, wish("live", target(0)))
    assert step_through(core, log, 4)[-1] == Settle(1, False)
    core.folded({0: (EMPTY, first), 1: (EMPTY, first)})
    assert isinstance(step_through(core, log, 1)[0], Complete)
    assert not core.request_periodic_checkpoint(log)
    action = core.next(log)
    assert isinstance(action, LogRescale)
    shrink(action, core, log)
    weigh(core)
    assert core.request_periodic_checkpoint(log), "a cut does not wait for the end of a fold"


@pytest.mark.parametrize("mode", ["live", "cold"])
def test_a_rescale_that_has_something_to_do_holds_up_the_next_step(mode: RescaleMode) -> None:
    """While the workers have no step: a cold one from the request on, and a live one for its actions alone."""
    core, log = opened(), Log(divided=1)
    assert not core.is_held_up_by_rescale(log)
    core.rescale.tell(Idle.requested, wish(mode, target(0)))
    assert core.is_held_up_by_rescale(log)
    shrink(core.next(log), core, log)
    assert core.is_held_up_by_rescale(log) == (mode == "cold")
    weigh(core)
    assert core.is_held_up_by_rescale(log)
    core.running = 0
    assert not core.is_held_up_by_rescale(log), "the workers have a step"
    core.running = None
    shrink(core.next(log), core, log)
    assert core.rescale.is_moved and core.is_held_up_by_rescale(log) == (mode == "cold")


def test_a_cut_of_a_live_rescale_is_made_before_the_last_step_is_settled() -> None:
    """So its output is written while the next step runs. A cold one waits until no step is under way."""
    core, log = opened(), Log(divided=2)
    log.append(change())
    core.rescale = Rescale(phase_after_recovery(owned_by(0, 1), log.rescale, log.target))
    assert step_through(core, log, 2) == [Give(0, False), Collect(0)]
    weigh(core)
    cut = core.next(log)
    assert isinstance(cut, Cut) and core.ran == 0 and not core.is_replaying(log)
    core.running = 1
    with pytest.raises(AssertionError, match="a cut while the workers have a step"):
        core.cut(GIVEN_AWAY, 1)
    core.running = None
    given = owned_by(0, 1)[1].first(9)
    core.cut({0: owned_by(0, 1)[0].union(given), 1: owned_by(0, 1)[1].minus(given)}, 1)
    assert step_through(core, log, 2) == [Give(1, False), Settle(0, False)]


# All sequences of requests

REQUESTS = ("pause", "resume", "stop", "checkpoint")
LENGTH_MAX = 7


def sequences(core: Core, log: Log, left: int) -> Iterator[tuple[Core, Log, Action]]:
    """What the core asks for after every sequence of requests and actions. A fold ends at once."""
    for what in (*REQUESTS, "act") if left else ():
        next_core, next_log = copy.copy(core), copy.copy(log)
        next_core.checkpoints = copy.copy(core.checkpoints)
        next_core.checkpoints.making = copy.copy(core.checkpoints.making)
        if what != "act":
            getattr(next_core, f"request_{what}")()
        else:
            action = next_core.next(next_log)
            yield next_core, next_log, action
            if action == Exit():
                continue
            do(action, next_core, next_log)
            if isinstance(action, Fold):
                next_core.folded({0: (action.version,)})
        yield from sequences(next_core, next_log, left - 1)


@pytest.mark.parametrize(("divided", "written"), [(2, 0), (3, 3)], ids=["new steps", "a replay"])
def test_every_short_sequence_of_requests_is_obeyed_at_drained_boundaries(divided: int, written: int) -> None:
    seen: Counter[type[Action]] = Counter()
    begun = opened()
    start = Log(divided=divided, written=written)
    step_through(begun, start, 2)  # one step is collected, and the next one can be given
    for core, log, action in sequences(begun, start, LENGTH_MAX):
        judge(core, log, action, core.step + (core.ran is not None))
        seen[type(action)] += 1
        if not core.drained and not isinstance(core.checkpoint, FrozenCheckpoint):
            assert isinstance(action, Collect | Settle | Give | Complete)
        elif isinstance(core.checkpoint, NoCheckpoint) and not core.stopping:
            assert (action == Wait()) == core.paused
    assert min(seen[kind] for kind in (Give, Collect, Settle, Wait)) > 100 and seen[Exit], seen
