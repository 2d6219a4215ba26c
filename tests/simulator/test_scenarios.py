"""What seeds found once, told as scripts: the same world, with the script in the place of the dice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import pytest

from coordinator.inbox import PendingRequest
from coordinator.rescale.requests import RescaleRequest
from coordinator.revisions.choices import Chosen
from coordinator.revisions.requests import ApplyRequest, RevisionRequest, TurnTransition, stopping
from coordinator.revisions.turns import TurnName
from coordinator.starting.errors import DatabaseMissing
from coordinator.transition.switch_obstacles import SwitchObstacles, TopicFindings
from engine.model.filling import HASHES
from engine.resident.start_faults import NoSlots
from faults.points import COPYING, LAYOUT, RECOVERY, REVISION, RUN_POINTS, STORE, TRANSITION, Point
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer_faults import Fenced
from io_kafka.step_log.layout_records import MoveStrategy
from tests.points import check_generated
from tests.simulator import circuit
from tests.simulator.broker import Partition, Where
from tests.simulator.oracle import LOG
from tests.simulator.scheduler import Process
from tests.simulator.weather import Weather
from tests.simulator.world import World
from tests.transition_moments import COMPARED, MOMENTS, OF_WORKERS, TURNED

WEATHER = Weather(
    workers=2, points=0, interference=0, switching=0.3, client=0, network=0, task=0, crash_point=0, sleep=0, crash_targets=(),
    crash_places=(), weights={"marker": 1.0}, register_s=15, silence_s=5, progress_s=30, checkpoint_s=0.001, rows=1, messages=0,
    snapshot_steps=1, available_now=1, step_bytes=None, hosts=1, resized=0,
    errors=False, edited=0, failing=0,
)  # fmt: skip
STORE_WEATHER = replace(WEATHER, store="continue", lag_s=1000.0)
ROWS = [("a", 1, 1), ("b", 2, 1), ("c", 3, 1), ("a", 1, -1), ("b", 5, 1), ("d", 7, 1), ("d", 7, -1)] * 2
MANY_KEYS = [(key, 1, 1) for key in "abcdefghijklmn"]
"""Some lie in slots that a change moves."""


class Script(World):
    """Does what it is told: `at[run, point]` when a run comes to a point, `fates[place]` in the place of a draw."""

    def __init__(self, weather: Weather = WEATHER) -> None:
        super().__init__(0, weather)
        self.at: dict[tuple[str, str], Callable[[], None]] = {}
        self.fates: dict[str, list[str | None]] = {}
        self.visited: Counter[str] = Counter()

    def fate(self, place: str, fates: Sequence[str]) -> str | None:
        planned = self.fates.get(place)
        return planned.pop(0) if planned else None

    def reached(self, point: str, worker: int | None) -> None:
        super().reached(point, worker)
        run = self.acting().owner or self.acting()
        self.visited[point] += 1
        action = self.at.pop((run.name, point), None)
        if action is not None:
            action()
            self.scheduler.point(point)

    def send(self, rows: Sequence[tuple[str, int, int]] = ROWS) -> None:
        for index, row in enumerate(rows):
            self.broker.append((circuit.INPUT, index % 2), None, circuit.message_of(row))

    def ask_hot_change(self, run: Process, workers: int) -> None:
        """Asked for when its first step is complete, as by a user."""
        request = RescaleRequest(workers, MoveStrategy("live"))
        self.at[run.name, "step.complete"] = lambda: self.runs[run].layout.put(request)

    def ask_transition(
        self,
        run: Process,
        turn: Literal["abort"] | None = None,
        project: circuit.Project = circuit.READS_AGAIN,
        *,
        gradual: bool = False,
    ) -> None:
        """Another project is asked for when the first step of the run is complete. `turn`: and that when it has begun."""
        request = ApplyRequest(self._spec(project, None), hold=False, chosen=Chosen(gradual=gradual))
        self.at[run.name, "step.complete"] = lambda: self.runs[run].revision.put(request)
        if turn is not None:
            self.at[run.name, "revision.intended"] = lambda: self.ask_turn(run, turn)

    def ask_turn(self, run: Process, turn: TurnName) -> None:
        self.runs[run].revision.put(TurnTransition(turn))

    def send_others(self, count: int) -> None:
        for number in range(count):
            self.broker.append((circuit.OTHER, number % 2), None, circuit.message_of(("a", number, 1)))

    def expire(self, where: Where, offset: int) -> None:
        """What is below the offset is gone."""
        self.broker.partition(where).begin = offset

    def mark_all(self) -> None:
        while undone := self.broker.undone():
            self.broker.finish(undone[0])

    def with_workers(self, run: Process) -> list[Process]:
        return [run, *(process for process in self.processes if process.owner is run and process.alive)]

    def sleep(self, run: Process) -> None:
        """It sleeps with all its workers, as where their machine swaps, and its successor comes."""
        for process in self.with_workers(run):
            self.stop(process, "by the script")
        self.start(available_now=True)


class AwayScript(Script):
    """`away_until`: until then no broker answers."""

    away_until = 0.0

    def fate(self, place: str, fates: Sequence[str]) -> str | None:
        of_broker = ("admin", "init", "commit", "abort", "fetch", "watermarks")
        return fates[0] if place in of_broker and self.now < self.away_until else super().fate(place, fates)

    def go_away(self) -> None:
        """For less than a minute."""
        self.away_until = self.now + 50


class SpreadScript(Script):
    """Two hosts. A task comes to the one with the fewest."""

    def __init__(self, weather: Weather | None = None) -> None:
        super().__init__(weather or replace(WEATHER, hosts=2))

    def free_hosts(self) -> list[str]:
        busy = Counter(process.host for process in self.processes if process.alive and process.owner is not None)
        return sorted(super().free_hosts(), key=lambda host: (busy[host], host))[:1]


def test_a_database_that_is_away_after_the_first_intent_is_not_created_again() -> None:
    """All workers have opened the first checkpoint, and the log does not know yet that it is complete."""
    world = SpreadScript()
    with world.alive():
        world.send()
        for point in ("checkpoint.folded", "recovery.opened"):
            run = world.start(available_now=True)
            world.at[run.name, point] = lambda: world.kill(world.acting(), "by the script")
            world.run_to_the_end()
        assert world.oracle.layouts.complete is None and len(world.oracle.layouts.intended) == 1
        world.away.add("host1")
        run = world.start(available_now=True)
        world.run_to_the_end()
        assert isinstance(world.ended[run], DatabaseMissing)
        world.away.clear()
        world.drain()
        assert world.oracle.seen["created"] == 2


def test_a_host_that_comes_back_in_time_is_waited_for() -> None:
    world = SpreadScript()
    with world.alive():
        world.send()
        world.start(available_now=True)
        world.run_to_the_end()
        world.away.add("host1")
        world.send()
        run = world.start(available_now=True)

        def come_back() -> None:
            world.pass_time(5.0)
            world.away.clear()

        world.spawn("operator", world.process("operator"), come_back)
        world.run_to_the_end()
        assert world.ended[run] is None and world.story.happened["more tasks than workers"] == 1
        world.drain()


def test_an_undisturbed_world_ends_well_and_visits_every_point() -> None:
    """A disk is lost in the end, when the store has everything."""
    world = Script(STORE_WEATHER)
    with world.alive():
        world.send()
        for workers in (None, 3, 1):
            world.start(available_now=True, workers=workers)
            world.run_to_the_end()
        world.send(MANY_KEYS)
        world.ask_hot_change(world.start(available_now=True), 3)
        world.run_to_the_end()
        world.is_renamed = True
        world.start(available_now=True)
        world.run_to_the_end()
        world.is_renamed = False
        for turn in ("abort", None):
            world.send(ROWS[:2])
            world.ask_transition(world.start(available_now=True), turn, circuit.FROM_STATE)
            world.run_to_the_end()
        world._backup()
        world.run_to_the_end()
        world.lose_disk("host0")
        world.drain()
    kinds = ("revisions", "abort", "switches", "transitions settled")
    assert [world.oracle.seen[kind] for kind in kinds] == [3, 1, 1, 2]
    assert world.oracle.revisions.in_force == circuit.FROM_STATE
    assert world.oracle.steps.written > len(ROWS) + len(MANY_KEYS)
    assert world.oracle.layouts.complete is not None and world.oracle.layouts.complete[1] == world.oracle.steps.written
    assert set(RUN_POINTS) - set(world.visited) == {"replay.compared"}  # nothing is left to replay


def of_databases(world: Script) -> dict[str, int]:
    """What the oracle has seen of databases and of the log. A run that wakes within a cut still hears of the cuts of its own workers, and one
    that wakes within a restore still makes a database beside the one of its successor."""
    return {what: count for what, count in world.oracle.seen.items() if what not in ("given", "restored")}


ASLEEP_IN_SUITE = {
    "claim.sent", "revision.intended", "switch.recorded", "log.committed", "output.committed", "checkpoint.completed", "cut.exported",
    "stored.recorded",
}  # fmt: skip
"""Before and after what others see: records, transactions, databases. The seeds of test_simulator.py let runs sleep anywhere."""


@pytest.mark.parametrize(
    "point",
    [
        point if point in ASLEEP_IN_SUITE else pytest.param(point, marks=pytest.mark.soak)
        for point in RUN_POINTS
        if point != "backup.named"  # it belongs to a command
    ],
)
def test_a_run_that_slept_while_another_ran_ends_as_fenced_and_names_it(point: str) -> None:
    """Whatever it finds when it goes on: databases of its successor, a log that was cut short, a version that is not there."""
    weather = STORE_WEATHER if point in STORE else WEATHER
    world = Script(replace(weather, interference=0.05))  # markers arrive in time
    with world.alive():
        world.send()
        if point.startswith("restore"):
            world.start(available_now=True)
            world.run_to_the_end()
            world.lose_disk("host0")
        if point == "replay.compared":
            world.at["run0", "step.complete"] = lambda: world.kill(world.acting(), "by the script")
            world.start(available_now=True)
            world.run_to_the_end()
        workers = None
        if point in REVISION:
            world.start(available_now=True)
            world.run_to_the_end()
            world.is_renamed = True
        if point in LAYOUT:
            world.start(available_now=True)
            world.run_to_the_end()
            workers = 1 if point == "bury.renamed" else 3
            world.send(MANY_KEYS)  # steps come after the change
        first = world.start(available_now=True, workers=None if point in COPYING else workers)
        if point in COPYING:
            world.ask_hot_change(first, 3)
        if point in TRANSITION:
            world.ask_transition(first, "abort" if point == "turn.written" else None)
        world.at[first.name, point] = lambda: world.sleep(first)
        world.run_to_the_end(sleepers=True)
        assert first.stopped, f"{point} was not reached"
        world.send()
        world.start(available_now=True)
        world.run_to_the_end(sleepers=True)
        before = of_databases(world)
        for process in world.with_workers(first):
            world.resume(process)
        world.run_to_the_end()
        if point != "start.log_read":
            assert of_databases(world) == before
        fault = world.ended[first]
        if point == "revision.settled":  # it has nothing left to write, so it does not hear of the other run
            assert fault is None
            return
        if first.epoch >= 0 or isinstance(fault, Fenced):
            assert isinstance(fault, Fenced), fault
        if first.epoch >= 0:
            assert "has taken over" in str(fault) and f"epoch {world.oracle.claims.epoch}" in str(fault)
        world.drain()


def test_a_run_that_slept_until_its_input_had_expired_ends_as_fenced() -> None:
    """Its successor has read the messages long ago, so a text that asks for a full refresh would cost the state for nothing."""
    world = Script(replace(WEATHER, interference=0.05))
    with world.alive():
        world.send()
        first = world.start(available_now=True)
        world.at[first.name, "step.begun"] = lambda: world.sleep(first)
        world.run_to_the_end(sleepers=True)
        assert first.stopped
        world.start(available_now=True)
        world.run_to_the_end(sleepers=True)
        for where, end in world.oracle.needless.items():
            world.expire(where, end)
        for process in world.with_workers(first):
            world.resume(process)
        world.run_to_the_end()
        assert isinstance(world.ended[first], Fenced), world.ended[first]
        world.drain()


@pytest.mark.long
@pytest.mark.parametrize(
    "point",
    ["open.before", "open.undone", "source.read", "stages.inside", "freeze.inside", "fold.piece", "fold.inside"],
)
def test_a_worker_that_sleeps_is_replaced_and_changes_nothing_when_it_goes_on(point: str) -> None:
    """Its job cannot be ended. Whoever needs a lock that it holds kills it."""
    world = Script(WEATHER)
    with world.alive():
        world.send()
        run = world.start(available_now=True)
        world.fates["cancel"] = ["never"] * 100
        world.at[run.name, point] = lambda: world.stop(world.acting(), "by the script")
        world.run_to_the_end()
        assert world.ended[run] is None
        assert world.oracle.steps.written == len(ROWS)
        woken, killed = "a worker that was given up goes on", "a holder of a lock was killed"
        assert world.story.happened[woken] + world.story.happened[killed] == 1
        world.drain()


@pytest.mark.long
@pytest.mark.parametrize("fate", ["broken", "half-open"])
def test_a_connection_that_is_lost_leads_to_new_workers(fate: str) -> None:
    """Whichever connection it is, and whatever it was about to carry, but for a registration."""
    for number in range(8, 60, 4):
        world = Script()
        with world.alive():
            world.send(ROWS[:4])
            world.fates["frame"] = [None] * number + [fate]
            run = world.start(available_now=True)
            world.run_to_the_end()
            assert not world.fates["frame"]
            assert world.ended[run] is None
            assert any(line.startswith("a worker was lost") for _, _, line in world.story.lines), f"frame {number}"
            world.drain()


def test_a_run_whose_task_never_comes_ends_and_says_so() -> None:
    world = Script()
    with world.alive():
        world.send()
        world.fates["worker"] = [None, "never"]
        run = world.start(available_now=True)
        world.run_to_the_end()
        fault = world.ended[run]
        assert isinstance(fault, NoSlots) and (fault.needed, fault.registered) == (2, 1)
        world.drain()


def test_a_commit_whose_marker_is_late_is_no_log_that_lost_records() -> None:
    """The broker acknowledges a commit first and writes its marker then; a doubt in between made the run give up as if the log were cut off."""
    world = Script(replace(WEATHER, checkpoint_s=100))
    with world.alive():
        world.send()

        def doubt() -> None:
            partition = world.broker.partition((LOG, 0))
            assert partition.stable < partition.end, "the marker is there: nothing is tried here"
            world.fates["flush"] = ["failed"]

        run = world.start(available_now=True)
        world.at[run.name, "output.begun"] = doubt
        world.run_to_the_end()
        assert world.ended[run] is None
        assert not world.fates["flush"]
        world.drain()


def test_a_run_that_starts_while_the_holder_cuts_the_log_short_takes_over() -> None:
    """What it had not read yet is gone when it goes on; it reads the log again."""
    world = Script()
    with world.alive():
        world.send()
        holder = world.start(available_now=False)
        late: list[Process] = []

        def begin_beside() -> None:
            slow = world.start(available_now=True)
            late.append(slow)
            world.at[slow.name, "start.log_read"] = lambda: world.stop(slow, "by the script")
            world.at[holder.name, "checkpoint.truncated"] = lambda: world.resume(slow)
            world.wait_for(lambda: slow.stopped, 1.0)

        world.at[holder.name, "step.begun"] = begin_beside
        world.run_to_the_end()
        assert world.broker.partition((LOG, 0)).begin > 0
        assert isinstance(world.ended[holder], Fenced)
        assert world.ended[late[0]] is None
        world.drain()


@pytest.mark.long
@pytest.mark.parametrize(
    ("project", "is_deadly"),
    [
        pytest.param(circuit.FROM_STATE, False, id="an error, from state"),
        pytest.param(circuit.READS_AGAIN, True, id="lost workers, read again"),
        pytest.param(circuit.FROM_STATE, True, id="lost workers, from state", marks=pytest.mark.soak),
        pytest.param(circuit.READS_AGAIN, False, id="an error, read again", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize(("what", "turn"), [("the switch", "taken_back"), ("new nodes", "detached")])
def test_what_is_new_fails_and_the_project_in_force_goes_on(
    what: str, turn: str, is_deadly: bool, project: circuit.Project
) -> None:
    """Workers that are lost twice in a step are as good as an error."""
    world = Script()

    def fails(step: int, kind: str) -> bool:
        if kind != what or world.oracle.seen[turn]:
            return False
        if is_deadly:
            world.kill(world.acting(), "by the script")
            world.scheduler.point("killed")
        return True

    world.fails = fails  # type: ignore[method-assign]
    with world.alive():
        world.send()
        run = world.start(available_now=True)
        world.ask_transition(run, project=project)
        world.run_to_the_end()
        assert world.ended[run] is None
        assert (world.oracle.seen[turn], world.oracle.seen["transitions settled"]) == (1, 0)
        assert world.oracle.revisions.in_force == circuit.PROJECTS[0]
        world.drain()
        assert world.oracle.seen[turn] == 1


@pytest.mark.parametrize("point", ["revision.intended", "switch.ready", "switch.recorded"])
def test_a_topic_that_only_the_next_project_reads_expires_and_the_project_in_force_goes_on(point: str) -> None:
    """Before it is read again, or between that and the step of the switch, which takes the switch back."""
    world = Script()
    with world.alive():
        world.send()
        world.send_others(8)
        run = world.start(available_now=True)
        world.ask_transition(run)

        def expire() -> None:
            world.send_others(8)
            for partition in range(2):
                world.expire((circuit.OTHER, partition), 8)

        world.at[run.name, point] = expire
        world.run_to_the_end()
        assert world.ended[run] is None
        assert world.oracle.revisions.in_force == circuit.PROJECTS[0]
        assert world.oracle.seen["taken_back"] == (point != "revision.intended")
        world.drain()


@pytest.mark.long
@pytest.mark.parametrize("turn", ["resume", "abort"])
def test_messages_expire_while_they_are_read_again_and_what_a_user_asks_then_is_done(
    turn: Literal["resume", "abort"],
) -> None:
    world = Script()
    with world.alive():
        world.send()
        run = world.start(available_now=True)
        world.ask_transition(run)
        world.at[run.name, "switch.ready"] = lambda: pytest.fail("it has all messages")

        def expire() -> None:
            for where, end in world.oracle.needless.items():
                world.expire(where, end)

        world.at[run.name, "program.adopted"] = expire
        world.run_to_the_end()
        assert world.ended[run] is None and world.oracle.seen["detached"] == 1
        run = world.start(available_now=True)
        world.ask_turn(run, turn)
        world.run_to_the_end()
        assert world.ended[run] is None and world.oracle.seen[turn] == 1
        assert (world.oracle.seen["detached"], world.oracle.seen["transitions settled"]) == (
            (2, 0) if turn == "resume" else (1, 1)
        )
        world.drain()


@pytest.mark.parametrize("turn", ["resume", "switch", "abort"])
def test_a_pause_outlives_its_run(turn: Literal["resume", "switch", "abort"]) -> None:
    """Otherwise the next start would make a switch that the user has stopped, and a switch cannot be taken back."""
    world = Script()
    with world.alive():
        world.send()
        run = world.start(available_now=True)
        world.ask_transition(run)

        def pause() -> None:
            world.ask_turn(run, "pause")
            world.at[run.name, "step.begun"] = lambda: world.kill(run, "paused")

        world.at[run.name, "revision.intended"] = pause
        world.run_to_the_end()
        assert world.oracle.revisions.is_paused and world.oracle.seen["switches"] == 0
        run = world.start(available_now=True)
        world.run_to_the_end()
        assert world.ended[run] is None
        assert world.oracle.revisions.is_paused and world.oracle.seen["switches"] == 0
        run = world.start(available_now=True)
        world.ask_turn(run, turn)
        world.run_to_the_end()
        assert world.ended[run] is None and world.oracle.seen["transitions settled"] == 1
        assert world.oracle.revisions.in_force == (circuit.PROJECTS[0] if turn == "abort" else circuit.READS_AGAIN)
        world.drain()


def test_partitions_that_come_while_messages_are_read_again_are_read_too() -> None:
    """Of a topic that both projects read, and of one that only the next one reads."""
    world = Script()
    with world.alive():
        world.send()
        world.send_others(6)
        run = world.start(available_now=False)
        world.ask_transition(run)

        def grow() -> None:
            for topic in (circuit.INPUT, circuit.OTHER):
                world.broker.topics[topic].partitions.append(Partition())
                world.broker.append((topic, 2), None, circuit.message_of(("e", 7, 1)))

        world.at[run.name, "revision.intended"] = grow
        world.at[run.name, "revision.settled"] = lambda: world.runs[run].ask("stop")
        world.run_to_the_end()
        assert world.ended[run] is None
        assert world.oracle.revisions.in_force == circuit.READS_AGAIN
        world.drain()
        assert world.oracle.steps.first.keys() >= {(circuit.INPUT, 2), (circuit.OTHER, 2)}


def test_a_transition_is_refused_while_a_run_finishes_the_steps_of_the_project_before() -> None:
    """It goes on with the project of its files then, which is the next revision without a transition."""
    world = Script()
    with world.alive():
        world.send()
        world.start(available_now=True)
        world.run_to_the_end()
        world.is_renamed = True
        run = world.start(available_now=True)
        request = ApplyRequest(world._spec(circuit.FROM_STATE, None), hold=False)
        world.at[run.name, "recovery.opened"] = lambda: world.runs[run].revision.put(request)
        world.run_to_the_end()
        assert world.ended[run] is None
        assert (world.oracle.seen["revisions"], world.oracle.seen["intents"]) == (2, 0)
        world.drain()


def test_a_transition_is_refused_once_the_service_was_asked_to_stop() -> None:
    """What it accepted would be lost. Both are asked before the loop looks at either."""
    world = Script()
    asked: list[PendingRequest[RevisionRequest]] = []
    with world.alive():
        world.send()
        run = world.start()

        def ask() -> None:
            requests = world.runs[run]
            requests.ask("stop")
            asked.append(requests.revision.put(ApplyRequest(world._spec(circuit.FROM_STATE, None), False)))

        world.at[run.name, "step.complete"] = ask
        world.run_to_the_end()
        world.drain()
    assert [str(each.fault) for each in asked] == [str(stopping())]


def test_a_log_that_is_cut_short_while_it_is_read_is_read_again() -> None:
    """The holder truncates between the question where the log begins and the fetch of what is there."""
    world = Script()
    with world.alive():
        world.send()
        world.start(available_now=True)
        world.run_to_the_end()
        log = world.broker.partition((LOG, 0))
        assert log.begin > 0
        cut, log.begin = log.begin, 0  # as it was before; it begins with what the truncation needs not
        read: list[int] = []
        place_of = world.point

        def point(place: str) -> None:
            place_of(place)
            if place == "fetch" and not read:
                read.append(log.begin)
                log.begin = cut

        world.point = point  # type: ignore[method-assign]
        run = world.start(available_now=True)
        world.run_to_the_end()
        assert read == [0]
        assert world.ended[run] is None
        world.drain()


def test_the_steps_of_a_transition_are_replayed() -> None:
    """The last checkpoint is that of the run before, and a second crash comes in the recovery."""
    world = Script(replace(WEATHER, checkpoint_s=100))
    with world.alive():
        world.send()
        world.start(available_now=True)
        world.run_to_the_end()
        world.send()
        run = world.start(available_now=True)
        world.ask_transition(run, project=circuit.FROM_STATE)
        for at in ("switch.recorded", "recovery.opened", "program.adopted"):
            world.at[run.name, at] = lambda: world.kill(world.acting(), "by the script")
            world.run_to_the_end()
            assert isinstance(world.ended[run], KeyError), f"{at} is not reached"
            run = world.start(available_now=True)
        world.run_to_the_end()
        assert world.ended[run] is None
        assert world.oracle.revisions.in_force == circuit.FROM_STATE
        world.drain()


@pytest.mark.parametrize("moment", ["it is prepared", "its documents are read", "topics are looked at"])
def test_a_broker_that_is_away_for_less_than_a_minute_costs_a_transition_nothing(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is neither refused nor held, and the run goes on."""
    world = AwayScript()
    look = SwitchObstacles.look

    def go_away_once() -> None:
        if not world.away_until:
            world.go_away()

    def look_without_broker(obstacles: SwitchObstacles, topics: Topics) -> TopicFindings:
        go_away_once()
        return look(obstacles, topics)

    with world.alive():
        world.send()
        run = world.start(available_now=True)
        world.ask_transition(run)
        if moment == "it is prepared":
            ask = world.at[run.name, "step.complete"]
            world.at[run.name, "step.complete"] = lambda: (ask(), go_away_once())[0]
        elif moment == "its documents are read":
            world.at[run.name, "plan.written"] = go_away_once
        else:
            monkeypatch.setattr(SwitchObstacles, "look", look_without_broker)
        world.run_to_the_end()
        assert 0 < world.away_until < world.now
        assert world.ended[run] is None
        assert world.oracle.revisions.in_force == circuit.READS_AGAIN
        world.drain()


