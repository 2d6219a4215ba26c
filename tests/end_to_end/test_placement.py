"""Every operator, input and output: the batch answer, and the same bytes whatever the number of workers (invariant 3), whether they are Spark's
tasks or threads, and although each run crashes and replays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faults.points import Crash, Order, arm
from storage.database import Database
from tests.end_to_end import everything
from tests.end_to_end.harness import Playground, Resolved, renamed
from tests.end_to_end.threads import threads

WORKERS = (1, 2, 5)
"""Three workers are in test_layouts.py, over the same views."""


def test_every_view_is_the_batch_answer_and_its_bytes_do_not_depend_on_the_workers(play: Playground) -> None:
    everything.make_topics(play)
    resolved = play.resolve(everything.FILES, {"stepwell.step.rows.max": 60, "stepwell.workers": WORKERS[0]})
    resolved = replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0))
    runs = [resolved, *(renamed(resolved, f"-w{workers}", workers) for workers in WORKERS[1:])]
    for seed in (1, 2):  # the second round retracts and corrects what the first one made, and starts from a checkpoint
        everything.send(play, seed)
        for number, run in enumerate(runs):
            crash_and_replay(play, run, in_threads=(number + seed) % 2 == 0)  # each number of workers in both ways
    rows = play.check(resolved)
    assert 0 not in rows.values(), f"a view that shows nothing proves nothing: {rows}"
    steps = play.check_steps(resolved)
    for other in runs[1:]:
        assert play.check_steps(other) == steps
        assert contents(play, other) == contents(play, resolved), f"{other.spec.workers} workers"


def crash_and_replay(play: Playground, run: Resolved, *, in_threads: bool) -> None:
    """Two steps are written, and in no checkpoint, when the run crashes."""
    with arm(Order("output.committed", "raise", visit=2)), pytest.raises(Crash):
        play.run(run, threads() if in_threads else None)
    Database.close_all()
    status = play.run(run, threads() if in_threads else None)
    assert status["steps_run"] > 0 and status["steps_replayed"] == 2


def contents(play: Playground, run: Resolved) -> dict[str, list[tuple[object, ...]]]:
    return {o.handle: [m.content for m in play.read(o.topic, prefixed=False)] for o in run.spec.outputs}
