"""The core against every order of events that Hypothesis finds, `check()` after each; and the stories that matter, as scripts."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from base.version import VersionId
from coordinator.core import Action, Checkpoint, Core, NoCommonVersion, common_version
from coordinator.workers import InvalidTransition, State, Workers

EMPTY = VersionId(0, 0, "empty")


class Run(RuleBasedStateMachine):
    """A coordinator with a log and two databases beside it, crashing at will; the world keeps what is durable."""

    def __init__(self) -> None:
        super().__init__()
        self.divided, self.written = -1, -1
        self.held: dict[int, tuple[VersionId, ...]] = {0: (EMPTY,), 1: (EMPTY,)}
        self.checkpoints = 0
        self.core = Core(EMPTY, -1, -1)
        self.exited = False

    @rule()
    def proceed(self) -> None:
        if self.exited:
            return
        core, action = self.core, self.core.next()
        if action is Action.DIVIDE:
            assert core.step == self.divided + 1, "a division is skipped or made twice"
            self.divided += 1
            core.log_divided(self.divided)
        elif action is Action.RUN_STEP:
            assert core.step <= self.divided, "a step without a division in the log"
            assert core.step <= self.written + 1, "a step ahead of committed output"
            assert core.replaying == (core.step <= self.written), "output would be written twice, or never"
            self.written = max(self.written, core.step)
            core.stepped()
        elif action is Action.INTEND:
            self.checkpoints += 1
            core.intended(f"c{self.checkpoints}")
        elif action is Action.FREEZE:
            core.frozen()
        elif action is Action.FOLD:
            core.folding()
        elif action is Action.COMPLETE:
            core.completed(self.held)
        elif action is Action.EXIT:
            self.exited = True
            assert core.version.step == core.step or core.replaying, "an exit without a checkpoint"

    @rule(worker=st.integers(0, 1))
    def fold_of_a_worker_ends(self, worker: int) -> None:
        pending = self.core.pending
        if self.core.checkpoint is Checkpoint.FOLDING and pending is not None and pending not in self.held[worker]:
            self.held[worker] = (self.held[worker][-1], pending)
            if all(pending in versions for versions in self.held.values()):
                self.core.folded()

    @rule()
    def crash(self) -> None:
        """What is not durable is gone; the databases open their latest common version and discard the other."""
        version = common_version(self.held)
        assert version.step <= self.written + 1, "a checkpoint holds a step whose output is not committed"
        self.held = dict.fromkeys(self.held, (version,))
        self.core = Core(version, self.divided, self.written)
        self.exited = False

    @precondition(lambda self: not self.exited)
    @rule(request=st.sampled_from(["pause", "resume", "checkpoint", "stop"]))
    def ask(self, request: str) -> None:
        getattr(self.core, f"request_{request}")()

    @invariant()
    def holds(self) -> None:
        self.core.check()
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
    core = Core(EMPTY, -1, -1)
    assert core.next() is Action.DIVIDE
    core.log_divided(0)
    assert core.next() is Action.RUN_STEP
    core.request_stop()
    core.stepped()
    story = []
    while (action := core.next()) is not Action.EXIT:
        story.append(action)
        if action is Action.INTEND:
            core.intended("x")
        elif action is Action.FREEZE:
            core.frozen()
        elif action is Action.FOLD:
            core.folding()
            assert core.next() is Action.WAIT
            core.folded()
        elif action is Action.COMPLETE:
            core.completed({0: (EMPTY, VersionId(1, 1, "x"))})
    assert story == [Action.INTEND, Action.FREEZE, Action.FOLD, Action.COMPLETE]
    assert core.workers.state is State.STOPPED


def test_a_checkpoint_that_a_worker_lacks_is_not_complete() -> None:
    core, made = Core(EMPTY, 0, 0), VersionId(1, 1, "x")
    core.stepped()
    assert core.request_checkpoint()
    core.intended("x")
    core.frozen()
    core.folding()
    core.folded()
    with pytest.raises(AssertionError, match="the workers share"):
        core.completed({0: (EMPTY, made), 1: (EMPTY,)})
    assert core.version == EMPTY
    core.completed({0: (EMPTY, made), 1: (EMPTY, made)})
    assert core.version == made


def test_a_replay_comes_before_new_divisions_and_takes_no_checkpoint() -> None:
    core = Core(EMPTY, divided=2, written=1)
    for _ in range(2):
        assert (core.next(), core.replaying) == (Action.RUN_STEP, True)
        core.stepped()
        core.request_checkpoint()
    assert (core.next(), core.replaying) == (Action.INTEND, False)


def test_pause_takes_effect_at_the_boundary_and_resume_goes_on() -> None:
    workers = Workers(7)
    workers.pause()
    assert not workers.may_step()
    workers.boundary()
    assert workers.state is State.PAUSED
    workers.resume()
    assert workers.may_step()


def test_a_stop_below_the_next_step_is_fatal() -> None:
    workers = Workers(7)
    workers.pause()
    workers.boundary()
    with pytest.raises(InvalidTransition, match="stop at step 6"):
        workers.stop(6)
    with pytest.raises(InvalidTransition, match="stop\\(9\\) in state run"):
        Workers(7).stop(9)


def test_steps_go_on_up_to_the_step_of_the_stop() -> None:
    """The maximum over all workers: one that answered less has to catch up."""
    workers = Workers(7)
    workers.pause()
    workers.boundary()
    workers.stop(9)
    for _ in range(2):
        assert workers.may_step()
        workers.stepped()
        workers.boundary()
        workers.check()
    assert workers.state is State.STOPPED