def test_a_view_and_an_input_come_and_go() -> None:
    """Nothing is written to a new topic before the switch. An input that no project has read meanwhile is read from where it begins now. When
    the view goes, what it has written stays."""
    world = Script()
    one, both = (circuit.READS_AGAIN._replace(other=other) for other in (False, True))
    with world.alive():
        world.send()
        for project in (both, one, both, circuit.PROJECTS[0]):
            world.send_others(3)
            world.send(ROWS[:3])
            for partition in range(2) if project == both else ():
                world.expire((circuit.OTHER, partition), world.broker.partition((circuit.OTHER, partition)).end - 1)
            world.ask_transition(world.start(available_now=True), project=project)
            world.run_to_the_end()
            assert world.oracle.revisions.in_force == project
        assert world.oracle.steps.left
        world.drain()


def test_a_project_that_looks_different_goes_on_after_an_abort() -> None:
    """The run was paused meanwhile. So the last division is one that filled, and counts the error rows of nodes that are gone."""
    world = Script()
    with world.alive():
        world.send()
        run = world.start(available_now=False)
        world.ask_transition(run)

        def give_up() -> None:
            world.runs[run].ask("pause")
            world.ask_turn(run, "abort")

        world.at[run.name, "switch.ready"] = give_up
        world.at[run.name, "revision.settled"] = lambda: world.runs[run].ask("stop")
        world.run_to_the_end()
        assert world.ended[run] is None and world.oracle.seen["abort"] == 1
        world.is_renamed = True
        run = world.start(available_now=True)
        world.run_to_the_end()
        assert world.ended[run] is None and world.oracle.seen["revisions"] == 2
        world.drain()


