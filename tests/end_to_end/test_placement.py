"""Every operator, input and output: the batch answer, and the same bytes whatever the number of workers (invariant 3), and whether
a step runs in the driver, in Spark, or now here and now there."""

from __future__ import annotations

import pytest

from engine.run import driver_step
from tests.end_to_end import everything, sums
from tests.end_to_end.harness import Playground, Resolved, renamed


def test_every_view_is_the_batch_answer_and_its_bytes_do_not_depend_on_the_workers(play: Playground) -> None:
    everything.make_topics(play)
    one = play.resolve(everything.FILES, {"stepwell.step.rows.max": 60})
    # Steps have 60 rows but for the last: so with 59 the last one runs in the driver.
    others = [renamed(one, f"-w{workers}", workers, rows) for workers, rows in ((2, 0), (3, 59), (5, 60))]
    for seed in (1, 2):  # the second round retracts and corrects what the first one made, and starts from a checkpoint
        everything.send(play, seed)
        for run in (one, *others):
            status = play.run(run)
            assert status["steps_run"] > 2 and status["steps_replayed"] == 0
    rows = play.check(one)
    assert 0 not in rows.values(), f"a view that shows nothing proves nothing: {rows}"
    assert play.check_steps(one) == status["step"] + 1
    for other in others:
        assert contents(play, other) == contents(play, one), f"{other.spec.workers} workers"


def test_large_steps_in_the_driver_whose_tasks_run_side_by_side(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread a worker, and a thread that reads ahead: what steps of thousands of rows have, here in small ones."""
    play.topic("in", 3)
    one = sums.project(play, rows=20, workers=3)
    other = renamed(one, "-side-by-side", 3)
    for number in range(2):
        for partition in range(3):
            play.send("in", sums.rows(100 * number + 10 * partition, 30), partition)
        play.run(one)
        with monkeypatch.context() as small:
            small.setattr(driver_step, "PARALLEL_ROWS_MIN", 1)
            assert play.run(other)["steps_run"] == 5
    assert contents(play, one)["sums"] == contents(play, other)["sums"]
    assert play.check(one) == {"sums": 3}


def contents(play: Playground, run: Resolved) -> dict[str, list[tuple[object, ...]]]:
    return {o.handle: [m.content for m in play.read(o.topic, prefixed=False)] for o in run.spec.outputs}
