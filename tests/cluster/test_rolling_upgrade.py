"""A rolling upgrade as docs/cluster.md describes it: host by host, and the service at the end, while it runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from base.fault import ExitCode
from engine.resident.fingerprint import own_release
from engine.resident.frames import WIRE_VERSION
from stepwell.dev_cluster.cluster import DevCluster
from tests.cluster.test_pipeline import assert_judged_equal, hosts_of, send, shop
from tests.stepwell.command_line import CommandLine, Service

__all__ = ["shop"]

ROOT = Path(__file__).parents[2]
PACKAGES = ("stepwell", "coordinator", "protocols", "engine", "io_kafka", "storage", "faults", "base")
NEXT = "9.9.9"
PLACE = "build"
"""Of a host's release, in the folder in which its executors have theirs. So each host has a release of its own under one path."""


def install(folder: Path, version: str, wire: int = WIRE_VERSION) -> Path:
    """Another release of Stepwell, in place of the one that is there."""
    shutil.rmtree(folder, ignore_errors=True)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    about = folder / f"stepwell-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: stepwell\nVersion: {version}\n")
    frames = folder / "engine/resident/frames.py"
    text = frames.read_text()
    assert f"WIRE_VERSION = {WIRE_VERSION}\n" in text
    frames.write_text(text.replace(f"WIRE_VERSION = {WIRE_VERSION}\n", f"WIRE_VERSION = {wire}\n"))
    return folder


def place(cluster: DevCluster, number: int) -> Path:
    return cluster.spark.state_folder(number).parent / "work" / PLACE


@pytest.fixture
def arguments(cluster: DevCluster, shop: CommandLine, tmp_path: Path) -> Iterator[list[str]]:
    """Of `run`."""
    settings = {
        **cluster.settings(),
        "stepwell.checkpoint.interval": "1s",
        "stepwell.store": f"file://{tmp_path / 'store'}",
        "stepwell.worker.register": "30s",
        "spark.executorEnv.PYTHONPATH": f"../../{PLACE}",
    }
    yield ["run", *(word for item in settings.items() for word in ("--conf", "=".join(item)))]
    cluster.up(die_with_parent=True)
    for number in cluster.spark.workers:
        shutil.rmtree(place(cluster, number), ignore_errors=True)


def releases(cluster: DevCluster, status: dict[str, Any]) -> dict[int, str]:
    """Of each Spark worker that has workers."""
    hosts = hosts_of(cluster, status)
    return {hosts[worker["pid"]]: worker["release"] for worker in status["workers"]}


@pytest.mark.soak
def test_hosts_and_then_the_service_get_another_release(
    cluster: DevCluster, shop: CommandLine, arguments: list[str], tmp_path: Path, spark: SparkSession
) -> None:
    for number in cluster.spark.workers:
        install(place(cluster, number), own_release())
    service, rows = shop.start(*arguments), 320
    try:
        send(shop, 300)
        status = service.wait_until(lambda status: bool(status["rows"] == rows and status["checkpoint_version"]))
        assert releases(cluster, status) == dict.fromkeys(cluster.spark.workers, own_release())
        for number in cluster.spark.workers:
            shop.done("layout", "replace", str(cluster.spark.state_folder(number)))
            send(shop, 50)
            rows += 50
            status = service.wait_until(lambda status, rows=rows: bool(status["rows"] >= rows))
            assert number not in releases(cluster, status), "the host is not free"
            cluster.spark.kill_worker(number)
            install(place(cluster, number), NEXT)
            cluster.spark.start_worker(number, die_with_parent=True)
        assert status["recoveries"] == 0, "a host was taken away that had a worker"
        new = shop.with_path(install(tmp_path / "new", NEXT))
        successor = new.start(*arguments, "--hand-over")
        assert service.wait() == 0, service.said
        service = successor
        send(shop, 50)
        status = service.wait_until(lambda status: bool(status["rows"] >= 50))
        assert set(releases(cluster, status).values()) == {NEXT}
        assert status["steps_run"] and status["recoveries"] == 0
        new.done("stop")
        assert service.wait() == 0, service.said
    finally:
        service.end()
    assert_judged_equal(cluster, shop, spark)


@pytest.mark.soak
def test_a_release_with_other_messages_is_refused_by_name(
    cluster: DevCluster, shop: CommandLine, arguments: list[str]
) -> None:
    """If only some hosts have it, Spark starts the tasks on the others."""
    for number in cluster.spark.workers:
        install(place(cluster, number), NEXT, WIRE_VERSION + 1)
    send(shop, 10)
    service: Service = shop.start(*arguments)
    try:
        assert service.wait() == ExitCode.MACHINE
        said = service.said
        assert f"has Stepwell {NEXT} with wire version {WIRE_VERSION + 1}, and the service has wire version" in said
        assert "Install the service's release on that host" in said and "Traceback" not in said
    finally:
        service.end()
