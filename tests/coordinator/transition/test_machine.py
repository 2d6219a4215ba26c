"""What is due in a transition, at each boundary, and in which order: without workers and without Kafka."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from base.machine import InvalidTransition
from base.version import EMPTY
from coordinator.actions import (
    ChangeProgram,
    Collect,
    Complete,
    Divide,
    Exit,
    Fold,
    Freeze,
    Give,
    LogIntent,
    Settle,
    Wait,
)
from coordinator.boundary import Boundary
from coordinator.checkpoints.machine import CheckpointMachine
from coordinator.core import Core
from coordinator.goal import Goal
from coordinator.rescale.machine import Rescale
from coordinator.rescale.phases import Idle
from coordinator.revisions.transition_shown import ViewDifference
from coordinator.revisions.turns import TurnName
from coordinator.transition.findings import (
    AllCleared,
    CheckingTopics,
    Measured,
    NoFindings,
    Preparing,
    TopicsChecked,
    WantedTransition,
)
from coordinator.transition.machine import (
    NO_REQUESTS,
    AnyTransition,
    CheckTopics,
    ClearUnusedTables,
    LogSettled,
    LogSwitch,
    LogTransition,
    LogTurn,
    MeasureWhatDiffers,
    Transition,
    TransitionRequests,
)
from io_kafka.step_log.programs import ProgramKey
from io_kafka.step_log.records import Record
from io_kafka.step_log.revision_records import Choices, RevisionSwitch, RevisionTurn, TurnTo
from tests.coordinator.test_core import Log, ids
from tests.io_kafka.layouts import owned_by
from tests.io_kafka.transitions import DRAIN, WHOLE, begins, fills, pauses, revision, settles, switches, turns

PRESENT, FILLING, SWITCHING, NEXT = (
    ProgramKey("present", 1),
    ProgramKey("filling", 1),
    ProgramKey("switching", 2),
    ProgramKey("present", 2),
)

PREPARATION, PREPARED, LOOK = "preparation", "prepared", "look"
"""What the shell keeps in the phases. The machine does nothing with it."""

DIFFERENCES = (ViewDifference("totals", 3, 4),)


def log_of(*records: Record) -> Log:
    log = Log()
    log.append(revision())
    for record in records:
        log.append(record)
    return log


def core_of(log: Log, program: ProgramKey) -> Core:
    return Core(CheckpointMachine(EMPTY, ids()), Rescale(Idle(owned_by(0, 1))), Transition(), program, goal=Goal.SERVE)


def run_step(core: Core, log: Log, step: int) -> None:
    """A step that is divided."""
    assert core.next(log) == Give(step, False)
    core.given(step, log)
    assert core.next(log) == Collect(step)
    core.collected(step)
    assert core.next(log) == Settle(step, False)
    log.write()
    core.settled(step, log)


def checkpoint(core: Core, log: Log, *, paused: bool = False) -> None:
    """One that the core wants by itself. `paused`: the run is paused while it is folded."""
    action = core.next(log)
    assert isinstance(action, LogIntent)
    log.intend(action.version)
    assert isinstance(core.next(log), Freeze)
    core.frozen(log)
    assert isinstance(core.next(log), Fold)
    core.folding()
    if paused:
        core.request_pause()
        assert core.next(log) == Wait()
    core.folded({0: (action.version,), 1: (action.version,)})
    assert isinstance(core.next(log), Complete)
    log.complete(action.version)
    core.completed(log)


def prepare(machine: AnyTransition) -> None:
    machine.preparing(PREPARATION)
    machine.prepared(PREPARED)


def look(core: Core, log: Log) -> None:
    """Steps go on meanwhile."""
    assert core.next(log) == CheckTopics()
    core.transition.checking_topics(LOOK)
    assert core.next(log) in (Divide(core.step), Wait()) and not core.is_transition_due(log)
    core.transition.topics_checked(())


def look_at(machine: AnyTransition, log: Log, at: Boundary) -> None:
    assert machine.next(log, at) == CheckTopics()
    machine.checking_topics(LOOK)
    assert machine.next(log, at) is None and not machine.is_due(log, at)
    machine.topics_checked(())


def test_a_run_that_ends_with_its_input_waits_for_what_is_done_beside_the_steps() -> None:
    """A project that is being prepared is applied before the run ends."""
    log = log_of()
    core = core_of(log, PRESENT)
    core.goal = Goal.READ_AVAILABLE
    core.transition.preparing(PREPARATION)
    core.nothing_to_read()
    assert core.next(log) == Wait()
    core.transition.refused()
    assert core.next(log) == Exit()


def test_a_revision_that_this_release_cannot_run_has_steps_in_a_transition_alone() -> None:
    """Not before the intent, and not after an abort; and those of the next revision are no concern of it."""
    log = log_of()
    core = core_of(log, PRESENT)
    machine = core.transition
    machine.note_revision(1, is_runnable=False)
    machine.preparing(PREPARATION)
    assert core.next(log) == Wait() and not machine.is_at_end(log)
    machine.refused()
    assert core.next(log) == Wait() and machine.is_at_end(log)
    prepare(machine)
    assert core.next(log) == LogTransition() and not machine.is_at_end(log)
    log.append(begins())
    machine.began()
    assert not machine.blocks_steps(log) and not machine.is_at_end(log)
    aborted = log_of(begins(), turns("abort"))
    assert machine.blocks_steps(aborted) and not machine.is_at_end(aborted), "tables are to be cleared"
    for number, is_runnable in ((3, False), (1, True)):
        machine.note_revision(number, is_runnable=is_runnable)
        assert not machine.blocks_steps(log_of()) and not machine.is_at_end(log_of())


def test_a_transition_goes_from_the_intent_to_its_end() -> None:
    """Each program is adopted before a step runs it, and what is cleared is in a checkpoint before the end is recorded."""
    log = log_of()
    core = core_of(log, PRESENT)
    assert core.next(log) == Divide(0), "nothing is due"
    prepare(core.transition)
    assert core.next(log) == LogTransition()
    log.append(begins())
    core.transition.began()
    assert core.next(log) == ChangeProgram(0)
    core.adopted(FILLING)
    assert core.next(log) == Divide(0)
    log.append(fills(0, WHOLE))
    run_step(core, log, 0)
    look(core, log)
    assert core.next(log) == MeasureWhatDiffers()
    core.transition.measured(DIFFERENCES, (), reads_again=False)
    assert core.next(log) == LogSwitch()
    log.append(switches())
    core.transition.switched()
    assert core.next(log) == ChangeProgram(1)
    core.adopted(SWITCHING)
    assert core.next(log) == Divide(1)
    log.append(fills(1, None))
    run_step(core, log, 1)
    assert core.next(log) == ChangeProgram(2)
    core.adopted(NEXT)
    assert core.next(log) == ClearUnusedTables()
    core.transition.cleared(is_done=False, is_last=True)
    checkpoint(core, log)
    assert core.next(log) == ClearUnusedTables(), "something is left"
    core.transition.cleared(is_done=True, is_last=True)
    checkpoint(core, log)
    core.transition.note_store(needs_loads=True)
    assert core.next(log) == Divide(core.step), "the checkpoint store still needs loads that go with the end"
    core.transition.note_store(needs_loads=False)
    assert core.next(log) == LogSettled()
    log.append(settles(step=2))
    core.transition.settled()
    assert core.next(log) == Divide(2)


def test_a_drain_is_some_steps_of_one_program_in_which_nothing_is_due() -> None:
    """They need no input, also in a run that ends with its input. A checkpoint may come between them, and an abort that was asked for late does
    nothing."""
    log = log_of(begins(gradual=True), fills(0, WHOLE))
    core = core_of(log, FILLING)
    core.goal = Goal.READ_AVAILABLE
    run_step(core, log, 0)
    look(core, log)
    core.transition.measured(DIFFERENCES, (), reads_again=False)
    assert core.next(log) == LogSwitch()
    log.append(switches(drain=DRAIN))
    core.transition.switched()
    assert core.next(log) == ChangeProgram(1)
    core.adopted(SWITCHING)
    core.nothing_to_read()
    for number, drained in enumerate((3, 3, DRAIN.whole), 1):
        assert core.next(log) == Divide(number)
        log.append(fills(number, drained))
        run_step(core, log, number)
        core.transition.asked = TransitionRequests(turn="abort")
        assert core.request_checkpoint()
        checkpoint(core, log)
    assert core.next(log) == ChangeProgram(4)
    core.adopted(NEXT)
    core.nothing_to_read()
    assert core.next(log) == ClearUnusedTables(), "no table is removed before everything has left"
    assert log.revisions.phase is not None and log.revisions.phase.kind == "clearing"


def test_what_was_read_again_is_in_a_checkpoint_before_the_switch() -> None:
    """No replay across the switch needs those messages then, which may have expired. A run that ends with its input waits for it too."""
    log = log_of(begins(), fills(0, WHOLE))
    core = core_of(log, FILLING)
    core.goal = Goal.READ_AVAILABLE
    run_step(core, log, 0)
    look(core, log)
    assert core.next(log) == MeasureWhatDiffers()
    core.transition.measured(DIFFERENCES, (), reads_again=True)
    core.nothing_to_read()
    assert core.transition.goes_on_by_itself(log)
    checkpoint(core, log)
    assert not core.transition.goes_on_by_itself(log)
    assert core.next(log) == LogSwitch()
    log.append(switches())
    core.transition.switched()
    assert core.next(log) == ChangeProgram(1)
    core.adopted(SWITCHING)
    assert core.next(log) == Divide(1), "a run that has read all its input does not end within a switch"


def test_no_step_is_given_ahead_of_another_program() -> None:
    """Two steps are divided, and the second one is the first that fills."""
    log = log_of()
    log.divide()
    core = core_of(log, PRESENT)
    run_step(core, log, 0)
    log.append(begins(step=1))
    log.append(fills(1, 3, start=4))
    log.append(fills(2, WHOLE, start=4))
    again = core_of(log, PRESENT)
    assert again.next(log) == Give(0, True)
    again.given(0, log)
    again.collected(0)
    assert again.next(log) == Settle(0, True), "step 1 runs another program"
    again.settled(0, log)
    assert again.next(log) == ChangeProgram(1), "also in a replay"


def test_a_hold_is_measured_again_when_the_switch_is_asked_for() -> None:
    """Hours of input may have come since."""
    held = begins().model_copy(update={"choices": Choices(hold=True)})
    log = log_of(held, fills(0, WHOLE))
    log.write()
    machine: AnyTransition = Transition()
    at = Boundary(1, is_replaying=False, is_checkpointing=False)
    look_at(machine, log, at)
    assert machine.next(log, at) == MeasureWhatDiffers()
    machine.measured(DIFFERENCES, (), reads_again=False)
    assert machine.next(log, at) is None and not machine.is_due(log, at)
    assert machine.ask("switch", log)
    look_at(machine, log, at)
    assert machine.next(log, at) == MeasureWhatDiffers()
    machine.measured(DIFFERENCES, ("too many rows",), reads_again=False)
    assert machine.next(log, at) is None, "another reason holds it"
    machine.look_again()
    look_at(machine, log, at)
    machine.measured(DIFFERENCES, (), reads_again=False)
    assert machine.next(log, at) == LogSwitch()


def test_nothing_is_due_in_a_replay_or_while_a_step_is_divided() -> None:
    log = log_of(begins(), fills(0, WHOLE))
    machine: AnyTransition = Transition(TransitionRequests(turn="abort"))
    assert machine.next(log, Boundary(0, is_replaying=True, is_checkpointing=False)) is None
    machine.asked = NO_REQUESTS
    assert machine.next(log, Boundary(0, is_replaying=False, is_checkpointing=False)) is None
    log.write()
    log.append(pauses())
    at = Boundary(1, is_replaying=False, is_checkpointing=False)
    look_at(machine, log, at)
    assert machine.next(log, at) == MeasureWhatDiffers()
    machine.measured(DIFFERENCES, (), reads_again=False)
    assert machine.next(log, at) is None, "a pause holds the switch"
    log.append(pauses(False))
    assert machine.next(log, at) == LogSwitch()


def test_after_an_abort_the_former_program_is_adopted_before_anything_is_cleared() -> None:
    """Also if the run is paused while the checkpoint is folded: the transition is forgotten with its end."""
    log = log_of(begins(), fills(0, 5))
    core = core_of(log, FILLING)
    run_step(core, log, 0)
    core.transition.asked = TransitionRequests(turn="abort")
    assert core.next(log) == LogTurn("abort")
    log.append(turns("abort"))
    core.transition.turned("abort")
    assert core.next(log) == ChangeProgram(1)
    core.adopted(PRESENT)
    assert core.next(log) == ClearUnusedTables()
    core.transition.cleared(is_done=True, is_last=True)
    checkpoint(core, log, paused=True)
    core.request_resume()
    assert core.next(log) == LogSettled()


def test_an_abort_of_a_transition_that_is_prepared_comes_as_soon_as_it_has_begun() -> None:
    """One that was asked for of the transition before it does not concern it."""
    log = log_of()
    core = core_of(log, PRESENT)
    core.transition.asked = TransitionRequests(turn="abort")
    prepare(core.transition)
    assert core.next(log) == LogTransition()
    core.transition.began()
    assert core.transition.asked.turn is None
    core.transition.preparing(PREPARATION)
    core.transition.asked = TransitionRequests(turn="abort")
    core.transition.prepared(PREPARED)
    assert core.next(log) == LogTransition()
    log.append(begins())
    core.transition.began()
    assert core.next(log) == ChangeProgram(0)
    core.adopted(FILLING)
    assert core.next(log) == LogTurn("abort")


@pytest.mark.parametrize("is_divided", [False, True])
def test_an_abort_needs_no_step_so_it_goes_on_while_the_run_is_paused(is_divided: bool) -> None:
    """The switch and the filling wait for the end of the pause."""
    log = log_of(begins(), fills(0, WHOLE))
    core = core_of(log, FILLING)
    run_step(core, log, 0)
    core.request_pause()
    assert core.next(log) == Wait(), "what is filled is not measured"
    if is_divided:
        log.append(fills(1, WHOLE))
    core.transition.asked = TransitionRequests(turn="abort")
    assert core.next(log) == LogTurn("abort")
    log.append(turns("abort"))
    core.transition.turned("abort")
    assert core.next(log) == ChangeProgram(1)
    core.adopted(PRESENT)
    assert core.next(log) == ClearUnusedTables()
    core.transition.cleared(is_done=True, is_last=True)
    checkpoint(core, log)
    assert core.next(log) == LogSettled()
    log.append(settles(step=1))
    core.transition.settled()
    assert core.next(log) == Wait()
    core.request_resume()
    assert core.next(log) == (Give(1, False) if is_divided else Divide(1))


def test_an_abort_that_was_accepted_comes_after_a_turn_that_a_fault_has_made() -> None:
    """Workers may be lost between the request and the boundary at which it is recorded."""
    log = log_of(*IN_FILLING)
    machine: AnyTransition = Transition()
    assert machine.ask("abort", log)
    machine = machine.after_recovery()
    log.append(turns("detached", 0))
    machine.turned("detached")
    assert machine.next(log, Boundary(log.steps, is_replaying=False, is_checkpointing=False)) == LogTurn("abort")
    log.append(turns("abort"))
    machine.turned("abort")
    assert machine.asked == NO_REQUESTS
    machine = Transition(TransitionRequests(turn="abort"))
    machine.turned("taken_back")
    assert machine.asked.turn == "abort"


@pytest.mark.parametrize("turn", ["detached", "taken_back", "resume", "abort"])
def test_all_else_that_users_have_asked_for_ends_with_a_turn(turn: TurnTo) -> None:
    for asked in (TransitionRequests(turn="resume"), TransitionRequests(is_switch=True)):
        machine: AnyTransition = Transition(asked)
        machine.turned(turn)
        assert machine.asked == NO_REQUESTS


def test_a_step_that_fills_is_not_given_behind_a_replay_if_an_abort_was_accepted() -> None:
    """It may never end: that may be why the workers were given up and steps are replayed."""
    log = log_of(begins(), fills(0, 5))
    log.write()
    log.append(fills(1, 9))
    core = core_of(log, FILLING)
    core.transition.asked = TransitionRequests(turn="abort")
    assert core.next(log) == Give(0, True)
    core.given(0, log)
    assert core.next(log) == Collect(0)
    core.collected(0)
    assert core.next(log) == Settle(0, True)
    core.settled(0, log)
    assert core.next(log) == LogTurn("abort")


def test_a_stop_loses_no_abort_and_begins_nothing() -> None:
    log = log_of(begins(), fills(0, 5))
    core = core_of(log, FILLING)
    run_step(core, log, 0)
    core.transition.asked = TransitionRequests(turn="abort")
    core.request_stop()
    assert core.next(log) == LogTurn("abort")
    log.append(turns("abort"))
    core.transition.turned("abort")
    assert isinstance(core.next(log), LogIntent), "the checkpoint of the stop: the next run clears"

    log = log_of()
    core = core_of(log, PRESENT)
    prepare(core.transition)
    core.request_stop()
    assert core.next(log) == Exit()


def test_a_transition_that_is_resumed_is_filled_over_cleared_tables() -> None:
    log = log_of(begins(), fills(0, 5))
    log.write()
    log.append(turns("detached", 0))
    machine: AnyTransition = Transition()
    at = Boundary(1, is_replaying=False, is_checkpointing=False)
    assert machine.next(log, at) is None
    machine.asked = TransitionRequests(turn="resume")
    assert machine.next(log, at) == ClearUnusedTables()
    machine.cleared(is_done=True, is_last=False)
    assert machine.next(log, at) == LogTurn("resume") and not machine.needs_checkpoint


def test_a_recovery_keeps_what_users_have_asked_for_and_nothing_that_was_known() -> None:
    log = log_of(begins(), fills(0, WHOLE))
    log.write()
    machine: AnyTransition = Transition(TransitionRequests(is_switch=True), unrunnable_revision=1)
    at = Boundary(1, False, False)
    look_at(machine, log, at)
    machine.measured(DIFFERENCES, (), reads_again=True)
    again = machine.after_recovery()
    assert (again.asked, again.unrunnable_revision, again.checkpoint) == (TransitionRequests(is_switch=True), 1, None)
    assert again.next(log, at) == CheckTopics() and again.differences is None
    for known in (Preparing(PREPARATION), WantedTransition(PREPARED)):
        assert Transition(known=known).after_recovery().known is known
    wanted: AnyTransition = Transition(known=WantedTransition(PREPARED))
    assert wanted.after_recovery().next(log_of(), Boundary(0, False, False)) == LogTransition()


def test_what_was_measured_is_seen_until_it_is_measured_again_or_the_transition_turns() -> None:
    """Nothing follows from it but what people see. A switch leaves it, because that is what leaves then."""
    log = log_of(begins(), fills(0, WHOLE))
    log.write()
    machine: AnyTransition = Transition()
    at = Boundary(1, False, False)
    look_at(machine, log, at)
    assert machine.differences is None
    machine.measured(DIFFERENCES, (), reads_again=False)
    for turn in (
        machine.look_again,
        lambda: machine.checking_topics(LOOK),
        lambda: machine.topics_checked(("the topic was cut",)),
    ):
        turn()
        assert machine.differences == DIFFERENCES and machine.obstacles is None
    assert machine.known == TopicsChecked(DIFFERENCES, ("the topic was cut",))
    again = (ViewDifference("totals", 5, 4),)
    machine.measured(again, (), reads_again=False)
    assert machine.differences == again
    assert machine.next(log, at) == LogSwitch()
    log.append(switches())
    machine.switched()
    assert machine.differences == again
    machine.check(log)
    machine.turned("taken_back")
    assert machine.differences is None


def test_what_is_prepared_stays_until_it_has_begun_or_is_refused() -> None:
    """And nothing else can happen meanwhile."""
    machine: AnyTransition = Transition()
    machine.preparing(PREPARATION)
    assert machine.known == Preparing(PREPARATION) and machine.has_request and machine.waits_in_background
    for event in (lambda: machine.preparing(PREPARATION), lambda: machine.checking_topics(LOOK), machine.began):
        with pytest.raises(InvalidTransition, match="cannot happen in the phase Preparing"):
            event()
    machine.prepared(PREPARED)
    assert machine.known == WantedTransition(PREPARED) and machine.has_request and not machine.waits_in_background
    for event in (machine.refused, machine.look_again):
        with pytest.raises(InvalidTransition, match="cannot happen in the phase Wanted"):
            event()
    machine.began()
    assert machine.known == NoFindings() and not machine.has_request


def test_the_store_is_waited_for_when_all_is_cleared_and_never_before() -> None:
    machine: AnyTransition = Transition()
    machine.note_store(needs_loads=True)
    assert machine.known == NoFindings()
    machine.cleared(is_done=True, is_last=True)
    assert machine.known == AllCleared(None, waits_for_store=False)
    machine.note_store(needs_loads=True)
    assert machine.known == AllCleared(None, waits_for_store=True)
    machine.look_again()
    assert machine.known == AllCleared(None, waits_for_store=True), "what is cleared does not come back"


IN_FILLING = (begins(), fills(0, 5))
ABORT, RESUME = TransitionRequests(turn="abort"), TransitionRequests(turn="resume")
SWITCH = TransitionRequests(is_switch=True)
TURNS_IN: list[tuple[str, Preparing[str] | None, tuple[Record, ...], dict[TurnName, TransitionRequests]]] = [
    ("no transition", None, (), {}),
    ("one that is prepared", Preparing(PREPARATION), (), {"abort": ABORT}),
    ("filling", None, IN_FILLING, {"pause": NO_REQUESTS, "resume": NO_REQUESTS, "switch": SWITCH, "abort": ABORT}),
    ("detached", None, (*IN_FILLING, turns("detached", 0)), {"resume": RESUME, "abort": ABORT}),
    ("clearing", None, (*IN_FILLING, turns("abort")), {}),
]


@pytest.mark.parametrize(
    ("known", "records", "after"), [case[1:] for case in TURNS_IN], ids=[case[0] for case in TURNS_IN]
)
def test_a_turn_is_accepted_where_it_is_possible_and_changes_nothing_elsewhere(
    known: Preparing[str] | None, records: tuple[Record, ...], after: dict[TurnName, TransitionRequests]
) -> None:
    log = log_of()
    for record in records:
        if isinstance(record, RevisionTurn):
            log.write()
        log.append(record)
    for what in get_args(TurnName):
        machine: AnyTransition = Transition(known=known)
        assert machine.ask(what, log) == (what in after), what
        assert machine.asked == after.get(what, NO_REQUESTS), what


ABORTED = (*IN_FILLING, turns("abort"))
MISTAKES: list[tuple[str, tuple[Record, ...], dict[str, Any]]] = [
    ("Preparing in the phase filling", IN_FILLING, {"phase": Preparing(PREPARATION)}),
    ("WantedTransition in the phase filling", IN_FILLING, {"phase": WantedTransition(PREPARED)}),
    ("a resumption in the phase filling", IN_FILLING, {"asked": TransitionRequests(turn="resume")}),
    ("a checkpoint in the phase of no transition", (), {"checkpoint": "needed"}),
    ("CheckingTopics in the phase of no transition", (), {"phase": CheckingTopics(None, LOOK)}),
    ("TopicsChecked in the phase detached", (*IN_FILLING, turns("detached", 0)), {"phase": TopicsChecked(None, ())}),
    ("Measured in the phase switching", (begins(), fills(0, WHOLE), switches()), {"phase": Measured((), ())}),
    ("Cleared in the phase filling", IN_FILLING, {"phase": AllCleared(None, False)}),
    ("differences in the phase of no transition", (), {"phase": NoFindings(DIFFERENCES)}),
    ("differences in the phase clearing", ABORTED, {"phase": AllCleared(DIFFERENCES, False)}),
    ("loads of a transition that was not made", ABORTED, {"phase": AllCleared(None, waits_for_store=True)}),
]


@pytest.mark.parametrize(("said", "records", "fields"), MISTAKES, ids=[said for said, *_ in MISTAKES])
def test_a_state_that_cannot_be_is_noticed(said: str, records: tuple[Record, ...], fields: dict[str, Any]) -> None:
    log = log_of()
    machine: AnyTransition = Transition()
    for record in records:
        if isinstance(record, RevisionTurn | RevisionSwitch):
            log.write()
        log.append(record)
    machine.check(log)
    for name, value in fields.items():
        setattr(machine, name, value)
    with pytest.raises(AssertionError, match=said):
        machine.next(log, Boundary(1, is_replaying=False, is_checkpointing=False))
