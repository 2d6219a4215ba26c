"""The revision that a state belongs to: its plan document is written once, read at each start, and missed if it is gone."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from base.term import Term
from coordinator.goal import Goal
from coordinator.revisions.document import PlanDocument, document_of
from coordinator.running import recovery
from coordinator.starting.errors import CircuitChanged, StateLost
from coordinator.stepping.views_in_error import ViewsInError
from engine.errors import DataError
from engine.resident.crew import Crew
from engine.run import plan_document
from engine.run.plan_document import text_of
from engine.run.task_setup import TaskSetup
from faults.points import REVISION, Crash, CrashOrder, Point, arm
from io_kafka.clients.plan_topic import UnsuitablePlanTopic, read_plan
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.plans import PlanMissing
from io_kafka.step_log.records import RevisionRecord
from storage.database import Database
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Resolved


def recorded(play: Playground, resolved: Resolved) -> RevisionRecord:
    found = play.log(resolved).revision
    assert found is not None
    return found


def document(play: Playground, resolved: Resolved) -> PlanDocument:
    topic, plan = resolved.spec.plan_topic, recorded(play, resolved).plan
    return document_of(read_plan(play.settings, topic, plan))


def first_run(play: Playground) -> Resolved:
    play.topic("in", 2)
    play.send("in", sums.rows(0, 20))
    resolved = play.resolve(sums.files())
    play.run(resolved)
    return resolved


def test_the_document_is_that_of_the_project_and_is_written_once(play: Playground) -> None:
    resolved = first_run(play)
    spec, found = resolved.spec, document(play, resolved)
    assert recorded(play, resolved).number == 1
    assert (found.circuit, found.inputs, found.outputs) == (spec.circuit, spec.inputs, spec.outputs)
    assert found.places == {view.name: str(view.location) for view in resolved.project.views}
    assert all(found.versions[name] for name in ("stepwell", "spark", "python"))
    assert found.numbers != tuple(range(len(found.numbers))), "numbers are not the indices"
    (facts,) = play.topics.describe([spec.plan_topic]).values()
    assert facts.compacted and facts.partitions == 1
    before = play.topics.end_offsets([spec.plan_topic])
    play.send("in", sums.rows(1, 20), 1)
    play.run(resolved)
    assert play.topics.end_offsets([spec.plan_topic]) == before, "an unchanged project was recorded again"
    play.check(resolved)


def test_each_generation_has_a_revision_of_its_own(play: Playground) -> None:
    resolved = first_run(play)
    first = recorded(play, resolved)
    play.run(resolved, full_refresh=True)
    assert (first.number, recorded(play, resolved).number) == (1, 2)
    assert recorded(play, resolved).plan == first.plan, "it is the same project"
    play.check(resolved)


def test_a_state_without_its_plan_document_is_refused_and_a_refresh_makes_another(play: Playground) -> None:
    resolved = first_run(play)
    topic, before = resolved.spec.plan_topic, play.log(resolved)
    play.admin.delete_topics([topic], operation_timeout=20)[topic].result()
    with pytest.raises(
        PlanMissing, match=f"topic '{topic}' does not have the plan document {recorded(play, resolved).plan}"
    ):
        play.run(resolved)
    assert play.log(resolved).steps == before.steps
    play.run(resolved, full_refresh=True)
    play.check(resolved)
    assert document(play, resolved).circuit == resolved.spec.circuit


def test_a_document_of_a_newer_version_is_refused_by_name(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    written = text_of

    def newer(value: PlanDocument, kind: type[PlanDocument]) -> str:
        return written(value, kind).replace('"format":1', '"format":2')

    monkeypatch.setattr(plan_document, "text_of", newer)
    resolved = first_run(play)
    with pytest.raises(StateLost, match=r"revision 1 cannot be read: .*If a newer Stepwell has written it"):
        play.run(resolved)


COUNTED = """
CREATE STREAMING TABLE numbers ({columns}) USING kafka TBLPROPERTIES ('subscribe' = '@in'{more});
CREATE STREAMING TABLE names (k STRING, name STRING)
  USING kafka TBLPROPERTIES ('subscribe' = '@names', 'mode' = 'upsert', 'key' = 'k');
