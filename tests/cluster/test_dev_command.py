"""`stepwell dev cluster up | down | status` as a user calls them."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from io_kafka.broker.jars import cache_folder
from stepwell.dev_cluster.cluster import DevCluster
from tests.stepwell.command_line import CommandLine

GONE_SECONDS_MAX = 60.0


@pytest.mark.long
def test_a_small_cluster_from_up_to_down(tmp_path: Path) -> None:
    line = CommandLine(tmp_path, "127.0.0.1:1", cache_folder().parents[1])  # the broker's jars are in the user's cache
    folder = ("--folder", str(tmp_path / "cluster"))
    made = line.done("dev", "cluster", "up", "--brokers", "1", "--workers", "1", *folder)
    try:
        assert made["started"]
        assert made["settings"]["spark.master"].startswith("spark://127.0.0.1:")
        assert made["settings"]["stepwell.workers"] == "1"
        again = line.here("dev", "cluster", "up", *folder)
        assert again.code == 0, again
        for key, value in made["settings"].items():
            assert f"{key}: {value}" in again.out
        assert "the local cluster runs" in again.out and "stepwell.cluster.insecure need not be set" in again.out
        status = line.here("dev", "cluster", "status", "--json", *folder).json
        assert status["processes"] == made["processes"]
        assert [each["known"] for each in status["processes"] if "known" in each] == [True]
        other = line.here("dev", "cluster", "up", "--brokers", "3", *folder)
        assert other.code == 9 and "made with --brokers 1" in other.err, other
    finally:
        processes = [psutil.Process(each["pid"]) for each in made["processes"]]
        stopped = line.here("dev", "cluster", "down", "--json", *folder).json
    assert stopped["stopped"]
    assert psutil.wait_procs(processes, timeout=GONE_SECONDS_MAX)[1] == []
    assert "does not run; start it with `stepwell dev cluster up`" in line.here("dev", "cluster", "status", *folder).out


def test_without_a_cluster_the_commands_say_so(tmp_path: Path) -> None:
    line = CommandLine(tmp_path, "127.0.0.1:1", tmp_path / "cache")
    assert line.here("dev", "cluster", "down").out == "no local cluster runs\n"
    assert "stepwell dev cluster up" in line.here("dev", "cluster", "status").out
    assert line.here("dev", "cluster", "up", "--brokers", "2").code == 2
    assert DevCluster.of(tmp_path) is None
