"""What the coordinator does next: a state machine without I/O, clock or randomness.

The shell (loop.py) calls `next(log, blocked)`, where `log` is the state of the step log at that moment, and `blocked` what the checkpoint
store blocks. It carries out the action that is returned, and then reports it with the method in the last column. An action is always carried
out before it is reported. What an action wrote into the log is not reported at all, because the core reads it there. So the core remembers
only what the log cannot know: how far the workers are, how far a checkpoint has got in them, and what was requested.

    action                      what the shell does                                            report
    Divide(step)                end offsets -> division -> log, or find nothing to read        nothing_to_read, if so
    Give(step, replay)          give the step to the workers                                   given
    Collect(step)               wait until all workers have run it                             collected
    Settle(step, replay)        write the step's output, or compare it                         settled
    LogIntent(version)          write the intent of a checkpoint into the log                  -
    Freeze(version)             set every worker's changes aside as `version` (fast)           frozen
    Fold(version)               begin to fold in the background                                folding; folded when it has ended
    Complete(version, former)   write into the log that every worker has `version`             completed
    LogRescale(wish)            write the intent of a rescale into the log                     rescale_intended
    AddWorkers(new, step)       make workers, and connect all of them to each other            workers_added
    Cut(slots, from, to)        let slots go from one worker to another                        cut
    RemoveWorkers(leaving)      let workers leave                                              workers_removed
    LogTransition, LogTurn, ...  see transition/machine.py                                     as there
    ChangeProgram(step)         have the workers run what this step runs                       adopted
    Wait                        wait until something is requested, or a fold ends              -
    Exit                        end the run: everything is in a checkpoint                     -

If the log has the division of step s+1, the workers run s+1 while the shell settles s. So two steps can be under way: one whose results are not
settled, and one that was given. A boundary is **drained** if no step is under way. Whatever must not see half of a step happens at drained
boundaries only: a checkpoint, a pause, the end of the run, and what a rescale does (rescale/phases.py). If one of them is due, no step is
given until those that are under way are settled. The cuts of a live rescale need not wait for that. They change nothing but what the workers
have, as a step does, so a cut is made as soon as the workers have no step, and the output of the last one is written while the next one runs.

Guarantees (the numbers are those of the invariants in ARCHITECTURE.md):

- A step is given only if the log holds its division (1).
- A step whose output is in the log is compared and never written again. A step whose output is not there is written (2, 4).
- A checkpoint is taken at a drained boundary, one at a time, and holds only steps whose output is committed. Its intent is in the log before
  the freeze, and its completion is written only after every worker has the version (6). While the log's steps are replayed, checkpoints are
  taken too, so a long replay need not begin again after a crash.
- Slots change their owner while the workers have no step, and never between the intent of a checkpoint and its freeze (7).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from base.slots import NO_SLOTS, SlotSet
from base.version import VersionId
from coordinator.actions import (
    Action,
    ChangeProgram,
    CheckpointAction,
    Collect,
    Divide,
    Exit,
    Give,
    Settle,
    Wait,
)
from coordinator.boundary import Boundary
from coordinator.checkpoints.machine import CheckpointMachine
from coordinator.checkpoints.phases import CheckpointPhase
from coordinator.goal import Goal
from coordinator.rescale.actions import AddWorkers, Cut, LogRescale, RemoveWorkers
from coordinator.rescale.machine import Rescale
from coordinator.transition.machine import AnyTransition, LogTurn, TransitionAction
from io_kafka.step_log.programs import ProgramKey
from io_kafka.step_log.state import StepLogState

STORY_EVENTS_MAX = 16
"""How many past actions and reports the text of an assertion lists. One checkpoint has eight, and the cause is seldom older than that."""


@dataclass(frozen=True)
class StoreBlocks:
    """What the checkpoint store blocks, because it is behind. `steps`: no step begins that is not replayed. `stop`: the run does not end."""

    steps: bool = False
    stop: bool = False


NOTHING_BLOCKED = StoreBlocks()


@dataclass
class Core:
    """Which action comes next, for one attempt of a run. `check` states the invariants."""

    checkpoints: CheckpointMachine
    rescale: Rescale
    transition: AnyTransition
    """The machine that says what leads to another program."""
    program: ProgramKey
    """What the workers run."""
    goal: Goal = field(kw_only=True)
    """When the run ends by itself."""
    step: int = field(init=False)
    """The next step to settle. Right after the databases were opened it is that of `version`."""
    running: int | None = None
    """The step that the workers have; None if they have none."""
    ran: int | None = None
    """The step that the workers have finished and that is not settled; None if there is none."""
    paused: bool = False
    """No step is divided until a user says so."""
    stopping: bool = False
    """The run ends with a checkpoint at the next drained boundary."""
    blocked: StoreBlocks = NOTHING_BLOCKED
    """What the store blocked at the last call of `next`."""
    exhausted: bool = field(init=False)
    """Whether the current program has no input left."""
    story: deque[object] = field(default_factory=lambda: deque(maxlen=STORY_EVENTS_MAX), repr=False)
    """The last actions and reports, for the text of a broken invariant."""

    def __post_init__(self) -> None:
        self.step = self.version.step
        self.exhausted = not self.goal.divides_input

    @property
    def version(self) -> VersionId:
        """The last complete checkpoint that the databases have."""
        return self.checkpoints.version

    @property
    def checkpoint(self) -> CheckpointPhase:
        """The phase of the checkpoint that is made."""
        return self.checkpoints.phase

    @property
    def drained(self) -> bool:
        """Whether no step is under way: every step that was given is settled."""
        return self.running is None and self.ran is None

    def is_replaying(self, log: StepLogState) -> bool:
        """Whether the log has the output of the next step already."""
        return self.step < log.steps

    def next(self, log: StepLogState, blocked: StoreBlocks = NOTHING_BLOCKED) -> Action:
        """The next action. The parts of a checkpoint come before steps, and a stop waits for its own checkpoint.

        `next` is idempotent: it returns the same action until that is carried out. But it decides three things on the way, and remembers
        them: that a checkpoint is due and what it is called, that a run which has nothing more to do stops, and that a rescale need not leave
        time for steps where none come."""
        self.check(log)
        self.blocked = blocked
        action = self.checkpoints.after_freeze() or self._next_of_steps(log)
        self.story.append(action)
        return action

    def _next_of_steps(self, log: StepLogState) -> Action:
        if not self.drained:
            return self._next_while_steps_run(log)
        checkpoint = self._checkpoint_action(log)
        if checkpoint is not None:
            return checkpoint
        if self.stopping:
            return self._pending_abort(log) or self._stop_action(log)
        due = self.rescale.next(log, self._at_boundary(log))
        if due is not None:
            return due
        if self.goal.ends_with_rescale and self.rescale.is_idle:
            return self._end_run(log)
        if self.paused:
            return self._next_while_paused(log)
        if self.rescale.blocks_steps or (self.blocked.steps and not self.is_replaying(log)):
            return Wait()
        adoption = self._next_program(log)
        if adoption is not None:
            return adoption
        if self.step < self._step_limit(log):
            return Give(self.step, self.is_replaying(log))
        if self._has_no_more_steps(log):
            return self._next_without_steps(log)
        return Wait() if self.transition.blocks_steps(log) else Divide(self.step)

    def _next_while_paused(self, log: StepLogState) -> Action:
        """A pause does not keep a transition from being taken back."""
        self.rescale.no_step_comes()
        aborting = self._next_program(log) if self.transition.is_aborting(log) else None
        return aborting or Wait()

    def _has_no_more_steps(self, log: StepLogState) -> bool:
        """Whether the run divides no more steps: it ends with its input, or only replays."""
        is_switch_left = log.revisions.is_to_pass_on(self.step)  # such a step needs no input
        reads_no_more = self.exhausted or self.transition.waits_for_users(log)
        has_no_input = self.goal.ends_with_input and reads_no_more and not is_switch_left
        return has_no_input or not self.goal.runs_new_steps

    def _next_without_steps(self, log: StepLogState) -> Action:
        """The run ends, once the rescale and the transition that go on without steps are over."""
        if not self.rescale.is_idle:
            self.rescale.no_step_comes()
            return Wait()
        return Wait() if self.transition.goes_on_by_itself(log) else self._end_run(log)

    def _end_run(self, log: StepLogState) -> Action:
        """The run stops by itself."""
        self.request_stop()
        return self._stop_action(log)

    def _next_program(self, log: StepLogState) -> TransitionAction | ChangeProgram | None:
        """What leads to another program, before the next step."""
        if not (self.goal.runs_new_steps or self.is_replaying(log)):
            return None
        if log.program_key(self.step) != self.program:
            return ChangeProgram(self.step)
        return self.transition.next(log, self._at_boundary(log))

    def _pending_abort(self, log: StepLogState) -> LogTurn | None:
        """A stop does not lose the order to take a transition back."""
        due = self.transition.next(log, self._at_boundary(log)) if self.transition.is_aborting(log) else None
        return due if isinstance(due, LogTurn) else None

    def _at_boundary(self, log: StepLogState) -> Boundary:
        """The one at which the workers are, or the next one if they run a step."""
        return Boundary(self.step, is_replaying=self.is_replaying(log), is_checkpointing=self.checkpoints.is_under_way)

    def is_transition_due(self, log: StepLogState) -> bool:
        """Whether no step may be divided or given ahead, because a transition waits for the next boundary. Behind the last step of a replay an
        abort comes before the next one, which may never end."""
        at = self._at_boundary(log)
        if not self.drained:
            at = replace(at, step=self.step + 1, is_replaying=self.step + 1 < log.steps)
        return self.transition.is_due(log, at)

    def _next_while_steps_run(self, log: StepLogState) -> Action:
        """The next step is given before the last one is settled, so that the workers run it meanwhile."""
        if self.ran is None:
            assert self.running is not None
            return Collect(self.running)
        ahead = self.ran + 1
        if self.running is None and ahead < self._step_limit(log) and not self._needs_drained_boundary(log):
            if (cut := self._cut_between_steps(log)) is not None:
                return cut
            return Give(ahead, ahead < log.steps)
        return Settle(self.ran, self.ran < log.steps)

    def _cut_between_steps(self, log: StepLogState) -> Cut | None:
        """A cut that need not wait until the last step is settled."""
        due = self.rescale.next(log, self._at_boundary(log)) if self.rescale.mode == "live" else None
        return due if isinstance(due, Cut) else None

    def _step_limit(self, log: StepLogState) -> int:
        """The steps below this one may be given to the workers."""
        return log.division_next if self.goal.runs_new_steps else log.steps

    def _needs_drained_boundary(self, log: StepLogState) -> bool:
        """Whether something waits for a drained boundary."""
        if self.stopping or self.paused or self.blocked.steps or self.checkpoints.is_freeze_due:
            return True
        if log.program_key(self.step + 1) != self.program or self.is_transition_due(log):
            return True
        due = self._cut_between_steps(log) is None and self.rescale.is_due(log, self._at_boundary(log))
        return due or self.rescale.blocks_steps

    def is_held_up_by_rescale(self, log: StepLogState) -> bool:
        """Whether the workers have no step because a rescale has something to do first, or blocks the steps."""
        if self.running is not None or self.rescale.is_idle:
            return False
        return self.rescale.blocks_steps or self.rescale.next(log, self._at_boundary(log)) is not None

    def _checkpoint_action(self, log: StepLogState) -> CheckpointAction | None:
        """Begins a checkpoint that is wanted. One that settles a rescale is wanted by itself."""
        if not self.checkpoints.is_under_way and (self.rescale.is_moved or self.transition.needs_checkpoint):
            self.checkpoints.want()
        return self.checkpoints.begin(self.step, log) if self.checkpoints.is_freeze_due else None

    def _stop_action(self, log: StepLogState) -> Action:
        if self.checkpoints.is_folding:
            return Wait()
        if not self.is_replaying(log) and (self.step > self.version.step or self._has_moved(log)):
            return self.checkpoints.begin(self.step, log)
        return Wait() if self.blocked.stop else Exit()

    def _has_moved(self, log: StepLogState) -> bool:
        """Whether slots have other owners than in the last version."""
        owned = log.placed.get(self.version, log.current_layout.placed).owned
        return any(owned.get(worker, NO_SLOTS) != slots for worker, slots in self.rescale.owned.items())

    # Requests

    def request_checkpoint(self, *, forced: bool = False) -> bool:
        """Asks for a checkpoint. Returns False if a checkpoint is under way, or if there is no new step to keep and it is not `forced`."""
        if self.checkpoints.is_under_way or (self.step == self.version.step and not forced):
            return False
        self.checkpoints.want()
        return True

    def request_periodic_checkpoint(self, log: StepLogState) -> bool:
        """Asks for a checkpoint because the last one was made long ago. It comes after what a rescale does as soon as no checkpoint is
        under way. Where a checkpoint takes as long as the interval between two, the rescale would otherwise wait for ever."""
        due = self.rescale.next(log, replace(self._at_boundary(log), is_checkpointing=False))
        return not isinstance(due, LogRescale | AddWorkers | RemoveWorkers) and self.request_checkpoint()

    def request_pause(self) -> None:
        """No step begins after the next boundary. A stop overrides a pause."""
        self.paused = True

    def request_resume(self) -> None:
        self.paused = False

    def request_stop(self) -> None:
        """Stops at the next boundary, with a checkpoint. A replay that is under way ends without one, because the log has its steps."""
        self.stopping = True

    # Reports

    def nothing_to_read(self) -> None:
        self.exhausted = True
        self.rescale.no_step_comes()

    def given(self, step: int, log: StepLogState) -> None:
        """The workers have the step."""
        assert self.running is None, self._with_story(f"step {step} is given, and step {self.running} is running")
        assert step < log.division_next, self._with_story(f"step {step} is given without a division in the log")
        assert step == self.step + (self.ran is not None), self._with_story(f"step {step} is given out of order")
        assert not self.rescale.blocks_steps, self._with_story(f"step {step} is given while a rescale blocks the steps")
        self.story.append("given")
        self.running = step

    def adopted(self, program: ProgramKey) -> None:
        """All workers run this program from the next step on."""
        assert self.drained, self._with_story(f"{program} is adopted while a step is under way")
        self.story.append("adopted")
        self.program = program
        self.exhausted = not self.goal.divides_input  # it may have something to do without input, or other input

    def collected(self, step: int) -> None:
        """All workers have run the step."""
        assert step == self.running, self._with_story(f"step {step} is collected, and step {self.running} is running")
        assert self.ran is None, self._with_story(f"step {step} is collected, and step {self.ran} is not settled")
        self.story.append("collected")
        self.running, self.ran = None, step

    def settled(self, step: int, log: StepLogState) -> None:
        """The step's output is in the log: it was written now, or it was written before and has been compared."""
        assert step == self.ran == self.step < log.steps, self._with_story(f"step {step} is settled out of order")
        self.story.append("settled")
        self.ran = None
        self.step += 1
        self.rescale.stepped()

    def frozen(self, log: StepLogState) -> None:
        """Every worker has set its changes aside as the version of the checkpoint."""
        assert self.drained, self._with_story("a freeze while a step is under way")
        version = self.checkpoints.frozen(self.step, log)
        self.story.append("frozen")
        self.transition.frozen(version)

    def folding(self) -> None:
        self.checkpoints.folding()
        self.story.append("folding")

    def folded(self, versions: Mapping[int, tuple[VersionId, ...]]) -> None:
        """The fold has ended. `versions`: those that each worker has now."""
        self.checkpoints.folded(versions)
        self.story.append("folded")

    def completed(self, log: StepLogState) -> None:
        """The completion of the checkpoint is in the log."""
        version = self.checkpoints.completed(log)
        self.story.append("completed")
        self.transition.completed(version)
        self.rescale.completed(log)

    def rescale_intended(self, log: StepLogState) -> None:
        """The intent of the rescale is in the log."""
        assert log.rescale is not None, self._with_story("the log has no rescale")
        self._report_of_rescale("intended")
        self.rescale.intended()

    def workers_added(self, owned: Mapping[int, SlotSet]) -> None:
        """The workers of the target are there, and all are connected."""
        assert not self.checkpoints.is_under_way, self._with_story("workers are made while a checkpoint is under way")
        self._report_of_rescale("workers_added")
        self.rescale.workers_added(owned)

    def cut(self, owned: Mapping[int, SlotSet], steps_between: int) -> None:
        """Some slots have another owner. `steps_between`: see MovingSlots.cut."""
        assert self.running is None, self._with_story("a cut while the workers have a step")
        self._report_before_freeze("cut")
        self.rescale.cut(owned, steps_between)

    def workers_removed(self, owned: Mapping[int, SlotSet]) -> None:
        """The workers that were to leave are gone."""
        self._report_of_rescale("workers_removed")
        self.rescale.workers_removed(owned)

    def _report_of_rescale(self, event: str) -> None:
        assert self.drained, self._with_story(f"{event} while a step is under way")
        self._report_before_freeze(event)

    def _report_before_freeze(self, event: str) -> None:
        assert not self.checkpoints.is_named, self._with_story(
            f"{event} between the intent of a checkpoint and its freeze"
        )
        self.story.append(event)

    def _with_story(self, mistake: str) -> str:
        return f"{mistake}; before: {' > '.join(map(str, self.story))}"

    def check(self, log: StepLogState) -> None:
        """Asserts the invariants. `next` calls it before each decision."""
        assert self.version.step <= self.step, self._with_story(f"step {self.step} is below {self.version}")
        assert self.step <= log.steps, self._with_story(f"step {self.step} is next, and the log has {log.steps} steps")
        assert self.ran in (None, self.step), self._with_story(f"step {self.ran} ran, and step {self.step} is next")
        assert self.running in (None, self.step + (self.ran is not None)), self._with_story(
            f"step {self.running} is running, and step {self.step} is next"
        )
        self.checkpoints.check(self.step, log)
