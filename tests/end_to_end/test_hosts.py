"""Workers on hosts with folders of their own: each becomes the one whose database its host has, and nothing is created twice.

The hosts are folders of this machine, and the tasks are threads that come to them in the order that a test names.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from base.fault import ExitCode, exit_code_of
from coordinator.rescale.disk_space import NoDiskSpace
from coordinator.starting.errors import DatabaseMissing
from engine.resident.start_faults import NoHostFolder
from examples.batch import batch_answer, compare
from stepwell.errors import StepwellError
from stepwell.inspection.query import query
from stepwell.service.client import ControlClient, NotRunning
from stepwell.service.server import ControlServer
from storage.database import Database
from storage.host_folder import HostFolder
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Resolved
from tests.end_to_end.threads import ThreadLauncher, threads
from tests.stepwell.unasked import unasked

WORKERS = 2


class Cluster:
    """A pipeline with two workers, and hosts `a`, `b` and `c`."""

    def __init__(self, play: Playground, folder: Path) -> None:
        play.topic("in")
        self.play, resolved = play, sums.project(play, workers=WORKERS)
        self.resolved = Resolved(resolved.project, replace(resolved.spec, on_cluster=True, register_s=3.0))
        self.hosts = {name: folder / name for name in "abc"}
        self.sent = 0

    def folder(self, host: str, worker: int) -> Path:
        return self.hosts[host] / self.resolved.spec.name / "workers" / f"{worker:04d}"

    def run(self, hosts: str, **options: bool) -> int:
        """Sends rows and processes them, with tasks that come to these hosts; the number of tasks."""
        self.play.send("in", sums.rows(self.sent, 4))
        self.sent += 4
        cluster = threads(hosts=[self.hosts[name] for name in hosts])
        status = self.play.run(self.resolved, cluster, **options)
        Database.close_all()
        assert status["recoveries"] == 0 and status["steps_run"] > 0
        assert isinstance(cluster.launcher, ThreadLauncher)
        return len(cluster.launcher.jobs)

    def held(self) -> dict[str, list[int]]:
        """The workers whose databases each host has."""
        return {h: [w for w in range(WORKERS) if self.folder(h, w).exists()] for h in self.hosts}

    def check(self) -> None:
        assert self.play.check(self.resolved) == {"sums": 3}


@pytest.fixture
def cluster(play: Playground, tmp_path: Path) -> Cluster:
    return Cluster(play, tmp_path)


@pytest.mark.long
def test_a_worker_finds_its_database_wherever_its_task_comes_first(cluster: Cluster) -> None:
    assert cluster.run("ab") == WORKERS
    before = cluster.held()
    assert sorted(len(workers) for workers in before.values()) == [0, 1, 1]
    assert cluster.run("ba") == WORKERS
    assert cluster.run("cab") == WORKERS + 1, "one task came to a host that has nothing"
    assert cluster.run("ccaab") == WORKERS + 3
    assert cluster.held() == before
    cluster.check()


def test_a_host_with_both_databases_gets_both_tasks(cluster: Cluster) -> None:
    cluster.run("aa")
    assert cluster.run("aba") == WORKERS + 1
    assert cluster.held() == {"a": [0, 1], "b": [], "c": []}
    cluster.check()


@pytest.mark.long
def test_a_host_that_is_away_ends_the_run_and_is_waited_for_in_vain(cluster: Cluster) -> None:
    cluster.run("ab")
    written = cluster.play.read("out")
    away = next(iter(cluster.held()["b"]))
    with pytest.raises(DatabaseMissing) as e:
        cluster.run("aac")
    text = str(e.value)
    assert f"worker {away} has no database with the last checkpoint" in text
    assert f"{cluster.folder('a', away)} (host " in text and str(cluster.folder("c", away)) in text
    assert "stepwell.worker.register" in text and "--full-refresh" in text
    assert exit_code_of(e.value) is ExitCode.STATE
    assert cluster.play.read("out") == written
    assert cluster.held()["c"] == []
    cluster.run("aab")
    cluster.check()


def test_a_host_with_too_few_task_slots_is_named(cluster: Cluster) -> None:
    """If no companions may take their place (`stepwell.cluster.shrink.after` is `never`)."""
    cluster.run("aa")
    spec = cluster.resolved.spec
    cluster.resolved = Resolved(cluster.resolved.project, replace(spec, shrink_after_s=None))
    with pytest.raises(DatabaseMissing, match=r"the database of worker \d is on host .* too few tasks there"):
        cluster.run("ab")


@pytest.mark.long
def test_of_a_copied_database_one_is_opened_and_the_other_left_alone(cluster: Cluster) -> None:
    cluster.run("ab")
    (worker,) = cluster.held()["b"]
    shutil.copytree(cluster.hosts["b"], cluster.hosts["c"])
    cluster.run("ab")
    older = Database.versions(cluster.folder("c", worker))
    cluster.run("acb")  # the copy is older than the last checkpoint
    assert Database.versions(cluster.folder("c", worker)) == older
    shutil.rmtree(cluster.hosts["c"])
    shutil.copytree(cluster.hosts["b"], cluster.hosts["c"])
    cluster.run("abc")  # the copy is as good
    versions = [Database.versions(cluster.folder(host, worker)) for host in "bc"]
    assert versions[0] != versions[1], "both were opened, or none"
    cluster.run("abc")
    cluster.check()


@pytest.mark.long
def test_the_copy_that_is_behind_does_not_replace_the_one_that_is_away(cluster: Cluster) -> None:
    cluster.run("ab")
    shutil.copytree(cluster.hosts["b"], cluster.hosts["c"])
    cluster.run("ab")
    with pytest.raises(DatabaseMissing, match="has no database with the last checkpoint"):
        cluster.run("ac")
    cluster.run("acb")
    cluster.check()


@pytest.mark.long
def test_databases_of_a_host_that_missed_a_full_refresh_are_removed_when_it_is_back(cluster: Cluster) -> None:
    cluster.run("bb")
    cluster.run("aa", full_refresh=True)
    cluster.run("aa")
    assert cluster.held() == {"a": [0, 1], "b": [0, 1], "c": []}
    # A host whose tasks are not needed keeps its folder as it is.
    cluster.run("baa")
    assert cluster.held()["b"] == [0, 1]
    cluster.run("bb", full_refresh=True)
    assert "/2/" in Database.identity_of(cluster.folder("b", 0)).database
    cluster.check()


@pytest.mark.long
def test_views_are_read_by_the_workers_that_have_them(cluster: Cluster, tmp_path: Path) -> None:
    """The folder of this host has no database."""
    cluster.run("ab")
    resolved, hosts = cluster.resolved, [cluster.hosts[name] for name in "ab"]
    with cluster.play.running(resolved, threads(hosts=hosts)) as run:
        server = ControlServer(run.requests, run.board, 0, {}, plan_files=lambda: resolved.spec, answer_query=unasked)
        server.start()
        server.endpoint.write(tmp_path)
        try:
            client = ControlClient(tmp_path)
            answer = query(resolved.project, resolved.spec.circuit, "SELECT * FROM sums", client.views)
            messages = [m.as_input for m in cluster.play.read("in")]
            (topic,) = resolved.spec.input_topics
            expected = batch_answer(resolved.project, {topic: messages})
            assert answer.step == 1 and compare("sums", answer.rows, expected["sums"]).equal
            cluster.play.send("in", sums.rows(cluster.sent, 4))
            run.wait_until(lambda status: status["steps_run"] == 2)
            version, (table,) = client.views(["sums"])
            assert version.step == 2 and table.num_rows == 3, "not as of the last checkpoint"
            with pytest.raises(StepwellError, match=r"no answer.*KeyError"):
                client.views(["nothing"])
            assert client.views([])[0] == version
            run.wait_until(lambda status: status["phase"] == "run")
        finally:
            server.close()
    with pytest.raises(NotRunning):
        client.views(["sums"])
    Database.close_all()


def test_a_change_is_refused_if_the_host_of_a_new_worker_has_no_room(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is known only when its task has come."""
    cluster.run("aa")
    free = {cluster.hosts["a"]: 1 << 40, cluster.hosts["c"]: 1}
    monkeypatch.setattr(HostFolder, "free_bytes", lambda folder: free[folder.root])
    play, grown = cluster.play, replace(cluster.resolved, spec=replace(cluster.resolved.spec, workers_now=3))
    hosts = [cluster.hosts[name] for name in "aac"]
    with pytest.raises(NoDiskSpace, match="and 1 bytes are free") as refused:
        play.run(grown, threads(hosts=hosts))
    Database.close_all()
    assert exit_code_of(refused.value) == ExitCode.STATE and play.log(grown).rescale is None
    free[cluster.hosts["c"]] = 1 << 40
    play.run(grown, threads(hosts=hosts))
    layout = play.log(grown).layout
    assert layout is not None and len(layout.placed.members) == 3
    cluster.check()


def test_a_host_without_a_folder_is_named(cluster: Cluster) -> None:
    cluster.play.send("in", sums.rows(0, 4))
    with pytest.raises(NoHostFolder, match=r"neither stepwell\.local\.dir nor STEPWELL_LOCAL_DIR") as e:
        cluster.play.run(cluster.resolved, threads())
    assert exit_code_of(e.value) is ExitCode.PROJECT
    (cluster.play.folder / "file").touch()
    with pytest.raises(NoHostFolder, match="file"):
        cluster.play.run(cluster.resolved, threads(hosts=[cluster.play.folder / "file" / "below"]))


def test_the_setting_names_the_folder_of_every_host(cluster: Cluster, tmp_path: Path) -> None:
    common = tmp_path / "common"
    spec = replace(cluster.resolved.spec, local_dir=common)
    cluster.play.send("in", sums.rows(0, 4))
    cluster.play.run(Resolved(cluster.resolved.project, spec), threads())
    assert sorted(folder.name for folder in (common / spec.name / "workers").iterdir()) == ["0000", "0001"]
    assert not (spec.storage / "workers").exists()