def test_a_run_goes_on_with_a_transition_whatever_is_in_the_files() -> None:
    """They have the project to come, or the one before, and the name of a view is another one."""
    world = Script()
    with world.alive():
        world.send()
        run = world.start(available_now=True)
        world.ask_transition(run)
        for point in ("program.adopted", "switch.ready", "clear.inside"):
            world.at[run.name, point] = lambda: world.kill(world.acting(), "by the script")
            world.run_to_the_end()
            assert isinstance(world.ended[run], KeyError), f"{point} is not reached"
            world.is_renamed = not world.is_renamed
            run = world.start(available_now=True)
        world.run_to_the_end()
        assert world.ended[run] is None
        assert world.oracle.revisions.in_force is not None
        assert world.oracle.seen["transitions settled"] == 1
        world.is_renamed = False
        world.drain()


def at_moment(world: Script, run: Process, moment: str, action: Callable[[], None]) -> None:
    """The action comes when the run is there."""
    after, point = MOMENTS[moment]
    is_compared = moment == COMPARED

    def wait() -> None:
        if is_compared and world.oracle.steps.filled <= HASHES:
            world.at[run.name, point] = wait
        else:
            action()

    def count() -> None:
        world.at[run.name, point] = wait

    if after is None:
        count()
    else:
        world.at[run.name, after] = count


