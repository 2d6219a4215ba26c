"""The Spark cluster on one machine: master and workers are found, a worker is killed with all it has started, and comes back."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from io_kafka.broker.folder_process import FolderProcess
from io_kafka.errors import JarsUnavailable
from stepwell.dev_cluster import spark_daemons
from stepwell.dev_cluster.cluster import DevCluster
from stepwell.dev_cluster.spark_daemons import LocalSpark, LocalSparkFault

GONE_SECONDS_MAX = 30.0


@pytest.fixture
def spark(cluster: DevCluster) -> Iterator[LocalSpark]:
    yield cluster.spark
    cluster.up(die_with_parent=True)


@pytest.mark.long
def test_the_master_knows_each_worker_at_an_address_of_its_own(spark: LocalSpark) -> None:
    assert spark.alive_workers() == {"127.0.0.2": 2, "127.0.0.3": 2}


@pytest.mark.long
def test_nothing_listens_beyond_loopback(spark: LocalSpark) -> None:
    for pid in (spark.master_pid, *spark.worker_pids.values()):
        listening = [c.laddr.ip for c in psutil.Process(pid).net_connections() if c.status == psutil.CONN_LISTEN]
        assert listening and all("127." in ip for ip in listening), listening


@pytest.mark.long
def test_any_process_finds_the_cluster(spark: LocalSpark) -> None:
    found = LocalSpark.of(spark.folder)
    assert found is not None
    assert (found.master_url, found.worker_pids) == (spark.master_url, spark.worker_pids)
    with pytest.raises(LocalSparkFault, match="runs with 2 workers, not with 1"):
        LocalSpark(spark.folder, 1).start()


@pytest.mark.long
def test_a_killed_worker_comes_back_alone(spark: LocalSpark) -> None:
    before = spark.worker_pids
    spark.kill_worker(1)
    assert spark.worker_pids == {1: None, 2: before[2]}
    spark.start_worker(1, die_with_parent=True)
    assert spark.alive_workers().keys() == {"127.0.0.2", "127.0.0.3"}
    assert spark.worker_pids[1] not in (None, before[1])


def test_a_tree_is_killed_with_all_its_branches(tmp_path: Path) -> None:
    """Also a process that has left the group and the session of its parent, as Spark's Python daemon does."""
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    tree = FolderProcess(tmp_path, "tree")
    tree.spawn([sys.executable, "-c", script])
    root = tree.find_process()
    assert root is not None
    while not tree.log.read_text().strip():
        assert root.is_running()
    grandchild = psutil.Process(int(tree.log.read_text()))
    tree.kill_tree()
    left = psutil.wait_procs([root, grandchild], timeout=GONE_SECONDS_MAX)[1]
    for process in left:
        process.kill()
    assert left == []
    assert tree.pid is None


@pytest.mark.long
def test_a_port_in_use_is_reported_with_the_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "cluster.json").write_text(json.dumps({"workers": 1, "master_port": port, "page_port": port}))
        with pytest.raises(LocalSparkFault, match=r"(?s)ended while starting.*in use.*remove") as raised:
            LocalSpark(tmp_path, 1).start(die_with_parent=True)
    assert raised.value.exit_code == 9
    assert not LocalSpark(tmp_path, 1).is_running


def test_an_address_that_the_machine_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_daemons, "worker_host", lambda number: "192.0.2.7")  # for documentation: nobody has it
    with pytest.raises(LocalSparkFault, match=r"(?s)no address 192\.0\.2\.7.*sudo ifconfig lo0 alias"):
        LocalSpark(tmp_path, 1).start()


def test_a_user_whom_the_machine_does_not_know_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_daemons, "user_name", lambda: None)
    with pytest.raises(LocalSparkFault, match="knows no user") as refused:
        LocalSpark(tmp_path).start()
    assert "local mode" in refused.value.what_to_do


def test_too_little_memory_is_said_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_daemons, "memory_mb", lambda workers: 10**9)
    with pytest.raises(LocalSparkFault, match=r"(?s)2 Spark workers need about 1000000000 MB.*--workers 1"):
        LocalSpark(tmp_path).start()
    assert not LocalSpark(tmp_path).is_running


def test_a_missing_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JarsUnavailable, match="Install Java 17"):
        LocalSpark(tmp_path).start()


def test_before_the_first_start_there_is_no_address(tmp_path: Path) -> None:
    assert LocalSpark.of(tmp_path) is None
    with pytest.raises(LocalSparkFault, match="stepwell dev cluster up"):
        _ = LocalSpark(tmp_path).master_url


@pytest.mark.soak
def test_the_executors_see_the_folders_of_their_worker(spark: LocalSpark) -> None:
    """A session on the cluster: its tasks run on the workers' hosts, with the driver's Python, and find our packages. It is a process of its
    own, because the test run's session is in local mode."""
    root = Path(__file__).resolve().parents[2]
    script = f"""
import json, os, sys, time
from engine.resident.spark_launcher import SparkLauncher
from stepwell.spark.session import make_session
session = make_session("t", {{"spark.master": "{spark.master_url}"}})
context = session.sparkContext
def told(_):
    import stepwell
    return [(os.environ["STEPWELL_LOCAL_DIR"], sys.executable, list(stepwell.__path__)[0], "engine.resident.entry" in sys.modules)]
seen = set(context.parallelize(range(64), 64).mapPartitions(told).collect())
launcher, deadline = SparkLauncher(context, "t"), time.monotonic() + 60
while (slots := launcher.slots_now()) != 4 and time.monotonic() < deadline:
    time.sleep(0.1)  # until the second executor has registered
print(json.dumps({{"host": context.getConf().get("spark.driver.host"), "seen": sorted(seen), "slots": slots}}))
session.stop()
"""
    run = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout.splitlines()[-1])
    assert (told["host"], told["slots"]) == ("127.0.0.1", 4), "two workers with two slots each"
    folders = {folder for folder, *_ in told["seen"]}
    assert folders and folders <= {str(spark.state_folder(number)) for number in spark.workers}
    assert {tuple(rest) for _, *rest in told["seen"]} == {(sys.executable, str(root / "stepwell"), True)}
