"""Where workers may run, and how many, as far as that is known before any is started."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.resident.spark_launcher import SparkLauncher, spark_cluster
from engine.resident.start_faults import InsecureCluster


def context(master: str, host: str = "127.0.0.1") -> Any:
    return SimpleNamespace(master=master, getConf=lambda: {"spark.driver.host": host})


@pytest.mark.parametrize(
    ("master", "slots"),
    [("local[3]", 3), ("local[2,4]", 2), ("local[*]", None), ("local", 1), ("spark://h:7077", None), ("yarn", None)],
)
def test_the_slots_of_local_mode_are_known(master: str, slots: int | None) -> None:
    assert SparkLauncher(context(master), "p").slots == slots


@pytest.mark.parametrize("host", ["192.0.2.7", "no.such.host.invalid"])
def test_a_network_beyond_loopback_has_to_be_allowed(host: str) -> None:
    with pytest.raises(InsecureCluster, match=host):
        spark_cluster(context("spark://h:7077", host), "p")


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077"])
def test_loopback_needs_no_permission(master: str) -> None:
    made = spark_cluster(context(master), "p")
    transport = made.make_transport()
    assert transport.address.host == "127.0.0.1"
    transport.close()
