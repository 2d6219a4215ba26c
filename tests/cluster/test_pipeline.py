"""A pipeline on the cluster: its workers run in Spark's executors, a host is lost, every view has the batch answer, and the bytes are those of
local mode."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from coordinator.topic_names import log_topic_of
from examples.flights.verdict import judge
from io_kafka.broker.jars import cache_folder
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import StepLogReader
from stepwell.dev_cluster.cluster import DevCluster
from stepwell.project.loading import load_project
from storage.database import Database
from tests.end_to_end import everything
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, renamed, step_records
from tests.end_to_end.harness import service as run_service
from tests.small_jobs import small
from tests.stepwell.command_line import CommandLine, Service

ROOT = Path(__file__).parents[2]
DEMO_SECONDS_MAX = 1800


@pytest.fixture
def shop(cluster: DevCluster, tmp_path: Path, topic_prefix: str) -> CommandLine:
    """The starter project, made by `init`, with the settings that `dev cluster up` prints."""
    servers, cache = cluster.kafka.bootstrap_servers, cache_folder().parents[1]
    made = CommandLine(tmp_path, servers, cache).done("init", topic_prefix.strip("-"))
    return CommandLine(Path(made["folder"]), servers, cache)


@pytest.fixture
def service(cluster: DevCluster, shop: CommandLine) -> Iterator[Service]:
    # A host may need minutes to come back on a busy machine, and the run ends if it waits longer than this.
    settings = {**cluster.settings(), "stepwell.checkpoint.interval": "1s", "stepwell.worker.register": "600s"}
    started = shop.start("run", *(word for item in settings.items() for word in ("--conf", "=".join(item))))
    try:
        yield started
    finally:
        started.end()
        cluster.up(die_with_parent=True)


def send(line: CommandLine, orders: int) -> None:
    servers = line.environment["STEPWELL_KAFKA_BOOTSTRAP_SERVERS"]
    subprocess.run([sys.executable, "send.py", str(orders), servers], cwd=line.folder, check=True, capture_output=True)


def hosts_of(cluster: DevCluster, status: dict[str, Any]) -> dict[int, int]:
    """process of a pipeline's worker -> the Spark worker below which it runs."""
    below = {number: cluster.spark.pids_below(number) for number in cluster.spark.workers}
    return {
        worker["pid"]: number for worker in status["workers"] for number, pids in below.items() if worker["pid"] in pids
    }


@pytest.mark.long
def test_a_pipeline_on_the_executors_survives_the_loss_of_a_host(
    cluster: DevCluster, shop: CommandLine, service: Service, spark: SparkSession
) -> None:
    send(shop, 300)
    # Before the first checkpoint no database is needed, and the run would go on with new ones on the other host.
    status = service.wait_until(lambda status: bool(status["rows"] == 320 and status["checkpoint_version"]))
    hosts = hosts_of(cluster, status)
    assert len(hosts) == len(status["workers"]) == 2, "every worker runs below one of Spark's workers"
    places = [hosts[worker["pid"]] for worker in status["workers"]]
    victim = places[0]
    cluster.spark.kill_worker(victim)
    send(shop, 200)
    # The run waits for it, because its databases are there alone.
    cluster.spark.start_worker(victim, die_with_parent=True)
    status = service.wait_until(lambda status: bool(status["recoveries"] > 0 and status["rows"] >= 520))
    assert [hosts_of(cluster, status)[worker["pid"]] for worker in status["workers"]] == places, "a worker has moved"
    stopped = shop.done("stop")
    assert service.wait() == 0, service.said
    assert stopped["phase"] == "stopped" and stopped["error"] is None
    assert_judged_equal(cluster, shop, spark)


def lose_disk(cluster: DevCluster, number: int) -> None:
    """What Stepwell has on a host, whose Spark worker does not run or does not matter."""
    shutil.rmtree(cluster.spark.state_folder(number))


@pytest.mark.soak
def test_a_host_that_is_lost_with_its_disk_is_made_up_for_from_the_store(
    cluster: DevCluster, shop: CommandLine, tmp_path: Path, spark: SparkSession
) -> None:
    """While it runs, the pipeline goes on with the hosts that are left. When all disks are lost while it is stopped, a start restores them."""
    settings = {
        **cluster.settings(),
        "stepwell.checkpoint.interval": "1s",
        "stepwell.store": f"file://{tmp_path / 'the store'}".replace(" ", "%20"),
    }
    arguments = ["run", *(word for item in settings.items() for word in ("--conf", "=".join(item)))]
    service = shop.start(*arguments)
    try:
        send(shop, 300)
        status = service.wait_until(
            lambda status: bool(status["rows"] == 320 and status["store"]["step"] == status["step"] + 1)
        )
        hosts = hosts_of(cluster, status)
        victim = hosts[status["workers"][0]["pid"]]
        cluster.spark.kill_worker(victim)
        killed_at = time.monotonic()
        lose_disk(cluster, victim)
        send(shop, 200)
        status = service.wait_until(lambda status: bool(status["recoveries"] > 0 and status["rows"] >= 520))
        print(f"{time.monotonic() - killed_at:.1f} s from the loss of a host with its disk to the next step")
        (left,) = set(cluster.spark.workers) - {victim}
        assert set(hosts_of(cluster, status).values()) == {left}
        shop.done("stop")
        assert service.wait() == 0, service.said
        cluster.up(die_with_parent=True)
        for number in cluster.spark.workers:
            lose_disk(cluster, number)
        service.end()
        service = shop.start(*arguments)
        send(shop, 100)
        status = service.wait_until(lambda status: bool(status["rows"] >= 100 and not any(status["lag"].values())))
        assert len(set(hosts_of(cluster, status).values())) == 2, "each host has a worker again"
        shop.done("stop")
        assert service.wait() == 0, service.said
    finally:
        service.end()
        cluster.up(die_with_parent=True)
    assert_judged_equal(cluster, shop, spark)