BROKEN_OFF_IN_SUITE = (
    (COMPARED, "coordinator", "recovery.opened", 3),
    ("messages are read again", "sleeping worker", None, 3),
    ("a portion is in an open transaction", "worker", "recovery.chosen", 3),
    ("the switch is written", "coordinator", "replay.compared", 1),
)
"""The seeds of test_simulator.py break off anywhere."""

_ALL_BROKEN_OFF = [
    (moment, whom, second, workers)
    for moment in MOMENTS
    for whom in (("coordinator", "worker", "sleeping worker") if moment in OF_WORKERS else ("coordinator",))
    for second in (None, *RECOVERY)
    for workers in (1, 3)
]
check_generated(BROKEN_OFF_IN_SUITE, _ALL_BROKEN_OFF)

BROKEN_OFF = [
    each if each in BROKEN_OFF_IN_SUITE else pytest.param(*each, marks=pytest.mark.soak) for each in _ALL_BROKEN_OFF
]


@pytest.mark.parametrize(("moment", "whom", "second", "workers"), BROKEN_OFF)
def test_a_transition_is_broken_off_at_every_moment(moment: str, whom: str, second: Point | None, workers: int) -> None:
    """The coordinator is killed there with its workers, or a worker, or one falls asleep; and `second`: its successor in the recovery."""
    world = Script(replace(WEATHER, workers=workers, checkpoint_s=100))
    turn: Literal["abort"] | None = "abort" if moment == TURNED else None
    with world.alive():
        world.send()
        world.send_others(4)
        world.start(available_now=True)
        world.run_to_the_end()
        world.send()
        run = world.start(available_now=True)
        world.ask_transition(run, turn)
        met: list[str] = []

        def break_off() -> None:
            met.append(moment)
            if second is not None:
                world.at[f"run{len(world.ended)}" if whom == "coordinator" else run.name, second] = break_again
            if whom == "sleeping worker":
                world.stop(world.acting(), "by the script")
            else:
                world.kill(run if whom == "coordinator" else world.acting(), "by the script")

        def break_again() -> None:
            met.append("again")
            world.kill(world.acting(), "by the script")

        at_moment(world, run, moment, break_off)
        for _ in range(3):
            world.run_to_the_end(sleepers=whom == "sleeping worker")
            if world.ended[run] is None:
                break
            run = world.start(available_now=True)
        assert met[:1] == [moment], "it does not come there"
        assert world.ended[run] is None
        before_it = moment == "its documents are not written"
        waits = world.oracle.revisions.waits
        assert not waits or (second is not None and whom != "coordinator"), "workers were lost twice in a step"
        is_former = turn or before_it or waits
        assert world.oracle.revisions.in_force == (circuit.PROJECTS[0] if is_former else circuit.READS_AGAIN)
        assert world.oracle.seen["transitions settled"] == (not before_it and not waits)
        world.drain()


