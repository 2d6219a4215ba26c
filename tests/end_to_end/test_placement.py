"""Every operator, input and output: the batch answer, and the same bytes whatever the number of workers (invariant 3), whether they are Spark's
tasks or threads, and although all runs but the first crash and replay, some of them with another number of workers than before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faults.points import Crash, CrashOrder, arm
from storage.database import Database
from tests.end_to_end import everything
from tests.end_to_end.harness import Playground, Resolved, renamed
from tests.end_to_end.threads import threads

RUNS = [((1, 1), (3, 2)), pytest.param(((1, 1), (2, 3), (5, 2)), marks=pytest.mark.soak)]
"""With how many workers each pipeline writes the first round, and with how many it replays and goes on after the crash in the second one."""

IN_TASKS = (2, 3)
"""The workers of these pipelines are tasks of Spark in the first round, which take four times as long."""


@pytest.mark.parametrize("runs_of", RUNS, ids=["two pipelines", "three pipelines"])
def test_every_view_is_the_batch_answer_and_its_bytes_do_not_depend_on_the_workers(
    play: Playground, runs_of: tuple[tuple[int, int], ...]
) -> None:
    everything.make_topics(play)
    resolved = play.resolve(everything.FILES, {"stepwell.step.rows.max": 60, "stepwell.workers": runs_of[0][0]})
    resolved = replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0))
    runs = [resolved, *(renamed(resolved, f"-w{workers}", workers) for workers, _ in runs_of[1:])]
    for seed in (1, 2):  # the second round retracts and corrects what the first one made, and starts from a checkpoint
        everything.send(play, seed)
        play.run(resolved)
        for run, (first, then) in zip(runs[1:], runs_of[1:], strict=True):
            in_threads = seed != 1 or first not in IN_TASKS
            crash_and_replay(play, run, in_threads=in_threads, workers=then if seed == 2 else None)
    rows = play.check(resolved)
    assert 0 not in rows.values(), f"a view that shows nothing proves nothing: {rows}"
    steps, written = play.check_steps(resolved), contents(play, resolved)
    for other, (workers, then) in zip(runs[1:], runs_of[1:], strict=True):
        assert play.check_steps(other) == steps
        assert contents(play, other) == written, f"{workers} workers, then {then}"
        databases = [folder.name for folder in other.spec.state_location.here.databases.iterdir()]
        assert len(databases) == then, f"a worker that has left still has a database, or one has not come: {databases}"


def crash_and_replay(play: Playground, run: Resolved, *, in_threads: bool, workers: int | None = None) -> None:
    """Two steps are written, and in no checkpoint, when the run crashes. `workers`: how many the next run has, if not as many; they compare
    what they compute with what the others have written."""
    with arm(CrashOrder("output.committed", "raise", visit=2)), pytest.raises(Crash):
        play.run(run, threads() if in_threads else play.tasks(run))
    Database.close_all()
    again = run if workers is None else replace(run, spec=replace(run.spec, workers_now=workers))
    status = play.run(again, threads() if in_threads else play.tasks(run))
    assert status["steps_run"] > 0 and status["steps_replayed"] == 2


def contents(play: Playground, run: Resolved) -> dict[str, list[tuple[object, ...]]]:
    there = play.read_all([output.topic for output in run.spec.outputs])
    return {output.handle: [m.content for m in there[output.topic]] for output in run.spec.outputs}