@pytest.mark.soak
def test_a_pipeline_goes_on_with_fewer_workers_when_a_host_is_lost_for_good(
    cluster: DevCluster, shop: CommandLine, tmp_path: Path, spark: SparkSession
) -> None:
    """Three workers have four task slots, and after the loss two. When the host is back, a user asks for three again."""
    settings = {
        **cluster.settings(),
        "stepwell.workers": "3",
        "stepwell.checkpoint.interval": "1s",
        "stepwell.cluster.shrink.after": "5s",
        "stepwell.store": f"file://{tmp_path / 'store'}",
    }
    service = shop.start("run", *(word for item in settings.items() for word in ("--conf", "=".join(item))))
    try:
        send(shop, 300)
        status = service.wait_until(
            lambda status: bool(status["rows"] == 320 and status["store"]["step"] == status["step"] + 1)
        )
        hosts = hosts_of(cluster, status)
        assert len(hosts) == 3
        victim = min(hosts.values())
        cluster.spark.kill_worker(victim)
        killed_at = time.monotonic()
        lose_disk(cluster, victim)
        send(shop, 200)
        status = service.wait_until(lambda status: bool(status["recoveries"] > 0 and status["rows"] >= 520))
        print(f"{time.monotonic() - killed_at:.1f} s from the loss of a host to the next step with fewer workers")
        status = service.wait_until(lambda status: len(status["workers"]) == 2 and "change" not in status["layout"])
        assert len(status["layout"]["members"]) == 2 and "fewer task slots" in status["layout_fault"]
        cluster.up(die_with_parent=True)
        send(shop, 100)
        shop.done("layout", "change", "--workers", "3")
        status = service.wait_until(lambda status: bool(status["rows"] >= 620))
        assert len(set(hosts_of(cluster, status).values())) == 2, "each host has a worker again"
        shop.done("stop")
        assert service.wait() == 0, service.said
    finally:
        service.end()
        cluster.up(die_with_parent=True)
    assert_judged_equal(cluster, shop, spark)


def assert_judged_equal(cluster: DevCluster, shop: CommandLine, spark: SparkSession) -> None:
    """Every view, read back from the brokers, is Spark's batch answer, and no message is there twice or was lost."""
    servers = cluster.kafka.bootstrap_servers
    project = load_project(shop.folder / "spark-pipeline.yml", {"kafka.bootstrap.servers": servers})
    log = StepLogReader(KafkaSettings.parse(project.settings.kafka), log_topic_of(project.name)).read()
    results = judge(project, spark, servers, log, lambda view: None)
    assert results and all(result.equal and result.rows for result in results), results


@pytest.fixture
def play(cluster: DevCluster, spark: SparkSession, tmp_path: Path, topic_prefix: str) -> Iterator[Playground]:
    """Topics on the cluster's brokers. What runs in this process runs in local mode, with workers in threads."""
    yield Playground(small(spark), cluster.kafka.bootstrap_servers, tmp_path, topic_prefix)
    Database.close_all()


@pytest.mark.soak
def test_the_cluster_writes_the_bytes_of_local_mode(cluster: DevCluster, play: Playground, tmp_path: Path) -> None:
    """Every operator, input and output. Both runs find all input at their start, so their divisions are equal (decision 0013)."""
    everything.make_topics(play)
    conf = {"stepwell.step.rows.max": 30, "stepwell.workers": 2, "stepwell.checkpoint.interval": "1h"}
    resolved = play.resolve(everything.FILES, conf)
    everything.send(play, 1)
    local, log = renamed(resolved, "-local", 2), tmp_path / "service.log"
    with run_service(resolved, log, "--available-now", "--conf", f"spark.master={cluster.spark.master_url}") as process:
        play.run(local)
        assert process.wait(WAIT_SECONDS_MAX) == 0, log.read_text()
    places = [cluster.spark.state_folder(number) / resolved.spec.name / "workers" for number in cluster.spark.workers]
    assert sum(len(list(place.glob("*"))) for place in places) == 2, "the state is not on the hosts of the cluster"
    assert play.check_steps(resolved) == play.check_steps(local) > 4
    assert ranges_of(play, resolved) == ranges_of(play, local)
    for one, other in zip(resolved.spec.outputs, local.spec.outputs, strict=True):
        written = [message.content for message in play.read(one.topic, prefixed=False)]
        assert written == [message.content for message in play.read(other.topic, prefixed=False)], one.handle
        assert written, f"{one.handle} shows nothing and proves nothing"


def ranges_of(play: Playground, resolved: Resolved) -> dict[int, list[tuple[str, int, int]]]:
    """What each step has read: topic, partition and number of messages."""
    return {
        step: sorted((part.topic, part.partition, part.messages) for part in record.inputs)
        for step, record in step_records(play, resolved).items()
    }


@pytest.mark.soak
def test_the_demo_on_the_cluster_loses_nothing(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "examples.flights.demo_cluster", "--flights", "30000", "--folder", str(tmp_path / "demo")],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=DEMO_SECONDS_MAX, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    told = json.loads((tmp_path / "demo.json").read_text())
    assert told["totals"]["equal"] and len(told["totals"]["recoveries"]) == 2
    assert all(view["equal"] for view in told["views"])