DRAINED_TO = {"state": circuit.FROM_STATE, "a kept reader": circuit.Project(factor=2), "messages": circuit.READS_AGAIN}
"""Projects whose differences leave in several steps. Of the second one the groups are kept, and read the sums of which a part is old."""

DRAINS_BROKEN_OFF_IN_SUITE = (
    ("messages", "output.committed", "3", "coordinator", "once", "1"),
    ("a kept reader", "stages.inside", "4", "worker", "recovery.opened", "3"),
    ("state", "log.committed", "3", "coordinator", "replay.compared", "3"),
    ("messages", "stages.committed", "2", "sleeping worker", "once", "3"),
)

_ALL_DRAINS_BROKEN_OFF = [
    (project, point, visit, whom, second, workers)
    for project in DRAINED_TO
    for point, is_of_workers in (
        ("log.committed", False),
        ("stages.inside", True),
        ("stages.committed", True),
        ("output.committed", False),
    )
    for visit in "1234"
    for whom in (("coordinator", "worker", "sleeping worker") if is_of_workers else ("coordinator",))
    for second in ("once", "recovery.opened", "replay.compared")
    for workers in "13"
    if second == "once" or whom != "sleeping worker"
]
check_generated(DRAINS_BROKEN_OFF_IN_SUITE, _ALL_DRAINS_BROKEN_OFF)