CREATE MATERIALIZED VIEW {sums} AS SELECT {of} FROM {source} GROUP BY k;
CREATE MATERIALIZED VIEW named TBLPROPERTIES ('topic' = '@named', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT s.k, name, total FROM {sums} s JOIN names USING (k);
CREATE MATERIALIZED VIEW parts TBLPROPERTIES ('topic' = '@parts', 'mode' = 'changelog') AS
  SELECT k, 100 div total AS part FROM {sums} {extra};
"""
BEFORE = {
    "columns": "k STRING, n INT",
    "sums": "sums",
    "of": "k, sum(n) AS total",
    "source": "numbers",
    "extra": "",
    "more": "",
}
CONTINUES = {
    "a view has another name": {"sums": "totals"},
    "a column of the source is new, at the front": {"columns": "more INT, k STRING, n INT"},
    "a query is written in another way": {"source": "(SELECT n, k FROM numbers) AS x"},
    "all at once": {"sums": "totals", "columns": "k STRING, more INT, n INT", "source": "(SELECT * FROM numbers) AS x"},
}


def counted(play: Playground, workers: int, **changes: str) -> Resolved:
    conf = {"stepwell.step.rows.max": 4, "stepwell.workers": workers, "stepwell.checkpoint.interval": "1h"}
    return play.resolve({"counted.sql": COUNTED.format(**(BEFORE | changes))}, conf)


def send_both(play: Playground, seed: int, *, zero: bool = False) -> None:
    """`zero`: the sum of one key is 0, so `parts` has no answer."""
    for partition in (0, 1):
        rows = [{"k": f"{partition}{n % 3}", "n": n + 1, "more": 1} for n in range(seed, seed + 7)]
        play.send("in", [*rows, {"k": "zero", "n": 1 if zero else 2}, {"k": "zero", "n": -1}], partition)
    play.send("names", [({"k": key}, {"k": key, "name": f"{key}-{seed}"}) for key in ("00", "11", "zero")])


ALL_BREAKS: tuple[Point, ...] = (
    "output.sent",
    "output.committed",
    "checkpoint.intended",
    "replay.compared",
    *REVISION,
)

LOOKS_THE_SAME: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "two columns of a view change names": (
        {"of": "k, max(n) AS total, min(n) AS low"},
        {"of": "k, max(n) AS low, min(n) AS total"},
    ),
    "a view is rebuilt under its name": ({}, {"of": "k, sum(n) + 1 AS total"}),
    "a column that is read has another name in messages": (
        {},
        {"columns": "k STRING, m INT", "of": "k, sum(m) AS total"},
    ),
}


@pytest.mark.parametrize("what", LOOKS_THE_SAME)
def test_a_project_that_only_looks_the_same_is_refused(play: Playground, what: str) -> None:
    before, after = LOOKS_THE_SAME[what]
    play.topic("in", 2)
    play.topic("names")
    send_both(play, 1)
    play.run(counted(play, 1, **before))
    with pytest.raises(CircuitChanged, match=r"`stepwell plan` shows|Change it back"):
        play.run(counted(play, 1, **after))


def divided_and_not_run(play: Playground, resolved: Resolved) -> int:
    """A run that is broken off when its first division is recorded. Returns the next step to be divided."""
    with arm(CrashOrder("log.committed", "raise")), pytest.raises(Crash):
        play.run(resolved)
    log = play.log(resolved)
    assert log.pending and log.division_next == log.steps + 1
    return log.division_next


def test_the_last_steps_of_a_revision_have_the_policies_of_today(play: Playground) -> None:
    """A message that `fail` refuses stops the run, although it was `skip` when the revision was recorded."""
    play.topic("in", 2)
    play.topic("names")
    send_both(play, 1)
    play.run(counted(play, 1, more=", 'on.error' = 'skip'"))
    play.send("in", ["{"])
    divided_and_not_run(play, counted(play, 1))
    changed = counted(play, 1, sums="totals")
    with pytest.raises(DataError, match="malformed message"):
        play.run(changed)
    assert recorded(play, changed).number == 1, "its last step is not written"
    play.run(counted(play, 1, sums="totals", more=", 'on.error' = 'skip'"))
    assert recorded(play, changed).number == 2


def test_the_last_steps_of_a_revision_read_nothing_new(play: Playground) -> None:
    play.topic("in", 2)
    play.topic("names")
    send_both(play, 1)
    play.run(counted(play, 1))
    for seed in range(2, 6):
        send_both(play, seed)
    divided = divided_and_not_run(play, counted(play, 1))
    changed = counted(play, 1, sums="totals")
    play.run(changed)
    found = recorded(play, changed)
    assert (found.number, found.step) == (2, divided)
    play.check(changed)


def test_only_the_layout_is_changed_by_a_run_for_that(play: Playground) -> None:
    play.topic("in", 2)
    play.topic("names")
    send_both(play, 1)
    play.run(counted(play, 1))
    with pytest.raises(CircuitChanged):
        play.run(counted(play, 1, sums="totals"), goal=Goal.RESCALE)


def test_a_topic_that_would_lose_plan_documents_is_refused(play: Playground) -> None:
    play.topic("in", 2)
    resolved = play.resolve(sums.files())
    play.topics.ensure(resolved.spec.plan_topic, 1, {"cleanup.policy": "delete"})
    with pytest.raises(UnsuitablePlanTopic, match="cannot have plan documents"):
        play.run(resolved)
    assert play.log(resolved).revision is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("workers", "points"),
    [
        (3, REVISION),
        pytest.param(1, ALL_BREAKS, marks=pytest.mark.soak),
        pytest.param(3, ALL_BREAKS, marks=pytest.mark.soak),
    ],
)
def test_a_start_of_a_changed_project_that_is_broken_off_is_one_or_the_other(
    play: Playground, workers: int, points: tuple[Point, ...]
) -> None:
    """In the steps of the former revision, and before and after the record of the next one; twice at each point."""
    play.topic("in", 2)
    play.topic("names")
    former = counted(play, workers)
    with play.oracle(former) as oracle:
        run(play, former)
        for number, point in enumerate(points):
            send_both(play, number)
            with arm(CrashOrder("output.committed", "raise", visit=2)), pytest.raises(Crash):
                play.run(former)
            for _ in range(2):
                changed = counted(play, workers, sums=f"sums{number}")
                with suppress(Crash), arm(CrashOrder(point, "raise")):
                    play.run(changed)
            play.run(changed)
            assert recorded(play, changed).number == number + 2
            former = changed
        oracle.verify(play.batch(former), sample=min(3, len(points) // 2), seed=1)
    assert play.check(former)["named"] == 3
    play.check_steps(former)


def run(play: Playground, resolved: Resolved) -> None:
    """`parts` has no answer as long as a sum is 0."""
    with suppress(ViewsInError):
        play.run(resolved)


def written(play: Playground, resolved: Resolved) -> dict[TopicPartition, int]:
    return play.topics.end_offsets([output.topic for output in resolved.spec.outputs])


@pytest.mark.parametrize(
    ("what", "workers"),
    [
        pytest.param("a view has another name", 1, marks=pytest.mark.long),
        pytest.param("a column of the source is new, at the front", 3, marks=pytest.mark.soak),
        pytest.param("a query is written in another way", 1, marks=pytest.mark.soak),
        ("all at once", 3),
    ],
)
def test_a_project_that_computes_the_same_continues_its_state_and_writes_nothing(
    play: Playground, what: str, workers: int
) -> None:
    """The run before was killed between two checkpoints, and while a view was in error."""
    play.topic("in", 2)
    play.topic("names")
    before = counted(play, workers)
    send_both(play, 1, zero=True)
    run(play, before)
    send_both(play, 2, zero=True)
    with arm(CrashOrder("output.committed", "raise", visit=2)), pytest.raises(Crash):
        play.run(before)
    log, ends = play.log(before), written(play, before)
    assert log.checkpoints[-1].step < log.steps, "nothing is left to be replayed"
    assert log.nodes_in_error, "no view is in error"
    after = counted(play, workers, **CONTINUES[what])
    run(play, after)
    now = play.log(after)
    is_same = after.spec.circuit.fingerprint == before.spec.circuit.fingerprint and "columns" not in CONTINUES[what]
    assert now.revision is not None and now.revision.number == (1 if is_same else 2)
    assert now.firsts == log.firsts and now.nodes_in_error == log.nodes_in_error, "error rows go by number"
    send_both(play, 3)
    play.send("in", [{"k": "zero", "n": 5}])
    play.run(after)
    assert play.check(after)["named"] == 3
    assert ends.keys() == written(play, after).keys()
    play.check_steps(after)


def test_a_copy_of_the_storage_folder_from_before_the_revision_is_refused(play: Playground, tmp_path: Path) -> None:
    """Its steps would have to be replayed by the former circuit."""
    play.topic("in", 2)
    play.topic("names")
    former = counted(play, 1)
    send_both(play, 1)
    play.run(former)
    storage = former.spec.storage
    shutil.copytree(storage, tmp_path / "copy")
    send_both(play, 2)
    play.run(former)
    changed = counted(play, 1, sums="totals")
    play.run(changed)
    Database.close_all()
    shutil.rmtree(storage)
    shutil.copytree(tmp_path / "copy", storage)
    with pytest.raises(
        StateLost, match=r"the databases are at step \d+, and revision 2 of the project began with step \d+"
    ):
        play.run(changed)


def test_the_workers_of_each_revision_have_a_higher_term(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """What workers of the former revision still do is rejected."""
    terms: list[Term] = []
    real = recovery.Crew

    def noted(setup: TaskSetup, tasks: int, term: Term, **more: Any) -> Crew:
        terms.append(term)
        return real(setup, tasks, term, **more)

    monkeypatch.setattr(recovery, "Crew", noted)
    play.topic("in", 2)
    play.topic("names")
    send_both(play, 1)
    play.run(counted(play, 1))
    play.run(counted(play, 1, sums="totals"))
    assert terms == [Term(0, 0), Term(1, 0), Term(1, 1)]