DRAINS_BROKEN_OFF = [
    each if each in DRAINS_BROKEN_OFF_IN_SUITE else pytest.param(each, marks=pytest.mark.soak)
    for each in _ALL_DRAINS_BROKEN_OFF
]
"""(the next project, the point and the visit to it, who is killed there or falls asleep, where its successor is killed, workers)."""


@pytest.mark.parametrize("case", DRAINS_BROKEN_OFF, ids="-".join)
def test_a_drain_is_broken_off_at_every_step(case: tuple[str, ...]) -> None:
    """At a visit to a point since the switch was recorded. Input comes meanwhile, and the oracle looks at the topics after each step."""
    project, point, visit, workers = case[0], case[1], int(case[2]), int(case[5])
    whom, second = case[3], None if case[4] == "once" else case[4]
    world = Script(replace(WEATHER, workers=workers, checkpoint_s=100))
    with world.alive():
        world.send(MANY_KEYS)
        world.send_others(4)
        world.start(available_now=True)
        world.run_to_the_end()
        world.send()
        run = world.start(available_now=True)
        world.ask_transition(run, project=DRAINED_TO[project], gradual=True)
        left = [visit]

        def count() -> None:
            left[0] -= 1
            if left[0]:
                world.at[run.name, point] = count
            else:
                break_off()

        def break_off() -> None:
            world.send([(key, 3, 1) for key, _, _ in MANY_KEYS[::2]])
            if second is not None:
                world.at[f"run{len(world.ended)}" if whom == "coordinator" else run.name, second] = break_again
            if whom == "sleeping worker":
                world.stop(world.acting(), "by the script")
            else:
                world.kill(run if whom == "coordinator" else world.acting(), "by the script")

        def break_again() -> None:
            world.kill(world.acting(), "by the script")

        def begin() -> None:
            world.at[run.name, point] = count

        world.at[run.name, "switch.recorded"] = begin
        for _ in range(3):
            world.run_to_the_end()
            if world.ended[run] is None:
                break
            run = world.start(available_now=True)
        assert left == [0], "it does not come there"
        waits = world.oracle.revisions.waits
        assert not waits or world.oracle.seen["taken_back"], "workers were lost twice in the first step"
        if not waits:
            assert world.oracle.revisions.in_force == DRAINED_TO[project]
            assert world.oracle.seen["steps of a drain"] > visit // workers
            assert world.oracle.seen["transitions settled"] == 1
        assert world.ended[run] is None
        world.drain()


def with_store_behind(world: Script) -> Process:
    """A run whose first upload takes longer than its next checkpoints. It ends when the store has that version."""
    world.send(ROWS * 2)
    run = world.start(available_now=True)
    world.at[run.name, "pack.half"] = lambda: world.pass_time(2.0)
    return run


def test_the_log_keeps_the_steps_since_a_version_that_is_still_uploaded() -> None:
    """It was cut to the checkpoint before the last one, so no run could go on from what came to be stored."""
    world = Script(STORE_WEATHER)
    with world.alive():
        run = with_store_behind(world)
        world.at[run.name, "stored.recorded"] = lambda: world.lose_disk("host0")
        world.run_to_the_end()
        store = world.oracle.store
        assert store is not None and store.stored is not None and world.oracle.layouts.complete is not None
        assert store.stored[1] + 1 < world.oracle.layouts.complete[1], "the store was not behind: nothing is tried here"
        world.drain()
        assert store.seen["restored"] == 2


def test_a_log_that_begins_after_the_steps_of_a_stored_version_is_read() -> None:
    """The record comes after a snapshot with later steps, and the log is cut to that snapshot later."""
    world = Script(STORE_WEATHER)
    with world.alive():
        run = with_store_behind(world)
        world.run_to_the_end()
        assert world.ended[run] is None
        log = world.broker.partition((LOG, 0))
        kinds = [json.loads(entry.value) for _, entry in log.committed(log.begin, log.end) if entry.value is not None]
        first = next(record["steps"] for record in kinds if record["kind"] == "snapshot")
        steps = [record["version"]["step"] for record in kinds if record["kind"] == "checkpoint_stored"]
        assert steps and steps[0] < first, "the log has all steps since: nothing is tried here"
        world.drain()


def test_a_project_that_has_changed_goes_on_when_the_store_has_the_last_checkpoint_of_the_one_before() -> None:
    """No run goes back to before the first step of a revision. So a disk that was lost then would have been the end of the state."""
    world = Script(STORE_WEATHER)
    with world.alive():
        world.send()
        world.start(available_now=True)
        world.run_to_the_end()
        world.send(ROWS[:4])
        killed = world.start(available_now=True)
        world.at[killed.name, "step.complete"] = lambda: world.kill(world.acting(), "by the script")
        world.run_to_the_end()
        world.is_renamed = True
        run = world.start(available_now=True)

        def go_away() -> None:
            world.store.is_away = True
            world.alarm(600, come_back)

        def come_back() -> None:
            world.store.is_away = False

        world.at[run.name, "claim.committed"] = go_away
        world.at[run.name, "revision.recorded"] = lambda: world.lose_disk("host0")
        world.run_to_the_end()
        world.drain()
        assert world.oracle.seen["revisions"] == 2


def test_a_database_that_is_lost_while_it_is_uploaded_is_restored() -> None:
    """No step comes that would notice it."""
    world = Script(replace(STORE_WEATHER, workers=1))
    with world.alive():
        world.send()
        world.start(available_now=True)
        world.run_to_the_end()
        world.send(ROWS[:4])
        run = world.start(available_now=False)

        def lose() -> None:
            store = world.oracle.store
            assert store is not None
            world.lose_database(("state", "workers", "0000"))
            restored = store.seen["restored"]

            def stop() -> None:
                if world.wait_for(lambda: store.seen["restored"] > restored, 300.0):
                    world.runs[run].ask("stop")

            world.spawn("operator", world.process("operator"), stop)

        world.at[run.name, "checkpoint.completed"] = lose
        world.run_to_the_end()
        assert world.ended[run] is None
        world.drain()


def test_a_run_that_has_lost_the_pipeline_replaces_no_database_of_its_successor() -> None:
    """It recovers without knowing that there is one. The versions that the hosts report mean nothing to it, so it would restore its own."""
    world = Script(replace(STORE_WEATHER, interference=0.05))
    with world.alive():
        world.send()
        first = world.start(available_now=False)

        def sleep() -> None:
            for worker in world.with_workers(first)[1:]:
                world.kill(worker, "by the script")
            world.stop(first, "by the script")
            world.store.is_away = True
            world.send()
            world.start(available_now=True)

        world.at[first.name, "stored.recorded"] = sleep
        world.run_to_the_end(sleepers=True)
        assert first.stopped and world.oracle.layouts.complete is not None and world.oracle.store is not None
        assert world.oracle.store.stored is not None and world.oracle.store.stored[1] < world.oracle.layouts.complete[1]
        world.store.is_away = False
        world.resume(first)
        world.run_to_the_end()
        assert isinstance(world.ended[first], Fenced)
        world.drain()
